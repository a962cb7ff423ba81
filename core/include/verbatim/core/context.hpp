// A context owns a device, the arenas and the configuration; it connects and listens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <verbatim/core/arena.hpp>
#include <verbatim/core/config.hpp>
#include <verbatim/core/connection.hpp>
#include <verbatim/core/lane.hpp>
#include <verbatim/core/poller.hpp>
#include <verbatim/driver/device.hpp>

namespace verbatim {

// Accepts connections on one TCP port or Unix socket. Threads: one at a time.
class Listener {
  public:
    struct Impl;
    explicit Listener(std::unique_ptr<Impl> impl) noexcept;
    Listener(Listener&&) noexcept;
    Listener& operator=(Listener&&) noexcept;
    ~Listener();
    // Waits for a peer that completes the hello. A peer that fails it (other version, other magic,
    // other user, silence) is refused and logged, and the wait goes on. Where possible the peer is
    // told the reason. Throws Error(timeout).
    // The connection is on the context's lane, or on the one given, whose thread this is. Drives
    // that lane: handlers and tasks run inside, and must not end this listener. Throws
    // Error(invalid_argument): that lane belongs to another context; Error(would_deadlock) in a
    // handler of it. A caller who is slow to complete the hello stays with the lane for which it
    // began, and waits for the next accept() on that one.
    Connection accept(Deadline deadline = Deadline::never());
    Connection accept(const Lane& lane, Deadline deadline = Deadline::never());
    // From now on callers are accepted by a thread of the listener, and their connections live on
    // these pollers in turn, until they end. `setup(connection)` is called for each in its poller's
    // thread, to set handlers; it must not throw. Once, and instead of accept(). Ends with the
    // listener; connections live on. Throws Error(invalid_argument): no poller, or one of another
    // context.
    void serve(std::span<const std::unique_ptr<Poller>> pollers,
               std::function<void(Connection&)> setup);
    // The port in use, also when 0 was asked for; 0: it is a Unix socket.
    std::uint16_t port() const noexcept;

  private:
    std::unique_ptr<Impl> impl_;
};

// The two sides of a handshake: the caller speaks first.
enum class SocketSide : std::uint8_t { caller, listener };

// A connected stream socket that the program hands in.
struct HandedSocket {
    int file = -1;
    SocketSide side = SocketSide::caller;  // the peer has the other one
    // What the program has read of the stream behind its own data, if anything.
    std::span<const std::byte> read_ahead{};
};

// Threads: make_lane and listen may be called from any thread; connect from that of the lane.
// Connections keep alive the parts that they need.
class Context {
  public:
    struct Impl;
    // Of Config::found(): the file named by $VERBATIM_CONFIG, else ./verbatim.toml if it exists,
    // else the defaults; then the environment's variables.
    Context();
    explicit Context(const Config& config);
    // On a device that the program has opened; [device] of the configuration is not read.
    Context(const Config& config, std::unique_ptr<Device> device);
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    // `address`: "host:port", host a name or address ("[::1]:7471" for IPv6), or the Unix socket
    // "unix:/path" or "unix:@name" (abstract), or "rdma://host:port" of an RDMA device's connection
    // manager; else Error(unsupported). Each address of a name is tried in turn. Deadline:
    // config connect.timeout. docs/connecting.md.
    // On the context's lane, or on the one given, whose thread this is. Drives that lane: handlers
    // and tasks run inside. Throws
    // Error(invalid_argument): that lane, or poller, belongs to another context;
    // Error(would_deadlock) in a handler of that lane.
    Connection connect(std::string_view address);
    Connection connect(std::string_view address, const Lane& lane);
    // Makes a connection over a stream socket (TCP or Unix, blocking or not) that the program has
    // connected; both ends do it. From then on the socket is Verbatim's. The program has no bytes
    // of its own under way, and none in buffers but `read_ahead`. Throws what connect() throws, and
    // then the socket is closed; but with invalid_argument and would_deadlock it stays the
    // program's: it is no connected stream socket, or the lane is wrong. docs/connecting.md.
    Connection connect_over(const HandedSocket& socket);
    Connection connect_over(const HandedSocket& socket, const Lane& lane);
    // The file of a Unix socket has mode 0600, and ends with the listener. One whose listener has
    // ended is replaced. Throws Error(invalid_argument | device_error | permission_denied).
    Listener listen(std::string_view address);
    // Connects from any thread. The connection lives on the poller until it ends; `setup` as that
    // of Listener::serve(). A task of another poller goes on with the lanes of its own thread
    // meanwhile. Throws Error(would_deadlock) in a handler of any poller: give it a task
    // (Lane::submit) that connects.
    void connect(std::string_view address, Poller& poller,
                 const std::function<void(Connection&)>& setup);

    // The lane of connections that name none.
    Lane lane() noexcept { return lane_; }
    // One more lane, for another thread.
    Lane make_lane();

    // The pollers of the configuration, in its order. They end with the context.
    std::span<const std::unique_ptr<Poller>> pollers() const noexcept { return pollers_; }
    // By its name. Throws Error(invalid_argument).
    Poller& poller(std::string_view name) const;

    Arena& arena() noexcept;
    // One of [[named_arena]]: its memory may be lent, and used by one-sided operations. Throws
    // Error(invalid_argument) with the names there are.
    Arena& arena(std::string_view name) const;
    Device& device() noexcept;
    const Config& config() const noexcept;

  private:
    std::shared_ptr<Impl> impl_;
    Lane lane_;
    std::vector<std::unique_ptr<Poller>> pollers_;
};

}  // namespace verbatim
