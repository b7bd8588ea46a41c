// Compiled models: loading, describing and running them.

#include "data.hpp"
#include "export.hpp"

#include "../cpu/session.hpp"
#include "../ge/compiled.hpp"
#include "../ge/precision.hpp"

#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

using namespace emulator;

namespace {

/// A loaded model. Its weights and workspace count as device memory for as long as it is loaded, as on an NPU.
class Model {
public:
    Model(Device& device, ge::CompiledModel compiled)
        : device_(device),
          bytes_(compiled.weight_bytes + compiled.workspace_bytes),
          narrow_(ge::narrows_to_f16(compiled.precision_mode)),
          graph_(compiled.graph),
          input_shape_(compiled.input_shape),
          reservation_(device, bytes_),
          session_(compiled.model) {}

    const std::string& graph() const { return graph_; }
    const std::string& input_shape() const { return input_shape_; }
    std::size_t bytes() const { return bytes_; }
    Device& device() const { return device_; }
    const std::vector<cpu::Port>& inputs() const { return session_.inputs(); }
    const std::vector<cpu::Port>& outputs() const { return session_.outputs(); }

    void run(const std::vector<DeviceRange>& inputs, const std::vector<DeviceRange>& outputs) {
        // There is one workspace, so runs take turns.
        std::lock_guard lock(mutex_);
        std::vector<std::vector<float>> narrowed;
        std::vector<void*> from, to;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            from.push_back(inputs[i].contents);
            const auto& port = session_.inputs()[i];
            if (!narrow_ || port.data_type != onnx::kFloat) continue;
            const auto* values = reinterpret_cast<const float*>(inputs[i].contents);
            narrowed.emplace_back(values, values + onnx::elements(port.shape));
            ge::narrow(narrowed.back().data(), narrowed.back().size());
            from.back() = narrowed.back().data();
        }
        for (const auto& output : outputs) to.push_back(output.contents);
        session_.run(from, to);
    }

private:
    struct Reservation {
        Device& device;
        std::size_t bytes;
        Reservation(Device& device, std::size_t bytes) : device(device), bytes(bytes) {
            device.reserve(bytes, ACL_ERROR_GE_MEMORY_ALLOCATION, "a compiled model's weights and workspace");
        }
        Reservation(const Reservation&) = delete;
        Reservation& operator=(const Reservation&) = delete;
        ~Reservation() { device.unreserve(bytes); }
    };

    Device& device_;
    const std::size_t bytes_;
    const bool narrow_;
    const std::string graph_, input_shape_;
    const Reservation reservation_;
    std::mutex mutex_;
    cpu::Session session_;
};

class LoadedModels {
public:
    std::uint32_t add(std::shared_ptr<Model> model) {
        std::lock_guard lock(mutex_);
        models_.emplace(++last_, std::move(model));
        return last_;
    }

    std::shared_ptr<Model> get(std::uint32_t id) {
        std::lock_guard lock(mutex_);
        const auto found = models_.find(id);
        if (found == models_.end()) {
            throw Failure(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, "no model " + std::to_string(id) + " is loaded");
        }
        return found->second;
    }

    std::shared_ptr<Model> remove(std::uint32_t id) {
        auto model = get(id);
        std::lock_guard lock(mutex_);
        models_.erase(id);
        return model;
    }

private:
    std::mutex mutex_;
    std::map<std::uint32_t, std::shared_ptr<Model>> models_;
    std::uint32_t last_ = 0;
};

auto& loaded_models = *new LoadedModels;

std::uint32_t load(LogLine& line, std::string_view bytes) {
    Device& device = current_device();
    ge::CompiledModel compiled;
    try {
        compiled = ge::CompiledModel::read(bytes);
    } catch (const std::runtime_error& error) {
        throw Failure(ACL_ERROR_GE_LOAD_MODEL, error.what());
    }
    line.add("graph", compiled.graph).add("input_shape", compiled.input_shape);
    line.add("precision_mode", compiled.precision_mode).add("bytes", compiled.weight_bytes + compiled.workspace_bytes);
    const auto id = loaded_models.add(std::make_shared<Model>(device, std::move(compiled)));
    line.add("model", id);
    add_account(line, device);
    return id;
}

void describe(LogLine& line, const Model& model, std::uint32_t id) {
    line.add("graph", model.graph()).add("input_shape", model.input_shape()).add("model", id);
}

std::vector<DeviceRange> ranges(const Model& model, const std::vector<cpu::Port>& ports, const aclmdlDataset& dataset,
                                const char* what) {
    if (dataset.buffers.size() != ports.size()) {
        throw Failure(ACL_ERROR_GE_PARAM_INVALID, std::to_string(dataset.buffers.size()) + " " + what + "s for " +
                                                      std::to_string(ports.size()) + " of " + model.graph());
    }
    std::vector<DeviceRange> found;
    for (std::size_t i = 0; i < ports.size(); ++i) {
        const auto& buffer = *dataset.buffers[i];
        const auto name = std::string(what) + " `" + ports[i].name + "`";
        if (buffer.bytes < ports[i].bytes()) {
            throw Failure(ACL_ERROR_GE_PARAM_INVALID, name + " requires " + std::to_string(ports[i].bytes()) +
                                                          " bytes, but " + std::to_string(buffer.bytes) + " are given");
        }
        try {
            found.push_back(device_range(buffer.address, ports[i].bytes()));
        } catch (const Failure& failure) {
            throw Failure(ACL_ERROR_GE_EXEC_MODEL_ADDR_INVALID, name + ": " + failure.what());
        }
    }
    return found;
}

