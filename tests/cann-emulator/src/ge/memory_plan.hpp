// What a compiled model takes of the device's memory.
#pragma once

#include "rules.hpp"

namespace ge {

struct MemoryPlan {
    std::size_t weights;    // constants
    std::size_t workspace;  // the most that values between operators take at one time
};

/// The values of graph inputs and outputs are the caller's memory and not counted. README.md says what else is not.
MemoryPlan plan_memory(const onnx::Model& model, const Values& values);

}  // namespace ge
