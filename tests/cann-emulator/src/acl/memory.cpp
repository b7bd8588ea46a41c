// Allocations on the device and of page-locked host memory, and copies.

#include "export.hpp"

#include <cstdlib>
#include <cstring>
#include <map>

using namespace emulator;

namespace {

// Page-locked host memory. Asynchronous copies differ for it, as CANN's documentation of aclrtMemcpyAsync says.
class LockedMemory {
public:
    void* allocate(std::size_t bytes) {
        void* address = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
        if (!address) throw std::bad_alloc();
        std::lock_guard lock(mutex_);
        ranges_.emplace(static_cast<char*>(address), bytes);
        return address;
    }

    void release(void* address) {
        std::lock_guard lock(mutex_);
        if (ranges_.erase(static_cast<char*>(address)) == 0) {
            throw Failure(ACL_ERROR_RT_MEMORY_FREE, "not an address that aclrtMallocHost returned");
        }
        std::free(address);
    }

    bool contains(const void* address) {
        std::lock_guard lock(mutex_);
        const auto* wanted = static_cast<const char*>(address);
        const auto after = ranges_.upper_bound(wanted);
        return after != ranges_.begin() && wanted < std::prev(after)->first + std::prev(after)->second;
    }

private:
    std::mutex mutex_;
    std::map<const char*, std::size_t> ranges_;
};

auto& locked_memory = *new LockedMemory;

// One end of a copy: where the emulator finds the bytes, and what has to stay alive meanwhile.
struct End {
    char* bytes;
    std::shared_ptr<Block> block;
};

End device_end(const void* address, std::size_t bytes) {
    auto range = device_range(address, bytes);
    return {range.contents, range.block};
}

End host_end(const void* address) {
    if (is_device_address(address)) {
        throw Failure(ACL_ERROR_RT_PARAM_INVALID, "the address for the host's side of the copy is device memory");
    }
    return {static_cast<char*>(const_cast<void*>(address)), nullptr};
}

const char* name_of(int kind) {
    switch (kind) {
        case ACL_MEMCPY_HOST_TO_HOST: return "host_to_host";
        case ACL_MEMCPY_HOST_TO_DEVICE: return "host_to_device";
        case ACL_MEMCPY_DEVICE_TO_HOST: return "device_to_host";
        case ACL_MEMCPY_DEVICE_TO_DEVICE: return "device_to_device";
        default: throw Failure(ACL_ERROR_RT_PARAM_INVALID, "unknown kind of copy");
    }
}

struct Copy {
    End to, from;
    std::size_t bytes;

    Copy(LogLine& line, void* to, std::size_t room, const void* from, std::size_t bytes, int kind) : bytes(bytes) {
        line.add("kind", name_of(kind)).add("bytes", bytes);
        if (room < bytes) throw Failure(ACL_ERROR_RT_PARAM_INVALID, "the destination is smaller than what is copied");
        const bool to_device = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
        const bool from_device = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
        this->to = to_device ? device_end(to, bytes) : host_end(to);
        this->from = from_device ? device_end(from, bytes) : host_end(from);
    }

    void run() const { std::memmove(to.bytes, from.bytes, bytes); }
};

}  // namespace

ACL_EXPORT aclError aclrtMalloc(void** address, std::size_t bytes, int /*policy*/) {
    return acl_call("aclrtMalloc", [&](LogLine& line) {
        line.add("bytes", bytes);
        if (bytes == 0) throw Failure(ACL_ERROR_INVALID_PARAM, "an allocation of nothing");
        Device& device = current_device();
        *address = device.allocate(bytes);
        add_account(line, device);
    });
}

ACL_EXPORT aclError aclrtFree(void* address) {
    return acl_call("aclrtFree", [&](LogLine& line) {
        Device& device = current_device();
        if (const auto block = device.find(address)) line.add("bytes", block->bytes());
        device.release(address);
        add_account(line, device);
    });
}

ACL_EXPORT aclError aclrtMallocHost(void** address, std::size_t bytes) {
    return acl_call("aclrtMallocHost", [&](LogLine& line) {
        line.add("bytes", bytes);
        if (bytes == 0) throw Failure(ACL_ERROR_INVALID_PARAM, "an allocation of nothing");
        current_device();
        *address = locked_memory.allocate(bytes);
    });
}

ACL_EXPORT aclError aclrtFreeHost(void* address) {
    return acl_call("aclrtFreeHost", [&](LogLine&) { locked_memory.release(address); });
}

/// Synchronous for the host, and not ordered after what streams still have to do.
ACL_EXPORT aclError aclrtMemcpy(void* to, std::size_t room, const void* from, std::size_t bytes, int kind) {
    return acl_call("aclrtMemcpy", [&](LogLine& line) {
        current_device();
        Copy(line, to, room, from, bytes, kind).run();
    });
}

ACL_EXPORT aclError aclrtMemcpyAsync(void* to, std::size_t room, const void* from, std::size_t bytes, int kind,
                                     aclrtStream handle) {
    return acl_call("aclrtMemcpyAsync", [&](LogLine& line) {
        const auto stream = stream_of(handle);
        const Copy copy(line, to, room, from, bytes, kind);
        if (kind == ACL_MEMCPY_HOST_TO_HOST) {
            throw Failure(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemcpyAsync does not copy within the host");
        }
        const void* host = kind == ACL_MEMCPY_HOST_TO_DEVICE ? from : kind == ACL_MEMCPY_DEVICE_TO_HOST ? to : nullptr;
        const bool locked = host && locked_memory.contains(host);
        if (host) line.add("locked", locked);
        stream->submit([copy] { copy.run(); });
        // With ordinary host memory it returns when the copy is done, and only with page-locked memory before.
        if (host && !locked) stream->synchronize();
    });
}

ACL_EXPORT aclError aclrtMemsetAsync(void* address, std::size_t room, std::int32_t value, std::size_t bytes,
                                     aclrtStream handle) {
    return acl_call("aclrtMemsetAsync", [&](LogLine& line) {
        line.add("bytes", bytes);
        if (room < bytes) throw Failure(ACL_ERROR_RT_PARAM_INVALID, "the destination is smaller than what is set");
        const auto end = device_end(address, bytes);
        stream_of(handle)->submit([end, value, bytes] { std::memset(end.bytes, value, bytes); });
    });
}
