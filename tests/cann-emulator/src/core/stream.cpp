#include "stream.hpp"

#include "../acl/abi.hpp"
#include "failure.hpp"

namespace emulator {

Stream::~Stream() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void Stream::submit(std::function<void()> task) {
    {
        std::lock_guard lock(mutex_);
        if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
        tasks_.push_back(std::move(task));
    }
    changed_.notify_all();
}

void Stream::synchronize() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tasks_.empty() && !busy_; });
    if (failure_code_ != 0) {
        const Failure failure(failure_code_, failure_text_);
        failure_code_ = 0;
        throw failure;
    }
}

void Stream::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        auto task = std::move(tasks_.front());
        tasks_.pop_front();
        busy_ = true;
        lock.unlock();
        int code = 0;
        std::string text;
        try {
            task();
        } catch (const Failure& failure) {
            code = failure.code;
            text = failure.what();
        } catch (const std::exception& error) {
            code = ACL_ERROR_RT_MODEL_EXECUTE;
            text = error.what();
        }
        task = nullptr;  // lets go of the memory it held before anybody hears that it is done
        lock.lock();
        busy_ = false;
        if (code != 0 && failure_code_ == 0) {
            failure_code_ = code;
            failure_text_ = text;
        }
        changed_.notify_all();
    }
}

void Event::record(Stream& stream) {
    std::unique_lock lock(mutex_);
    const auto recording = ++recorded_;
    lock.unlock();
    stream.submit([self = shared_from_this(), recording] {
        {
            std::lock_guard lock(self->mutex_);
            self->completed_ = recording;
        }
        self->reached_.notify_all();
    });
}

void Event::make_wait(Stream& stream) {
    std::unique_lock lock(mutex_);
    const auto recording = recorded_;
    lock.unlock();
    stream.submit([self = shared_from_this(), recording] { self->wait(recording); });
}

void Event::synchronize() {
    std::unique_lock lock(mutex_);
    const auto recording = recorded_;
    lock.unlock();
    wait(recording);
}

void Event::wait(unsigned long recording) {
    std::unique_lock lock(mutex_);
    reached_.wait(lock, [&] { return completed_ >= recording; });
}

}  // namespace emulator
