#include "precision.hpp"

#include "../cpu/half.hpp"
#include "../onnx/model.hpp"

#include <set>

namespace ge {
namespace {

// Values in a protocol buffer need not be aligned.
void narrow_bytes(char* bytes, std::size_t size) {
    for (std::size_t i = 0; i + sizeof(float) <= size; i += sizeof(float)) {
        float value;
        std::memcpy(&value, bytes + i, sizeof value);
        value = half::rounded(value);
        std::memcpy(bytes + i, &value, sizeof value);
    }
}

}  // namespace

bool is_precision_mode(const std::string& mode) {
    static const std::set<std::string> modes = {
        "force_fp16", "force_fp32", "cube_fp16in_fp32out", "allow_fp32_to_fp16", "must_keep_origin_dtype",
        "allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16", "allow_fp32_to_bf16",
    };
    return modes.count(mode) != 0;
}

bool narrows_to_f16(const std::string& mode) {
    return mode == "force_fp16" || mode == "allow_mix_precision" || mode == "allow_mix_precision_fp16";
}

void narrow_constants(std::string& model) {
    const auto narrow_tensor = [&](const onnx::Tensor& tensor) {
        if (tensor.data_type != onnx::kFloat) return;
        for (const auto part : {tensor.raw, tensor.floats}) {
            // The views point into `model`, which may be written to.
            narrow_bytes(const_cast<char*>(part.data()), part.size());
        }
    };
    const auto parsed = onnx::Model::read(model);
    for (const auto& constant : parsed.initializers) narrow_tensor(constant);
    for (const auto& node : parsed.nodes) {
        for (const auto& attribute : node.attributes) {
            if (attribute.tensor) narrow_tensor(*attribute.tensor);
        }
    }
}

void narrow(float* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) values[i] = half::rounded(values[i]);
}

}  // namespace ge