/// The part of a run that happens on the device; calls it "execute" in the log and for faults.
void execute(Model& model, std::uint32_t id, const std::vector<DeviceRange>& inputs, const std::vector<DeviceRange>& outputs) {
    set_current_device(model.device().number());
    const auto code = acl_call("execute", [&](LogLine& line) {
        describe(line, model, id);
        const auto start = std::chrono::steady_clock::now();
        try {
            model.run(inputs, outputs);
        } catch (const ort::Error& error) {
            throw Failure(ACL_ERROR_RT_MODEL_EXECUTE, error.what());
        }
        const auto time = std::chrono::steady_clock::now() - start;
        line.add("microseconds", std::chrono::duration_cast<std::chrono::microseconds>(time).count());
        current_device();  // it may have been lost meanwhile
    });
    if (code != 0) throw Failure(code, recent_error());
}

}  // namespace

struct aclmdlDesc {
    std::shared_ptr<Model> model;
};

ACL_EXPORT aclError aclmdlLoadFromMem(const void* bytes, std::size_t size, std::uint32_t* id) {
    return acl_call("aclmdlLoadFromMem",
                    [&](LogLine& line) { *id = load(line, {static_cast<const char*>(bytes), size}); });
}

ACL_EXPORT aclError aclmdlLoadFromFile(const char* file, std::uint32_t* id) {
    return acl_call("aclmdlLoadFromFile", [&](LogLine& line) {
        line.add("file", file);
        std::ifstream in(file, std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(in), {}};
        if (!in) throw Failure(ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID, std::string("cannot read ") + file);
        *id = load(line, bytes);
    });
}

ACL_EXPORT aclError aclmdlUnload(std::uint32_t id) {
    return acl_call("aclmdlUnload", [&](LogLine& line) {
        current_device();
        auto model = loaded_models.remove(id);
        Device& device = model->device();
        describe(line, *model, id);
        line.add("bytes", model->bytes());
        model.reset();
        add_account(line, device);
    });
}

ACL_EXPORT aclmdlDesc* aclmdlCreateDesc() { return new aclmdlDesc; }

ACL_EXPORT aclError aclmdlDestroyDesc(aclmdlDesc* description) {
    delete description;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlGetDesc(aclmdlDesc* description, std::uint32_t id) {
    return acl_call("aclmdlGetDesc", [&](LogLine& line) {
        line.add("model", id);
        description->model = loaded_models.get(id);
    });
}

ACL_EXPORT std::size_t aclmdlGetNumInputs(aclmdlDesc* description) { return description->model->inputs().size(); }

ACL_EXPORT std::size_t aclmdlGetNumOutputs(aclmdlDesc* description) { return description->model->outputs().size(); }

ACL_EXPORT std::size_t aclmdlGetInputSizeByIndex(aclmdlDesc* description, std::size_t index) {
    return description->model->inputs().at(index).bytes();
}

ACL_EXPORT std::size_t aclmdlGetOutputSizeByIndex(aclmdlDesc* description, std::size_t index) {
    return description->model->outputs().at(index).bytes();
}

ACL_EXPORT aclError aclmdlGetOutputDims(const aclmdlDesc* description, std::size_t index, aclmdlIODims* dims) {
    const auto& outputs = description->model->outputs();
    if (index >= outputs.size()) return ACL_ERROR_INVALID_PARAM;
    std::strncpy(dims->name, outputs[index].name.c_str(), sizeof dims->name - 1);
    dims->name[sizeof dims->name - 1] = 0;
    dims->dimCount = outputs[index].shape.size();
    std::copy(outputs[index].shape.begin(), outputs[index].shape.end(), dims->dims);
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclmdlExecuteAsync(std::uint32_t id, const aclmdlDataset* inputs, aclmdlDataset* outputs,
                                       aclrtStream handle) {
    return acl_call("aclmdlExecuteAsync", [&](LogLine& line) {
        const auto stream = stream_of(handle);
        const auto model = loaded_models.get(id);
        describe(line, *model, id);
        // The datasets may be gone when the stream gets to it, so the addresses are taken now.
        const auto from = ranges(*model, model->inputs(), *inputs, "input");
        const auto to = ranges(*model, model->outputs(), *outputs, "output");
        stream->submit([model, id, from, to] { execute(*model, id, from, to); });
    });
}

ACL_EXPORT aclError aclmdlExecute(std::uint32_t id, const aclmdlDataset* inputs, aclmdlDataset* outputs) {
    const auto code = aclmdlExecuteAsync(id, inputs, outputs, nullptr);
    return code == ACL_SUCCESS ? acl_call("aclmdlExecute", [](LogLine&) { stream_of(nullptr)->synchronize(); }) : code;
}
