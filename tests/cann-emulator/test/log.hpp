// The emulator's log, read back.
#pragma once

#include <string>
#include <vector>

/// The lines for a call, in order; of all processes of the case.
std::vector<std::string> calls(const std::string& name);

/// What a line has for a key: a number, or a string without its quotes; "" when it has no such key.
std::string field(const std::string& line, const std::string& key);

/// The same as a number.
unsigned long number(const std::string& line, const std::string& key);

/// The calls of this kind of copy (aclrtMemcpy and aclrtMemcpyAsync), in bytes.
std::vector<unsigned long> copies(const std::string& kind);

/// Device bytes in use, by the last line that says so, and the most there have been.
unsigned long device_bytes();
unsigned long peak_bytes();
