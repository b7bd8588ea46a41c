// The frame around each call of the emulated libraries: injected faults, the log line, the error text.
#pragma once

#include "failure.hpp"
#include "faults.hpp"
#include "log.hpp"

#include <cstdio>
#include <new>

namespace emulator {

/// The text of the calling thread's last failure, for `aclGetRecentErrMsg`.
inline std::string& recent_error() {
    thread_local std::string text;
    return text;
}

/// Records a failure in the log and on stderr, where whoever runs the tests sees it: ONNX Runtime's provider drops
/// the text and keeps the code only.
inline int report(LogLine& line, int code, const char* text) {
    std::fprintf(stderr, "cann-emulator: %s: %u: %s\n", line.call(), static_cast<unsigned>(code), text);
    recent_error() = text;
    line.add("code", static_cast<unsigned>(code)).add("error", text);
    return code;
}

/// Runs `body(line)`, which throws `Failure` to refuse, and returns the code of the call: 0, or the failure's.
/// `unforeseen` is the code for any other exception.
template <class Body>
int run_call(const char* name, int unforeseen, Body&& body) {
    LogLine line(name);
    try {
        inject_faults(name);
        body(line);
        line.add("code", 0);
        return 0;
    } catch (const Failure& failure) {
        return report(line, failure.code, failure.what());
    } catch (const std::exception& error) {
        return report(line, unforeseen, error.what());
    }
}

}  // namespace emulator
