// The bridge is the thread that drives all identifiers of one context: calls, listeners and
// connections. Threads: public functions from any; the lock guards everything but the wait.
#pragma once

#include <poll.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <verbatim/driver/descriptor.hpp>

#include "cm_connection.hpp"
#include "cm_mailbox.hpp"

namespace verbatim::rdma {

class CmBridge {
  public:
    using Clock = std::chrono::steady_clock;

    CmBridge(std::string device, std::chrono::milliseconds probe_after);
    ~CmBridge();
    CmBridge(const CmBridge&) = delete;
    CmBridge& operator=(const CmBridge&) = delete;
    // Throws Error.
    std::shared_ptr<CmMailbox> call(const sockaddr& to, std::chrono::milliseconds limit);
    struct Listening {
        std::shared_ptr<CmMailbox> box;
        rdma_cm_id* id;
        std::uint16_t port;
    };
    Listening listen(const sockaddr& at, std::chrono::milliseconds limit);
    // Ends a listener, and the callers that it has not taken.
    void forget(rdma_cm_id* id) noexcept;
    // Carries what is under way for two seconds at most, then ends the thread.
    void stop() noexcept;

  private:
    struct One {
        std::weak_ptr<CmMailbox> box;  // of the call or the listener
        std::chrono::milliseconds limit{};
        Clock::time_point until = Clock::time_point::max();  // to be established by
        std::string peer;                                    // of a call
        std::unique_ptr<CmConnection> connection;
        rdma_cm_id* listener = nullptr;  // of a caller
    };
    struct News {
        rdma_cm_event_type type;
        int status;
        rdma_cm_id *id, *listener;
    };
    using Ones = std::map<rdma_cm_id*, One>;

    rdma_cm_id* make_id();
    void run() noexcept;
    void wait(std::vector<pollfd>& files) noexcept;
    Clock::time_point wakes_at() const noexcept;
    void take_events() noexcept;
    void handle(const News& news) noexcept;
    void advance(Ones::iterator at, const News& news);
    void take_caller(const News& news);
    void check_device(rdma_cm_id* id, const std::string& address) const;
    void establish(Ones::iterator at);
    void go_on() noexcept;
    void fail(Ones::iterator at, Error why) noexcept;
    void end(Ones::iterator at) noexcept;
    Ones::iterator drop(Ones::iterator at) noexcept;
    std::size_t waiting_of(const rdma_cm_id* listener, const CmMailbox& box) const noexcept;

    const std::string device_;
    const std::chrono::milliseconds probe_after_;
    const std::uint64_t born_ = fork_generation();
    struct EventsEnd {
        void operator()(rdma_event_channel* channel) const noexcept {
            rdma_destroy_event_channel(channel);
        }
    };
    using Events = std::unique_ptr<rdma_event_channel, EventsEnd>;

    static Events open_events();
    Events events_;
    Descriptor wake_;
    std::mutex mutex_;
    Ones ones_;
    std::atomic<bool> stops_{false};
    Clock::time_point stops_by_{};
    std::thread thread_;
};

}  // namespace verbatim::rdma
