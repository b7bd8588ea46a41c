// What CANN refuses in a graph.
#pragma once

#include "../cpu/session.hpp"
#include "../onnx/model.hpp"

#include <map>
#include <string>

namespace ge {

/// The types and shapes of a graph's values.
using Values = std::map<std::string_view, cpu::Port>;

/// What the ONNX parser refuses, without knowing shapes. Throws `emulator::Failure`.
void check_parse(const onnx::Model& model);

/// What the compiler refuses, with the types and shapes of all values known. Throws `emulator::Failure`.
void check_build(const onnx::Model& model, const Values& values);

}  // namespace ge
