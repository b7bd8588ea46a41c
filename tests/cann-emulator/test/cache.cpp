// Compiling once, and the files of compiled graphs.

#include "harness.hpp"
#include "host.hpp"
#include "log.hpp"
#include "models.hpp"

#include <filesystem>
#include <fstream>

namespace {

void write_file(const std::string& name, const std::string& bytes) {
    std::ofstream file(name, std::ios::binary);
    file << bytes;
}

std::string only_compiled_graph() {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(".")) {
        if (entry.path().extension() != ".om") continue;
        EXPECT(found.empty());
        found = entry.path().filename();
    }
    EXPECT(!found.empty());
    return found;
}

Tensor row(const std::vector<float>& values) { return Tensor::floats({1, static_cast<std::int64_t>(values.size())}, values); }

std::vector<float> run_file(const std::string& model_file, const ProviderOptions& options = provider_options()) {
    const Host host;
    return host.cann_file(model_file, options).run({{"x", row({1, 2})}}, {"y"}).at("y").values();
}

}  // namespace

CASE(a_graph_is_compiled_once_for_each_shape) {
    const Host host;
    const auto session = host.cann(add({1, 2}));
    for (const int rows : {1, 2, 1, 2}) {
        const auto x = Tensor::random(onnx::kFloat, {rows, 2}, 1);
        const auto y = session.run({{"x", x}}, {"y"}).at("y");
        EXPECT(y.shape == x.shape);
    }
    const auto builds = calls("aclgrphBuildModel");
    EXPECT_EQUAL(builds.size(), 2u);
    EXPECT_EQUAL(field(builds[0], "input_shape"), "x:1,2");
    EXPECT_EQUAL(field(builds[1], "input_shape"), "x:2,2");
    for (const auto& line : builds) EXPECT_EQUAL(number(line, "compiles"), 1u);
    EXPECT_EQUAL(calls("execute").size(), 4u);
}

CASE(the_second_process_finds_the_compiled_graph) {
    for (int process = 0; process < 2; ++process) {
        in_good_process([] {
            const Host host;
            host.cann(matmul()).run(matmul_inputs(), {"y"});
        });
    }
    EXPECT_EQUAL(calls("aclgrphBuildModel").size(), 1u);
    EXPECT_EQUAL(calls("aclmdlLoadFromMem").size(), 1u);
    EXPECT_EQUAL(calls("aclmdlLoadFromFile").size(), 1u);
    EXPECT_EQUAL(field(calls("aclmdlLoadFromFile")[0], "file"), only_compiled_graph());
    EXPECT_EQUAL(calls("execute").size(), 2u);
}

CASE(a_stale_compiled_graph_gives_stale_results) {
    write_file("model.onnx", add({10, 20}));
    in_good_process([] { EXPECT(run_file("model.onnx") == std::vector<float>({11, 22})); });
    write_file("model.onnx", add({100, 200}));
    in_good_process([] { EXPECT(run_file("model.onnx") == std::vector<float>({11, 22})); });
    EXPECT_EQUAL(calls("aclgrphBuildModel").size(), 1u);
    std::filesystem::remove(only_compiled_graph());
    in_good_process([] { EXPECT(run_file("model.onnx") == std::vector<float>({101, 202})); });
}

CASE(a_compiled_graph_keeps_its_precision_mode) {
    write_file("model.onnx", add({0, 0}));
    in_good_process([] { run_file("model.onnx", {{"precision_mode", "force_fp16"}}); });
    in_good_process([] { run_file("model.onnx", {{"precision_mode", "must_keep_origin_dtype"}}); });
    EXPECT_EQUAL(field(calls("aclmdlLoadFromFile").at(0), "precision_mode"), "force_fp16");
}

CASE(external_data_is_found_in_the_working_directory) {
    write_file("weights", Tensor::floats({2}, {10, 20}).raw());
    write_file("model.onnx", GraphBuilder("external")
                                 .input("x", onnx::kFloat, {1, 2})
                                 .external("w", onnx::kFloat, {2}, "weights")
                                 .output("y", onnx::kFloat, {1, 2})
                                 .node("Add", {"x", "w"}, {"y"})
                                 .model());
    EXPECT(run_file("model.onnx") == std::vector<float>({11, 22}));
    EXPECT(number(calls("aclgrphParseONNXFromMem").at(0), "bytes") < 200);  // by reference, not by value
    EXPECT_EQUAL(number(calls("aclgrphBuildModel").at(0), "weight_bytes"), 512u);
}

CASE(nothing_is_kept_when_the_provider_is_told_so) {
    auto options = provider_options();
    options["dump_om_model"] = "0";
    const Host host;
    host.cann(matmul(), options).run(matmul_inputs(), {"y"});
    EXPECT_EQUAL(calls("aclgrphSaveModel").size(), 0u);
    for (const auto& entry : std::filesystem::directory_iterator(".")) EXPECT(entry.path().extension() != ".om");
}

CASE(a_damaged_compiled_graph_is_an_error) {
    in_good_process([] {
        const Host host;
        host.cann(matmul()).run(matmul_inputs(), {"y"});
    });
    const auto file = only_compiled_graph();
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
    const Host host;
    const auto session = host.cann(matmul());
    EXPECT_CONTAINS(refusal([&] { session.run(matmul_inputs(), {"y"}); }), "aclmdlLoadFromFile");
    EXPECT_EQUAL(number(calls("aclmdlLoadFromFile").at(0), "code"), 545001u);
}
