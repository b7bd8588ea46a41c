// Injected faults reach the host as errors that it can handle.

#include "harness.hpp"
#include "host.hpp"
#include "log.hpp"
#include "models.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <thread>

namespace {

/// The second of three runs fails; the others give the right result.
void expect_only_the_second_run_to_fail(const std::string& fault, const char* text) {
    set("CANN_EMULATOR_FAULTS", fault);
    const Host host;
    const auto session = host.cann(matmul());
    const auto expected = host.cpu(matmul()).run(matmul_inputs(), {"y"}).at("y");
    const auto run = [&] { return session.run(matmul_inputs(), {"y"}).at("y"); };
    EXPECT_EQUAL(difference(run(), expected), 0.0);
    EXPECT_CONTAINS(refusal(run), text);
    EXPECT_EQUAL(difference(run(), expected), 0.0);
}

void touch(const char* file) { std::ofstream created(file); }

}  // namespace

CASE(a_kernel_that_fails_shows_when_the_result_is_fetched) {
    expect_only_the_second_run_to_fail("execute:2=fail 507015", "aclrtMemcpyAsync");
}

CASE(a_launch_that_fails_shows_at_once) {
    expect_only_the_second_run_to_fail("aclmdlExecuteAsync:2=fail 507011", "aclmdlExecuteAsync");
}

CASE(a_copy_that_fails_is_an_error) {
    expect_only_the_second_run_to_fail("aclrtMemcpyAsync:5=fail 507899", "aclrtMemcpyAsync");
}

CASE(an_allocation_that_fails_is_an_error) {
    set("CANN_EMULATOR_FAULTS", "aclrtMalloc:1=fail 207001");
    const Host host;
    const auto session = host.cann(matmul());
    EXPECT_CONTAINS(refusal([&] { session.run(matmul_inputs(), {"y"}); }), "207001");
    session.run(matmul_inputs(), {"y"});
}

CASE(a_compilation_that_fails_can_be_repeated) {
    set("CANN_EMULATOR_FAULTS", "aclgrphBuildModel:1=fail 4294967295; aclmdlLoadFromMem:1=fail 245000");
    const Host host;
    const auto session = host.cann(matmul());
    EXPECT_CONTAINS(refusal([&] { session.run(matmul_inputs(), {"y"}); }), "aclgrphBuildModel");
    EXPECT_CONTAINS(refusal([&] { session.run(matmul_inputs(), {"y"}); }), "aclmdlLoadFromMem");
    session.run(matmul_inputs(), {"y"});
    EXPECT_EQUAL(calls("aclgrphBuildModel").size(), 2u);  // the second one left its file
}

CASE(a_lost_device_stays_lost) {
    in_good_process([] {
        set("CANN_EMULATOR_FAULTS", "execute:2=lose 507899");
        const Host host;
        // Released, the session would end the process; see the next case.
        const auto& session = *new HostSession(host.cann(matmul()));
        session.run(matmul_inputs(), {"y"});
        for (int i = 0; i < 3; ++i) refusal([&] { session.run(matmul_inputs(), {"y"}); });
    });
    EXPECT_EQUAL(calls("execute").size(), 2u);
    EXPECT_EQUAL(number(calls("execute").at(1), "code"), 507899u);
}

CASE(a_session_cannot_be_released_on_a_lost_device) {
    // The provider's destructor throws when aclmdlUnload fails.
    const int status = in_process([] {
        set("CANN_EMULATOR_FAULTS", "execute:1=lose 507899");
        const Host host;
        const auto session = host.cann(matmul());
        refusal([&] { session.run(matmul_inputs(), {"y"}); });
    });
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

CASE(a_fault_can_happen_once_in_all_processes) {
    touch("armed");
    int failures = 0;
    for (int process = 0; process < 3; ++process) {
        const int status = in_process([] {
            set("CANN_EMULATOR_FAULTS", "execute:1=lose 507899 once armed");
            const Host host;
            const auto& session = *new HostSession(host.cann(matmul()));
            try {
                session.run(matmul_inputs(), {"y"});
            } catch (const ort::Error&) {
                std::_Exit(2);  // as a worker does that has lost its device
            }
        });
        failures += status == 0 ? 0 : 1;
        EXPECT(!std::filesystem::exists("armed"));
    }
    EXPECT_EQUAL(failures, 1);
}

CASE(a_call_that_hangs_goes_on_when_told_to) {
    set("CANN_EMULATOR_FAULTS", "aclmdlExecuteAsync:1=hang go");
    const Host host;
    const auto session = host.cann(matmul());
    std::thread runner([&] { session.run(matmul_inputs(), {"y"}); });
    while (calls("aclmdlGetDesc").empty()) std::this_thread::yield();  // the last call before
    EXPECT(calls("execute").empty());
    touch("go");
    runner.join();
    EXPECT_EQUAL(calls("execute").size(), 1u);
}

CASE(a_fault_that_cannot_be_read_is_not_ignored) {
    for (const auto* text : {"execute=fail 1", "execute:x=fail 1", "execute:1=fail", "execute:1=melt 1", "execute:1=fail x",
                             "execute:1=fail 1 twice f", "execute:1=fail 1 once"}) {
        const int status = in_process([&] {
            set("CANN_EMULATOR_FAULTS", text);
            const Host host;
            host.cann(matmul());
        });
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}
