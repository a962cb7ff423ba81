// A link: this process's connection to the software NIC of another process, shared by all queue
// pairs that talk to that device. Over it come the peer's key table, its memory files and the rings
// of its queue pairs; its end tells of the peer's death. Threads: any. Requests take a mutex and
// system calls; the const noexcept members are for the data path.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <verbatim/driver/device.hpp>

#include "../host/bell.hpp"
#include "../host/descriptor.hpp"
#include "../host/link_message.hpp"
#include "../host/page_view.hpp"
#include "../host/shared_memory.hpp"
#include "../keys/key_table.hpp"
#include "../rings/channel.hpp"

namespace verbatim::softnic {

struct LinkOptions {
    Nonce own_nonce{};
    bool same_user_only = true;
    std::chrono::milliseconds request_timeout{2000};  // for requests made by the data path
};

class Link {
  public:
    // Connects, proves both ends, maps the key table and the files registered so far. Throws Error:
    // unsupported (not reachable here: other host or namespace), permission_denied (other user),
    // timeout, protocol_error, version_mismatch, peer_lost.
    static std::shared_ptr<Link> open(const QueuePairAddress& peer, const LinkOptions& options,
                                      Instant deadline);
    ~Link();
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    // The ring into the peer's queue pair. Throws Error like open().
    ChannelPlace open_channel(std::uint32_t from, std::uint32_t to, Instant deadline);
    // Asks for a file that was registered after open(). ok: find_file() knows it now.
    Errc fetch_file(std::uint64_t number) noexcept;
    // Asks for the part of the key table that the key is in. ok: keys() knows it now.
    Errc fetch_keys(std::uint32_t key) noexcept;
    // The peer gives out files of this kind: page files only to those that may attach to it.
    bool may_fetch(std::uint64_t number) const noexcept {
        return (number & kPageFile) == 0 || proven_;
    }

    // Null: not known here yet (or grown since). The mapping lives as long as the link.
    const SharedMemory* find_file(std::uint64_t number, std::uint64_t min_bytes) const noexcept {
        const File* const file = find(number, min_bytes);
        return file == nullptr ? nullptr : file->memory.get();
    }
    const KeyTableView& keys() const noexcept { return keys_; }
    // There is work for the peer. Nothing where it has no engine thread.
    void ring_bell() const noexcept {
        if (bell_) bell_.ring();
    }
    // Where the granted range lies in this process, every page of it present. Null: its file is not
    // known here, too short, or the machine is out of memory. One system call per key and
    // registration, none afterwards.
    std::byte* place(const Grant& grant) noexcept;
    // Tells the peer's device that its queue pair has something to do. False: the peer has not read
    // what it was told before. One system call; any thread.
    bool wake(std::uint32_t queue_pair) noexcept;
    bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
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
    void mark_lost() noexcept { lost_.store(true, std::memory_order_release); }
    bool loss_is_known() const noexcept { return loss_known_; }
    void set_loss_known() noexcept { loss_known_ = true; }

  private:
    // One of the two.
    struct File {
        std::uint64_t number;
        std::shared_ptr<SharedMemory> memory;
        std::unique_ptr<PageView> pages;
        const File* next;
    };
    struct Answer {
        LinkMessage message;
        std::vector<Descriptor> files;
    };

    explicit Link(const LinkOptions& options) : options_(options) {}
    void lose() noexcept;
    void connect_socket(const QueuePairAddress& peer, Instant deadline);
    void check_user();
    void greet(Instant deadline);
    const File* find(std::uint64_t number, std::uint64_t min_bytes) const noexcept {
        const File* file = files_.load(std::memory_order_acquire);
        while (file != nullptr &&
               (file->number != number || (file->memory && file->memory->bytes() < min_bytes)))
            file = file->next;
        return file;
    }
    void prove_rights(std::uint64_t secret_at, Instant deadline) noexcept;
    void fetch_chunk(std::uint32_t chunk, Instant deadline);
    void fetch_all_keys(Instant deadline);
    void fetch_all_files(Instant deadline);
    void place_all_keys(Instant deadline) noexcept;
    std::uint64_t add_files(Answer answer);
    Answer request(LinkMessage message, LinkOp expected, Instant deadline);
    Answer wait_answer(std::uint64_t sequence, LinkOp expected, Instant deadline);

    LinkOptions options_;
    std::string object_;  // "link to @verbatim-..." in messages
    Descriptor socket_;
    Nonce peer_nonce_{};
    pid_t process_ = 0;
    bool same_process_ = false, peer_raises_barriers_ = false;
    KeyTableView keys_;
    Bell bell_;

    // One request at a time: the thread with the turn owns the socket and sequence_. Not a timed
    // mutex: thread sanitizers do not understand that one.
    class Turn;
    std::mutex mutex_;  // guards asking_ and additions to files_
    std::condition_variable turn_ended_;
    bool asking_ = false;
    std::uint64_t sequence_ = 0;

    std::atomic<const File*> files_{nullptr};  // newest first; nodes are freed with the link
    // Per key, by chunks: version of the entry whose range was populated. Set before the chunk is
    // in keys_.
    using Versions = std::unique_ptr<std::atomic<std::uint64_t>[]>;
    std::array<Versions, kMostChunks> populated_;
    bool proven_ = false;
    std::atomic<bool> lost_{false};
    bool loss_known_ = false;  // to all who use the link; of the control thread
    std::atomic<bool> attach_refused_{false};
};

}  // namespace verbatim::softnic
