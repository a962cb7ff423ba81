// Accepting: strangers are heard side by side, and shaken hands with side by side, so that one who
// says nothing, or nothing more, keeps nobody waiting.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <verbatim/core/context.hpp>

#include "../bootstrap/proving.hpp"
#include "../bootstrap/side_channel.hpp"
#include "../bootstrap/unix_socket.hpp"
#include "../lane/lane_driver.hpp"
#include "context_impl.hpp"
#include "welcomes.hpp"

namespace verbatim {

// Threads: one at a time; once it serves, its own.
struct Listener::Impl {
    // Where connections go.
    struct Target {
        const Lane::Impl* lane;  // null: to several
        // Makes room on a lane for one more connection. Throws Error(out_of_memory).
        std::function<LaneOfEndpoint()> find_place;
        LaneDriver* driver = nullptr;  // of the lanes that this thread drives while it waits
    };

    struct Bound : unix_socket::Bound {
        std::unique_ptr<rdma::CmListener> by_manager;  // instead of a socket
    };
    Impl(std::shared_ptr<Context::Impl> shared, Lane lane_of_context, Bound bound);
    ~Impl();
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    // The next caller who completes the hello, on this lane. In its thread. Throws Error(timeout),
    // Error(invalid_argument): the lane belongs to another context.
    Connection accept(const Lane& on, Deadline deadline);
    // From now on a thread accepts all callers, and gives them to these lanes in turn, which other
    // threads drive. `setup`: called with each connection, in its lane's thread. Throws
    // Error(invalid_argument).
    void serve(std::vector<Lane> lanes, std::function<void(Connection&)> setup);

    std::shared_ptr<Context::Impl> context;
    Lane lane;        // the context's
    SocketFile file;  // of a Unix socket
    Descriptor socket;
    // 0: a Unix socket.
    std::uint16_t port() const noexcept {
        return by_manager_ ? by_manager_->port() : tcp::local_port(socket);
    }

  private:
    class Accepting;
    // A caller has connected, and not yet proven itself and said hello.
    struct Caller {
        SideChannel channel;
        Deadline deadline;
        std::optional<Proving> proving;  // where there is a key
    };

    // The next one that only has to join its lane; nothing: the deadline passed, or it stops.
    std::optional<Meeting> next(const Target& target, Deadline deadline);
    // When the next handshake may begin.
    Clock::time_point may_start(const Target& target) const noexcept;
    void take_callers();
    std::optional<SideChannel> take_caller();
    void add_callers_to(WaitList& list, const Target& target) const;
    void hear_callers(const Target& target);
    // Nothing while the hello is incomplete. Throws Error if the caller must go.
    std::optional<Hello> hear(Caller& caller);
    void run() noexcept;
    void hand_over(Meeting meeting);

    std::unique_ptr<rdma::CmListener> by_manager_;  // null: the socket
    std::vector<Caller> callers_;
    bool starved_ = false;  // the last caller could not be taken for want of a descriptor
    Welcomes welcomes_;
    // Serving:
    std::vector<Lane> lanes_;
    std::size_t turn_ = 0;  // of the lanes
    std::shared_ptr<std::function<void(Connection&)>> setup_;
    std::atomic<bool> stop_{false};
    Descriptor stopped_;  // eventfd
    std::thread server_;
};

// Makes a connection of a meeting, in its lane's thread, and lets the lane keep it until it ends.
void host(Meeting meeting, const std::function<void(Connection&)>& setup);

}  // namespace verbatim
