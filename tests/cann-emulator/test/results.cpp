// What a session on the emulated device computes.

#include "../src/cpu/half.hpp"
#include "graph.hpp"
#include "harness.hpp"
#include "host.hpp"
#include "log.hpp"

#include <cmath>

namespace {

// The emulator runs operators one by one on the CPU provider, so a graph's results are that provider's own.
void expect_same_as_cpu(const std::string& model, const Tensors& inputs, const std::vector<std::string>& outputs) {
    const Host host;
    const auto on_device = host.cann(model).run(inputs, outputs);
    const auto on_host = host.cpu(model).run(inputs, outputs);
    for (const auto& name : outputs) EXPECT_EQUAL(difference(on_device.at(name), on_host.at(name)), 0.0);
    EXPECT_EQUAL(calls("aclgrphBuildModel").size(), 1u);
    EXPECT_EQUAL(calls("execute").size(), 1u);
}

std::string attention_model(const char* layout, const onnx::Shape& q, const onnx::Shape& kv, int heads, int key_heads,
                            float scale) {
    return GraphBuilder("attention")
        .input("q", onnx::kFloat16, q)
        .input("k", onnx::kFloat16, kv)
        .input("v", onnx::kFloat16, kv)
        .output("y", onnx::kFloat16, q)
        .node("NPUPromptFlashAttention", {"q", "k", "v"}, {"y"},
              {Attr::integer("num_heads", heads), Attr::string("input_layout", layout), Attr::real("scale_value", scale),
               Attr::integer("num_key_value_heads", key_heads), Attr::integer("pre_tokens", 2147483647),
               Attr::integer("next_tokens", 2147483647)})
        .model();
}

// Straight from the definition, in double, for [batch, length, heads * width].
std::vector<double> attention(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v,
                              int batches, int queries, int keys, int heads, int key_heads, int width, double scale) {
    std::vector<double> out(q.size());
    const auto at = [&](int batch, int length, int count, int row, int head, int d) {
        return static_cast<std::size_t>(((batch * length + row) * count + head) * width + d);
    };
    for (int b = 0; b < batches; ++b) {
        for (int h = 0; h < heads; ++h) {
            const int shared = h / (heads / key_heads);
            for (int i = 0; i < queries; ++i) {
                std::vector<double> weights;
                double total = 0;
                for (int j = 0; j < keys; ++j) {
                    double dot = 0;
                    for (int d = 0; d < width; ++d) {
                        dot += double{q[at(b, queries, heads, i, h, d)]} * k[at(b, keys, key_heads, j, shared, d)];
                    }
                    weights.push_back(std::exp(dot * scale));
                    total += weights.back();
                }
                for (int j = 0; j < keys; ++j) {
                    for (int d = 0; d < width; ++d) {
                        out[at(b, queries, heads, i, h, d)] +=
                            weights[static_cast<std::size_t>(j)] / total * v[at(b, keys, key_heads, j, shared, d)];
                    }
                }
            }
        }
    }
    return out;
}

void expect_attention(const char* layout, const onnx::Shape& q, const onnx::Shape& kv, int key_heads) {
    const int batches = 2, queries = 5, keys = 7, heads = 4, width = 16;
    const float scale = 0.25f;
    const auto model = attention_model(layout, q, kv, heads, key_heads == heads ? 0 : key_heads, scale);
    const Tensors inputs = {{"q", Tensor::random(onnx::kFloat16, q, 1)},
                            {"k", Tensor::random(onnx::kFloat16, kv, 2)},
                            {"v", Tensor::random(onnx::kFloat16, kv, 3)}};
    const Host host;
    const auto y = host.cann(model).run(inputs, {"y"}).at("y").values();
    // [batch, length, heads, width] is the order the reference knows.
    const auto to_reference = [&](const std::vector<float>& values, int length, int count) {
        if (std::string(layout) != "BNSD") return values;
        std::vector<float> moved(values.size());
        for (int b = 0; b < batches; ++b)
            for (int h = 0; h < count; ++h)
                for (int i = 0; i < length; ++i)
                    for (int d = 0; d < width; ++d)
                        moved[static_cast<std::size_t>(((b * length + i) * count + h) * width + d)] =
                            values[static_cast<std::size_t>(((b * count + h) * length + i) * width + d)];
        return moved;
    };
    const auto expected = attention(to_reference(inputs.at("q").values(), queries, heads),
                                    to_reference(inputs.at("k").values(), keys, key_heads),
                                    to_reference(inputs.at("v").values(), keys, key_heads), batches, queries, keys, heads,
                                    key_heads, width, scale);
    const auto actual = to_reference(y, queries, heads);
    // The result is in [-1, 1], where f16 has steps of 2^-11 at most, rounded to the nearest.
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT(std::fabs(actual[i] - expected[i]) <= 0x1.1p-12);
}

}  // namespace

CASE(matmul_in_f16_equals_the_cpu_provider) {
    expect_same_as_cpu(GraphBuilder("matmul")
                           .input("x", onnx::kFloat16, {3, 32})
                           .input("w", onnx::kFloat16, {32, 16})
                           .output("y", onnx::kFloat16, {3, 16})
                           .node("MatMul", {"x", "w"}, {"y"})
                           .model(),
                       {{"x", Tensor::random(onnx::kFloat16, {3, 32}, 1)}, {"w", Tensor::random(onnx::kFloat16, {32, 16}, 2)}},
                       {"y"});
}

