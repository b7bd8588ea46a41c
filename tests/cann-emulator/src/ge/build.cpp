// Compiling graphs: aclgrphBuildInitialize, aclgrphBuildModel and what goes with them, of libacl_op_compiler.

#include "abi.hpp"
#include "compiled.hpp"
#include "input_shape.hpp"
#include "memory_plan.hpp"
#include "precision.hpp"
#include "rules.hpp"

#include "../core/call.hpp"
#include "../core/settings.hpp"

#include <cstring>
#include <fstream>
#include <mutex>
#include <set>

namespace ge {
namespace {

using emulator::Failure;
using emulator::LogLine;

template <class Body>
graphStatus ge_call(const char* name, Body&& body) {
    return static_cast<graphStatus>(emulator::run_call(name, static_cast<int>(GRAPH_FAILED), body));
}

std::string option(const Options& options, const char* key, const char* otherwise) {
    const auto found = options.find(AscendString(key));
    return found == options.end() ? otherwise : found->second.GetString();
}

/// What aclgrphBuildInitialize was called with; it holds for all graphs of the process.
class Engine {
public:
    void initialize(const std::string& precision_mode) {
        std::lock_guard lock(mutex_);
        if (!is_precision_mode(precision_mode)) {
            throw Failure(static_cast<int>(GRAPH_PARAM_INVALID),
                          "E10001: Value " + precision_mode + " for parameter precision_mode is invalid.");
        }
        // The real one ignores the second call's mode, and the graphs are compiled in the first one's. Nobody wants that.
        if (!precision_mode_.empty() && precision_mode_ != precision_mode) {
            throw Failure(static_cast<int>(GRAPH_PARAM_INVALID),
                          "E10055: The operation is not supported. Reason: this process compiles in precision mode " +
                              precision_mode_ + ", and cannot compile in " + precision_mode + " too.");
        }
        precision_mode_ = precision_mode;
    }

    std::string precision_mode() {
        std::lock_guard lock(mutex_);
        if (precision_mode_.empty()) {
            throw Failure(static_cast<int>(GRAPH_FAILED), "E19999: aclgrphBuildInitialize has not been called.");
        }
        return precision_mode_;
    }

