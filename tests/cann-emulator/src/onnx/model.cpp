#include "model.hpp"

#include "wire.hpp"

#include <cstring>

namespace onnx {
namespace {

using wire::Field;
using wire::Reader;
using wire::Writer;

// ModelProto
constexpr std::uint32_t kModelGraph = 7, kModelOpset = 8;
// GraphProto
constexpr std::uint32_t kGraphNode = 1, kGraphInitializer = 5, kGraphInput = 11, kGraphOutput = 12;
// NodeProto
constexpr std::uint32_t kNodeInput = 1, kNodeOutput = 2, kNodeOp = 4;
// ValueInfoProto, TypeProto, TypeProto.Tensor, TensorShapeProto, TensorShapeProto.Dimension
constexpr std::uint32_t kValueName = 1, kValueType = 2, kTypeTensor = 1, kTensorTypeElement = 1, kTensorTypeShape = 2,
                        kShapeDim = 1, kDimValue = 1;

float as_float(std::uint64_t bits) {
    const auto word = static_cast<std::uint32_t>(bits);
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
}

Tensor read_tensor(std::string_view bytes) {
    Tensor tensor;
    Reader reader(bytes);
    for (Field field; reader.next(field);) {
        switch (field.number) {
            case 1: wire::append_integers(field, tensor.dims); break;
            case 2: tensor.data_type = static_cast<int>(field.value); break;
            case 4: tensor.floats = field.bytes; break;
            case 8: tensor.name = field.bytes; break;
            case 9: tensor.raw = field.bytes; break;
            case 14: tensor.external = field.value == 1; break;
        }
    }
    return tensor;
}

Attribute read_attribute(std::string_view bytes) {
    Attribute attribute;
    Reader reader(bytes);
    for (Field field; reader.next(field);) {
        switch (field.number) {
            case 1: attribute.name = field.bytes; break;
            case 2: attribute.f = as_float(field.value); break;
            case 3: attribute.i = static_cast<std::int64_t>(field.value); break;
            case 4: attribute.s = field.bytes; break;
            case 5: attribute.tensor = read_tensor(field.bytes); break;
            case 8: wire::append_integers(field, attribute.ints); break;
            case 20: attribute.type = static_cast<int>(field.value); break;
        }
    }
    return attribute;
}

Node read_node(std::string_view bytes) {
    Node node;
    Reader reader(bytes);
    for (Field field; reader.next(field);) {
        switch (field.number) {
            case 1: node.inputs.push_back(field.bytes); break;
            case 2: node.outputs.push_back(field.bytes); break;
            case 3: node.name = field.bytes; break;
            case 4: node.op = field.bytes; break;
            case 5: node.attributes.push_back(read_attribute(field.bytes)); break;
            case 7: node.domain = field.bytes; break;
        }
    }
    return node;
}

Shape read_shape(std::string_view bytes) {
    Shape shape;
    Reader dims(bytes);
    for (Field dim; dims.next(dim);) {
        if (dim.number != kShapeDim) continue;
        shape.push_back(-1);
        Reader reader(dim.bytes);
        for (Field field; reader.next(field);) {
            if (field.number == kDimValue) shape.back() = static_cast<std::int64_t>(field.value);
        }
    }
    return shape;
}

Value read_value(std::string_view bytes) {
    Value value;
    Reader reader(bytes);
    for (Field field; reader.next(field);) {
        if (field.number == kValueName) value.name = field.bytes;
        if (field.number != kValueType) continue;
        Reader types(field.bytes);
        for (Field type; types.next(type);) {
            if (type.number != kTypeTensor) continue;
            Reader tensor(type.bytes);
            for (Field part; tensor.next(part);) {
                if (part.number == kTensorTypeElement) value.data_type = static_cast<int>(part.value);
                if (part.number == kTensorTypeShape) value.shape = read_shape(part.bytes);
            }
        }
    }
    return value;
}

void read_graph(std::string_view bytes, Model& model) {
    Reader reader(bytes);
    for (Field field; reader.next(field);) {
        switch (field.number) {
            case kGraphNode: model.nodes.push_back(read_node(field.bytes)); break;
            case kGraphInitializer: model.initializers.push_back(read_tensor(field.bytes)); break;
            case kGraphInput: model.inputs.push_back(read_value(field.bytes)); break;
            case kGraphOutput: model.outputs.push_back(read_value(field.bytes)); break;
        }
    }
}

std::string value_info(std::string_view name, int data_type, const Shape& shape) {
    Writer dims;
    for (const auto size : shape) dims.bytes(kShapeDim, Writer().integer(kDimValue, size).message());
    Writer tensor;
    tensor.integer(kTensorTypeElement, data_type).bytes(kTensorTypeShape, dims.message());
    const auto type = Writer().bytes(kTypeTensor, tensor.message()).message();
    return Writer().bytes(kValueName, name).bytes(kValueType, type).message();
}

std::string identity(std::string_view from, std::string_view to) {
    return Writer().bytes(kNodeInput, from).bytes(kNodeOutput, to).bytes(kNodeOp, "Identity").message();
}

std::string cast(std::string_view from, std::string_view to, int data_type) {
    const auto attribute = Writer().bytes(1, "to").integer(3, data_type).integer(20, Attribute::kInt).message();
    return Writer().bytes(kNodeInput, from).bytes(kNodeOutput, to).bytes(kNodeOp, "Cast").bytes(5, attribute).message();
}

// The model with its graph rewritten by `rewrite(field, writer)`, which copies a field or writes another in its place.
template <class Rewrite>
std::string rewrite_graph(std::string_view bytes, Rewrite rewrite) {
    Writer model;
    Reader reader(bytes);
    for (Field field; reader.next(field);) {
        if (field.number != kModelGraph) {
            model.copy(field);
            continue;
        }
        Writer graph;
        Reader parts(field.bytes);
        for (Field part; parts.next(part);) rewrite(part, graph);
        model.bytes(kModelGraph, graph.message());
    }
    return model.message();
}

}  // namespace

std::size_t size_of(int data_type) {
    switch (data_type) {
        case kUint8: case kInt8: case kBool: return 1;
        case kUint16: case kInt16: case kFloat16: case kBfloat16: return 2;
        case kFloat: case kInt32: case kUint32: return 4;
        case kInt64: case kUint64: case kDouble: return 8;
        default: return 0;
    }
}

std::size_t elements(const Shape& shape) {
    std::size_t count = 1;
    for (const auto size : shape) count *= static_cast<std::size_t>(size);
    return count;
}

const Attribute* Node::attribute(std::string_view wanted, Attribute::Type type) const {
    for (const auto& each : attributes) {
        if (each.name == wanted && each.type == type) return &each;
    }
    return nullptr;
}

Model Model::read(std::string_view bytes) {
    Model model;
    Reader reader(bytes);
    for (Field field; reader.next(field);) {
        if (field.number == kModelGraph) {
            model.has_graph = true;
            read_graph(field.bytes, model);
        } else if (field.number == kModelOpset) {
            std::string_view domain;
            std::int64_t version = 0;
            Reader opset(field.bytes);
            for (Field part; opset.next(part);) {
                if (part.number == 1) domain = part.bytes;
                if (part.number == 2) version = static_cast<std::int64_t>(part.value);
            }
            model.opsets[domain] = version;
        }
    }
    return model;
}

std::vector<Value> Model::required_inputs() const {
    std::set<std::string_view> constant;
    for (const auto& initializer : initializers) constant.insert(initializer.name);
    std::vector<Value> required;
    for (const auto& input : inputs) {
        if (!constant.count(input.name)) required.push_back(input);
    }
    return required;
}

std::string with_input_shapes(std::string_view bytes, const std::map<std::string, Shape>& shapes) {
    return rewrite_graph(bytes, [&](const Field& field, Writer& graph) {
        if (field.number == kGraphInput) {
            const auto value = read_value(field.bytes);
            const auto shape = shapes.find(std::string(value.name));
            if (shape != shapes.end()) {
                graph.bytes(kGraphInput, value_info(value.name, value.data_type, shape->second));
                return;
            }
        }
        graph.copy(field);
    });
}

std::string with_outputs(std::string_view bytes, const std::vector<std::string_view>& names) {
    // Messages that occur again are merged, so a second graph with nothing but outputs adds them to the first.
    Writer graph;
    for (const auto name : names) graph.bytes(kGraphOutput, Writer().bytes(kValueName, name).message());
    return std::string(bytes) + Writer().bytes(kModelGraph, graph.message()).message();
}

std::string with_rounding(std::string_view bytes, const std::set<std::string_view>& halves,
                          const std::set<std::string_view>& floats) {
    return rewrite_graph(bytes, [&](const Field& field, Writer& graph) {
        if (field.number != kGraphNode) {
            graph.copy(field);
            return;
        }
        Writer node;
        std::vector<std::string> after;
        Reader parts(field.bytes);
        for (Field part; parts.next(part);) {
            const bool half = halves.count(part.bytes) != 0;
            if (part.number != kNodeOutput || !(half || floats.count(part.bytes))) {
                node.copy(part);
                continue;
            }
            const std::string name(part.bytes);
            node.bytes(kNodeOutput, name + "//made");
            if (!half) after.push_back(cast(name + "//made", name + "//narrow", kFloat16));
            after.push_back(identity(name + (half ? "//made" : "//narrow"), name + "//passed"));
            after.push_back(identity(name + "//passed", half ? name : name + "//rounded"));
            if (!half) after.push_back(cast(name + "//rounded", name, kFloat));
        }
        graph.bytes(kGraphNode, node.message());
        for (const auto& each : after) graph.bytes(kGraphNode, each);
    });
}

}  // namespace onnx
