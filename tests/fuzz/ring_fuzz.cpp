// What a peer may write into this side's ring, at any time between this side's looks. The input is
// a list of steps: write these bytes there, put a true trailer there, look.
#include <algorithm>
#include <array>
#include <cstring>

#include "fuzz_target.hpp"
#include "ring/fragments.hpp"

using namespace verbatim;

namespace {

constexpr std::size_t kRing = 4096;
constexpr std::uint64_t kKey = 0x5eed;
constexpr std::uint64_t kLongest = 2048;

struct alignas(64) Memory {
    std::array<std::byte, kRing> bytes{};
};

// Keeps what was handed out, and gives it back out of order.
struct Holder {
    IncomingFragments fragments{kLongest};
    std::array<std::uint32_t, 8> numbers{};
    std::size_t count = 0;
};

// One look; false if the ring is refused for good.
bool look(RingReceiver& receiver, const Memory& memory, Holder& held) {
    const std::uint64_t before = receiver.consumed();
    Record record;
    const Errc result = receiver.next(record);
    if (result == Errc::protocol_error) return false;
    if (result == Errc::ok) {
        const std::byte* const first = record.payload.data();
        fuzz::require(first >= memory.bytes.data());
        fuzz::require(first + record.payload.size() <= memory.bytes.data() + kRing);
        fuzz::require(record.payload.size() <= ring::max_payload(kRing));
        fuzz::require(record.kind < ring::kKinds);
        held.numbers[held.count++] = record.number;
        // Records given back out of order count until those before them are.
        const auto all = std::span(held.numbers).first(held.count);
        fuzz::require(receiver.held() ==
                      record.number + 1 - *std::min_element(all.begin(), all.end()));
        if (record.frame == ring::Frame::fragment && held.fragments.add(record) == Errc::ok &&
            held.fragments.is_whole()) {
            fuzz::require(held.fragments.size() <= kLongest);
            delete[] held.fragments.take();
        }
    } else {
        fuzz::require(result == Errc::would_block);
    }
    if (held.count == held.numbers.size() || (held.count != 0 && result != Errc::ok))
        receiver.release(held.numbers[--held.count]);
    fuzz::require(receiver.consumed() >= before && receiver.consumed() - before <= kRing);
    fuzz::require(receiver.consumed() % ring::kAlignment == 0);
    return true;
}

// A look ahead, as a sender without credits and an arming receiver take it.
bool look_ahead(RingReceiver& receiver, std::uint64_t distance) {
    RingReceiver::Seen seen;
    if (distance % 3 == 0) receiver.skip_pads();
    const std::uint64_t before = receiver.position();
    const Errc result = distance % 2 == 0
                            ? receiver.look_ahead(seen)
                            : receiver.holds_up_to(receiver.consumed() + distance * 16, seen);
    fuzz::require(receiver.position() == before);
    fuzz::require(seen.count + seen.pads <= kRing / ring::kAlignment);
    return result != Errc::protocol_error;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    Memory memory;
    RingReceiver receiver(memory.bytes.data(), kRing, kKey);
    Holder held;
    fuzz::Input input(data, bytes);
    while (input.left() > 0) {
        const auto step = input.number(1);
        const std::size_t at = input.number(2) % kRing;
        if (step % 4 == 0) {
            const auto piece = input.take(step / 4);
            const std::size_t room = std::min(piece.size(), kRing - at);
            if (room > 0) std::memcpy(memory.bytes.data() + at, piece.data(), room);
        } else if (step % 4 == 1) {  // the peer knows the key
            const std::uint64_t tag = ring::tag(kKey, receiver.position() + (step / 4) * 32);
            std::memcpy(memory.bytes.data() + at / 8 * 8, &tag, sizeof tag);
        } else if (step % 4 == 2 ? !look(receiver, memory, held) : !look_ahead(receiver, at)) {
            return 0;
        }
    }
    return 0;
}

namespace {

// A batch of messages of 5, 0 and 24 bytes, then looks.
std::vector<std::byte> batch_seed() {
    std::vector<std::byte> seed, record(8);
    const auto number = [&](std::uint64_t value, int bytes) {
        for (int i = bytes - 1; i >= 0; --i)
            seed.push_back(static_cast<std::byte>(value >> (8 * i)));
    };
    const auto put_word = [&](std::size_t at, const ring::Word0& word) {
        const std::uint64_t raw = word.raw();
        std::memcpy(record.data() + at, &raw, sizeof raw);
    };
    for (const std::uint32_t length : {5u, 0u, 24u}) {
        const std::size_t at = record.size();
        record.resize(at + 8 + ring::round_up(length, 8));
        put_word(at, {.length = length, .channel = 3});
    }
    const auto length = static_cast<std::uint32_t>(record.size() - 8);
    put_word(0, {.length = length, .frame = ring::Frame::batch, .credit = 9});
    for (std::size_t at = 0; at < record.size(); at += 8) {
        number(8 * 4, 1), number(at, 2);
        seed.insert(seed.end(), record.begin() + static_cast<std::ptrdiff_t>(at),
                    record.begin() + static_cast<std::ptrdiff_t>(at + 8));
    }
    number(1, 1), number(record.size(), 2);
    for (int looks = 0; looks < 4; ++looks) number(2, 1), number(0, 2);
    return seed;
}

}  // namespace

std::vector<std::vector<std::byte>> fuzz_seeds() {
    std::vector<std::byte> seed;
    const auto number = [&](std::uint64_t value, int bytes) {
        for (int i = bytes - 1; i >= 0; --i)
            seed.push_back(static_cast<std::byte>(value >> (8 * i)));
    };
    // Records of 5, 0 and 24 bytes, each looked at, then a wrong pad.
    std::size_t offset = 0;
    for (const std::uint32_t length : {5u, 0u, 24u}) {
        const std::uint64_t word = ring::Word0{.length = length, .channel = 3, .credit = 9}.raw();
        number(8 * 4, 1), number(offset, 2);
        const auto raw = std::as_bytes(std::span(&word, 1));
        seed.insert(seed.end(), raw.begin(), raw.end());
        number(1, 1), number(offset + 8 + ring::round_up(length, 8), 2);
        number(2, 1), number(0, 2);
        offset += ring::slot_bytes(length);
    }
    std::vector<std::vector<std::byte>> seeds{seed};
    seeds.push_back(batch_seed());
    const std::uint64_t pad = ring::Word0{.length = 64, .frame = ring::Frame::pad}.raw();
    number(8 * 4, 1), number(offset, 2);
    const auto raw = std::as_bytes(std::span(&pad, 1));
    seed.insert(seed.end(), raw.begin(), raw.end());
    number(1, 1), number(offset + 8, 2), number(2, 1), number(0, 2);
    seeds.push_back(seed);
    return seeds;
}
