#include "host.hpp"

#include "../src/cpu/flash_attention.hpp"
#include "../src/cpu/half.hpp"
#include "harness.hpp"

#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <random>

using ort::check;
using ort::make;

Tensor Tensor::floats(const onnx::Shape& shape, const std::vector<float>& values) {
    auto tensor = Host::room(onnx::kFloat, shape);
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    return tensor;
}

Tensor Tensor::halves(const onnx::Shape& shape, const std::vector<float>& values) {
    auto tensor = Host::room(onnx::kFloat16, shape);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const auto bits = half::from_float(values[i]);
        std::memcpy(&tensor.bytes[2 * i], &bits, sizeof bits);
    }
    return tensor;
}

Tensor Tensor::random(int type, const onnx::Shape& shape, unsigned seed) {
    std::mt19937 generator(seed);
    std::vector<float> values(onnx::elements(shape));
    for (auto& value : values) value = static_cast<float>(generator()) * 0x1p-31f - 1.0f;
    return type == onnx::kFloat16 ? halves(shape, values) : floats(shape, values);
}

std::vector<float> Tensor::values() const {
    std::vector<float> all(onnx::elements(shape));
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (type == onnx::kFloat16) {
            std::uint16_t bits;
            std::memcpy(&bits, &bytes[2 * i], sizeof bits);
            all[i] = half::to_float(bits);
        } else {
            std::memcpy(&all[i], &bytes[4 * i], sizeof all[i]);
        }
    }
    return all;
}

double difference(const Tensor& a, const Tensor& b) {
    EXPECT(a.shape == b.shape && a.type == b.type);
    const auto left = a.values(), right = b.values();
    double largest = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
        const double distance = std::fabs(double{left[i]} - right[i]);
        if (!(distance <= largest)) largest = distance;  // and so a NaN shows
    }
    return largest;
}

ProviderOptions provider_options() {
    return {{"device_id", "0"}, {"precision_mode", "must_keep_origin_dtype"}, {"arena_extend_strategy", "kSameAsRequested"}};
}

void* Value::address() const {
    void* data;
    check(ort::api(), ort::api().GetTensorMutableData(get(), &data));
    return data;
}

namespace {

const void* open_onnxruntime() {
    const auto file = onnxruntime() + "/libonnxruntime.so";
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) throw ort::Error(dlerror());
    return reinterpret_cast<const void* (*)()>(dlsym(library, "OrtGetApiBase"))();
}

struct Binding {
    const ort::Api& api;
    ort::Owned<OrtIoBinding> binding;

    Binding(const ort::Api& api, OrtSession* session, const std::map<std::string, const Value*>& inputs)
        : api(api), binding(make(api, api.CreateIoBinding, api.ReleaseIoBinding, session)) {
        for (const auto& [name, value] : inputs) check(api, api.BindInput(binding.get(), name.c_str(), value->get()));
    }
};

}  // namespace

Host::Host()
    : api_(open_onnxruntime()),
      env_(make(api_, api_.CreateEnv, api_.ReleaseEnv, ort::kWarning, "tests")),
      device_memory_(make(api_, api_.CreateMemoryInfo_V2, api_.ReleaseMemoryInfo, "Cann", ort::kNpu, 0x19E5u, 0,
                          ort::kDefaultMemory, std::size_t{0}, ort::kDeviceAllocator)),
      host_memory_(make(api_, api_.CreateCpuMemoryInfo, api_.ReleaseMemoryInfo, ort::kDeviceAllocator,
                        ort::kDefaultMemory)) {}

ort::Owned<OrtSessionOptions> Host::options(const ProviderOptions* provider) const {
    auto options = make(api_, api_.CreateSessionOptions, api_.ReleaseSessionOptions);
    check(api_, api_.SetSessionGraphOptimizationLevel(options.get(), ort::kDisableAllOptimizations));
    check(api_, api_.SetIntraOpNumThreads(options.get(), 1));
    cpu::add_flash_attention(api_, options.get());
    if (provider) {
        const auto cann = make(api_, api_.CreateCANNProviderOptions, api_.ReleaseCANNProviderOptions);
        std::vector<const char*> keys, values;
        for (const auto& [key, value] : *provider) {
            keys.push_back(key.c_str());
            values.push_back(value.c_str());
        }
        check(api_, api_.UpdateCANNProviderOptions(cann.get(), keys.data(), values.data(), keys.size()));
        check(api_, api_.SessionOptionsAppendExecutionProvider_CANN(options.get(), cann.get()));
    }
    return options;
}

HostSession Host::cann(const std::string& model, const ProviderOptions& provider) const {
    const auto chosen = options(&provider);
    return {*this, make(api_, api_.CreateSessionFromArray, api_.ReleaseSession, env_.get(),
                        static_cast<const void*>(model.data()), model.size(), chosen.get())};
}

