// What a call of the emulated libraries fails with.
#pragma once

#include <stdexcept>
#include <string>

namespace emulator {

/// A refused call: the code that it returns and the text for the log and for `aclGetRecentErrMsg`.
struct Failure : std::runtime_error {
    int code;
    Failure(int code, const std::string& text) : std::runtime_error(text), code(code) {}
};

}  // namespace emulator
