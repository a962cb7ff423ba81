// A connection's state: the endpoint's data path, the side channel, and why it ended.
// Threads: one at a time (checked in debug builds).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <verbatim/core/connection.hpp>

#include "../bootstrap/side_channel.hpp"
#include "aside_messages.hpp"
#include "context_impl.hpp"
#include "endpoint.hpp"
#include "one_thread.hpp"
#include "peer_end.hpp"

namespace verbatim {

struct Connection::Impl {
    Impl(std::shared_ptr<Context::Impl> shared, std::unique_ptr<Endpoint> own, SideChannel side);
    ~Impl();

    // Messages, as Connection declares them.
    Errc try_send(std::uint8_t kind, std::span<const std::byte> head,
                  std::span<const std::byte> body) noexcept;
    Errc try_receive(Message& message) noexcept;
    Errc try_receive_any(Message& message) noexcept;
    Errc set_aside();
    void release() noexcept;
    bool holds_message() const noexcept { return aside_.holds() || ring.holds(); }

    // One-sided writes.
    Errc try_write(const std::byte* from, std::size_t bytes, std::uint64_t remote_address,
                   std::uint32_t remote_key, std::size_t& written) noexcept;
    Errc try_flush() noexcept;

    Errc progress() noexcept;
    void pause(unsigned round) noexcept;
    void check() const;

    std::shared_ptr<Context::Impl> context;
    std::unique_ptr<Endpoint> endpoint;
    SideChannel channel;
    SendPath& path;
    MessageRing& ring;
    OneThread one_thread;
    Errc state = Errc::ok;  // what the caller sees: set once nothing is left to receive
    bool closed = false;    // the end was a bye, and everything before it was received
    std::shared_ptr<void> attachment;

  private:
    Errc write_word(const std::byte* from, std::uint64_t remote_address,
                    std::uint32_t remote_key) noexcept;
    // One request: as much of the range as gather list and device take. `bytes`: in what is wanted,
    // out what went.
    Errc write_gathered(const std::byte* from, std::size_t& bytes, std::uint64_t remote_address,
                        std::uint32_t remote_key) noexcept;
    // Why there is no message: none has come yet, or the connection is over.
    Errc nothing_to_receive() noexcept;
    // The queue pair or the ring failed: the connection is over. The code to report.
    Errc fail(Errc why) noexcept;
    // `why`: an Errc, or the peer's Bye. Only the first end counts.
    template <class Why>
    void note_end(Why why) noexcept;
    void settle_end() noexcept;
    void look_at_side_channel() noexcept;
    void sleep(Clock::duration waited) noexcept;
    void close() noexcept;

    std::uint64_t max_write_;  // longest single write of the device
    PreparedWrite<mlx5::PreparedWrite8> write_;
    std::uint64_t last_write_ = 0;  // number of the last one-sided write
    AsideMessages aside_;
    PeerEnd end_;  // what has arrived can still be received
    unsigned progress_calls_ = 0;
    bool sleeping_ = false;  // this wait has spun long enough
    Clock::time_point wait_began_{}, looked_{};
};

// Brings a connection up over a connected side channel. `peer`: its hello, where it has come
// already (the accepting side). Throws Error; the peer has been told why.
std::unique_ptr<Connection::Impl> shake_hands(std::shared_ptr<Context::Impl> context,
                                              SideChannel channel, std::optional<Hello> peer);

}  // namespace verbatim
