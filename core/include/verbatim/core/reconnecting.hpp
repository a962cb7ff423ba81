// A reconnecting connection dials its listener again when the connection has ended, and tells which
// messages may be lost. It sends no message twice. docs/reconnect.md.
// Threads: those of its lane, which the program drives; no poller. It has no thread of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include <verbatim/core/client.hpp>
#include <verbatim/core/connection.hpp>
#include <verbatim/core/deadline.hpp>
#include <verbatim/core/lane.hpp>

namespace verbatim {

struct ReconnectOptions {
    // Between two attempts. It doubles after each one that fails; half of it is random.
    std::chrono::milliseconds first_pause{10}, longest_pause{2000};
    // Without a connection for so long, it ends with Errc::timeout. 0: never.
    std::chrono::milliseconds give_up_after{0};
    bool after_close = true;  // dials also after a regular close by the peer
};

// What became of the messages of a connection that has ended. Messages are numbered from 0 over the
// life of the object, in the order in which try_send() accepted them. Those before `first` were
// taken by the peer; the `count` from there may or may not have been. None is sent again.
struct Lost {
    std::uint64_t generation = 0;
    std::uint64_t first = 0, count = 0;
    Errc why = Errc::ok;  // the connection's state
};

class Reconnecting {
  public:
    struct Impl;
    // Dials by its polls and waits, not yet. Throws Error(invalid_argument): the address is none,
    // or a pause is.
    Reconnecting(const Lane& lane, std::string_view address, const ReconnectOptions& options = {});
    Reconnecting(Reconnecting&&) noexcept;
    Reconnecting& operator=(Reconnecting&&) noexcept;
    // Closes as a connection does.
    ~Reconnecting();

    // Sets a handler on this and each later connection, as Connection::on() has it.
    template <class Handle>
    void on(std::uint8_t channel, Handle handle) {
        set_handler(channel, {[](void* state, Connection& connection, Message& message) noexcept {
                                  Handle& call = *static_cast<Handle*>(state);
                                  if constexpr (std::is_invocable_v<Handle&, Message&>)
                                      call(message);
                                  else
                                      call(connection, message);
                              },
                              std::make_shared<Handle>(std::move(handle))});
    }
    void set_handler(std::uint8_t channel, ChannelHandler handler);
    // Called by polls and waits, for each connection once: when it begins, with its handlers set;
    // and when it has ended, before the next one is dialled. They must not throw, or end this.
    void on_connected(std::function<void(Connection&)> call);
    void on_lost(std::function<void(const Lost&)> call);

    // Polls the lane once, and goes on dialling. ok: there is a connection. would_block: there is
    // none now. Otherwise it has ended for good, as check() says. In a handler it only looks.
    Errc poll() noexcept;
    // Polls until there is a connection. Throws Error(timeout), and what check() throws.
    void wait(Deadline deadline);
    // Throws the Error with which it has ended for good, if it has: give_up_after has passed
    // (timeout), the listener refuses for good (permission_denied, version_mismatch, unsupported),
    // or the peer closed and after_close is off (peer_lost).
    void check() const;

    // Sends one message, as Connection::try_send() does. would_block, too: there is no connection
    // now, and nothing was sent. Data path.
    Errc try_send(std::uint8_t channel, std::span<const std::byte> head,
                  std::span<const std::byte> body = {}, std::uint8_t kind = 0) noexcept;
    // How many messages try_send() has accepted, and how many of them no longer lie in doubt: the
    // peer took them, or on_lost told of them.
    std::uint64_t sent() const noexcept;
    std::uint64_t settled() noexcept;

    // The connection there is now; null: none. What is sent by it is not numbered here.
    Connection* connection() noexcept;
    // This object's id, and the generation of the last attempt. Generations may skip numbers.
    const ClientIdentity& client() const noexcept;

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace verbatim
