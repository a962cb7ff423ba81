// A side thread runs one function that may block, and tells by a descriptor that it has returned.
// Threads: one at a time, but for the function.
#pragma once

#include <sys/eventfd.h>

#include <chrono>
#include <future>
#include <string>
#include <system_error>
#include <utility>

#include <verbatim/driver/descriptor.hpp>
#include <verbatim/driver/error.hpp>

namespace verbatim {

template <class Value>
class SideThread {
  public:
    // Throws Error(out_of_memory): there is no thread or no descriptor for it.
    template <class Work>
    explicit SideThread(Work work) : told_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
        if (!told_)
            throw Error(Errc::out_of_memory, "connection", "no descriptor to wait with",
                        "raise the limit: ulimit -n");
        try {
            value_ = std::async(std::launch::async, [work = std::move(work), told = told_.get()] {
                const Telling telling{told};
                return work();
            });
        } catch (const std::system_error& error) {
            throw Error(Errc::out_of_memory, "connection",
                        std::string("no thread for a handshake: ") + error.what(),
                        "raise the limit: ulimit -u");
        }
    }

    // Readable once the function has returned, or is about to.
    int descriptor() const noexcept { return told_.get(); }
    bool is_over() const {
        return value_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }
    // Its value, or what it threw; waits for it. Once.
    Value get() { return value_.get(); }

  private:
    struct Telling {
        int file;
        ~Telling() { (void)eventfd_write(file, 1); }
    };

    Descriptor told_;
    std::future<Value> value_;  // goes first: it waits for the thread
};

}  // namespace verbatim
