// Precision modes: what one forgets must show.

#include "../src/cpu/half.hpp"
#include "../src/ge/abi.hpp"
#include "harness.hpp"
#include "host.hpp"
#include "log.hpp"
#include "models.hpp"

#include <cmath>
#include <limits>

namespace {

// f32 can tell these from 1 and 2, f16 cannot.
const std::vector<float> kFine = {1 + 0x1p-12f, 2 + 0x1p-11f};

std::vector<float> run(const std::vector<float>& x, const std::vector<float>& constant, const ProviderOptions& options) {
    const Host host;
    return host.cann(add(constant), options).run({{"x", Tensor::floats({1, 2}, x)}}, {"y"}).at("y").values();
}

}  // namespace

CASE(f32_stays_f32_when_asked_to) {
    EXPECT(run(kFine, {0, 0}, provider_options()) == kFine);
    EXPECT_EQUAL(field(calls("aclgrphBuildInitialize").at(0), "precision_mode"), "must_keep_origin_dtype");
}

CASE(without_a_precision_mode_f32_inputs_become_f16) {
    EXPECT(run(kFine, {0, 0}, {{"device_id", "0"}}) == std::vector<float>({1, 2}));
    EXPECT_EQUAL(field(calls("aclgrphBuildInitialize").at(0), "precision_mode"), "force_fp16");
}

CASE(without_a_precision_mode_f32_constants_become_f16) {
    EXPECT(run({0, 0}, kFine, {{"device_id", "0"}}) == std::vector<float>({1, 2}));
}

CASE(without_a_precision_mode_f32_outputs_become_f16) {
    const auto y = run({60000, 1}, {60000, 0x1p-11f}, {{"device_id", "0"}});
    EXPECT(std::isinf(y[0]));
    EXPECT_EQUAL(y[1], 1.0f);
}

CASE(without_a_precision_mode_f32_between_operators_becomes_f16) {
    const auto fine = Tensor::floats({2}, {0x1p-12f, 0x1p-11f}), one = Tensor::floats({1}, {1});
    const auto model = GraphBuilder("between")
                           .input("x", onnx::kFloat, {2})
                           .constant("fine", onnx::kFloat, {2}, fine.raw())
                           .constant("one", onnx::kFloat, {1}, one.raw())
                           .output("y", onnx::kFloat, {2})
                           .node("Add", {"x", "fine"}, {"sum"})
                           .node("Sub", {"sum", "one"}, {"y"})
                           .model();
    const Host host;
    const auto y = host.cann(model, {{"device_id", "0"}}).run({{"x", Tensor::floats({2}, {1, 2})}}, {"y"}).at("y").values();
    EXPECT(y == std::vector<float>({0, 1}));
}

CASE(the_first_session_decides_for_the_process) {
    const Host host;
    const Tensors x = {{"x", Tensor::floats({1, 2}, kFine)}};
    EXPECT(host.cann(add({0, 0}, "first"), {{"precision_mode", "force_fp16"}}).run(x, {"y"}).at("y").values() ==
           std::vector<float>({1, 2}));
    // The provider initialises GraphEngine once, whatever later sessions ask for.
    EXPECT(host.cann(add({0, 0}, "second")).run(x, {"y"}).at("y").values() == std::vector<float>({1, 2}));
    EXPECT_EQUAL(calls("aclgrphBuildInitialize").size(), 1u);
    EXPECT_EQUAL(field(calls("aclgrphBuildModel").at(1), "precision_mode"), "force_fp16");
}

CASE(a_second_precision_mode_in_a_process_is_refused) {
    const auto initialize = [](const char* mode) {
        ge::Options options{{"ge.socVersion", "Ascend910B2"}, {"ge.exec.precision_mode", mode}};
        return ge::aclgrphBuildInitialize(options);
    };
    EXPECT_EQUAL(initialize("no_such_mode"), ge::GRAPH_PARAM_INVALID);
    EXPECT_EQUAL(initialize("must_keep_origin_dtype"), ge::GRAPH_SUCCESS);
    EXPECT_EQUAL(initialize("must_keep_origin_dtype"), ge::GRAPH_SUCCESS);
    EXPECT_EQUAL(initialize("force_fp16"), ge::GRAPH_PARAM_INVALID);
}

CASE(halves_are_ieee_754) {
    // Every f16 comes back from f32 as it was.
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        const float value = half::to_float(half);
        if (std::isnan(value)) EXPECT(std::isnan(half::rounded(value)));
        else EXPECT_EQUAL(half::from_float(value), half);
    }
    // To the nearest, ties to even, over the whole range.
    EXPECT_EQUAL(half::rounded(1 + 0x1p-11f), 1.0f);
    EXPECT_EQUAL(half::rounded(1 + 0x1.8p-10f), 1 + 0x1p-9f);
    EXPECT_EQUAL(half::rounded(0x1p-25f), 0.0f);
    EXPECT_EQUAL(half::rounded(0x1.8p-24f), 0x1p-23f);
    EXPECT_EQUAL(half::rounded(65519.0f), 65504.0f);
    EXPECT(std::isinf(half::rounded(65520.0f)));
    EXPECT(std::isinf(half::rounded(-std::numeric_limits<float>::infinity())));
}
