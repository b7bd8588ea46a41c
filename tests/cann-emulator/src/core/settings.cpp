#include "settings.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace emulator {
namespace {

std::string text(const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return value ? value : otherwise;
}

// A mistyped setting must not pass for the default.
std::size_t number(const char* name, std::size_t otherwise) {
    const char* value = std::getenv(name);
    if (!value) return otherwise;
    char* end = nullptr;
    errno = 0;
    const auto parsed = std::strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end != 0 || errno != 0) {
        std::fprintf(stderr, "cann-emulator: %s=%s is not a number\n", name, value);
        std::abort();
    }
    return parsed;
}

}  // namespace

const Settings& settings() {
    static const Settings read{
        text("CANN_EMULATOR_LOG", ""),
        text("CANN_EMULATOR_FAULTS", ""),
        text("CANN_EMULATOR_SOC", "Ascend910B2"),
        static_cast<unsigned>(number("CANN_EMULATOR_DEVICES", 1)),
        number("CANN_EMULATOR_DEVICE_BYTES", std::size_t{64} << 30),
        static_cast<int>(number("CANN_EMULATOR_THREADS", 0)),
    };
    return read;
}

}  // namespace emulator
