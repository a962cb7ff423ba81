// A connection has one reliable queue pair, a message ring in each direction, and a TCP side
// channel that reports the peer's end. Made by Context::connect and Listener::accept, on a lane.
// Threads: those of its lane, which is one thread at a time for all its connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <verbatim/core/arena.hpp>
#include <verbatim/core/claim.hpp>
#include <verbatim/core/config.hpp>
#include <verbatim/core/deadline.hpp>
#include <verbatim/core/grant.hpp>
#include <verbatim/core/lane.hpp>
#include <verbatim/core/message.hpp>
#include <verbatim/core/sender.hpp>
#include <verbatim/core/telemetry.hpp>
#include <verbatim/driver/error.hpp>

namespace verbatim {

// Channels from here on belong to Verbatim's own layers; programs are refused there.
inline constexpr std::uint8_t kLayerChannels = 240;

class Connection;

// A handler takes the messages of one channel, in order, as they arrive. It is called by the lane's
// thread, and must not block: blocking calls there are Errc::would_deadlock. It may send, and may
// move the message out to hold it longer; what it leaves is given back.
struct ChannelHandler {
    void (*call)(void* state, Connection& connection, Message& message) noexcept = nullptr;
    std::shared_ptr<void> state;  // its first argument
};

// A handler that is told once that a connection ended, when nothing is left to be received.
struct EndHandler {
    void (*call)(void* state, Connection& connection) noexcept = nullptr;
    std::shared_ptr<void> state;
    // Told already when nothing more comes, though messages wait that the program has not received.
    bool early = false;
};

// A layer channel is one of any number, for Verbatim's own layers: as Connection has these
// functions, but nothing is refused. Programs have no use for it.
struct LayerChannel {
    static Errc try_send(Connection& connection, std::uint8_t channel,
                         std::span<const std::byte> head, std::span<const std::byte> body,
                         std::uint8_t kind) noexcept;
    static void set_handler(Connection& connection, std::uint8_t channel, ChannelHandler handler);
};

class Connection {
  public:
    struct Impl;
    explicit Connection(std::unique_ptr<Impl> impl) noexcept;
    Connection(Connection&&) noexcept;
    Connection& operator=(Connection&&) noexcept;
    // Closes: everything that was accepted is done, [connect] timeout at most, then the peer is
    // told. Waits for that, but not in handlers and on lanes that a poller drives: there the lane's
    // polls go on with it.
    ~Connection();

    // ---- messages (data path: no allocation, lock, system call or exception) ----
    // Copies head and body into one message. `kind`: below 16. would_block: the peer's ring or the
    // send queue is full. invalid_argument, of this and all other ways to send: the channel is 240
    // or above, so a layer's.
    Errc try_send(std::uint8_t channel, std::span<const std::byte> head,
                  std::span<const std::byte> body = {}, std::uint8_t kind = 0) noexcept;
    // The same, but a message of up to 256 bytes waits for others, so that one write carries them.
    // The batch goes when it holds 2 KiB, with the next try_send() or try_write(), with the next
    // poll of the lane, or when the connection closes; messages stay in order.
    Errc try_batch(std::uint8_t channel, std::span<const std::byte> head,
                   std::span<const std::byte> body = {}, std::uint8_t kind = 0) noexcept;
    // Room for a message of up to so many bytes, to be written in place and sent by
    // Claim::commit(). would_block: the peer's ring is full, or 8 claims are open.
    // message_too_large.
    Errc try_claim(std::uint8_t channel, std::size_t bytes, Claim& claim,
                   std::uint8_t kind = 0) noexcept;
    // The next message of a channel that has no handler. Gives back what `message` held.
    // would_block: none is there, or 64 are held. The messages of handlers before it are handled.
    // A look in vain polls the lane: each time over tcp, udp and dpdk, else every 64th time in a
    // row. So a loop of nothing else receives what arrives, and learns of the end. Such a poll may
    // make a system call, as Lane::poll() says.
    Errc try_receive(Message& message) noexcept;
    // Longest messages of try_send(), and of send_message(), which sends longer ones in fragments;
    // the peer keeps those in memory of their own, as its [ring] longest_message allows. A receiver
    // releases the messages that it holds before it waits for one that is longer than the ring.
    std::size_t max_message_bytes() const noexcept;
    std::size_t longest_message_bytes() const noexcept;
    // For other threads, which may send by it while this thread drives the lane.
    Sender sender();

