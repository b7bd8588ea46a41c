// Streams and events. A stream is a thread with a queue, so that what is asynchronous on an NPU is asynchronous here:
// whoever forgets to synchronise reads what was there before.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace emulator {

class Stream {
public:
    Stream() = default;
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream();

    /// Puts a task at the end of the queue. A task that fails throws; the first failure is kept.
    void submit(std::function<void()> task);
    /// Waits until the queue is empty; throws the first failure since the last wait, as `Failure`. On an NPU too, a
    /// failing kernel shows only when somebody waits for it.
    void synchronize();

private:
    void work();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    bool busy_ = false, stopping_ = false;
    int failure_code_ = 0;
    std::string failure_text_;
    std::thread thread_;  // started by the first task
};

/// A point in a stream that others can wait for. Streams hold on to the events in their queues.
class Event : public std::enable_shared_from_this<Event> {
public:
    void record(Stream& stream);
    void make_wait(Stream& stream);
    void synchronize();

private:
    void wait(unsigned long recording);

    std::mutex mutex_;
    std::condition_variable reached_;
    unsigned long recorded_ = 0, completed_ = 0;  // counts of recordings: asked for, passed by their stream
};

}  // namespace emulator
