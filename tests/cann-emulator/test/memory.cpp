// Device memory: the account of it, and tensors that stay there.

#include "../src/ge/abi.hpp"
#include "acl.hpp"
#include "harness.hpp"
#include "host.hpp"
#include "log.hpp"
#include "models.hpp"

#include <csignal>
#include <cstring>
#include <fstream>
#include <sys/wait.h>
#include <thread>

namespace {

constexpr std::size_t kMebibyte = 1 << 20;

/// A value over device memory of the caller's own.
Value over(const Host& host, void* address, std::size_t bytes, int type, const onnx::Shape& shape) {
    const auto& api = host.api();
    auto value = ort::make(api, api.CreateTensorWithDataAsOrtValue, api.ReleaseValue,
                           static_cast<const OrtMemoryInfo*>(host.device_memory()), address, bytes, shape.data(),
                           shape.size(), type);
    return {api, value.release()};
}

void* allocate(std::size_t bytes) {
    void* address = nullptr;
    EXPECT_EQUAL(aclrtMalloc(&address, bytes, 0), ACL_SUCCESS);
    return address;
}

/// A set of one buffer.
class Dataset {
public:
    Dataset(void* address, std::size_t bytes) : set_(aclmdlCreateDataset()), buffer_(aclCreateDataBuffer(address, bytes)) {
        aclmdlAddDatasetBuffer(set_, buffer_);
    }
    Dataset(const Dataset&) = delete;
    Dataset& operator=(const Dataset&) = delete;
    ~Dataset() {
        aclDestroyDataBuffer(buffer_);
        aclmdlDestroyDataset(set_);
    }
    aclmdlDataset* get() const { return set_; }

private:
    aclmdlDataset* set_;
    aclDataBuffer* buffer_;
};

/// Compiles and loads a model as the provider does.
std::uint32_t load(const std::string& model, const char* input_shape) {
    ge::Graph graph("graph");
    EXPECT_EQUAL(ge::aclgrphParseONNXFromMem(model.data(), model.size(), {}, graph), ge::GRAPH_SUCCESS);
    ge::Options global{{"ge.exec.precision_mode", "must_keep_origin_dtype"}};
    EXPECT_EQUAL(ge::aclgrphBuildInitialize(global), ge::GRAPH_SUCCESS);
    ge::ModelBufferData built;
    EXPECT_EQUAL(ge::aclgrphBuildModel(graph, {{"input_shape", input_shape}}, built), ge::GRAPH_SUCCESS);
    std::uint32_t id = 0;
    EXPECT_EQUAL(aclmdlLoadFromMem(built.data.get(), built.length, &id), ACL_SUCCESS);
    return id;
}

}  // namespace

CASE(the_account_returns_to_nothing) {
    const auto bias = Tensor::random(onnx::kFloat, {1000}, 1).values();
    {
        const Host host;
        const auto session = host.cann(add(bias));
        for (const int rows : {1, 7}) session.run({{"x", Tensor::random(onnx::kFloat, {rows, 1000}, 2)}}, {"y"});
        const auto held = session.on_device(onnx::kFloat, {300000});
        EXPECT(device_bytes() > 4 * 300000u);
    }
    EXPECT_EQUAL(device_bytes(), 0u);
    EXPECT(peak_bytes() > 4 * 300000u);
    EXPECT_EQUAL(field(calls("aclFinalize").at(0), "device_bytes"), "0");
}

CASE(a_compiled_graph_takes_memory_while_it_is_loaded) {
    const std::vector<float> bias(kMebibyte, 1.0f);
    const Host host;
    {
        const auto session = host.cann(add(bias));
        session.run({{"x", Tensor::random(onnx::kFloat, {1, static_cast<std::int64_t>(kMebibyte)}, 2)}}, {"y"});
        const auto load = calls("aclmdlLoadFromMem").at(0);
        EXPECT_EQUAL(number(load, "bytes"), 4 * kMebibyte);
        EXPECT(device_bytes() >= 4 * kMebibyte);
    }
    EXPECT_EQUAL(number(calls("aclmdlUnload").at(0), "bytes"), 4 * kMebibyte);
    EXPECT_EQUAL(device_bytes(), 0u);
}

