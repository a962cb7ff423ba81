// Messages and one-sided writes of a connection.
#include "connection_impl.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace verbatim {
namespace {

constexpr std::uint8_t kApplicationKinds = 8;
constexpr std::size_t kMaxElements = 16;
// From here on a write gets a completion of its own, so that a flush need not post one more
// request; copying this much takes several times as long as a completion.
constexpr std::size_t kSignalBytes = 4096;

}  // namespace

Connection::Impl::Impl(std::shared_ptr<Context::Impl> shared, std::unique_ptr<Endpoint> own,
                       SideChannel side)
    : context(std::move(shared)),
      endpoint(std::move(own)),
      channel(std::move(side)),
      path(endpoint->path()),
      ring(endpoint->ring()),
      max_write_(std::min<std::uint64_t>(context->device->info().max_message_bytes,
                                         std::uint64_t{1} << 31)),
      write_{mlx5::PreparedWrite8(path.queue(), {.opcode = mlx5::Opcode::write})} {}

Connection::Impl::~Impl() { close(); }

// ---- messages ----

Errc Connection::Impl::try_send(std::uint8_t kind, std::span<const std::byte> head,
                                std::span<const std::byte> body) noexcept {
    if (end_.noticed()) [[unlikely]]
        return end_.why();
    if (kind >= ring::kMaxKind) [[unlikely]]
        return Errc::invalid_argument;
    const Errc error = ring.try_send(kind, head, body);
    if (error <= Errc::would_block || scope_of(error) == Scope::request) [[likely]]
        return error;
    return fail(error);
}

Errc Connection::Impl::try_receive_any(Message& message) noexcept {
    if (aside_.holds()) return Errc::would_block;
    const Errc error = ring.try_receive(message);
    if (error == Errc::ok) [[likely]]
        return error;
    return error == Errc::would_block ? nothing_to_receive() : fail(error);
}

Errc Connection::Impl::try_receive(Message& message) noexcept {
    if (!aside_.empty()) [[unlikely]] {
        if (holds_message()) return Errc::would_block;
        message = aside_.hold();
        return Errc::ok;
    }
    const Errc error = try_receive_any(message);
    if (error != Errc::ok || message.kind < kApplicationKinds) return error;
    ring.put_back();
    return Errc::invalid_argument;
}

void Connection::Impl::release() noexcept {
    if (aside_.holds()) [[unlikely]]
        return aside_.release();
    ring.release();
}

Errc Connection::Impl::set_aside() {
    if (!ring.holds()) return Errc::ok;
    if (!aside_.keep(ring.held())) {
        ring.put_back();
        return Errc::would_block;
    }
    ring.release();
    return Errc::ok;
}

// ---- one-sided writes ----

Errc Connection::Impl::try_write(const std::byte* from, std::size_t bytes,
                                 std::uint64_t remote_address, std::uint32_t remote_key,
                                 std::size_t& written) noexcept {
    written = 0;
    if (end_.noticed()) [[unlikely]]
        return end_.why();
    path.make_room();
    while (written < bytes) {
        const std::byte* at = from + written;
        std::size_t piece = bytes - written;
        const Errc error = piece == 8
                               ? write_word(at, remote_address + written, remote_key)
                               : write_gathered(at, piece, remote_address + written, remote_key);
        if (error != Errc::ok) [[unlikely]] {
            return error == Errc::would_block || scope_of(error) == Scope::request ? error
                                                                                   : fail(error);
        }
        written += piece;
        last_write_ = path.accepted();
    }
    return Errc::ok;
}

Errc Connection::Impl::write_word(const std::byte* from, std::uint64_t remote_address,
                                  std::uint32_t remote_key) noexcept {
    // Copied by this thread: where nothing is registered nothing may be mapped.
    for (const std::byte* end : {from, from + sizeof(std::uint64_t) - 1}) {
        const MemoryRegion* region = nullptr;
        if (const Errc error = context->objects.find_or_register(end, region); error != Errc::ok)
            [[unlikely]]
            return error;
    }
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return path.post(write_, mlx5::RemoteMemory{remote_address, remote_key}, word);
}

Errc Connection::Impl::write_gathered(const std::byte* from, std::size_t& bytes,
                                      std::uint64_t remote_address,
                                      std::uint32_t remote_key) noexcept {
    std::array<mlx5::Element, kMaxElements> elements;
    const std::size_t most = std::min<std::size_t>(kMaxElements, path.max_elements());
    const std::size_t wanted = std::min<std::size_t>(bytes, max_write_);
    std::size_t count = 0, taken = 0;
    for (; count < most && taken < wanted; ++count) {
        const MemoryRegion* region = nullptr;
        const std::byte* at = from + taken;
        if (const Errc error = context->objects.find_or_register(at, region); error != Errc::ok)
            return error;
        const std::size_t piece = std::min(wanted - taken, context->objects.to_segment_end(at));
        elements[count] = {reinterpret_cast<std::uint64_t>(at), static_cast<std::uint32_t>(piece),
                           region->local_key()};
        taken += piece;
    }
    mlx5::WorkRequest request{.opcode = mlx5::Opcode::write,
                              .remote_address = remote_address,
                              .remote_key = remote_key,
                              .elements = std::span(elements).first(count)};
    if (taken >= kSignalBytes) path.signal_next();
    bytes = taken;
    return path.post(request);
}

Errc Connection::Impl::try_flush() noexcept {
    if (const Errc error = path.poll(); error != Errc::ok) [[unlikely]]
        return fail(error);
    if (path.retired() >= last_write_) return Errc::ok;
    if (const Errc error = path.signal_last(); error != Errc::ok)
        return error == Errc::would_block ? error : fail(error);
    if (const Errc error = path.poll(); error != Errc::ok) [[unlikely]]
        return fail(error);
    return path.retired() >= last_write_ ? Errc::ok : Errc::would_block;
}

}  // namespace verbatim
