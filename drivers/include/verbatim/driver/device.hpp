// A device is the control path: open, register, create, connect, destroy. It is abstract, because
// it is cold. The data path runs on the views of verbatim/driver/queue_view.hpp instead. Threads:
// every call may come from any thread; an object must not be used while it is being destroyed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/queue_view.hpp>

namespace verbatim {

// Rights that a memory region gives; bits combine. Local reads are always allowed.
enum class Access : std::uint8_t {
    local_read = 0,
    local_write = 1,
    remote_write = 2,
    remote_read = 4,
    remote_atomic = 8,
    window_bind = 16,  // memory windows may be opened onto it
};
constexpr Access operator|(Access a, Access b) noexcept {
    return static_cast<Access>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr bool allows(Access granted, Access wanted) noexcept {
    return (static_cast<std::uint8_t>(granted) & static_cast<std::uint8_t>(wanted)) ==
           static_cast<std::uint8_t>(wanted);
}

// The memory object behind an address range. A sealed memfd (file >= 0) lets same-host peers map
// the bytes; without one the software NIC reaches them by cross-memory attach. Real devices ignore
// it.
struct MemoryBacking {
    int file = -1;
    std::uint64_t offset = 0;
    // Pages of the file come when somebody touches them; peers take none before. For all regions of
    // the file alike.
    bool sparse = false;
};

// A registered range. Releasing it (destructor) makes its keys invalid at once and prepared
// operations that name it invalid at their next post. Windows that are still open onto it are
// closed for good then. Afterwards no peer can write there any more. release() reports open
// windows, and a peer that is stopped in the middle of a copy.
class MemoryRegion {
  public:
    virtual ~MemoryRegion() = default;
    MemoryRegion(const MemoryRegion&) = delete;
    MemoryRegion& operator=(const MemoryRegion&) = delete;

    std::byte* address() const noexcept { return address_; }
    std::size_t bytes() const noexcept { return bytes_; }
    std::uint32_t local_key() const noexcept { return local_key_; }
    std::uint32_t remote_key() const noexcept { return remote_key_; }
    // Releases it now, as the destructor would; only that may follow. Throws
    // Error(invalid_argument), without an effect, while a memory window is open onto it. Throws
    // Error(timeout) if a process is stopped in the middle of a copy. The keys are gone then, but
    // that process may still write to the memory. Keep the memory, and call release() again. The
    // destructor waits as long, and logs.
    virtual void release() = 0;
    // False for good once the region is being released; outlives the region. Prepared operations
    // keep it.
    std::shared_ptr<const std::atomic<bool>> alive() const noexcept { return alive_; }

  protected:
    MemoryRegion() = default;
    // Every device's destructor calls this first and moves its invalidation epoch after it. So a
    // prepared operation that sees the new epoch sees the region gone.
    void mark_released() noexcept { alive_->store(false, std::memory_order_release); }
    std::byte* address_ = nullptr;
    std::size_t bytes_ = 0;
    std::uint32_t local_key_ = 0;
    std::uint32_t remote_key_ = 0;

  private:
    std::shared_ptr<std::atomic<bool>> alive_ = std::make_shared<std::atomic<bool>>(true);
};

// The queue pairs that may come through a memory window, and the chooser of its key (InfiniBand
// Architecture Specification, "Memory Windows").
enum class WindowType : std::uint8_t {
    domain,      // type 1: every queue pair of the device
    queue_pair,  // type 2: only the queue pair that opened it; can be invalidated
};

// A memory window: a remote key that is opened onto a part of a region, and closed again, by work
// requests (mlx5::WindowBinding). Freeing it (destructor) makes the key invalid at once.
class MemoryWindow {
  public:
    virtual ~MemoryWindow() = default;
    MemoryWindow(const MemoryWindow&) = delete;
    MemoryWindow& operator=(const MemoryWindow&) = delete;
    // The key of the closed window, as it was made. Each request that opens or closes it gives the
    // next low byte.
    std::uint32_t key() const noexcept { return key_; }

  protected:
    MemoryWindow() = default;
    std::uint32_t key_ = 0;
};

// The address of a queue pair. It is exchanged in the hello, and opaque above drivers/.
struct QueuePairAddress {
    std::uint8_t kind = 0;              // 1 software NIC, 2 RDMA device; both sides must agree
    std::uint8_t mtu_log2 = 12;         // path MTU in bytes, log2
    std::uint16_t lid = 0;              // InfiniBand link layer only
    std::uint32_t number = 0;           // queue pair number
    std::uint32_t packet_sequence = 0;  // first PSN this side sends
    std::uint8_t reads_answered = 0;  // reads and atomics that this side has room for; 0: not told
    std::array<std::uint8_t, 16> gid{};    // RDMA devices
    std::array<std::uint8_t, 16> nonce{};  // software NIC: proves that both ends share a host
    std::array<char, 64>
        local_socket{};  // software NIC: name of its abstract Unix socket, NUL padded
    // Software NIC: its ports, and what chooses between them. All zero: shared memory only.
    std::uint8_t ports = 0;         // bit 0: shared memory, 1: tcp, 3: udp; 2: same user only
    std::uint16_t stream_port = 0;  // tcp, udp: where its streams, or its packets arrive
    std::uint16_t packet_port = 0;  // tcp and udp: where its packets arrive
    struct Home {
        std::uint32_t user = 0;               // as that process counts users
        std::array<std::uint8_t, 16> host{};  // machine, network and user namespace; 0: not known
    } home;
    std::array<std::uint8_t, 16> stream_address{};  // IPv6 or IPv4-mapped
    std::array<std::uint8_t, 16> stream_token{};    // binds a stream to this queue pair
};

enum class QueuePairState : std::uint8_t { reset, initialized, ready_to_receive, ready, error };

class CompletionQueueHandle {
  public:
    virtual ~CompletionQueueHandle() = default;
    virtual const mlx5::CompletionQueueView& view() const noexcept = 0;
    // Gives the queue another buffer: for mlx5::CompletionQueue::resize(), which takes along the
    // old one's entries. Throws Error: unsupported, invalid_argument (more is unpolled than that).
    virtual void resize(std::uint32_t entries) = 0;
    // From there: the old buffer is read no more.
    virtual void forget_old_buffer() noexcept {}
};

// The channel on which events of armed completion queues arrive. It must outlive its queues.
// Threads: any.
class CompletionChannelHandle {
  public:
    virtual ~CompletionChannelHandle() = default;
    // A descriptor for poll(), epoll and their like: can be read while an event waits. Not to be
    // read itself.
    virtual int file() const noexcept = 0;
    // Takes one event. Returns its queue, or null where no event waits. Never blocks.
    virtual CompletionQueueHandle* take_event() = 0;
};

// A stock of receives for several queue pairs, which it must outlive.
class SharedReceiveQueueHandle {
  public:
    virtual ~SharedReceiveQueueHandle() = default;
    virtual const mlx5::SharedReceiveQueueView& view() const noexcept = 0;
};

class QueuePairHandle {
  public:
    virtual ~QueuePairHandle() = default;
    virtual const mlx5::QueuePairView& view() const noexcept = 0;
    virtual QueuePairAddress address() const = 0;
    // Takes the queue pair from reset to ready. Throws Error: permission_denied (peer of another
    // user), peer_lost, unsupported (no common port; the reason is in the text), timeout. Blocks at
    // most `timeout_ms`.
    virtual void connect(const QueuePairAddress& peer, int timeout_ms) = 0;
    // The same, for threads with other work: takes a millisecond at most. False: it takes longer;
    // call connect() with the same peer in a thread that may wait.
    virtual bool connect_soon(const QueuePairAddress& /*peer*/) { return false; }
    // To the error state: each outstanding work request is flushed once.
    virtual void fail() noexcept = 0;
    // Back to reset; prepared operations become invalid. Outstanding work requests are forgotten by
    // the device: the owner's queues must be reset with it. Where receives are shared, call fail()
    // first and poll until nothing comes. Else a device may forget the receive that a message was
    // arriving in, and the shared queue is one entry shorter.
    virtual void reset() = 0;
    virtual QueuePairState state() const noexcept = 0;
    // The way to the peer, once it is connected: "rdma", or the software NIC's "shm" or "tcp".
    const char* transport() const noexcept { return transport_; }
    // True if polls of its completion queues take in what arrives: of the software NIC on a wire.
    // Else memory changes by itself.
    bool is_moved_by_polls() const noexcept { return is_moved_by_polls_; }
    // True once the device knows that the peer is gone (process died, link closed).
    virtual bool peer_lost() const noexcept = 0;
    // True if a peer's write becomes visible here in the order of addresses. Then memory may be
    // polled for the last byte. Asks the device, of a connected queue pair. False also where the
    // device cannot tell.
    virtual bool data_in_order() const noexcept = 0;
    // The reason of a failure, as a sentence for error messages. Empty where the device knows no
    // more than the completion.
    virtual std::string failure_text() const { return {}; }
    // Direct access to memory that the peer lends: this process stores there itself, in place of a
    // write that copies. Only the software NIC has it, by shared memory (docs/driver.md). Returns
    // where [address, address + bytes) of the peer, under its key, lies in this process; to be
    // written until close_remote(). The peer cannot take the memory away before that, so it must
    // come soon, and nothing between may wait. What was posted before has been done. Null is no
    // error: the caller posts writes instead. It may be null at any time: key, rights and state
    // forbid it, the memory is not mapped here, earlier requests are under way, more than 1 MiB is
    // asked for, a span is open already. Threads, of both: the one that posts.
    virtual std::byte* open_remote(std::uint64_t /*address*/, std::size_t /*bytes*/,
                                   std::uint32_t /*remote_key*/) noexcept {
        return nullptr;
    }
    // From now on the memory is not touched. The peer finds all stores before anything that is
    // posted from now on, or was posted since open_remote(): such requests wait for this. Without
    // an effect where this thread has opened nothing, as after fail() and reset(), which close.
    virtual void close_remote() noexcept {}

  protected:
    const char* transport_ = "rdma";  // what connect() finds
    bool is_moved_by_polls_ = false;
};

struct QueuePairOptions {
    CompletionQueueHandle* send_completions = nullptr;     // required
    CompletionQueueHandle* receive_completions = nullptr;  // required
    // The source of receives, instead of a queue of its own; the sizes of that below are then
    // ignored. Each completion queue needs room for all receives that are shared.
    SharedReceiveQueueHandle* shared_receives = nullptr;
    std::uint32_t send_blocks = 256;  // rounded up to a power of two
    std::uint32_t receive_entries = 64;
    std::uint32_t max_inline_bytes = 188;  // what fits 4 blocks beside control and address segments
    std::uint32_t max_send_elements = 13;
    std::uint32_t max_receive_elements = 1;
    // How often a message is tried again that finds no receive at the peer; then it fails
    // (rnr_exceeded). 7: for ever.
    std::uint8_t not_ready_retries = 7;
    // This machine's address on the way to the peer, as its GID: IPv6 or IPv4-mapped. An RDMA
    // device uses that GID if it has it. Zeros: not known.
    std::array<std::uint8_t, 16> local_address{};
    // False: what it sends and receives carries no bytes, but for writes and reads. The software
    // NIC saves memory by that.
    bool carries_messages = true;
};

struct SharedReceiveQueueOptions {
    std::uint32_t entries = 255;  // that can be posted; rounded up to a power of two less one
    std::uint32_t max_elements = 1;
};

struct DeviceInfo {
    std::string name;                                          // "softnic0", "mlx5_0"
    std::string description;                                   // one line for users
    std::uint64_t max_message_bytes = std::uint64_t{1} << 30;  // larger operations must be split
    bool atomics = true;                                       // of 8 bytes
    bool masked_atomics = false;                               // and so atomics of 4 bytes
    bool pins_memory = false;         // what is registered counts against RLIMIT_MEMLOCK
    std::string data_path = "mlx5";   // "verbs": through ibv_post_send
    bool connection_manager = false;  // librdmacm leads to it
    // A completion for which its queue has no room is written when it has. Elsewhere the queue
    // fails.
    bool completions_wait = false;
};

// An event of a device or of a queue, other than a completion.
enum class DeviceEventKind : std::uint8_t {
    device_failed,            // nothing of it works any more
    port_down,                // connections survive if it comes back before their retries end
    port_up,                  // it came back
    addresses_changed,        // GIDs, LID or partition keys: new connections must read them again
    queue_pair_failed,        // `number`'s; its requests are flushed
    completion_queue_failed,  // `number` overran, and its queue pairs failed
    other,
};
struct DeviceEvent {
    DeviceEventKind kind = DeviceEventKind::other;
    std::uint32_t number = 0;  // of the queue pair or completion queue (their views have it)
    std::string text;          // for error messages: "mlx5_0 port 1: port error"
};

// A barrier behind the end of keys and the failure of queue pairs: once it has passed, nothing that
// came by them can touch memory. It waits for nobody. It must not outlive its device.
class RevocationBarrier {
  public:
    RevocationBarrier() = default;
    virtual ~RevocationBarrier() = default;
    RevocationBarrier(const RevocationBarrier&) = delete;
    RevocationBarrier& operator=(const RevocationBarrier&) = delete;
    // False while a process is in the middle of a copy; where that one is stopped, for long.
    virtual bool has_passed() noexcept { return true; }
};

class Device {
  public:
    virtual ~Device() = default;
    virtual const DeviceInfo& info() const noexcept = 0;
    // Throws Error(out_of_memory) with the memlock remedy where the kernel refuses to pin.
    virtual std::unique_ptr<MemoryRegion> register_memory(std::byte* address, std::size_t bytes,
                                                          Access access, MemoryBacking backing) = 0;
    // Closed. Throws Error: unsupported, out_of_memory.
    virtual std::unique_ptr<MemoryWindow> create_memory_window(WindowType type) = 0;
    // Throws Error(device_error) where the process may have no more descriptors.
    virtual std::unique_ptr<CompletionChannelHandle> create_completion_channel() = 0;
    // `channel`: where its events go; without one it is never armed.
    virtual std::unique_ptr<CompletionQueueHandle> create_completion_queue(
        std::uint32_t entries, CompletionChannelHandle* channel) = 0;
    std::unique_ptr<CompletionQueueHandle> create_completion_queue(std::uint32_t entries) {
        return create_completion_queue(entries, nullptr);
    }
    virtual std::unique_ptr<SharedReceiveQueueHandle> create_shared_receive_queue(
        const SharedReceiveQueueOptions& options) = 0;
    virtual std::unique_ptr<QueuePairHandle> create_queue_pair(const QueuePairOptions& options) = 0;
    // After keys were closed, or queue pairs failed. On a device whose calls are barriers
    // themselves it has passed already.
    virtual std::unique_ptr<RevocationBarrier> begin_barrier() {
        return std::make_unique<RevocationBarrier>();
    }
    // Counts releases of regions and resets of queue pairs. Prepared operations check themselves
    // again when it moved. It is one word, read on the data path. Control-path calls increase it: a
    // region's release after its mark_released(), a queue pair's reset.
    virtual const volatile std::uint64_t* invalidation_epoch() const noexcept = 0;
    // -- Events --
    // A descriptor for poll(), epoll and their like: can be read while an event waits. Not to be
    // read itself. -1: the device raises none.
    virtual int event_file() const noexcept { return -1; }
    // Takes one event; nothing where none waits. Never blocks. An event may name a queue that is
    // gone by now.
    virtual std::optional<DeviceEvent> take_event() { return std::nullopt; }
};

}  // namespace verbatim
