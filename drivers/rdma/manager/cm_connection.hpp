// A connection of the connection manager: its queue pair, and the socket whose bytes it carries as
// messages of at most a piece. A message without bytes is the end of one direction. A receive is
// posted again once the program's socket has taken its bytes, so a program that reads nothing holds
// up its peer, and memory is bounded. Threads: the bridge's.
#pragma once

#include <poll.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <verbatim/driver/descriptor.hpp>

namespace verbatim::rdma {

class CmConnection {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::uint32_t kPiece = 2048, kReceives = 8;

    // Makes the queue pair of this identifier and posts its receives. `probe_after`: as CmStreams
    // has it. Throws Error.
    CmConnection(rdma_cm_id& id, std::chrono::milliseconds probe_after);
    ~CmConnection();
    CmConnection(const CmConnection&) = delete;
    CmConnection& operator=(const CmConnection&) = delete;

    // What the manager is told with the connection.
    static rdma_conn_param parameters() noexcept;
    // Messages may be sent from now on. Gives the program's end of the socket pair. Throws Error.
    Descriptor establish();
    bool is_established() const noexcept { return static_cast<bool>(socket_); }
    // The manager says that the peer is gone; what it has sent is delivered still.
    void disconnected() noexcept;
    // Carries what there is.
    void go_on() noexcept;
    // What go_on() waits for.
    void add_to(std::vector<pollfd>& files) const;
    // When go_on() has to be called anyway: for a probe, or for the end of one that the program has
    // closed and the peer does not take.
    Clock::time_point acts_at() const noexcept {
        return is_sending_ || is_gone_ ? times_.gives_up_at
                                       : std::min(times_.gives_up_at, times_.probes_at);
    }
    // Nothing more will come or go.
    bool is_over() const noexcept { return is_over_; }

  private:
    struct Piece {
        std::uint64_t slot;
        std::uint32_t bytes;
        std::uint32_t delivered = 0;
    };
    void make_queue_pair();
    void post_receive(std::uint64_t slot) noexcept;
    void post_send(std::uint32_t bytes) noexcept;
    void probe() noexcept;
    void count_silence() noexcept;
    void take_completions() noexcept;
    void take(const ibv_wc& completion) noexcept;
    void deliver() noexcept;
    bool deliver_front() noexcept;
    void collect() noexcept;
    void notice_hang_up() noexcept;
    void finish() noexcept;
    std::byte* slot_at(std::uint64_t slot) noexcept { return memory_.data() + slot * kPiece; }

    rdma_cm_id& id_;
    Descriptor socket_;  // the program has the other end
    ibv_pd* domain_ = nullptr;
    ibv_comp_channel* events_ = nullptr;
    ibv_cq* completions_ = nullptr;
    ibv_mr* region_ = nullptr;
    std::array<std::byte, std::size_t{kPiece} * (kReceives + 1)> memory_;  // the last one sends
    std::deque<Piece> incoming_;
    bool is_sending_ = false, has_read_end_ = false, has_peer_ended_ = false, is_gone_ = false;
    bool has_told_end_ = false, is_over_ = false, has_hung_up_ = false;
    struct Times {
        std::chrono::milliseconds probe_after;
        Clock::time_point probes_at = Clock::time_point::max(), gives_up_at = probes_at;
    };
    Times times_;
};

}  // namespace verbatim::rdma
