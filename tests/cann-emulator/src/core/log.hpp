// The log of calls: JSON, a line each, for tests to assert on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace emulator {

/// One line. Written when it goes out of scope, with one write(2), so that processes can share a file.
class LogLine {
public:
    /// `call` must outlive the line; a literal does.
    explicit LogLine(const char* call);
    LogLine(const LogLine&) = delete;
    LogLine& operator=(const LogLine&) = delete;
    ~LogLine();

    LogLine& add(const char* key, std::string_view value);
    LogLine& add(const char* key, const char* value) { return add(key, std::string_view(value)); }
    LogLine& add(const char* key, const std::string& value) { return add(key, std::string_view(value)); }
    LogLine& add(const char* key, bool value);
    template <class Integer>
    LogLine& add(const char* key, Integer value) {
        return add_raw(key, std::to_string(value));
    }

    const char* call() const { return call_; }

private:
    LogLine& add_raw(const char* key, const std::string& value);

    const char* call_;
    std::string text_;
};

}  // namespace emulator
