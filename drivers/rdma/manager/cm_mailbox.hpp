// A mailbox carries streams, or an error, from the connection manager's thread to the program.
// Threads: any.
#pragma once

#include <sys/eventfd.h>

#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include <verbatim/rdma/cm_streams.hpp>

namespace verbatim::rdma {

class CmMailbox {
  public:
    CmMailbox() : told_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
        if (!told_)
            throw Error(Errc::out_of_memory, "connection manager", "no descriptor to wait with",
                        "raise the limit: ulimit -n");
    }
    int file() const noexcept { return told_.get(); }
    void put(CmStream stream) {
        const std::lock_guard guard(mutex_);
        streams_.push_back(std::move(stream));
        (void)eventfd_write(told_.get(), 1);
    }
    void fail(Error error) {
        const std::lock_guard guard(mutex_);
        if (!error_) error_ = std::move(error);
        (void)eventfd_write(told_.get(), 1);
    }
    // Throws the error behind the streams.
    std::optional<CmStream> take() {
        const std::lock_guard guard(mutex_);
        if (streams_.empty() && error_) throw Error(*error_);
        if (streams_.empty()) return std::nullopt;
        CmStream taken = std::move(streams_.front());
        streams_.pop_front();
        eventfd_t count = 0;
        if (streams_.empty() && !error_) (void)eventfd_read(told_.get(), &count);
        return taken;
    }
    std::size_t size() const {
        const std::lock_guard guard(mutex_);
        return streams_.size();
    }

  private:
    mutable std::mutex mutex_;
    std::deque<CmStream> streams_;
    std::optional<Error> error_;
    Descriptor told_;
};

}  // namespace verbatim::rdma
