#include "session.hpp"

#include "../core/settings.hpp"
#include "flash_attention.hpp"

#include <filesystem>

namespace cpu {
namespace {

using ort::check;
using ort::make;

Port read_port(const ort::Api& api, const OrtSession* session, std::size_t index, bool input) {
    OrtAllocator* allocator;
    check(api, api.GetAllocatorWithDefaultOptions(&allocator));
    char* name;
    check(api, (input ? api.SessionGetInputName : api.SessionGetOutputName)(session, index, allocator, &name));
    Port port;
    port.name = name;
    check(api, api.AllocatorFree(allocator, name));

    const auto get_type = input ? api.SessionGetInputTypeInfo : api.SessionGetOutputTypeInfo;
    const auto type = make(api, get_type, api.ReleaseTypeInfo, session, index);
    const OrtTensorTypeAndShapeInfo* tensor;
    check(api, api.CastTypeInfoToTensorInfo(type.get(), &tensor));
    if (!tensor) throw ort::Error("`" + port.name + "` is not a tensor");
    check(api, api.GetTensorElementType(tensor, &port.data_type));
    std::size_t rank;
    check(api, api.GetDimensionsCount(tensor, &rank));
    port.shape.resize(rank);
    check(api, api.GetDimensions(tensor, port.shape.data(), rank));
    if (!api.TensorTypeAndShape_HasShape(tensor)) port.shape = {-1};
    return port;
}

ort::Owned<OrtSession> open(const ort::Api& api, const OrtEnv* env, std::string_view model) {
    const auto options = make(api, api.CreateSessionOptions, api.ReleaseSessionOptions);
    check(api, api.SetIntraOpNumThreads(options.get(), emulator::settings().threads));
    // As it stands, operator by operator: fusions would change the rounding, and the host has had its turn to optimise.
    check(api, api.SetSessionGraphOptimizationLevel(options.get(), ort::kDisableAllOptimizations));
    // Every compiled graph has its threads and memory, and there may be dozens: none may hold on to either while idle.
    check(api, api.AddSessionConfigEntry(options.get(), "session.intra_op.allow_spinning", "0"));
    check(api, api.DisableCpuMemArena(options.get()));
    // GraphEngine resolves external data against the working directory when a model comes from memory.
    check(api, api.AddSessionConfigEntry(options.get(), "session.model_external_initializers_file_folder_path",
                                         std::filesystem::current_path().c_str()));
    add_flash_attention(api, options.get());
    return make(api, api.CreateSessionFromArray, api.ReleaseSession, env, model.data(), model.size(), options.get());
}

}  // namespace

bool Port::is_static() const {
    for (const auto size : shape) {
        if (size < 0) return false;
    }
    return true;
}

// There is one environment in a process; this shares the host's.
Session::Session(std::string_view model)
    : api_(ort::api()),
      env_(make(api_, api_.CreateEnv, api_.ReleaseEnv, ort::kWarning, "cann-emulator")),
      session_(open(api_, env_.get(), model)),
      memory_(make(api_, api_.CreateCpuMemoryInfo, api_.ReleaseMemoryInfo, ort::kDeviceAllocator, ort::kDefaultMemory)) {
    std::size_t count;
    check(api_, api_.SessionGetInputCount(session_.get(), &count));
    for (std::size_t i = 0; i < count; ++i) inputs_.push_back(read_port(api_, session_.get(), i, true));
    check(api_, api_.SessionGetOutputCount(session_.get(), &count));
    for (std::size_t i = 0; i < count; ++i) outputs_.push_back(read_port(api_, session_.get(), i, false));
}

void Session::run(const std::vector<void*>& inputs, const std::vector<void*>& outputs) {
    std::vector<const char*> names[2];
    std::vector<OrtValue*> values[2];
    std::vector<ort::Owned<OrtValue>> owners;
    const auto add = [&](const std::vector<Port>& ports, const std::vector<void*>& memory, int side) {
        for (std::size_t i = 0; i < ports.size(); ++i) {
            const auto& shape = ports[i].shape;
            owners.push_back(make(api_, api_.CreateTensorWithDataAsOrtValue, api_.ReleaseValue, memory_.get(), memory[i],
                                  ports[i].bytes(), shape.data(), shape.size(), ports[i].data_type));
            values[side].push_back(owners.back().get());
            names[side].push_back(ports[i].name.c_str());
        }
    };
    add(inputs_, inputs, 0);
    add(outputs_, outputs, 1);
    check(api_, api_.Run(session_.get(), nullptr, names[0].data(), values[0].data(), names[0].size(), names[1].data(),
                         names[1].size(), values[1].data()));
}

}  // namespace cpu
