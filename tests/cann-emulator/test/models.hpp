// The models that several cases use.
#pragma once

#include "graph.hpp"
#include "host.hpp"

/// y = x w, in f16: [3, 32] by [32, 16].
inline std::string matmul(const char* name = "matmul") {
    return GraphBuilder(name)
        .input("x", onnx::kFloat16, {3, 32})
        .input("w", onnx::kFloat16, {32, 16})
        .output("y", onnx::kFloat16, {3, 16})
        .node("MatMul", {"x", "w"}, {"y"})
        .model();
}

inline Tensors matmul_inputs() {
    return {{"x", Tensor::random(onnx::kFloat16, {3, 32}, 1)}, {"w", Tensor::random(onnx::kFloat16, {32, 16}, 2)}};
}

/// y = x + constant, in f32, for any number of rows of `width`.
inline std::string add(const std::vector<float>& constant, const char* name = "add") {
    const auto width = static_cast<std::int64_t>(constant.size());
    return GraphBuilder(name)
        .input("x", onnx::kFloat, {-1, width})
        .constant("c", onnx::kFloat, {width}, Tensor::floats({width}, constant).raw())
        .output("y", onnx::kFloat, {-1, width})
        .node("Add", {"x", "c"}, {"y"})
        .model();
}

/// y = x: the graph that brings a tensor onto the device.
inline std::string identity(int type, const onnx::Shape& shape) {
    return GraphBuilder("identity")
        .input("x", type, shape)
        .output("y", type, shape)
        .node("Identity", {"x"}, {"y"})
        .model();
}
