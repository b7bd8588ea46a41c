// aclInit, devices, streams and events.

#include "export.hpp"

#include "../core/settings.hpp"

#include <map>
#include <vector>

using namespace emulator;

namespace {

// Handles given out and not yet destroyed, so that a stale or foreign one is refused instead of dereferenced. Never
// destroyed, as the process may end with some in use.
template <class T>
class Handles {
public:
    void* create() {
        std::lock_guard lock(mutex_);
        auto made = std::make_shared<T>();
        objects_.emplace(made.get(), made);
        return made.get();
    }

    std::shared_ptr<T> get(void* handle) {
        std::lock_guard lock(mutex_);
        const auto found = objects_.find(handle);
        if (found == objects_.end()) throw Failure(ACL_ERROR_RT_INVALID_HANDLE, "no such handle");
        return found->second;
    }

    std::shared_ptr<T> remove(void* handle) {
        auto object = get(handle);
        std::lock_guard lock(mutex_);
        objects_.erase(handle);
        return object;
    }

    std::vector<std::shared_ptr<T>> all() {
        std::lock_guard lock(mutex_);
        std::vector<std::shared_ptr<T>> objects;
        for (const auto& [handle, object] : objects_) objects.push_back(object);
        return objects;
    }

private:
    std::mutex mutex_;
    std::map<void*, std::shared_ptr<T>> objects_;
};

auto& streams = *new Handles<Stream>;
auto& events = *new Handles<Event>;

enum class Life { before, initialized, finalized };
std::atomic<Life> life{Life::before};

}  // namespace

std::shared_ptr<Stream> emulator::stream_of(aclrtStream handle) {
    Device& device = current_device();
    if (!handle) return {std::shared_ptr<Stream>(), &device.default_stream()};  // the device owns it
    return streams.get(handle);
}

ACL_EXPORT aclError aclInit(const char*) {
    return acl_call("aclInit", [](LogLine&) {
        if (life != Life::before) throw Failure(ACL_ERROR_REPEAT_INITIALIZE, "aclInit may be called once in a process");
        life = Life::initialized;
    });
}

ACL_EXPORT aclError aclFinalize() {
    return acl_call("aclFinalize", [](LogLine& line) {
        if (life != Life::initialized) throw Failure(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize without aclInit");
        life = Life::finalized;
        for (unsigned i = 0; i < settings().devices; ++i) add_account(line, device(static_cast<int>(i)));
    });
}

ACL_EXPORT const char* aclGetRecentErrMsg() { return recent_error().empty() ? nullptr : recent_error().c_str(); }

ACL_EXPORT const char* aclrtGetSocName() { return settings().soc.c_str(); }

ACL_EXPORT aclError aclrtGetDeviceCount(std::uint32_t* count) {
    *count = settings().devices;
    return ACL_SUCCESS;
}

ACL_EXPORT aclError aclrtSetDevice(std::int32_t number) {
    return acl_call("aclrtSetDevice", [&](LogLine& line) {
        line.add("device", number);
        if (life != Life::initialized) throw Failure(ACL_ERROR_UNINITIALIZE, "aclInit has not been called");
        set_current_device(number);
    });
}

ACL_EXPORT aclError aclrtGetDevice(std::int32_t* number) {
    if (current_device_number() < 0) return ACL_ERROR_RT_CONTEXT_NULL;
    *number = current_device_number();
    return ACL_SUCCESS;
}

/// Free and total bytes; `attribute` (which kind of memory) makes no difference here.
ACL_EXPORT aclError aclrtGetMemInfo(int /*attribute*/, std::size_t* free, std::size_t* total) {
    return acl_call("aclrtGetMemInfo", [&](LogLine& line) {
        const Device& device = current_device();
        *total = device.capacity();
        *free = device.capacity() - device.used();
        add_account(line, device);
    });
}

ACL_EXPORT aclError aclrtSynchronizeDevice() {
    return acl_call("aclrtSynchronizeDevice", [](LogLine&) {
        current_device().default_stream().synchronize();
        for (const auto& stream : streams.all()) stream->synchronize();
    });
}

ACL_EXPORT aclError aclrtCreateStream(aclrtStream* handle) {
    return acl_call("aclrtCreateStream", [&](LogLine&) {
        current_device();
        *handle = streams.create();
    });
}

ACL_EXPORT aclError aclrtDestroyStream(aclrtStream handle) {
    return acl_call("aclrtDestroyStream", [&](LogLine&) { streams.remove(handle); });
}

ACL_EXPORT aclError aclrtSynchronizeStream(aclrtStream handle) {
    return acl_call("aclrtSynchronizeStream", [&](LogLine&) {
        stream_of(handle)->synchronize();
        current_device();  // a device may be lost while one waits for it
    });
}

ACL_EXPORT aclError aclrtCreateEvent(aclrtEvent* handle) {
    return acl_call("aclrtCreateEvent", [&](LogLine&) {
        current_device();
        *handle = events.create();
    });
}

ACL_EXPORT aclError aclrtDestroyEvent(aclrtEvent handle) {
    return acl_call("aclrtDestroyEvent", [&](LogLine&) { events.remove(handle); });
}

ACL_EXPORT aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    return acl_call("aclrtRecordEvent", [&](LogLine&) { events.get(event)->record(*stream_of(stream)); });
}

ACL_EXPORT aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    return acl_call("aclrtStreamWaitEvent", [&](LogLine&) { events.get(event)->make_wait(*stream_of(stream)); });
}

ACL_EXPORT aclError aclrtSynchronizeEvent(aclrtEvent event) {
    return acl_call("aclrtSynchronizeEvent", [&](LogLine&) {
        current_device();
        events.get(event)->synchronize();
    });
}
