// Devices: the memory of each, its account and whether it is lost.
//
// An address of device memory is a reservation without access rights; the contents lie elsewhere in the process, where
// only the emulator looks. Whatever dereferences a device address on the host therefore crashes at once, in any mode
// and at no cost, instead of working here and failing on an NPU.
#pragma once

#include "stream.hpp"

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace emulator {

/// One allocation of device memory. Work under way holds on to it, so a free that comes too early is not a crash here.
class Block {
public:
    explicit Block(std::size_t bytes);
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block();

    char* address() const { return address_; }
    std::size_t bytes() const { return bytes_; }
    /// Where the emulator reads and writes what the device sees at `address`.
    char* contents(const void* address) const {
        return contents_ + (static_cast<const char*>(address) - address_);
    }

private:
    std::size_t bytes_, mapped_;
    char *address_, *contents_;
};

/// A stretch of device memory.
struct DeviceRange {
    std::shared_ptr<Block> block;
    char* contents;
};

class Device {
public:
    Device(int number, std::size_t capacity) : number_(number), capacity_(capacity) {}

    int number() const { return number_; }

    /// Device memory for the caller; `Failure` when it does not fit.
    void* allocate(std::size_t bytes);
    void release(void* address);

    /// Counts memory that nobody gets an address of (a compiled model's weights and workspace); `Failure` with `code`
    /// when it does not fit.
    void reserve(std::size_t bytes, int code, const std::string& what);
    void unreserve(std::size_t bytes);

    std::size_t capacity() const { return capacity_; }
    std::size_t used() const;
    std::size_t peak() const;

    /// The block an address lies in; none when it is no address of this device.
    std::shared_ptr<Block> find(const void* address) const;

    /// Refuses everything from now on with this code.
    void lose(int code) { lost_ = code; }
    void check_present() const;

    Stream& default_stream() { return default_stream_; }

private:
    void take(std::size_t bytes, int code, const std::string& what);

    const int number_;
    const std::size_t capacity_;
    mutable std::mutex mutex_;
    std::map<const char*, std::shared_ptr<Block>> blocks_;  // by address
    std::size_t used_ = 0, peak_ = 0;
    std::atomic<int> lost_{0};
    Stream default_stream_;
};

Device& device(int number);

/// Makes a device the calling thread's.
void set_current_device(int number);
/// The calling thread's device; -1 before it chose one.
int current_device_number();
/// The calling thread's device, and that it is not lost. As in CANN, a thread that never chose one has none.
Device& current_device();
/// Loses the calling thread's device, for a fault.
void lose_device(int code);

/// The device memory that an address and a length denote, on whichever device; `Failure` when that is no device memory
/// or reaches past its allocation.
DeviceRange device_range(const void* address, std::size_t bytes);
/// Whether this is an address of device memory.
bool is_device_address(const void* address);

}  // namespace emulator
