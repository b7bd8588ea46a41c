// What CANN refuses.

#include "../src/ge/abi.hpp"
#include "acl.hpp"
#include "harness.hpp"
#include "host.hpp"
#include "log.hpp"
#include "models.hpp"

#include <climits>
#include <sys/mman.h>

namespace {

/// What the emulator says to a model that ONNX Runtime accepts: the run fails, and the text is in the log.
std::string refused_run(const std::string& model, const Tensors& inputs, const char* call) {
    const Host host;
    const auto session = host.cann(model);
    EXPECT_CONTAINS(refusal([&] { session.run(inputs, {"y"}); }), call);
    EXPECT_EQUAL(calls("execute").size(), 0u);
    return field(calls(call).at(0), "error");
}

/// The same for a model that ONNX Runtime would not let through.
std::string refused_parse(const std::string& model) {
    ge::Graph graph("graph");
    EXPECT(ge::aclgrphParseONNXFromMem(model.data(), model.size(), {}, graph) != ge::GRAPH_SUCCESS);
    return aclGetRecentErrMsg();
}

std::string refused_build(const std::string& model, const ge::Options& options) {
    const Host host;  // the emulator finds ONNX Runtime in its process
    ge::Graph graph("graph");
    EXPECT_EQUAL(ge::aclgrphParseONNXFromMem(model.data(), model.size(), {}, graph), ge::GRAPH_SUCCESS);
    ge::Options global{{"ge.exec.precision_mode", "must_keep_origin_dtype"}};
    EXPECT_EQUAL(ge::aclgrphBuildInitialize(global), ge::GRAPH_SUCCESS);
    ge::ModelBufferData built;
    EXPECT(ge::aclgrphBuildModel(graph, options, built) != ge::GRAPH_SUCCESS);
    return aclGetRecentErrMsg();
}

std::string unary(const char* op, std::int64_t opset, const std::vector<Attr>& attributes = {}, const char* domain = "") {
    return GraphBuilder("unary", opset)
        .input("x", onnx::kFloat, {2, 2})
        .output("y", onnx::kFloat, {2, 2})
        .node(op, {"x"}, {"y"}, attributes, domain)
        .model();
}

const char* const kParse = "aclgrphParseONNXFromMem";
const char* const kBuild = "aclgrphBuildModel";

Tensors square() { return {{"x", Tensor::random(onnx::kFloat, {2, 2}, 1)}}; }

std::string conv(const std::vector<Attr>& attributes, int type = onnx::kFloat) {
    return GraphBuilder("conv")
        .input("x", type, {1, 1, 3, 3, 3})
        .input("w", type, {1, 1, 3, 3, 3})
        .output("y", type, {1, 1, 1, 1, 1})
        .node("Conv", {"x", "w"}, {"y"}, attributes)
        .model();
}

const Attr kKernel = Attr::integers("kernel_shape", {3, 3, 3}), kStrides = Attr::integers("strides", {1, 1, 1}),
           kDilations = Attr::integers("dilations", {1, 1, 1}), kPads = Attr::integers("pads", {0, 0, 0, 0, 0, 0});

std::string attention(const std::vector<Attr>& attributes, std::int64_t opset = 16, const onnx::Shape& kv = {1, 4, 32}) {
    return GraphBuilder("attention", opset)
        .input("q", onnx::kFloat16, {1, 4, 32})
        .input("k", onnx::kFloat16, kv)
        .input("v", onnx::kFloat16, kv)
        .output("y", onnx::kFloat16, {1, 4, 32})
        .node("NPUPromptFlashAttention", {"q", "k", "v"}, {"y"}, attributes)
        .model();
}

}  // namespace

CASE(an_operator_without_a_parser_is_refused) {
    EXPECT_CONTAINS(refused_run(unary("Mish", 18), square(), kParse),
                    "E16002: No ONNX parser is registered for optype ai.onnx::18::Mish.");
}

CASE(an_opset_without_parsers_is_refused) {
    EXPECT_CONTAINS(refused_run(unary("Relu", 19), square(), kParse), "ai.onnx::19::Relu");
}

