// Reads and additions, and what they must find.
#include "soak_remote.hpp"

#include <algorithm>
#include <cstring>

#include "soak_text.hpp"

namespace verbatim::test::soak {

void Remote::fill(std::span<std::byte> lent, std::uint32_t connection, std::uint8_t side) {
    std::ranges::fill(lent, std::byte{0});
    std::uint64_t word = mix(std::uint64_t{connection} << 1 | side) | 1;
    for (std::byte& byte : lent.first(kReadBytes)) {
        word ^= word << 13, word ^= word >> 7, word ^= word << 17;
        byte = static_cast<std::byte>(word);
    }
}

void Remote::begin(std::byte* local, const RemoteExtent& lent, std::uint32_t connection,
                   std::uint8_t side) {
    local_ = local;
    lent_ = lent;
    expected_.resize(kLentBytes);
    fill(expected_, connection, side);
}

std::size_t Remote::free_slot() const noexcept {
    std::size_t index = 0;
    while (std::ranges::any_of(open_, [&](const Open& open) { return open.slot == index; }))
        ++index;
    return index;
}

Errc Remote::read(OneSided one_sided, Open& open, Random& random) const {
    open.bytes = 1 + random() % kLongest;
    open.at = random() % (kReadBytes - open.bytes + 1);
    std::byte* const into = slot(open.slot);
    std::memset(into, 0xee, open.bytes);
    return one_sided.try_read(RemoteSpan<std::byte>(lent_).subspan(open.at, open.bytes),
                              std::span(into, open.bytes), open.operation);
}

// The next one to the word finds the sum of all that were posted before it.
Errc Remote::add(OneSided one_sided, Open& open, Random& random) {
    open.adds = true;
    open.at = random() % kWords;
    open.before = sums_[open.at];
    const std::uint64_t addend = random();
    const RemoteSpan<std::uint64_t> words(
        {lent_.address + kReadBytes, 8 * kWords, lent_.remote_key, 0});
    const Errc error = one_sided.try_fetch_add(
        words[open.at], addend, reinterpret_cast<std::uint64_t*>(slot(open.slot)), open.operation);
    if (error == Errc::ok) sums_[open.at] += addend;
    return error;
}

void Remote::start(Connection& connection, Random& random) {
    if (!has_begun() || open_.size() == kMostAtOnce) return;
    Open open{.slot = free_slot()};
    const bool adds = random() % 2 == 0;
    const OneSided one_sided(connection);
    const Errc error = adds ? add(one_sided, open, random) : read(one_sided, open, random);
    if (error == Errc::ok) open_.push_back(open);
}

std::string Remote::difference(const Open& open) const {
    if (open.adds) {
        std::uint64_t found = 0;
        std::memcpy(&found, slot(open.slot), sizeof found);
        return found == open.before ? "" : "an addition was lost, or done twice";
    }
    const bool same = std::ranges::equal(std::span(slot(open.slot), open.bytes),
                                         std::span(expected_).subspan(open.at, open.bytes));
    return same ? "" : "a read brought other bytes";
}

Remote::Outcome Remote::look(Connection& connection) {
    const OneSided one_sided(connection);
    Outcome outcome;
    std::erase_if(open_, [&](const Open& open) {
        const Errc error = one_sided.result(open.operation);
        if (error == Errc::would_block) return false;
        if (error != Errc::ok)
            outcome.failed = error;
        else if (const std::string found = difference(open); !found.empty())
            outcome.wrong = found;
        outcome.done += error == Errc::ok ? 1u : 0u;
        return true;
    });
    return outcome;
}

}  // namespace verbatim::test::soak
