// GraphEngine's precision mode, and the parts of it that are not done in the graph (onnx::with_rounding).
#pragma once

#include <string>

namespace ge {

/// The mode GraphEngine uses when none is asked for.
inline constexpr const char* kDefaultPrecisionMode = "force_fp16";

bool is_precision_mode(const std::string& mode);

/// Whether f32 becomes f16 on the device in this mode.
bool narrows_to_f16(const std::string& mode);

/// Rounds the f32 constants in a serialized model to what f16 can hold, where they lie.
void narrow_constants(std::string& model);

/// Rounds f32 values to what f16 can hold.
void narrow(float* values, std::size_t count);

}  // namespace ge
