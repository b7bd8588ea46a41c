#include "faults.hpp"

#include "device.hpp"
#include "failure.hpp"
#include "settings.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>
#include <unistd.h>
#include <vector>

namespace emulator {
namespace {

enum class Action { fail, lose, hang };

struct Fault {
    std::string call;
    unsigned long first;       // the number of the call it takes effect at, from 1
    bool and_after;            // and of all calls after it
    Action action;
    int code = 0;              // what the call returns
    std::string awaited_file;  // what a hanging call waits for
    std::string once_file;     // when given: only if this file exists, and it is deleted, so that it happens once in all processes

    bool applies(const std::string& name, unsigned long count) const {
        return call == name && (and_after ? count >= first : count == first) &&
               (once_file.empty() || unlink(once_file.c_str()) == 0);
    }
};

[[noreturn]] void malformed(const std::string& text) {
    std::fprintf(stderr, "cann-emulator: CANN_EMULATOR_FAULTS: cannot read `%s`\n", text.c_str());
    std::abort();
}

unsigned long parse_number(const std::string& digits, const std::string& text) {
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) malformed(text);
    return std::stoul(digits);
}

// CALL:WHEN=ACTION ARGUMENT [once FILE]
Fault parse_fault(const std::string& text) {
    const auto colon = text.find(':'), equals = text.find('=');
    if (colon == std::string::npos || equals == std::string::npos || equals < colon) malformed(text);
    Fault fault;
    fault.call = text.substr(0, colon);
    auto when = text.substr(colon + 1, equals - colon - 1);
    fault.and_after = !when.empty() && when.back() == '+';
    if (fault.and_after) when.pop_back();
    fault.first = parse_number(when, text);

    std::istringstream words(text.substr(equals + 1));
    std::string action, argument, once, rest;
    words >> action >> argument >> once >> fault.once_file >> rest;
    if (argument.empty() || !rest.empty() || once != (fault.once_file.empty() ? "" : "once")) malformed(text);
    if (action == "hang") {
        fault.action = Action::hang;
        fault.awaited_file = argument;
    } else {
        if (action != "fail" && action != "lose") malformed(text);
        fault.action = action == "fail" ? Action::fail : Action::lose;
        fault.code = static_cast<int>(parse_number(argument, text));
    }
    return fault;
}

std::vector<Fault> parse_faults(const std::string& text) {
    std::vector<Fault> faults;
    std::istringstream entries(text);
    for (std::string entry; std::getline(entries, entry, ';');) {
        const auto begin = entry.find_first_not_of(' ');
        if (begin != std::string::npos) faults.push_back(parse_fault(entry.substr(begin)));
    }
    return faults;
}

unsigned long count_call(const std::string& call) {
    static std::mutex mutex;
    static std::map<std::string, unsigned long> counts;
    std::lock_guard lock(mutex);
    return ++counts[call];
}

void wait_for(const std::string& file) {
    while (access(file.c_str(), F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace

void inject_faults(const char* call) {
    static const auto faults = parse_faults(settings().faults);
    if (faults.empty()) return;
    const auto count = count_call(call);
    for (const auto& fault : faults) {
        if (!fault.applies(call, count)) continue;
        const auto text = std::string(call) + " number " + std::to_string(count) + ": injected fault";
        switch (fault.action) {
            case Action::hang: wait_for(fault.awaited_file); break;
            case Action::lose: lose_device(fault.code); throw Failure(fault.code, text + ", the device is lost");
            case Action::fail: throw Failure(fault.code, text);
        }
    }
}

}  // namespace emulator
