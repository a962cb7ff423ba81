// A link: this process's connection to the software NIC of another process, shared by all queue
// pairs that talk to that device. Over it come the peer's key table, its memory files and the rings
// of its queue pairs; its end tells of the peer's death. Threads: any. Requests take a mutex and
// system calls; the const noexcept members are for the data path.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <verbatim/driver/device.hpp>

#include "../host/bell.hpp"
#include "../host/descriptor.hpp"
#include "../host/link_message.hpp"
#include "../rings/channel.hpp"
#include "link_questions.hpp"
#include "peer_doors.hpp"
#include "peer_memory.hpp"

namespace verbatim::softnic {

struct LinkOptions {
    Nonce own_nonce{};
    bool same_user_only = true;
    // Of questions that the data path asks.
    LinkQuestions::Times times{std::chrono::milliseconds(10), std::chrono::milliseconds(2000)};
};

class Link {
  public:
    // Connects, proves both ends, maps the key table and the files registered so far. Throws Error:
    // unsupported (not reachable here: other host or namespace), permission_denied (other user),
    // timeout, protocol_error, version_mismatch, peer_lost.
    static std::shared_ptr<Link> open(const QueuePairAddress& peer, const LinkOptions& options,
                                      Instant deadline);
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    // The ring into the peer's queue pair, and the door to its thread. Throws Error like open().
    ChannelPlace open_channel(std::uint32_t from, std::uint32_t to, Instant deadline);
    // The peer gives out files of this kind: page files only to those that may attach to it.
    bool may_fetch(std::uint64_t number) const noexcept {
        return (number & kPageFile) == 0 || proven_;
    }

    PeerMemory& memory() noexcept { return memory_; }
    const PeerMemory& memory() const noexcept { return memory_; }
    // There is work for the peer. Nothing where it has no engine thread.
    void ring_bell() const noexcept {
        if (bell_) bell_.ring();
    }
    // Tells the peer's device that its queue pair has something to do. False: the peer has not read
    // what it was told before. One system call; any thread.
    bool wake(std::uint32_t queue_pair) noexcept;
    // Asks the peer's device to take what this side sent to its queue pair, in the place of its
    // program. Nothing while the peer leaves much unread. Two system calls; any thread.
    void ask_to_run(std::uint32_t queue_pair) noexcept;
    bool lost() const noexcept { return questions_.lost(); }
    // The peer is this very process: its addresses are ours.
    bool same_process() const noexcept { return same_process_; }
    // Before it takes memory away from those who copy without fences.
    bool peer_raises_barriers() const noexcept { return peer_raises_barriers_; }
    pid_t process() const noexcept { return process_; }
    // Whether the peer's private memory can be reached by cross-memory attach, as far as is known.
    bool attaches() const noexcept { return !attach_refused_.load(std::memory_order_relaxed); }
    void refuse_attach(const char* why) noexcept;
    const Nonce& peer_nonce() const noexcept { return peer_nonce_; }

    // For the control thread, which watches the socket.
    int socket() const noexcept { return socket_.get(); }
    void mark_lost() noexcept { questions_.mark_lost(); }
    bool loss_is_known() const noexcept { return loss_known_; }
    void set_loss_known() noexcept { loss_known_ = true; }

  private:
    Link(const LinkOptions& options, std::string object)
        : options_(options),
          object_(std::move(object)),
          questions_(object_, socket_),
          memory_(questions_, object_, options.times) {}
    void connect_socket(const QueuePairAddress& peer, Instant deadline);
    void check_user();
    void greet(Instant deadline);
    void prove_rights(std::uint64_t secret_at, Instant deadline) noexcept;
    std::shared_ptr<const WakeFile> door_of(LinkQuestions::Answer& answer);

    LinkOptions options_;
    const std::string object_;  // "link to @verbatim-..." in messages
    Descriptor socket_;
    LinkQuestions questions_;
    PeerMemory memory_;
    Nonce peer_nonce_{};
    pid_t process_ = 0;
    bool same_process_ = false, may_signal_us_ = false, peer_raises_barriers_ = false;
    Bell bell_;

    PeerDoors doors_;

    bool proven_ = false;
    bool loss_known_ = false;  // to all who use the link; of the control thread
    std::atomic<bool> attach_refused_{false};
};

}  // namespace verbatim::softnic
