// Fault injection: makes a named call fail, lose the device or hang. README.md gives the grammar of
// CANN_EMULATOR_FAULTS.
#pragma once

namespace emulator {

/// Counts the call and does what was asked for it: throws `Failure`, marks the calling thread's device as lost and
/// throws, or waits for a file.
void inject_faults(const char* call);

}  // namespace emulator
