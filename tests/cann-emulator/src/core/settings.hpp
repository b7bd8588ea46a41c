// The environment variables that configure the emulator, read once. README.md describes them.
#pragma once

#include <cstddef>
#include <string>

namespace emulator {

struct Settings {
    std::string log_file;        // CANN_EMULATOR_LOG; empty for no log
    std::string faults;          // CANN_EMULATOR_FAULTS
    std::string soc;             // CANN_EMULATOR_SOC
    unsigned devices;            // CANN_EMULATOR_DEVICES
    std::size_t device_bytes;    // CANN_EMULATOR_DEVICE_BYTES, of each device
    int threads;                 // CANN_EMULATOR_THREADS of each compiled model; 0 leaves it to ONNX Runtime
};

const Settings& settings();

}  // namespace emulator
