// Lending costs a grant, a message back and the time of a read, whatever the length. Copying costs
// two more copies of each byte.
#include "lending_cost.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <verbatim/core/grant.hpp>
#include <verbatim/core/one_sided.hpp>
#include <verbatim/driver/log.hpp>

#include "../connection/waiting.hpp"

namespace verbatim {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr int kRounds = 5;
constexpr std::size_t kGuess = std::size_t{32} << 10;
constexpr std::size_t kLeast = std::size_t{4} << 10, kMost = std::size_t{1} << 20;

template <class Work>
double best_seconds(Work work) {
    double best = 1;
    for (int round = 0; round < kRounds; ++round) {
        const auto before = Clock::now();
        work();
        best = std::min(best, Seconds(Clock::now() - before).count());
    }
    return best;
}

// Out of a cache that holds neither: as long messages find it.
double copy_seconds_per_byte() {
    static const double seconds = [] {
        constexpr std::size_t kBytes = std::size_t{512} << 10;
        const std::vector<std::byte> from(kBytes, std::byte{1});
        std::vector<std::byte> to(kBytes);
        return best_seconds([&] { std::memcpy(to.data(), from.data(), kBytes); }) / kBytes;
    }();
    return seconds;
}

// Throws Error; then the word stays in the arena, as the device may still write there.
double lending_seconds(Connection& connection, Deadline deadline) {
    Connection::Impl& impl = LayerAccess::impl_of(connection);
    Arena& arena = connection.arena();
    auto* const word = arena.make<std::uint64_t>();
    const std::span words(word, 1);
    const double grant = best_seconds([&] {
        refuse_ended(impl);
        Grant lent(*impl.handle, std::as_writable_bytes(words), Access::remote_read, nullptr,
                   EndNotice::none);
        lent.wait_end(deadline);
    });
    const mlx5::RemoteMemory posted = impl.endpoint->peer().posted;
    const RemoteSpan<std::uint64_t> of_peer({posted.address, sizeof *word, posted.key, 0});
    const double read = best_seconds([&] {
        refuse_ended(impl);
        OneSided(*impl.handle).read(of_peer, words, deadline);
    });
    arena.destroy(word);
    return grant + 1.5 * read;
}

}  // namespace

std::size_t lend_from(Connection& connection) noexcept try {
    Connection::Impl& impl = LayerAccess::impl_of(connection);
    const auto guard = enter(impl);
    if (impl.lane->in_handler() || impl.has_ended()) return kGuess;
    const double seconds =
        lending_seconds(connection, Deadline::after(impl.context->config.connect.timeout));
    const double bytes = seconds / (2 * copy_seconds_per_byte());
    log::debug("{}: bytes are lent from {:.0f} on", impl.channel.name(), bytes);
    return std::clamp(static_cast<std::size_t>(bytes), kLeast, kMost);
} catch (const std::exception& error) {
    log::debug("lending was not measured: {}", error.what());
    return kGuess;
}

}  // namespace verbatim
