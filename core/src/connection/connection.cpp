// The public face of a connection: the thread check, the blocking forms, memory that is lent.
#include <verbatim/core/connection.hpp>

#include <utility>

#include "connection_impl.hpp"

namespace verbatim {
namespace {

auto enter(Connection::Impl& impl) noexcept {
    return impl.one_thread.enter(impl.channel.name().c_str());
}

[[noreturn]] void raise(const Connection::Impl& impl, Errc error) {
    impl.check();
    throw Error(error, "connection to " + impl.channel.name(), std::string(describe(error)));
}

// Repeats `attempt` until it neither succeeds nor would block.
template <class Attempt>
void wait_for(Connection::Impl& impl, Deadline deadline, Attempt attempt) {
    for (unsigned round = 0;; ++round) {
        const Errc error = attempt();
        if (error == Errc::ok) return;
        if (error != Errc::would_block) raise(impl, error);
        if (deadline.passed(round))
            throw Error(Errc::timeout, "connection to " + impl.channel.name(),
                        "the peer did not act in time",
                        "see whether the peer is busy or stopped, or allow more time");
        (void)impl.progress();
        impl.pause(round);
    }
}

}  // namespace

Connection::Connection(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Connection::Connection(Connection&&) noexcept = default;
Connection& Connection::operator=(Connection&&) noexcept = default;
Connection::~Connection() = default;

Errc Connection::try_send(std::uint8_t kind, std::span<const std::byte> head,
                          std::span<const std::byte> body) noexcept {
    const auto guard = enter(*impl_);
    return impl_->try_send(kind, head, body);
}

Errc Connection::try_receive(Message& message) noexcept {
    const auto guard = enter(*impl_);
    return impl_->try_receive(message);
}

Errc Connection::try_receive_any(Message& message) noexcept {
    const auto guard = enter(*impl_);
    return impl_->try_receive_any(message);
}

Errc Connection::set_aside_message() {
    const auto guard = enter(*impl_);
    return impl_->set_aside();
}

bool Connection::holds_message() const noexcept { return impl_->holds_message(); }

void Connection::release_message() noexcept {
    const auto guard = enter(*impl_);
    impl_->release();
}

std::size_t Connection::max_message_bytes() const noexcept { return impl_->ring.max_payload(); }

void Connection::send_message(std::uint8_t kind, std::span<const std::byte> head,
                              std::span<const std::byte> body, Deadline deadline) {
    const auto guard = enter(*impl_);
    wait_for(*impl_, deadline, [&] { return impl_->try_send(kind, head, body); });
}

Message Connection::receive_message(Deadline deadline) {
    const auto guard = enter(*impl_);
    Message message;
    wait_for(*impl_, deadline, [&] { return impl_->try_receive(message); });
    return message;
}

Errc Connection::try_write(const std::byte* from, std::size_t bytes, std::uint64_t remote_address,
                           std::uint32_t remote_key, std::size_t& written) noexcept {
    const auto guard = enter(*impl_);
    return impl_->try_write(from, bytes, remote_address, remote_key, written);
}

Errc Connection::try_flush() noexcept {
    const auto guard = enter(*impl_);
    return impl_->try_flush();
}

Errc Connection::progress() noexcept {
    const auto guard = enter(*impl_);
    return impl_->progress();
}

void Connection::pause(unsigned round) noexcept {
    const auto guard = enter(*impl_);
    impl_->pause(round);
}

Errc Connection::state() const noexcept { return impl_->state; }
void Connection::check() const { impl_->check(); }

Arena& Connection::arena() noexcept { return impl_->context->objects.arena(); }
Arena& Connection::receive_arena() noexcept { return impl_->context->received.arena(); }
std::shared_ptr<Arena> Connection::arena_ptr() noexcept {
    return impl_->context->objects.arena_ptr();
}
std::shared_ptr<Arena> Connection::receive_arena_ptr() noexcept {
    return impl_->context->received.arena_ptr();
}

std::size_t Connection::lend(const std::byte* p, std::size_t bytes,
                             std::span<RemoteExtent> extents) {
    RegionTable& table = impl_->context->received;
    table.ensure(p, bytes);
    std::size_t count = 0;
    while (bytes != 0 && count < extents.size()) {
        const std::size_t piece = std::min(bytes, table.to_segment_end(p));
        extents[count++] = {reinterpret_cast<std::uint64_t>(p), piece, table.find(p)->remote_key(),
                            0};
        p += piece;
        bytes -= piece;
    }
    return count;
}

const Config& Connection::config() const noexcept { return impl_->context->config; }
const std::string& Connection::peer_name() const noexcept { return impl_->channel.name(); }
std::shared_ptr<void>& Connection::attachment() noexcept { return impl_->attachment; }
bool Connection::peer_closed() const noexcept { return impl_->closed; }

}  // namespace verbatim
