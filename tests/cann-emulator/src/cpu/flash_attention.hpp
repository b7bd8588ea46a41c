// The emulator's own `NPUPromptFlashAttention` for the sessions it runs models in.
#pragma once

#include "ort_api.hpp"

namespace cpu {

/// Registers the operator, in the default domain, for a session.
void add_flash_attention(const ort::Api& api, OrtSessionOptions* options);

}  // namespace cpu
