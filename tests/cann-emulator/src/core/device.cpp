#include "device.hpp"

#include "../acl/abi.hpp"
#include "failure.hpp"
#include "settings.hpp"

#include <deque>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace emulator {
namespace {

char* map(std::size_t bytes, int rights) {
    void* address = mmap(nullptr, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    return static_cast<char*>(address);
}

// Never destroyed: streams may still run and memory be freed while the process exits.
std::deque<Device>& devices() {
    static auto& all = *[] {
        auto* made = new std::deque<Device>;
        for (unsigned i = 0; i < settings().devices; ++i) made->emplace_back(static_cast<int>(i), settings().device_bytes);
        return made;
    }();
    return all;
}

thread_local int current = -1;

std::string range_text(const void* address, std::size_t bytes) {
    char text[64];
    std::snprintf(text, sizeof text, "%zu bytes at %p", bytes, address);
    return text;
}

}  // namespace

Block::Block(std::size_t bytes) : bytes_(bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (bytes + page - 1) / page * page;
    address_ = map(mapped_, PROT_NONE);
    contents_ = map(mapped_, PROT_READ | PROT_WRITE);
}

Block::~Block() {
    munmap(address_, mapped_);
    munmap(contents_, mapped_);
}

void* Device::allocate(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    take(bytes, ACL_ERROR_RT_MEMORY_ALLOCATION, "an allocation");
    const auto block = std::make_shared<Block>(bytes);
    blocks_.emplace(block->address(), block);
    return block->address();
}

void Device::release(void* address) {
    std::lock_guard lock(mutex_);
    const auto found = blocks_.find(static_cast<const char*>(address));
    if (found == blocks_.end()) {
        throw Failure(ACL_ERROR_RT_MEMORY_FREE, range_text(address, 0) + " were not allocated on this device");
    }
    used_ -= found->second->bytes();
    blocks_.erase(found);
}

void Device::reserve(std::size_t bytes, int code, const std::string& what) {
    std::lock_guard lock(mutex_);
    take(bytes, code, what);
}

void Device::unreserve(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    used_ -= bytes;
}

void Device::take(std::size_t bytes, int code, const std::string& what) {
    if (bytes > capacity_ - used_) {
        throw Failure(code, "no room for " + what + " of " + std::to_string(bytes) + " bytes: " + std::to_string(used_) +
                                " of the device's " + std::to_string(capacity_) + " are in use");
    }
    used_ += bytes;
    if (used_ > peak_) peak_ = used_;
}

std::size_t Device::used() const {
    std::lock_guard lock(mutex_);
    return used_;
}

std::size_t Device::peak() const {
    std::lock_guard lock(mutex_);
    return peak_;
}

std::shared_ptr<Block> Device::find(const void* address) const {
    std::lock_guard lock(mutex_);
    const auto* wanted = static_cast<const char*>(address);
    auto after = blocks_.upper_bound(wanted);
    if (after == blocks_.begin()) return nullptr;
    const auto& block = std::prev(after)->second;
    return wanted < block->address() + block->bytes() ? block : nullptr;
}

void Device::check_present() const {
    if (const int code = lost_) throw Failure(code, "the device is lost");
}

Device& device(int number) {
    if (number < 0 || static_cast<std::size_t>(number) >= devices().size()) {
        throw Failure(ACL_ERROR_RT_INVALID_DEVICEID,
                      "device " + std::to_string(number) + " of " + std::to_string(devices().size()));
    }
    return devices()[static_cast<std::size_t>(number)];
}

void set_current_device(int number) {
    device(number).check_present();
    current = number;
}

int current_device_number() { return current; }

Device& current_device() {
    if (current < 0) throw Failure(ACL_ERROR_RT_CONTEXT_NULL, "this thread has not called aclrtSetDevice");
    Device& chosen = device(current);
    chosen.check_present();
    return chosen;
}

void lose_device(int code) {
    if (current >= 0) device(current).lose(code);
}

DeviceRange device_range(const void* address, std::size_t bytes) {
    for (const auto& each : devices()) {
        const auto block = each.find(address);
        if (!block) continue;
        const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - block->address());
        if (bytes > block->bytes() - offset) {
            throw Failure(ACL_ERROR_RT_PARAM_INVALID,
                          range_text(address, bytes) + " reach past the end of an allocation of device memory");
        }
        return {block, block->contents(address)};
    }
    throw Failure(ACL_ERROR_RT_PARAM_INVALID, range_text(address, bytes) + " are not device memory");
}

bool is_device_address(const void* address) {
    for (const auto& each : devices()) {
        if (each.find(address)) return true;
    }
    return false;
}

}  // namespace emulator
