// A small test harness. What the emulator reads of its environment, and what CANN allows once in a process, is per
// process; so each case is a process of its own, in an empty directory of its own.
#pragma once

#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>

struct CaseFailed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Case {
    const char* name;
    void (*body)();
    Case(const char* name, void (*body)());
};

#define CASE(name)                                 \
    static void name();                            \
    static const Case registered_##name{#name, name}; \
    static void name()

[[noreturn]] void fail(const char* file, int line, const std::string& text);

#define EXPECT(condition) \
    do {                  \
        if (!(condition)) fail(__FILE__, __LINE__, #condition); \
    } while (false)

#define EXPECT_EQUAL(left, right) expect_equal(left, right, #left " == " #right, __FILE__, __LINE__)

template <class Left, class Right>
void expect_equal(const Left& left, const Right& right, const char* text, const char* file, int line) {
    if (left == right) return;
    std::ostringstream message;
    message << text << " (" << left << " and " << right << ")";
    fail(file, line, message.str());
}

/// That `text` contains `part`.
#define EXPECT_CONTAINS(text, part) expect_contains(text, part, __FILE__, __LINE__)
void expect_contains(const std::string& text, const std::string& part, const char* file, int line);

/// Sets an environment variable of the emulator, before its first use in the process.
void set(const char* name, const std::string& value);

/// Runs a part of a case in a process of its own and returns how it ended, as waitpid(2) says. Only before the case has
/// loaded anything.
int in_process(const std::function<void()>& body);
/// The same for a part that must succeed.
void in_good_process(const std::function<void()>& body);

/// The directory of ONNX Runtime's libraries.
const std::string& onnxruntime();