CASE(the_opset_of_a_parser_must_match_exactly) {
    const auto axes = Tensor{onnx::kInt64, {1}, {1, 0, 0, 0, 0, 0, 0, 0}};
    const auto model = GraphBuilder("norm", 18)
                           .input("x", onnx::kFloat, {2, 2})
                           .constant("axes", onnx::kInt64, {1}, axes.raw())
                           .output("y", onnx::kFloat, {2, 1})
                           .node("ReduceL2", {"x", "axes"}, {"y"})
                           .model();
    EXPECT_CONTAINS(refused_run(model, square(), kParse), "ai.onnx::18::ReduceL2");
}

CASE(flash_attention_has_opsets_of_its_own) {
    const std::vector<Attr> good = {Attr::integer("num_heads", 2), Attr::string("input_layout", "BSH")};
    EXPECT_CONTAINS(refused_parse(attention(good, 17)), "ai.onnx::17::NPUPromptFlashAttention");
    EXPECT_CONTAINS(refused_parse(attention(good, 18)), "ai.onnx::18::NPUPromptFlashAttention");
    for (const std::int64_t opset : {11, 16, 19}) {
        const auto model = attention(good, opset);
        ge::Graph graph("graph");
        EXPECT_EQUAL(ge::aclgrphParseONNXFromMem(model.data(), model.size(), {}, graph), ge::GRAPH_SUCCESS);
    }
}

CASE(another_domain_has_no_opset) {
    EXPECT_CONTAINS(refused_parse(unary("Gelu", 16, {}, "com.microsoft")),
                    "The opset of domain[com.microsoft] has no responding version");
}

CASE(two_opsets_are_one_too_many) {
    const auto second = wire::Writer().bytes(8, wire::Writer().bytes(1, "com.microsoft").integer(2, 1).message()).message();
    EXPECT_CONTAINS(refused_parse(unary("Relu", 16) + second), "E16005");
}

CASE(what_is_no_model_is_refused) {
    EXPECT_CONTAINS(refused_parse(""), "E16004");  // so the provider hands on what exceeded 2 GiB in its own process
    EXPECT_CONTAINS(refused_parse("\x08"), "Read onnx model from memory failed");
    EXPECT_CONTAINS(refused_parse(GraphBuilder("none").input("x", onnx::kFloat, {1}).model()), "E16001");
}

CASE(more_than_two_gibibytes_are_refused) {
    const std::size_t size = std::size_t{INT_MAX} + 1;
    void* bytes = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ge::Graph graph("graph");
    EXPECT_EQUAL(ge::aclgrphParseONNXFromMem(static_cast<char*>(bytes), size, {}, graph), ge::GRAPH_FAILED);
    EXPECT_CONTAINS(aclGetRecentErrMsg(), "2147483648 bytes");
}

CASE(a_scalar_as_an_input_is_refused) {
    const auto model = GraphBuilder("scaled")
                           .input("x", onnx::kFloat, {2, 2})
                           .input("s", onnx::kFloat, {})
                           .output("y", onnx::kFloat, {2, 2})
                           .node("Mul", {"x", "s"}, {"y"})
                           .model();
    auto inputs = square();
    inputs.emplace("s", Tensor::floats({}, {2}));
    EXPECT_CONTAINS(refused_run(model, inputs, kBuild), "E10002: Value s for parameter --input_shape is invalid");
}

CASE(input_shapes_must_be_given_and_static) {
    const auto model = add({1, 2});
    EXPECT_CONTAINS(refused_build(model, {}), "E11005: The shape is not defined by using --input_shape for input x");
    EXPECT_CONTAINS(refused_build(model, {{"input_shape", "x:-1,2"}}), "E10011");
    EXPECT_CONTAINS(refused_build(model, {{"input_shape", "x:0,2"}}), "E10011");
    EXPECT_CONTAINS(refused_build(model, {{"input_shape", "z:1,2"}}), "E10016: Opname z");
    EXPECT_CONTAINS(refused_build(model, {{"input_shape", "x:1,2,3"}}), "E10049");
    EXPECT_CONTAINS(refused_build(model, {{"input_shape", "x:1,3"}}), "E10001");
}

