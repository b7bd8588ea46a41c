// The host's side: ONNX Runtime out of the wheel, as the service uses it.
#pragma once

#include "../src/cpu/ort_api.hpp"
#include "../src/onnx/model.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

/// A tensor in host memory.
struct Tensor {
    int type = onnx::kUndefined;
    onnx::Shape shape;
    std::vector<std::uint8_t> bytes;

    static Tensor floats(const onnx::Shape& shape, const std::vector<float>& values);
    static Tensor halves(const onnx::Shape& shape, const std::vector<float>& values);
    /// Values in [-1, 1), the same on each call with the same seed.
    static Tensor random(int type, const onnx::Shape& shape, unsigned seed);

    /// Of f32 and f16.
    std::vector<float> values() const;
    std::string raw() const { return {bytes.begin(), bytes.end()}; }
};

/// The largest difference between two tensors of one shape.
double difference(const Tensor& a, const Tensor& b);

using Tensors = std::map<std::string, Tensor>;
using ProviderOptions = std::map<std::string, std::string>;

/// Exact allocations, and every type as the graph has it.
ProviderOptions provider_options();

class Host;

/// A tensor wherever ONNX Runtime put it.
class Value {
public:
    Value(const ort::Api& api, OrtValue* value) : value_(value, api.ReleaseValue) {}
    /// ONNX Runtime frees the tensor with the allocator it was made by, and does not hold on to it.
    Value(const ort::Api& api, OrtValue* value, std::shared_ptr<OrtAllocator> allocator)
        : allocator_(std::move(allocator)), value_(value, api.ReleaseValue) {}
    OrtValue* get() const { return value_.get(); }
    /// Its address, which for a tensor on the device is the device's.
    void* address() const;

private:
    std::shared_ptr<OrtAllocator> allocator_;
    ort::Owned<OrtValue> value_;
};

class HostSession {
public:
    HostSession(const Host& host, ort::Owned<OrtSession> session) : host_(host), session_(std::move(session)) {}

    /// From and to host memory, as `Session::run` does.
    Tensors run(const Tensors& inputs, const std::vector<std::string>& outputs) const;

    /// With bound values: inputs wherever they are, outputs left on the device.
    std::map<std::string, Value> run_bound(const std::map<std::string, const Value*>& inputs,
                                           const std::vector<std::string>& outputs) const;
    /// With bound values, into values that exist.
    void run_into(const std::map<std::string, const Value*>& inputs,
                  const std::map<std::string, const Value*>& outputs) const;

    /// An uninitialised tensor on the device, from this session's allocator.
    Value on_device(int type, const onnx::Shape& shape) const;

    OrtSession* get() const { return session_.get(); }

private:
    const Host& host_;
    ort::Owned<OrtSession> session_;
};

class Host {
public:
    Host();

    const ort::Api& api() const { return api_; }
    OrtEnv* env() const { return env_.get(); }
    /// Where device 0's memory is, and the host's.
    OrtMemoryInfo* device_memory() const { return device_memory_.get(); }
    OrtMemoryInfo* host_memory() const { return host_memory_.get(); }

    HostSession cann(const std::string& model, const ProviderOptions& options = provider_options()) const;
    /// A model that lies in a file: the name of a compiled graph depends on that path.
    HostSession cann_file(const std::string& file, const ProviderOptions& options = provider_options()) const;
    HostSession cpu(const std::string& model) const;

    /// A value over a tensor's memory.
    Value wrap(const Tensor& tensor) const;
    /// An empty tensor in host memory, and a value over it.
    static Tensor room(int type, const onnx::Shape& shape);

private:
    ort::Owned<OrtSessionOptions> options(const ProviderOptions* provider) const;

    ort::Api api_;
    ort::Owned<OrtEnv> env_;
    ort::Owned<OrtMemoryInfo> device_memory_, host_memory_;
};

/// What a call that must fail says; the case fails when it does not.
template <class Body>
std::string refusal(Body body) {
    try {
        body();
    } catch (const ort::Error& error) {
        return error.what();
    }
    throw std::runtime_error("nothing was refused");
}
