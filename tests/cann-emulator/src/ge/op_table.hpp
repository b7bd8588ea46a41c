// Which operators CANN's ONNX parser knows.
#pragma once

#include <cstdint>
#include <string_view>

namespace ge {

/// Whether a parser is registered for exactly this operator at exactly this opset of the default domain. Unlike ONNX,
/// CANN does not fall back to the last opset in which an operator changed.
bool has_parser(std::string_view op, std::int64_t opset);

/// Whether CANN has the operator and the emulator no kernel for it.
bool is_beyond_emulation(std::string_view op);

}  // namespace ge