CASE(conv_in_three_dimensions_equals_the_cpu_provider) {
    const auto weight = Tensor::random(onnx::kFloat, {4, 2, 3, 3, 3}, 2);
    expect_same_as_cpu(GraphBuilder("conv")
                           .input("x", onnx::kFloat, {1, 2, 4, 5, 6})
                           .constant("w", onnx::kFloat, weight.shape, weight.raw())
                           .output("y", onnx::kFloat, {1, 4, 4, 5, 6})
                           .node("Conv", {"x", "w"}, {"y"},
                                 {Attr::integers("kernel_shape", {3, 3, 3}), Attr::integers("strides", {1, 1, 1}),
                                  Attr::integers("dilations", {1, 1, 1}), Attr::integers("pads", {2, 1, 1, 0, 1, 1})})
                           .model(),
                       {{"x", Tensor::random(onnx::kFloat, {1, 2, 4, 5, 6}, 1)}}, {"y"});
}

CASE(a_chain_in_f32_equals_the_cpu_provider) {
    const auto two = Tensor::floats({1}, {2.0f});
    expect_same_as_cpu(GraphBuilder("chain")
                           .input("x", onnx::kFloat, {4, 8})
                           .constant("two", onnx::kFloat, {1}, two.raw())
                           .output("y", onnx::kFloat, {4, 8})
                           .output("mean", onnx::kFloat, {4, 1})
                           .node("Pow", {"x", "two"}, {"square"})
                           .node("ReduceMean", {"square"}, {"mean"}, {Attr::integers("axes", {-1})})
                           .node("Sqrt", {"mean"}, {"root"})
                           .node("Div", {"x", "root"}, {"normed"})
                           .node("Sigmoid", {"normed"}, {"gate"})
                           .node("Mul", {"normed", "gate"}, {"y"})
                           .model(),
                       {{"x", Tensor::random(onnx::kFloat, {4, 8}, 1)}}, {"mean", "y"});
}

CASE(f16_is_rounded_and_overflows_between_operators) {
    const auto small = Tensor::halves({1}, {0x1p-10f});
    const auto model = GraphBuilder("halves")
                           .input("x", onnx::kFloat16, {8})
                           .constant("small", onnx::kFloat16, {1}, small.raw())
                           .output("y", onnx::kFloat16, {8})
                           .node("Mul", {"x", "x"}, {"square"})
                           .node("Mul", {"square", "small"}, {"y"})
                           .model();
    const auto x = Tensor::halves({8}, {1.001f, 1.7f, 3.3f, 100.1f, 200.3f, 255.9f, 256.0f, 300.0f});
    const Host host;
    const auto y = host.cann(model).run({{"x", x}}, {"y"}).at("y").values();
    for (std::size_t i = 0; i < y.size(); ++i) {
        const float value = x.values()[i];
        EXPECT_EQUAL(y[i], half::rounded(half::rounded(value * value) * 0x1p-10f));
    }
    EXPECT(std::isinf(y[6]) && std::isinf(y[7]));  // on the way; the result itself would be 64 and 88
}

CASE(flash_attention_is_attention_in_bsh) { expect_attention("BSH", {2, 5, 64}, {2, 7, 64}, 4); }
CASE(flash_attention_is_attention_in_bsnd) { expect_attention("BSND", {2, 5, 4, 16}, {2, 7, 4, 16}, 4); }
CASE(flash_attention_is_attention_in_bnsd) { expect_attention("BNSD", {2, 4, 5, 16}, {2, 4, 7, 16}, 4); }
CASE(flash_attention_shares_key_heads) { expect_attention("BSH", {2, 5, 64}, {2, 7, 32}, 2); }

CASE(a_graph_is_one_partition_and_its_weights_may_be_inputs) {
    const Host host;
    const auto model = GraphBuilder("two_layers")
                           .input("x", onnx::kFloat16, {2, 8})
                           .input("w1", onnx::kFloat16, {8, 8})
                           .input("w2", onnx::kFloat16, {8, 8})
                           .output("y", onnx::kFloat16, {2, 8})
                           .node("MatMul", {"x", "w1"}, {"h"})
                           .node("Tanh", {"h"}, {"t"})
                           .node("MatMul", {"t", "w2"}, {"y"})
                           .model();
    host.cann(model).run({{"x", Tensor::random(onnx::kFloat16, {2, 8}, 1)},
                          {"w1", Tensor::random(onnx::kFloat16, {8, 8}, 2)},
                          {"w2", Tensor::random(onnx::kFloat16, {8, 8}, 3)}},
                         {"y"});
    const auto parses = calls("aclgrphParseONNXFromMem"), builds = calls("aclgrphBuildModel");
    EXPECT_EQUAL(parses.size(), 1u);
    EXPECT_EQUAL(builds.size(), 1u);
    EXPECT_EQUAL(field(builds[0], "input_shape"), "x:2,8;w1:8,8;w2:8,8");
    EXPECT_EQUAL(number(builds[0], "weight_bytes"), 0u);
    EXPECT_EQUAL(number(builds[0], "workspace_bytes"), 2 * 512u);  // h while t is made, and h's room is not t's
    EXPECT_EQUAL(calls("execute").size(), 1u);
}
