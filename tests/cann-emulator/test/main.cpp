#include "harness.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

std::vector<const Case*>& cases() {
    static std::vector<const Case*> all;
    return all;
}

std::string onnxruntime_directory;

bool run(const Case& each) {
    char directory[] = "/tmp/cann-emulator-XXXXXX";
    if (!mkdtemp(directory)) {
        std::perror("mkdtemp");
        std::exit(1);
    }
    const int status = in_process([&] {
        std::filesystem::current_path(directory);
        std::freopen("stderr", "w", stderr);  // refusals are loud, and most are wanted
        set("CANN_EMULATOR_LOG", std::string(directory) + "/log");
        each.body();
    });
    const bool passed = status == 0;
    std::printf("%s %s\n", passed ? "ok    " : "FAILED", each.name);
    if (!passed) {
        if (WIFSIGNALED(status)) std::printf("       killed by signal %d\n", WTERMSIG(status));
        std::printf("       see %s\n", directory);
    } else {
        std::filesystem::remove_all(directory);
    }
    std::fflush(stdout);
    return passed;
}

}  // namespace

Case::Case(const char* name, void (*body)()) : name(name), body(body) { cases().push_back(this); }

void fail(const char* file, int line, const std::string& text) {
    throw CaseFailed(std::string(file) + ":" + std::to_string(line) + ": " + text);
}

void expect_contains(const std::string& text, const std::string& part, const char* file, int line) {
    if (text.find(part) == std::string::npos) fail(file, line, "`" + text + "` does not contain `" + part + "`");
}

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

int in_process(const std::function<void()>& body) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        int code = 0;
        try {
            body();
        } catch (const std::exception& error) {
            std::printf("       %s\n", error.what());
            code = 1;
        }
        std::exit(code);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

void in_good_process(const std::function<void()>& body) {
    const int status = in_process(body);
    EXPECT_EQUAL(status, 0);
}

const std::string& onnxruntime() { return onnxruntime_directory; }

int main(int count, char** arguments) {
    if (count < 2) {
        std::fprintf(stderr, "usage: %s DIRECTORY-OF-LIBONNXRUNTIME [CASE...]\n", arguments[0]);
        return 2;
    }
    onnxruntime_directory = arguments[1];
    const std::vector<std::string> wanted(arguments + 2, arguments + count);
    int run_count = 0, failed = 0;
    for (const auto* each : cases()) {
        bool chosen = wanted.empty();
        for (const auto& name : wanted) chosen = chosen || name == each->name;
        if (!chosen) continue;
        ++run_count;
        if (!run(*each)) ++failed;
    }
    std::printf("%d of %d cases failed\n", failed, run_count);
    return failed == 0 && run_count > 0 ? 0 : 1;
}