    /// How often this process has compiled the graph for these shapes, this time included.
    int count_compile(const std::string& graph, const std::string& shapes) {
        std::lock_guard lock(mutex_);
        return ++compiles_[{graph, shapes}];
    }

private:
    std::mutex mutex_;
    std::string precision_mode_;
    std::map<std::pair<std::string, std::string>, int> compiles_;
};

Engine& engine() {
    static auto& only = *new Engine;
    return only;
}

/// Types and shapes of all values, from ONNX Runtime's inference: a session that has every value as an output.
Values infer_values(const std::string& bytes, const onnx::Model& model) {
    std::vector<std::string_view> hidden;
    Values values;
    const auto is_output = [&](std::string_view name) {
        for (const auto& output : model.outputs) {
            if (output.name == name) return true;
        }
        return false;
    };
    for (const auto& node : model.nodes) {
        for (const auto name : node.outputs) {
            if (!name.empty() && !is_output(name)) hidden.push_back(name);
        }
    }
    const auto add = [&](std::string_view name, const cpu::Port& port) {
        if (!port.is_static()) {
            throw Failure(static_cast<int>(GRAPH_FAILED),
                          "E10055: The operation is not supported. Reason: the shape of " + port.name + " is dynamic.");
        }
        values.emplace(name, port);
    };
    const cpu::Session session(onnx::with_outputs(bytes, hidden));
    // The names are those of `model`, whose bytes stay; the session's go.
    for (std::size_t i = 0; i < model.outputs.size(); ++i) add(model.outputs[i].name, session.outputs()[i]);
    for (std::size_t i = 0; i < hidden.size(); ++i) add(hidden[i], session.outputs()[model.outputs.size() + i]);
    for (const auto& constant : model.initializers) {
        add(constant.name, {std::string(constant.name), constant.data_type, constant.dims});
    }
    for (const auto& input : model.inputs) add(input.name, {std::string(input.name), input.data_type, *input.shape});
    return values;
}

/// The values of a type that nodes make.
std::set<std::string_view> made_in(int data_type, const onnx::Model& model, const Values& values) {
    std::set<std::string_view> found;
    for (const auto& node : model.nodes) {
        for (const auto name : node.outputs) {
            if (!name.empty() && values.at(name).data_type == data_type) found.insert(name);
        }
    }
    return found;
}

CompiledModel compile(const GraphImpl& graph, const std::string& input_shape, const std::string& precision_mode) {
    CompiledModel compiled;
    compiled.graph = graph.name;
    compiled.input_shape = input_shape;
    compiled.precision_mode = precision_mode;
    compiled.soc = emulator::settings().soc;
    compiled.model = onnx::with_input_shapes(graph.model, parse_input_shape(input_shape, onnx::Model::read(graph.model)));
    if (narrows_to_f16(precision_mode)) narrow_constants(compiled.model);

    const auto model = onnx::Model::read(compiled.model);
    try {
        const auto values = infer_values(compiled.model, model);
        check_build(model, values);
        const auto plan = plan_memory(model, values);
        compiled.weight_bytes = plan.weights;
        compiled.workspace_bytes = plan.workspace;
        std::set<std::string_view> floats;
        if (narrows_to_f16(precision_mode)) floats = made_in(onnx::kFloat, model, values);
        compiled.model = onnx::with_rounding(compiled.model, made_in(onnx::kFloat16, model, values), floats);
    } catch (const ort::Error& error) {
        throw Failure(static_cast<int>(GRAPH_FAILED), std::string("E19999: the graph cannot be run: ") + error.what());
    }
    return compiled;
}

}  // namespace

graphStatus aclgrphBuildInitialize(Options& options) {
    return ge_call("aclgrphBuildInitialize", [&](LogLine& line) {
        const auto mode = option(options, "ge.exec.precision_mode", kDefaultPrecisionMode);
        line.add("precision_mode", mode).add("soc", option(options, "ge.socVersion", ""));
        engine().initialize(mode);
    });
}

void aclgrphBuildFinalize() {
    ge_call("aclgrphBuildFinalize", [](LogLine&) {});
}

graphStatus aclgrphBuildModel(const Graph& graph, const Options& options, ModelBufferData& model) {
    return ge_call("aclgrphBuildModel", [&](LogLine& line) {
        const auto input_shape = option(options, "input_shape", "");
        line.add("graph", graph.impl().name).add("input_shape", input_shape);
        const auto mode = engine().precision_mode();
        line.add("precision_mode", mode);
        line.add("compiles", engine().count_compile(graph.impl().name, input_shape));
        const auto compiled = compile(graph.impl(), input_shape, mode);
        line.add("weight_bytes", compiled.weight_bytes).add("workspace_bytes", compiled.workspace_bytes);
        const auto bytes = compiled.write();
        model.data = {new std::uint8_t[bytes.size()], std::default_delete<std::uint8_t[]>()};
        std::memcpy(model.data.get(), bytes.data(), bytes.size());
        model.length = bytes.size();
    });
}

graphStatus aclgrphSaveModel(const char* file, const ModelBufferData& model) {
    return ge_call("aclgrphSaveModel", [&](LogLine& line) {
        const auto name = std::string(file) + ".om";
        line.add("file", name).add("bytes", model.length);
        std::ofstream out(name, std::ios::binary);
        out.write(reinterpret_cast<const char*>(model.data.get()), static_cast<std::streamsize>(model.length));
        out.close();
        if (!out) throw Failure(static_cast<int>(GRAPH_FAILED), "E19999: cannot write " + name + ".");
    });
}

}  // namespace ge