CASE(activations_stay_on_the_device_between_sessions) {
    const Host host;
    const auto upload = host.cann(identity(onnx::kFloat16, {32, 16}));
    const auto first = host.cann(matmul("first"));
    const auto tanh = GraphBuilder("second")
                          .input("h", onnx::kFloat16, {3, 16})
                          .output("y", onnx::kFloat16, {3, 16})
                          .node("Tanh", {"h"}, {"y"})
                          .model();
    const auto second = host.cann(tanh);
    const auto inputs = matmul_inputs();
    const auto host_w = host.wrap(inputs.at("w")), host_x = host.wrap(inputs.at("x"));
    // An identity graph whose output is bound to the device is an upload through ONNX Runtime alone.
    const auto w = upload.run_bound({{"x", &host_w}}, {"y"});
    const auto h = first.run_bound({{"x", &host_x}, {"w", &w.at("y")}}, {"y"});
    const auto all_copies = [] {
        return copies("host_to_device").size() + copies("device_to_host").size() + copies("device_to_device").size();
    };
    const auto before = all_copies();
    auto y = Host::room(onnx::kFloat16, {3, 16});
    const auto host_y = host.wrap(y);
    const auto y_on_device = second.run_bound({{"h", &h.at("y")}}, {"y"});
    EXPECT_EQUAL(all_copies(), before);
    second.run_into({{"h", &h.at("y")}}, {{"y", &host_y}});
    EXPECT_EQUAL(copies("device_to_host").size(), 1u);

    const auto h_on_host = host.cpu(matmul()).run(inputs, {"y"}).at("y");
    EXPECT_EQUAL(difference(y, host.cpu(tanh).run({{"h", h_on_host}}, {"y"}).at("y")), 0.0);
}

CASE(tensors_over_memory_of_ones_own_cost_exactly_their_size) {
    const Host host;
    const auto session = host.cann(matmul());
    EXPECT_EQUAL(aclrtSetDevice(0), ACL_SUCCESS);
    const auto inputs = matmul_inputs();
    const auto upload = [&](const Tensor& tensor) {
        void* address = allocate(tensor.bytes.size());
        EXPECT_EQUAL(aclrtMemcpy(address, tensor.bytes.size(), tensor.bytes.data(), tensor.bytes.size(),
                                 ACL_MEMCPY_HOST_TO_DEVICE),
                     ACL_SUCCESS);
        return address;
    };
    auto y = Host::room(onnx::kFloat16, {3, 16});
    void *x_at = upload(inputs.at("x")), *w_at = upload(inputs.at("w")), *y_at = allocate(y.bytes.size());
    {
        const auto x = over(host, x_at, 3 * 32 * 2, onnx::kFloat16, {3, 32});
        const auto w = over(host, w_at, 32 * 16 * 2, onnx::kFloat16, {32, 16});
        const auto out = over(host, y_at, 3 * 16 * 2, onnx::kFloat16, {3, 16});
        session.run_into({{"x", &x}, {"w", &w}}, {{"y", &out}});
    }
    EXPECT_EQUAL(peak_bytes(), 2u * (3 * 32 + 32 * 16 + 3 * 16));  // the provider has allocated nothing
    EXPECT_EQUAL(aclrtMemcpy(y.bytes.data(), y.bytes.size(), y_at, y.bytes.size(), ACL_MEMCPY_DEVICE_TO_HOST), ACL_SUCCESS);
    EXPECT_EQUAL(difference(y, host.cpu(matmul()).run(inputs, {"y"}).at("y")), 0.0);
    for (void* address : {x_at, w_at, y_at}) EXPECT_EQUAL(aclrtFree(address), ACL_SUCCESS);
    EXPECT_EQUAL(device_bytes(), 0u);
}

