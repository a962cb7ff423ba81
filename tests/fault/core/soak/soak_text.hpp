// Texts are the messages of the soak test: length, channel, kind and bytes of each follow from its
// name, so the receiver knows all of them without being told.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace verbatim::test::soak {

// A stream is numbered by itself: messages of the lane's program, those of another thread, and the
// answers of handlers.
enum Stream : std::uint8_t { kProgram, kSender, kReply };
inline constexpr std::size_t kStreams = 3;

struct Name {
    std::uint32_t connection = 0;
    std::uint8_t side = 0;  // that sends it
    Stream stream = kProgram;
    std::uint64_t number = 0;
};

// Channels of the program's messages are 1 to 5; two of them have handlers.
inline constexpr std::uint8_t kHandled = 4, kAsking = 5, kSenderChannel = 10, kReplyChannel = 11;
// Kind of a message behind a one-sided write that must be there when it is.
inline constexpr std::uint8_t kMark = 15;
inline constexpr std::size_t kShortest = 1008;  // longest message of the smallest ring

inline constexpr std::uint64_t mix(std::uint64_t x) noexcept {
    x = (x ^ (x >> 32)) * 0xd6e8'feb8'6659'fd93u;
    x = (x ^ (x >> 29)) * 0xd6e8'feb8'6659'fd93u;
    return x ^ (x >> 32);
}

struct Text {
    explicit Text(const Name& named)
        : name(named),
          draw(mix(mix(named.number + 1) ^ named.connection ^ std::uint64_t{named.side} << 40 ^
                   std::uint64_t{named.stream} << 48)),
          bytes(length_of(draw, named.stream)) {
        channel = named.stream == kSender  ? kSenderChannel
                  : named.stream == kReply ? kReplyChannel
                                           : static_cast<std::uint8_t>(1 + (draw >> 32) % 5);
        const std::uint64_t most = named.stream == kProgram ? 16 : 15;
        // Longer messages than a record's have no kind.
        kind = bytes.size() <= kShortest ? static_cast<std::uint8_t>((draw >> 40) % most) : 0;
        fill(bytes);
    }
    bool is_mark() const noexcept { return kind == kMark; }
    // The bytes of its write.
    std::vector<std::byte> written() const {
        std::vector<std::byte> all(8 + (draw >> 20) % 200);
        fill(all);
        return all;
    }
    bool is(std::span<const std::byte> other) const noexcept {
        return std::ranges::equal(bytes, other);
    }

    static std::size_t length_of(std::uint64_t draw, Stream stream) noexcept {
        const std::uint64_t sort = draw % 40, size = (draw >> 8) % 4096;
        if (sort < 3) return 0;
        if (sort < 12) return 1 + size % 8;
        if (sort < 22) return 9 + size % 56;
        if (sort < 32 || stream != kProgram) return 65 + size % 300;
        if (sort < 39) return 257 + size % (kShortest - 256);
        return kShortest + 1 + 2 * size;
    }

    Name name;
    std::uint64_t draw;
    std::vector<std::byte> bytes;
    std::uint8_t channel = 0, kind = 0;

  private:
    void fill(std::span<std::byte> all) const noexcept {
        std::uint64_t word = draw | 1;
        for (std::size_t at = 0; at < all.size(); at += sizeof word) {
            word ^= word << 13, word ^= word >> 7, word ^= word << 17;
            std::memcpy(&all[at], &word, std::min(sizeof word, all.size() - at));
        }
    }
};

inline std::string to_text(const Name& name) {
    static constexpr std::array kNames{"program", "sender", "reply"};
    return "connection " + std::to_string(name.connection) + ", from side " +
           std::to_string(name.side) + ", " + kNames[name.stream] + " " +
           std::to_string(name.number);
}

}  // namespace verbatim::test::soak
