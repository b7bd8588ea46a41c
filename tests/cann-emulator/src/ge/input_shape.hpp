// The build option `input_shape`: "name:1,2,3;other:4,5".
#pragma once

#include "../onnx/model.hpp"

#include <map>
#include <string>

namespace ge {

/// The shape for each input. Throws `emulator::Failure` unless every input of the model is given a static shape that
/// agrees with what the model says of it.
std::map<std::string, onnx::Shape> parse_input_shape(const std::string& text, const onnx::Model& model);

}  // namespace ge