CASE(a_host_that_looks_at_device_memory_crashes) {
    const int status = in_process([] {
        aclInit(nullptr);
        aclrtSetDevice(0);
        static_cast<volatile char*>(allocate(16))[0] = 1;
    });
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

CASE(copies_are_checked) {
    aclInit(nullptr);
    aclrtSetDevice(0);
    char* device = static_cast<char*>(allocate(64));
    char host[64] = {};
    EXPECT_EQUAL(aclrtMemcpy(device + 32, 32, host, 32, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
    const auto refused = [&](aclError code, const char* text) {
        EXPECT_EQUAL(code, ACL_ERROR_RT_PARAM_INVALID);
        EXPECT_CONTAINS(aclGetRecentErrMsg(), text);
    };
    refused(aclrtMemcpy(device + 32, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE), "reach past the end");
    refused(aclrtMemcpy(device, 16, host, 32, ACL_MEMCPY_HOST_TO_DEVICE), "smaller than what is copied");
    refused(aclrtMemcpy(host, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE), "not device memory");
    refused(aclrtMemcpy(device, 64, device, 64, ACL_MEMCPY_HOST_TO_DEVICE), "is device memory");
    EXPECT_EQUAL(aclrtFree(device + 32), ACL_ERROR_RT_MEMORY_FREE);
    EXPECT_EQUAL(aclrtFree(device), ACL_SUCCESS);
    refused(aclrtMemcpy(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE), "not device memory");
}

CASE(copies_of_locked_memory_wait_for_their_turn_in_the_stream) {
    set("CANN_EMULATOR_FAULTS", "execute:1=hang go");
    const Host host;
    EXPECT_EQUAL(aclInit(nullptr), ACL_SUCCESS);
    EXPECT_EQUAL(aclrtSetDevice(0), ACL_SUCCESS);
    const auto model = load(identity(onnx::kFloat, {1}), "x:1");
    aclrtStream stream = nullptr;
    EXPECT_EQUAL(aclrtCreateStream(&stream), ACL_SUCCESS);
    void *x = allocate(4), *y = allocate(4), *locked = nullptr;
    EXPECT_EQUAL(aclrtMallocHost(&locked, 4), ACL_SUCCESS);
    float value = 7;
    EXPECT_EQUAL(aclrtMemcpyAsync(x, 4, &value, 4, ACL_MEMCPY_HOST_TO_DEVICE, stream), ACL_SUCCESS);
    // Ordinary memory: the copy is done, so the source may change.
    value = 0;
    std::memcpy(locked, &value, 4);
    {
        const Dataset inputs(x, 4), outputs(y, 4);
        EXPECT_EQUAL(aclmdlExecuteAsync(model, inputs.get(), outputs.get(), stream), ACL_SUCCESS);
    }
    // Locked memory: it returns although the stream stands still.
    EXPECT_EQUAL(aclrtMemcpyAsync(locked, 4, y, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream), ACL_SUCCESS);
    std::memcpy(&value, locked, 4);
    EXPECT_EQUAL(value, 0.0f);
    std::ofstream("go").close();
    EXPECT_EQUAL(aclrtSynchronizeStream(stream), ACL_SUCCESS);
    std::memcpy(&value, locked, 4);
    EXPECT_EQUAL(value, 7.0f);
    EXPECT_EQUAL(aclrtDestroyStream(stream), ACL_SUCCESS);
    EXPECT_EQUAL(aclrtFreeHost(locked), ACL_SUCCESS);
    EXPECT_EQUAL(aclmdlUnload(model), ACL_SUCCESS);
}

CASE(the_size_of_the_device_is_a_limit) {
    set("CANN_EMULATOR_DEVICE_BYTES", "1000");
    aclInit(nullptr);
    aclrtSetDevice(0);
    void* address = allocate(600);
    std::size_t free = 0, total = 0;
    EXPECT_EQUAL(aclrtGetMemInfo(0, &free, &total), ACL_SUCCESS);
    EXPECT_EQUAL(free, 400u);
    EXPECT_EQUAL(total, 1000u);
    void* more = nullptr;
    EXPECT_EQUAL(aclrtMalloc(&more, 401, 0), ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT_CONTAINS(aclGetRecentErrMsg(), "600 of the device's 1000");
    EXPECT_EQUAL(aclrtFree(address), ACL_SUCCESS);
    EXPECT_EQUAL(aclrtMalloc(&more, 401, 0), ACL_SUCCESS);
}

CASE(too_little_memory_for_a_tensor_is_an_error_and_not_the_end) {
    set("CANN_EMULATOR_DEVICE_BYTES", std::to_string(3 * kMebibyte));
    const Host host;
    const auto session = host.cann(add({1, 2}));
    EXPECT_CONTAINS(refusal([&] { session.run({{"x", Tensor::random(onnx::kFloat, {kMebibyte, 2}, 1)}}, {"y"}); }),
                    "207001");
    session.run({{"x", Tensor::random(onnx::kFloat, {3, 2}, 1)}}, {"y"});
    EXPECT_EQUAL(calls("execute").size(), 1u);
}

CASE(the_default_arena_does_not_recover_from_too_large_a_request) {
    // It goes on to ask for regions of that size. Hence kSameAsRequested everywhere else.
    set("CANN_EMULATOR_DEVICE_BYTES", std::to_string(3 * kMebibyte));
    auto options = provider_options();
    options["arena_extend_strategy"] = "kNextPowerOfTwo";
    const Host host;
    const auto session = host.cann(add({1, 2}), options);
    for (const std::int64_t rows : {std::int64_t{kMebibyte}, std::int64_t{3}}) {
        EXPECT_CONTAINS(refusal([&] { session.run({{"x", Tensor::random(onnx::kFloat, {rows, 2}, 1)}}, {"y"}); }), "207001");
    }
}

CASE(too_little_memory_for_a_compiled_graph_is_an_error_and_not_the_end) {
    set("CANN_EMULATOR_DEVICE_BYTES", std::to_string(3 * kMebibyte));
    const Host host;
    const auto large = host.cann(add(std::vector<float>(kMebibyte), "large"));
    const auto x = Tensor::random(onnx::kFloat, {1, static_cast<std::int64_t>(kMebibyte)}, 1);
    refusal([&] { large.run({{"x", x}}, {"y"}); });
    const auto small = host.cann(add({1, 2}, "small"));
    small.run({{"x", Tensor::random(onnx::kFloat, {3, 2}, 1)}}, {"y"});
    EXPECT_EQUAL(calls("execute").size(), 1u);
}

CASE(a_thread_needs_a_device) {
    const Host host;
    const auto session = host.cann(matmul());
    std::thread([&] {
        EXPECT_CONTAINS(refusal([&] { session.on_device(onnx::kFloat16, {8}); }), "107002");
        // A run chooses the device for its thread.
        session.run(matmul_inputs(), {"y"});
        session.on_device(onnx::kFloat16, {8});
    }).join();
}
