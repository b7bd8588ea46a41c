// The texts begin with GraphEngine's error codes and follow its error_registry.cc; where GraphEngine only logs a line
// and fails (E11010), the reason is added. Each rule names where CANN has it.

#include "rules.hpp"

#include "../core/failure.hpp"
#include "abi.hpp"
#include "op_table.hpp"


namespace ge {
namespace {

using emulator::Failure;
using onnx::Attribute;
using onnx::Model;
using onnx::Node;

[[noreturn]] void refuse(const std::string& text) { throw Failure(static_cast<int>(GRAPH_FAILED), text); }

[[noreturn]] void refuse_node(const Node& node, const std::string& reason) {
    refuse("E11010: Failed to parse params for Op " + std::string(node.name) + " with optype " + std::string(node.op) +
           ". Reason: " + reason + ".");
}

/// The opset a node is parsed with (OnnxModelParser::ConstructOriType).
std::int64_t opset_of(const Node& node, const Model& model) {
    if (!node.domain.empty()) {
        const auto opset = model.opsets.find(node.domain);
        if (opset == model.opsets.end()) {
            refuse("E19999: The opset of domain[" + std::string(node.domain) + "] has no responding version.");
        }
        return opset->second;
    }
    if (model.opsets.size() != 1) {
        refuse("E16005: The model has " + std::to_string(model.opsets.size()) + " domain_version fields, but only one is allowed.");
    }
    return model.opsets.begin()->second;
}

void check_operator(const Node& node, const Model& model) {
    const auto opset = opset_of(node, model);
    const std::string domain(node.domain.empty() ? "ai.onnx" : node.domain);
    if (domain == "ai.onnx" && is_beyond_emulation(node.op)) {
        refuse("cann-emulator: it has no kernel for " + std::string(node.op) + ", which CANN may well accept.");
    }
    if (domain != "ai.onnx" || !has_parser(node.op, opset)) {
        refuse("E16002: No ONNX parser is registered for optype " + domain + "::" + std::to_string(opset) +
               "::" + std::string(node.op) + ".");
    }
}

// npu_prompt_flash_attention_onnx_plugin.cpp, and the limits of aclnnPromptFlashAttentionV3 on Atlas A2.
void check_attention_attributes(const Node& node) {
    const auto* heads = node.attribute("num_heads", Attribute::kInt);
    const auto* layout = node.attribute("input_layout", Attribute::kString);
    if (!heads || !layout) refuse_node(node, "Attr num_heads and input_layout are required, please check");
    if (heads->i < 1 || heads->i > 256) refuse_node(node, "num_heads must be in 1..256");
    if (layout->s != "BSH" && layout->s != "BSND" && layout->s != "BNSD") {
        refuse_node(node, "input_layout is " + std::string(layout->s) + ", not BSH, BSND or BNSD");
    }
    const auto integer = [&](const char* name, std::int64_t otherwise) {
        const auto* attribute = node.attribute(name, Attribute::kInt);
        const auto value = attribute ? attribute->i : otherwise;
        // The plugin keeps attributes in an int, so that larger values would silently be others.
        if (value != static_cast<std::int32_t>(value)) refuse_node(node, std::string(name) + " does not fit an int");
        return value;
    };
    integer("pre_tokens", 0);
    integer("next_tokens", 0);
    const auto key_heads = integer("num_key_value_heads", 0);
    if (key_heads < 0 || (key_heads > 0 && heads->i % key_heads != 0)) {
        refuse_node(node, "num_heads must be divisible by num_key_value_heads");
    }
    const auto mode = integer("inner_precise", 1);
    if (mode < 0 || mode > 3) refuse_node(node, "inner_precise must be in 0..3");
    const auto sparse = integer("sparse_mode", 0);
    if (sparse < 0 || sparse > 4) refuse_node(node, "sparse_mode must be in 0..4");
    if (sparse != 0) refuse_node(node, "sparse_mode needs a mask");
    if (node.inputs.size() < 3) refuse_node(node, "query, key and value are required");
    if (node.inputs.size() > 3) {
        refuse("cann-emulator: it has no masks and no quantization in NPUPromptFlashAttention, which CANN may well accept.");
    }
}

// conv_onnx_plugin.cpp tells 2-D from 3-D by the attributes. With some of them only, the operator or its data format
// silently becomes the 2-D one, so all are demanded for 3-D (see check_conv).
void check_conv_attributes(const Node& node) {
    const char* const names[] = {"kernel_shape", "strides", "pads", "dilations"};
    bool any = false;
    for (const auto* name : names) any = any || node.attribute(name, Attribute::kInts);
    if (!any) refuse_node(node, "node must have attr (kernel_shape,pads,strides,dilations) at least one");
    const auto* pads = node.attribute("pads", Attribute::kInts);
    if (pads && pads->ints.size() % 2 != 0) refuse_node(node, "the length of pads is odd");
}

const cpu::Port& value_of(const Values& values, std::string_view name) {
    const auto found = values.find(name);
    if (found == values.end()) refuse("E19999: `" + std::string(name) + "` is unknown.");
    return found->second;
}

void check_conv(const Node& node, const Values& values) {
    const auto& x = value_of(values, node.inputs.at(0));
    for (const auto name : node.inputs) {
        if (!name.empty() && value_of(values, name).data_type == onnx::kBfloat16) {
            refuse_node(node, "data type DT_BF16 is not supported by ONNX's Conv");
        }
    }
    if (x.shape.size() != 5) return;
    for (const auto* name : {"kernel_shape", "strides", "pads", "dilations"}) {
        if (!node.attribute(name, Attribute::kInts)) {
            refuse_node(node, std::string("a 3-D convolution is only recognised with the attribute ") + name);
        }
    }
    const auto* padding = node.attribute("auto_pad", Attribute::kString);
    if (padding && padding->s != "NOTSET" && padding->s != "VALID") {
        refuse_node(node, "auto_pad is not NOTSET/VALID for 5D");
    }
}

// resize_onnx_plugin.cpp: `nearest` becomes ResizeNearestNeighborV2 in NCHW, of the last two of four dimensions, which
// rounds down whatever nearest_mode says.
void check_resize(const Node& node, const Values& values) {
    const auto* mode = node.attribute("mode", Attribute::kString);
    if (mode && mode->s != "nearest") return;
    if (value_of(values, node.inputs.at(0)).shape.size() != 4) refuse_node(node, "nearest resizes 4-D tensors only");
    const auto* coordinates = node.attribute("coordinate_transformation_mode", Attribute::kString);
    const auto* rounding = node.attribute("nearest_mode", Attribute::kString);
    if (coordinates && coordinates->s == "asymmetric" && !(rounding && rounding->s == "floor")) {
        refuse_node(node, "nearest_mode other than floor is ignored on the device");
    }
}

void check_attention(const Node& node, const Values& values) {
    const auto layout = node.attribute("input_layout", Attribute::kString)->s;
    const auto heads = node.attribute("num_heads", Attribute::kInt)->i;
    const auto* shared = node.attribute("num_key_value_heads", Attribute::kInt);
    const auto key_heads = shared && shared->i > 0 ? shared->i : heads;
    const std::size_t rank = layout == "BSH" ? 3 : 4;
    std::int64_t batch[3], length[3], width[3];
    for (std::size_t i = 0; i < 3; ++i) {
        const auto& port = value_of(values, node.inputs[i]);
        const auto& shape = port.shape;
        const auto count = i == 0 ? heads : key_heads;
        if (port.data_type != onnx::kFloat16) refuse_node(node, "query, key and value must be FLOAT16 here");
        if (shape.size() != rank) refuse_node(node, "query, key and value must have " + std::to_string(rank) + " dimensions");
        batch[i] = shape[0];
        length[i] = layout == "BNSD" ? shape[2] : shape[1];
        width[i] = layout == "BSH" ? shape[2] / count : shape[3];
        const auto named = layout == "BSH" ? (shape[2] % count == 0 ? count : 0) : layout == "BSND" ? shape[2] : shape[1];
        if (named != count) refuse_node(node, "the number of heads does not match the shapes");
        if (layout != "BNSD" && count * width[i] >= 65535) refuse_node(node, "N x D must be less than 65535");
    }
    if (batch[0] != batch[1] || batch[1] != batch[2] || width[0] != width[1] || width[1] != width[2] ||
        length[1] != length[2]) {
        refuse_node(node, "the shapes of query, key and value do not match");
    }
    if (width[0] > 512) refuse_node(node, "D must be less than or equal to 512");
    if (batch[0] > (width[0] % 16 == 0 ? 65536 : 128)) refuse_node(node, "B is too large");
    if (length[0] > 20971520 || length[1] > 20971520) refuse_node(node, "S must be less than or equal to 20971520");
}

}  // namespace

void check_parse(const Model& model) {
    if (!model.has_graph) refuse("E16004: ONNX model has no graph.");
    if (model.inputs.empty()) refuse("E16001: The model has no input node.");
    if (model.outputs.empty()) refuse("E16001: The model has no output node.");
    for (const auto& node : model.nodes) {
        check_operator(node, model);
        if (node.op == "Conv") check_conv_attributes(node);
        if (node.op == "NPUPromptFlashAttention") check_attention_attributes(node);
    }
}

void check_build(const Model& model, const Values& values) {
    for (const auto& node : model.nodes) {
        if (node.op == "Conv") check_conv(node, values);
        if (node.op == "Resize") check_resize(node, values);
        if (node.op == "NPUPromptFlashAttention") check_attention(node, values);
    }
}

}  // namespace ge
