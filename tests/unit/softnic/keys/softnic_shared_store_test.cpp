// Stores into shared memory: right bytes at every alignment, the last aligned 8 bytes last.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "host/shared_store.hpp"
#include "keys/pieces.hpp"

namespace verbatim::softnic {
namespace {

std::vector<std::byte> numbered(std::size_t bytes) {
    std::vector<std::byte> result(bytes);
    for (std::size_t i = 0; i < bytes; ++i) result[i] = static_cast<std::byte>(i + 1);
    return result;
}

TEST(SharedStore, writes_exactly_the_bytes_at_every_alignment_and_length) {
    alignas(64) std::array<std::byte, 128> target;
    const auto source = numbered(64);
    for (std::size_t offset = 0; offset < 16; ++offset) {
        for (std::size_t bytes = 1; bytes <= 64; ++bytes) {
            target.fill(std::byte{0});
            write_in_order(target.data() + 16 + offset, source.data(), bytes);
            for (std::size_t i = 0; i < target.size(); ++i) {
                const bool inside = i >= 16 + offset && i < 16 + offset + bytes;
                ASSERT_EQ(target[i], inside ? source[i - 16 - offset] : std::byte{0})
                    << offset << " " << bytes << " " << i;
            }
        }
    }
}

TEST(SharedStore, tail_is_what_lies_in_the_last_word) {
    alignas(8) std::array<std::byte, 64> memory;
    EXPECT_EQ(tail_bytes(memory.data(), 8), 8u);
    EXPECT_EQ(tail_bytes(memory.data(), 16), 8u);
    EXPECT_EQ(tail_bytes(memory.data(), 17), 1u);
    EXPECT_EQ(tail_bytes(memory.data() + 4, 4), 4u);
    EXPECT_EQ(tail_bytes(memory.data() + 4, 8), 4u);
    EXPECT_EQ(tail_bytes(memory.data() + 1, 2), 2u);
}

TEST(SharedStore, gathers_chunks_of_pieces_whose_borders_cut_the_last_word) {
    alignas(64) std::array<std::byte, 64> target;
    auto source = numbered(40);
    for (std::size_t first = 1; first < 39; ++first) {
        for (std::size_t second = 1; first + second < 40; ++second) {
            target.fill(std::byte{0});
            PieceList list;
            list.add(source.data(), first);
            list.add(source.data() + first, second);
            list.add(source.data() + first + second, 40 - first - second);
            gather_in_order(target.data() + 3, list, {0, 17});
            gather_in_order(target.data() + 20, list, {17, 23});
            ASSERT_EQ(std::memcmp(target.data() + 3, source.data(), 40), 0)
                << first << " " << second;
            ASSERT_EQ(target[43], std::byte{0});
        }
    }
}

// The promise to pollers: who sees the last word sees everything before it.
TEST(SharedStore, poller_of_the_last_word_sees_all_bytes) {
    constexpr std::size_t kWords = 12;
    alignas(64) static std::array<std::uint64_t, kWords> shared{};
    constexpr std::uint64_t kRounds = 20000;
    std::atomic<std::uint64_t> consumed{0};
    std::thread poller([&] {
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            while (__atomic_load_n(&shared[kWords - 1], __ATOMIC_ACQUIRE) != round) {
            }
            for (std::size_t i = 0; i + 1 < kWords; ++i) ASSERT_EQ(shared[i], round);
            consumed.store(round, std::memory_order_release);
        }
    });
    std::array<std::uint64_t, kWords> image;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
        image.fill(round);
        write_in_order(reinterpret_cast<std::byte*>(shared.data()),
                       reinterpret_cast<const std::byte*>(image.data()), sizeof image);
        while (consumed.load(std::memory_order_acquire) != round) {
        }
    }
    poller.join();
}

}  // namespace
}  // namespace verbatim::softnic