HostSession Host::cann_file(const std::string& file, const ProviderOptions& provider) const {
    const auto chosen = options(&provider);
    return {*this, make(api_, api_.CreateSession, api_.ReleaseSession, env_.get(), file.c_str(), chosen.get())};
}

HostSession Host::cpu(const std::string& model) const {
    const auto chosen = options(nullptr);
    return {*this, make(api_, api_.CreateSessionFromArray, api_.ReleaseSession, env_.get(),
                        static_cast<const void*>(model.data()), model.size(), chosen.get())};
}

Tensor Host::room(int type, const onnx::Shape& shape) {
    return {type, shape, std::vector<std::uint8_t>(onnx::elements(shape) * onnx::size_of(type))};
}

Value Host::wrap(const Tensor& tensor) const {
    auto value = make(api_, api_.CreateTensorWithDataAsOrtValue, api_.ReleaseValue, host_memory_.get(),
                      static_cast<void*>(const_cast<std::uint8_t*>(tensor.bytes.data())), tensor.bytes.size(),
                      tensor.shape.data(), tensor.shape.size(), tensor.type);
    return {api_, value.release()};
}

Tensors HostSession::run(const Tensors& inputs, const std::vector<std::string>& outputs) const {
    const auto& api = host_.api();
    std::vector<Value> owners;
    std::vector<const char*> input_names, output_names;
    std::vector<const OrtValue*> input_values;
    for (const auto& [name, tensor] : inputs) {
        owners.push_back(host_.wrap(tensor));
        input_values.push_back(owners.back().get());
        input_names.push_back(name.c_str());
    }
    for (const auto& name : outputs) output_names.push_back(name.c_str());
    std::vector<OrtValue*> output_values(outputs.size());
    check(api, api.Run(session_.get(), nullptr, input_names.data(), input_values.data(), input_names.size(),
                       output_names.data(), output_names.size(), output_values.data()));
    Tensors results;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Value value(api, output_values[i]);
        const auto type = make(api, api.GetTensorTypeAndShape, api.ReleaseTensorTypeAndShapeInfo, value.get());
        Tensor tensor;
        std::size_t rank;
        check(api, api.GetTensorElementType(type.get(), &tensor.type));
        check(api, api.GetDimensionsCount(type.get(), &rank));
        tensor.shape.resize(rank);
        check(api, api.GetDimensions(type.get(), tensor.shape.data(), rank));
        tensor.bytes.resize(onnx::elements(tensor.shape) * onnx::size_of(tensor.type));
        std::memcpy(tensor.bytes.data(), value.address(), tensor.bytes.size());
        results.emplace(outputs[i], std::move(tensor));
    }
    return results;
}

std::map<std::string, Value> HostSession::run_bound(const std::map<std::string, const Value*>& inputs,
                                                    const std::vector<std::string>& outputs) const {
    const auto& api = host_.api();
    const Binding bound(api, session_.get(), inputs);
    for (const auto& name : outputs) {
        check(api, api.BindOutputToDevice(bound.binding.get(), name.c_str(), host_.device_memory()));
    }
    check(api, api.RunWithBinding(session_.get(), nullptr, bound.binding.get()));
    OrtAllocator* allocator;
    check(api, api.GetAllocatorWithDefaultOptions(&allocator));
    OrtValue** values;
    std::size_t count;
    check(api, api.GetBoundOutputValues(bound.binding.get(), allocator, &values, &count));
    std::map<std::string, Value> results;
    for (std::size_t i = 0; i < count; ++i) results.emplace(outputs[i], Value(api, values[i]));
    check(api, api.AllocatorFree(allocator, values));
    return results;
}

void HostSession::run_into(const std::map<std::string, const Value*>& inputs,
                           const std::map<std::string, const Value*>& outputs) const {
    const auto& api = host_.api();
    const Binding bound(api, session_.get(), inputs);
    for (const auto& [name, value] : outputs) {
        check(api, api.BindOutput(bound.binding.get(), name.c_str(), value->get()));
    }
    check(api, api.RunWithBinding(session_.get(), nullptr, bound.binding.get()));
}

Value HostSession::on_device(int type, const onnx::Shape& shape) const {
    const auto& api = host_.api();
    const std::shared_ptr<OrtAllocator> allocator = make(api, api.CreateAllocator, api.ReleaseAllocator, session_.get(),
                                                         static_cast<const OrtMemoryInfo*>(host_.device_memory()));
    auto value = make(api, api.CreateTensorAsOrtValue, api.ReleaseValue, allocator.get(), shape.data(), shape.size(), type);
    return {api, value.release(), allocator};
}
