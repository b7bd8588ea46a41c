#include "input_shape.hpp"

#include "../core/failure.hpp"
#include "abi.hpp"

#include <algorithm>
#include <sstream>

namespace ge {
namespace {

[[noreturn]] void refuse(const std::string& text) {
    throw emulator::Failure(static_cast<int>(GRAPH_PARAM_INVALID), text);
}

onnx::Shape parse_dims(const std::string& entry, const std::string& dims) {
    onnx::Shape shape;
    std::istringstream parts(dims);
    for (std::string part; std::getline(parts, part, ',');) {
        // GraphEngine would make -1 a dynamic shape. The provider cannot give outputs of those a size.
        if (part.empty() || part.find_first_not_of("0123456789") != std::string::npos || std::stoll(part) == 0) {
            refuse("E10011: Value " + entry + " for parameter --input_shape is invalid. Shape values must be positive "
                   "integers. The error value in the shape is " + part + ".");
        }
        shape.push_back(std::stoll(part));
    }
    return shape;
}

void check_against(const onnx::Value& input, const onnx::Shape& shape) {
    if (!input.shape) return;
    const auto& declared = *input.shape;
    if (declared.size() != shape.size()) {
        refuse("E10049: Dimension count " + std::to_string(shape.size()) + " configured in --input_shape does not match "
               "dimension count " + std::to_string(declared.size()) + " of the node " + std::string(input.name) + ".");
    }
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (declared[i] >= 0 && declared[i] != shape[i]) {
            refuse("E10001: Value " + std::to_string(shape[i]) + " for parameter --input_shape is invalid. Reason: the "
                   "model has " + std::to_string(declared[i]) + " for " + std::string(input.name) + ".");
        }
    }
}

}  // namespace

std::map<std::string, onnx::Shape> parse_input_shape(const std::string& text, const onnx::Model& model) {
    const auto inputs = model.required_inputs();
    std::map<std::string, onnx::Shape> shapes;
    std::istringstream entries(text);
    for (std::string entry; std::getline(entries, entry, ';');) {
        const auto colon = entry.rfind(':');
        if (colon == std::string::npos) {
            // So does the provider write a scalar: it has no dimensions, and no colon either.
            refuse("E10002: Value " + entry + " for parameter --input_shape is invalid. Reason: it names no shape. The "
                   "value must be formatted as input_name1:n1,c1,h1,w1;input_name2:n2,c2,h2,w2.");
        }
        const auto name = entry.substr(0, colon);
        const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const auto& each) { return each.name == name; });
        if (input == inputs.end()) {
            refuse("E10016: Opname " + name + " specified in --input_shape is not found in the model.");
        }
        const auto shape = parse_dims(entry, entry.substr(colon + 1));
        check_against(*input, shape);
        shapes[name] = shape;
    }
    for (const auto& input : inputs) {
        if (!shapes.count(std::string(input.name))) {
            refuse("E11005: The shape is not defined by using --input_shape for input " + std::string(input.name) + ".");
        }
    }
    return shapes;
}

}  // namespace ge
