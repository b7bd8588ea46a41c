// A session of ONNX Runtime's CPU provider inside the emulator: the "NPU" that runs what was compiled.
#pragma once

#include "../onnx/model.hpp"
#include "ort_api.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace cpu {

/// An input or output.
struct Port {
    std::string name;
    int data_type;
    onnx::Shape shape;  // -1 where inference does not know

    bool is_static() const;
    std::size_t bytes() const { return onnx::elements(shape) * onnx::size_of(data_type); }
};

class Session {
public:
    /// Throws `ort::Error` with ONNX Runtime's text when it refuses the model.
    explicit Session(std::string_view model);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    const std::vector<Port>& inputs() const { return inputs_; }
    const std::vector<Port>& outputs() const { return outputs_; }

    /// Runs on and into memory of the sizes that the ports say.
    void run(const std::vector<void*>& inputs, const std::vector<void*>& outputs);

private:
    const ort::Api& api_;
    ort::Owned<OrtEnv> env_;
    ort::Owned<OrtSession> session_;
    ort::Owned<OrtMemoryInfo> memory_;
    std::vector<Port> inputs_, outputs_;
};

}  // namespace cpu