    // Blocking forms; throw Error(timeout | peer_lost | would_deadlock | ...). They drive the lane:
    // they spin, then sleep, as [lane] says.
    void send_message(std::uint8_t channel, std::span<const std::byte> head,
                      std::span<const std::byte> body, Deadline deadline);
    Message receive_message(Deadline deadline);

    // ---- handlers ----
    // Sets the handler of a channel, for good: `handle(Message&)` or `handle(Connection&,
    // Message&)`, which must not throw. The Connection& is this object, wherever it was moved to.
    // Throws Error(invalid_argument): the channel has one, or is a layer's. Messages that have
    // arrived are handled by the next poll of the lane.
    template <class Handle>
    void on(std::uint8_t channel, Handle handle) {
        set_handler(channel, {call_handle<Handle>, std::make_shared<Handle>(std::move(handle))});
    }
    void set_handler(std::uint8_t channel, ChannelHandler handler);
    // Calls `ended()` or `ended(Connection&)` by a poll of the lane once the connection has ended:
    // state() says why. It may end this object. Several are called in the order of their setting.
    template <class Ended>
    void on_end(Ended ended) {
        add_end_handler({[](void* state, Connection& connection) noexcept {
                             Ended& call = *static_cast<Ended*>(state);
                             if constexpr (std::is_invocable_v<Ended&>)
                                 call();
                             else
                                 call(connection);
                         },
                         std::make_shared<Ended>(std::move(ended))});
    }
    void add_end_handler(EndHandler handler);
    // The state of a layer on this connection, made at its first use: L(Connection&), which handles
    // channel L::kChannel by L::receive([Connection&,] Message&) noexcept.
    // Throws Error(invalid_argument): another layer has the channel.
    template <class L>
    std::shared_ptr<L> layer() {
        if (const ChannelHandler* handler = handler_of(L::kChannel)) {
            if (handler->call != call_layer<L>) refuse_channel(L::kChannel);
            return std::static_pointer_cast<L>(handler->state);
        }
        auto made = std::make_shared<L>(*this);
        LayerChannel::set_handler(*this, L::kChannel, {call_layer<L>, made});
        return made;
    }
    // Handles all that has arrived, past messages of channels without a handler. Those are kept for
    // try_receive(), as copies. out_of_memory: 16 MiB are kept already; receive them. Otherwise
    // state(). Allocates.
    Errc handle_all() noexcept;

    // ---- one-sided writes; reads, atomics and typed memory: one_sided.hpp ----
    // Writes [from, from + bytes) to the peer, split at segment and device limits. It lies in
    // arena(), or in `region`, whose lease (Registered) the caller keeps until try_flush() is ok.
    // would_block: the send queue is full; `written` is the number of leading bytes that were
    // accepted.
    Errc try_write(const std::byte* from, std::size_t bytes, std::uint64_t remote_address,
                   std::uint32_t remote_key, std::size_t& written,
                   const MemoryRegion* region = nullptr) noexcept;
    // would_block until every accepted write has retired; then ok, or the first error.
    Errc try_flush() noexcept;

    // Polls the lane once. Returns the connection's state: ok, or the reason of its end.
    Errc progress() noexcept;
    // One round of a wait for this connection, after an attempt and progress() found nothing.
    // `round` counts from 0 since the last success. Throws Error(would_deadlock) in a handler.
    void pause(unsigned round, Deadline deadline);
    Errc state() const noexcept;
    // Throws the Error that belongs to state() if it is not ok.
    void check() const;
    // True after a clean close by the peer, when all its messages were received.
    bool peer_closed() const noexcept;
    // True after a clean close by a peer that had taken every message from here, and with the
    // last of them all writes before it. Known as soon as the close is noticed.
    bool peer_took_all() const noexcept;
    Lane lane() const noexcept;
    // Moves the connection to another lane of its context, with all that it holds; the peer takes
    // part by its polls. Waits, [connect] timeout at most. Afterwards the connection, its messages
    // and its claims belong to that lane's thread. A lane that no poller drives is used in this
    // call. Throws Error: invalid_argument (a lane of another context; a grant is open),
    // would_deadlock, unsupported and out_of_memory (the peer refuses), timeout; the connection is
    // as before. peer_lost: it has ended. docs/moving.md.
    void move_to(const Lane& lane);

