#include "log.hpp"

#include "settings.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace emulator {
namespace {

int log_file() {
    static const int file = [] {
        const auto& name = settings().log_file;
        if (name.empty()) return -1;
        const int opened = open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (opened < 0) {
            std::perror(("cann-emulator: CANN_EMULATOR_LOG=" + name).c_str());
            std::abort();
        }
        return opened;
    }();
    return file;
}

// Small numbers in the order of appearance are easier to read than the kernel's.
int thread_number() {
    static std::atomic<int> next{0};
    thread_local const int number = next++;
    return number;
}

std::string quoted(std::string_view value) {
    std::string text = "\"";
    for (const char c : value) {
        if (c == '"' || c == '\\') {
            text += '\\';
            text += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", c);
            text += escape;
        } else {
            text += c;
        }
    }
    return text += '"';
}

}  // namespace

LogLine::LogLine(const char* call) : call_(call) {
    add("call", call).add("pid", getpid()).add("thread", thread_number());
}

LogLine::~LogLine() {
    if (log_file() < 0) return;
    const std::string line = "{" + text_ + "}\n";
    if (write(log_file(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
        std::perror("cann-emulator: writing the log");
        std::abort();
    }
}

LogLine& LogLine::add(const char* key, std::string_view value) { return add_raw(key, quoted(value)); }

LogLine& LogLine::add(const char* key, bool value) { return add_raw(key, value ? "true" : "false"); }

LogLine& LogLine::add_raw(const char* key, const std::string& value) {
    if (!text_.empty()) text_ += ',';
    text_ += quoted(key) + ":" + value;
    return *this;
}

}  // namespace emulator
