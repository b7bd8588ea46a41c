// How the emulated C functions are exported.
#pragma once

#include "abi.hpp"

#include "../core/call.hpp"
#include "../core/device.hpp"

#define ACL_EXPORT extern "C" __attribute__((visibility("default")))

namespace emulator {

template <class Body>
aclError acl_call(const char* name, Body&& body) {
    return run_call(name, ACL_ERROR_INTERNAL_ERROR, body);
}

/// Adds the account of a device's memory to the line of a call that changed it.
inline void add_account(LogLine& line, const Device& device) {
    line.add("device_bytes", device.used()).add("peak_bytes", device.peak());
}

/// The stream a handle names, for as long as the caller holds on to it; the current device's default one for none.
std::shared_ptr<Stream> stream_of(aclrtStream handle);

}  // namespace emulator