CASE(a_shape_that_depends_on_values_is_refused) {
    const auto model = GraphBuilder("nonzero")
                           .input("x", onnx::kFloat, {2, 2})
                           .output("y", onnx::kInt64, {2, -1})
                           .node("NonZero", {"x"}, {"y"})
                           .model();
    EXPECT_CONTAINS(refused_run(model, square(), kBuild), "the shape of y is dynamic");
}

CASE(a_3d_convolution_needs_its_attributes) {
    const std::vector<std::vector<Attr>> incomplete = {{kStrides, kDilations, kPads}, {kKernel, kDilations, kPads},
                                                       {kKernel, kStrides, kPads}, {kKernel, kStrides, kDilations}};
    const char* const missing[] = {"kernel_shape", "strides", "dilations", "pads"};
    for (std::size_t i = 0; i < incomplete.size(); ++i) {
        EXPECT_CONTAINS(refused_build(conv(incomplete[i]), {{"input_shape", "x:1,1,3,3,3;w:1,1,3,3,3"}}),
                        std::string("only recognised with the attribute ") + missing[i]);
    }
    EXPECT_CONTAINS(refused_parse(conv({})), "node must have attr");
}

CASE(a_convolution_in_bf16_is_refused) {
    EXPECT_CONTAINS(refused_build(conv({kKernel, kStrides, kDilations, kPads}, onnx::kBfloat16),
                                  {{"input_shape", "x:1,1,3,3,3;w:1,1,3,3,3"}}),
                    "bfloat16");
}

CASE(nearest_resizes_four_dimensions_only) {
    const auto scales = Tensor::floats({5}, {1, 1, 1, 2, 2});
    const auto model = GraphBuilder("resize")
                           .input("x", onnx::kFloat, {1, 1, 1, 2, 2})
                           .constant("scales", onnx::kFloat, {5}, scales.raw())
                           .output("y", onnx::kFloat, {1, 1, 1, 4, 4})
                           .node("Resize", {"x", "", "scales"}, {"y"}, {Attr::string("mode", "nearest")})
                           .model();
    EXPECT_CONTAINS(refused_run(model, {{"x", Tensor::random(onnx::kFloat, {1, 1, 1, 2, 2}, 1)}}, kBuild), "4-D");
}

CASE(attributes_of_flash_attention_are_checked) {
    const auto heads = Attr::integer("num_heads", 2), layout = Attr::string("input_layout", "BSH");
    const struct {
        std::vector<Attr> attributes;
        const char* reason;
    } refused[] = {
        {{layout}, "num_heads and input_layout are required"},
        {{heads}, "num_heads and input_layout are required"},
        {{Attr::real("num_heads", 2), layout}, "num_heads and input_layout are required"},
        {{Attr::integer("num_heads", 257), layout}, "1..256"},
        {{heads, Attr::string("input_layout", "SBH")}, "SBH"},
        {{heads, layout, Attr::integer("pre_tokens", 2147483648)}, "pre_tokens does not fit"},
        {{heads, layout, Attr::integer("sparse_mode", 3)}, "needs a mask"},
        {{heads, layout, Attr::integer("sparse_mode", 5)}, "0..4"},
        {{heads, layout, Attr::integer("inner_precise", 4)}, "0..3"},
        {{Attr::integer("num_heads", 4), layout, Attr::integer("num_key_value_heads", 3)}, "divisible"},
    };
    for (const auto& each : refused) EXPECT_CONTAINS(refused_parse(attention(each.attributes)), each.reason);
    EXPECT_CONTAINS(refused_build(attention({Attr::integer("num_heads", 3), layout}),
                                  {{"input_shape", "q:1,4,32;k:1,4,32;v:1,4,32"}}),
                    "the number of heads does not match");
    EXPECT_CONTAINS(refused_build(attention({heads, layout}, 16, {1, 4, 64}),
                                  {{"input_shape", "q:1,4,32;k:1,4,64;v:1,4,64"}}),
                    "do not match");
}

CASE(what_the_emulator_cannot_run_is_not_taken_for_cann) {
    EXPECT_CONTAINS(refused_parse(unary("NPURmsNorm", 16)), "cann-emulator: it has no kernel for NPURmsNorm");
}