    // ---- memory; a Grant lends some of it to the peer ----
    // The context's: objects that are sent from where they lie.
    Arena& arena() noexcept;
    // The context's arena for what peers write; alive as long as the shared_ptr.
    Arena& receive_arena() noexcept;
    std::shared_ptr<Arena> arena_ptr() noexcept;
    std::shared_ptr<Arena> receive_arena_ptr() noexcept;

    const Config& config() const noexcept;          // the context's
    const std::string& peer_name() const noexcept;  // "127.0.0.1:40312"

  private:
    friend class Grant;
    friend class OneSided;
    friend struct LayerChannel;
    friend struct LayerAccess;
    friend telemetry::ConnectionCounts telemetry::counts_of(Connection& connection) noexcept;
    template <class Handle>
    static void call_handle(void* state, Connection& connection, Message& message) noexcept {
        Handle& handle = *static_cast<Handle*>(state);
        if constexpr (std::is_invocable_v<Handle&, Message&>)
            handle(message);
        else
            handle(connection, message);
    }
    template <class L>
    static void call_layer(void* state, Connection& connection, Message& message) noexcept {
        L& layer = *static_cast<L*>(state);
        if constexpr (requires { layer.receive(connection, message); })
            layer.receive(connection, message);
        else
            layer.receive(message);
    }
    const ChannelHandler* handler_of(std::uint8_t channel) const noexcept;
    [[noreturn]] static void refuse_channel(std::uint8_t channel);

    std::unique_ptr<Impl> impl_;
};

// The state behind a connection, wherever the connection is moved to: for Verbatim's own layers.
struct LayerAccess {
    static Connection::Impl& impl_of(Connection& connection) noexcept { return *connection.impl_; }
    // The program's object, wherever it was moved to; null: the program has ended it.
    static Connection* handle_of(const Connection::Impl& impl) noexcept;
    static bool has_handler(const Connection& connection, std::uint8_t channel) noexcept {
        return connection.handler_of(channel) != nullptr;
    }
    // The layer behind a channel of Verbatim's own; null: there is none yet.
    static void* state_of(const Connection& connection, std::uint8_t channel) noexcept {
        const ChannelHandler* const handler = connection.handler_of(channel);
        return handler == nullptr ? nullptr : handler->state.get();
    }
    // The state that all connections of a context share, made at its first use: S(const Config&).
    // Any thread.
    template <class S>
    static std::shared_ptr<S> shared_state(Connection& connection) {
        static constexpr char kKey = 0;
        return std::static_pointer_cast<S>(
            shared_state(connection, &kKey, [](const Config& config) -> std::shared_ptr<void> {
                return std::make_shared<S>(config);
            }));
    }
    // The layer that lends by itself: `call(state, is_asked)` ends that before the connection
    // moves. True: it lends nothing any more. Else it is asked again by polls. `is_asked`: the peer
    // moves, and lends nothing. `buffers` go when nothing of the connection is read any more, after
    // its end.
    static void set_move_handler(Connection& connection,
                                 bool (*call)(void* state, bool is_asked) noexcept, void* state,
                                 std::shared_ptr<void> buffers) noexcept;
    using MakeState = std::shared_ptr<void> (*)(const Config& config);
    static std::shared_ptr<void> shared_state(Connection& connection, const void* key,
                                              MakeState make);
};

// Remote access opens memory that the peer lends, so that a layer builds there what it would
// otherwise write: for Verbatim's own layers. Rules as QueuePairHandle::open_remote() has them:
// null is no error, and the layer writes instead. Between the two calls nothing else of the lane is
// called.
struct RemoteAccess {
    // At most 1 MiB, one at a time. Behind everything that was sent before.
    static std::byte* open(Connection& connection, std::uint64_t address, std::size_t bytes,
                           std::uint32_t remote_key) noexcept;
    // Of what open() returned, unless that was null. The end of the connection and its move to
    // another lane close as well; then this does nothing.
    static void close(Connection& connection) noexcept;
};

}  // namespace verbatim
