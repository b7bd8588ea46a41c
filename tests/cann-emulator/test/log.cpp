#include "log.hpp"

#include <cstdlib>
#include <fstream>

namespace {

std::vector<std::string> lines() {
    std::ifstream file(std::getenv("CANN_EMULATOR_LOG"));
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
}

std::string last_with(const std::string& key) {
    std::string last = "0";
    for (const auto& line : lines()) {
        const auto value = field(line, key);
        if (!value.empty()) last = value;
    }
    return last;
}

}  // namespace

std::vector<std::string> calls(const std::string& name) {
    std::vector<std::string> found;
    for (const auto& line : lines()) {
        if (field(line, "call") == name) found.push_back(line);
    }
    return found;
}

std::string field(const std::string& line, const std::string& key) {
    const auto start = line.find("\"" + key + "\":");
    if (start == std::string::npos) return "";
    auto begin = start + key.size() + 3;
    if (line[begin] == '"') return line.substr(begin + 1, line.find('"', begin + 1) - begin - 1);
    return line.substr(begin, line.find_first_of(",}", begin) - begin);
}

unsigned long number(const std::string& line, const std::string& key) { return std::stoul(field(line, key)); }

std::vector<unsigned long> copies(const std::string& kind) {
    std::vector<unsigned long> found;
    for (const auto& line : lines()) {
        if (field(line, "kind") == kind) found.push_back(number(line, "bytes"));
    }
    return found;
}

unsigned long device_bytes() { return std::stoul(last_with("device_bytes")); }

unsigned long peak_bytes() { return std::stoul(last_with("peak_bytes")); }
