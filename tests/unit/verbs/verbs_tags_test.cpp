// What travels through verbs in wr_id, the objects behind memory keys, and statuses.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <verbatim/driver/error.hpp>

#include "verbs/completion_translator.hpp"
#include "verbs/key_table.hpp"
#include "verbs/tag.hpp"

namespace verbatim::verbs {
namespace {

TEST(Tag, comes_back_as_it_went_beside_any_life) {
    Life life;
    for (const bool receive : {false, true})
        for (const bool refused : {false, true})
            for (const int number : {0, 1, 0x7fff, 0xffff}) {
                const auto counter = static_cast<std::uint16_t>(number);
                const Tag tag{receive, refused, 0x25, counter};
                const std::uint64_t bits = tag.bits() | life.bits();
                EXPECT_TRUE(Life::current(bits));
                const Tag back = Tag::of(bits);
                EXPECT_EQ(back.receive, receive);
                EXPECT_EQ(back.refused, refused);
                EXPECT_EQ(back.opcode, 0x25);
                EXPECT_EQ(back.counter, counter);
            }
}

TEST(Life, ends_with_a_reset_and_with_its_queue_also_where_its_slot_is_used_again) {
    auto life = std::make_unique<Life>();
    const std::uint64_t first = life->bits();
    life->renew();
    EXPECT_FALSE(Life::current(first));
    const std::uint64_t second = life->bits();
    EXPECT_TRUE(Life::current(second));
    life.reset();
    EXPECT_FALSE(Life::current(second));
    std::vector<std::unique_ptr<Life>> others;
    for (int i = 0; i < 100; ++i) others.push_back(std::make_unique<Life>());
    EXPECT_FALSE(Life::current(first));
    EXPECT_FALSE(Life::current(second));
    for (const auto& other : others) EXPECT_TRUE(Life::current(other->bits()));
}

TEST(Life, there_are_only_so_many_and_they_come_back) {
    std::vector<std::unique_ptr<Life>> lives;
    try {
        for (;;) lives.push_back(std::make_unique<Life>());
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::out_of_memory);
    }
    EXPECT_GE(lives.size(), 30000u);
    lives.pop_back();
    EXPECT_NO_THROW(Life{});
}

TEST(KeyTable, finds_objects_whatever_the_low_byte_of_their_key_is_now) {
    const auto table = std::make_unique<KeyTable>();
    std::array<ibv_mw, 300> windows{};
    std::array<ibv_mr, 300> regions{};
    for (std::uint32_t i = 0; i < 300; ++i) {
        table->add(i << 8 | 3, &windows[i]);
        table->add(i << 8 | 3, &regions[i]);  // keys of the two kinds may be the same
    }
    for (std::uint32_t i = 0; i < 300; ++i) {
        EXPECT_EQ(table->window(i << 8 | (i & 0xff)), &windows[i]);
        EXPECT_EQ(table->region(i << 8), &regions[i]);
    }
    EXPECT_EQ(table->window(300 << 8), nullptr);
    table->remove(&windows[7]);
    EXPECT_EQ(table->window(7 << 8), nullptr);
    EXPECT_EQ(table->region(7 << 8), &regions[7]);
}

TEST(KeyTable, full_one_says_so_and_goes_on_after_a_removal) {
    const auto table = std::make_unique<KeyTable>();
    std::vector<ibv_mw> windows(5000);
    std::uint32_t count = 0;
    try {
        for (;; ++count) table->add(count << 8, &windows[count]);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::out_of_memory);
    }
    EXPECT_EQ(count, 4096u);
    EXPECT_EQ(table->window(4096 << 8), nullptr);
    table->remove(&windows[100]);
    table->add(4096 << 8, &windows[4096]);
    EXPECT_EQ(table->window(4096 << 8), &windows[4096]);
    EXPECT_EQ(table->window(100 << 8), nullptr);
}

TEST(KeyTable, is_read_while_others_come_and_go) {
    const auto table = std::make_unique<KeyTable>();
    ibv_mw stays{}, comes{};
    table->add(0x100, &stays);
    std::atomic<bool> stop{false};
    std::thread reader([&] {
        while (!stop.load()) {
            EXPECT_EQ(table->window(0x1ff), &stays);
            ibv_mw* const seen = table->window(0x200);
            EXPECT_TRUE(seen == nullptr || seen == &comes);
        }
    });
    for (int i = 0; i < 2000; ++i) {
        table->add(0x200, &comes);
        table->remove(&comes);
    }
    stop.store(true);
    reader.join();
}

TEST(Syndromes, are_those_that_a_device_would_give) {
    using mlx5::Syndrome;
    EXPECT_EQ(syndrome_of(IBV_WC_LOC_LEN_ERR), Syndrome::local_length);
    EXPECT_EQ(syndrome_of(IBV_WC_LOC_QP_OP_ERR), Syndrome::local_queue_pair);
    EXPECT_EQ(syndrome_of(IBV_WC_LOC_PROT_ERR), Syndrome::local_protection);
    EXPECT_EQ(syndrome_of(IBV_WC_WR_FLUSH_ERR), Syndrome::flushed);
    EXPECT_EQ(syndrome_of(IBV_WC_MW_BIND_ERR), Syndrome::window_bind);
    EXPECT_EQ(syndrome_of(IBV_WC_BAD_RESP_ERR), Syndrome::bad_response);
    EXPECT_EQ(syndrome_of(IBV_WC_LOC_ACCESS_ERR), Syndrome::local_access);
    EXPECT_EQ(syndrome_of(IBV_WC_REM_INV_REQ_ERR), Syndrome::remote_invalid);
    EXPECT_EQ(syndrome_of(IBV_WC_REM_ACCESS_ERR), Syndrome::remote_access);
    EXPECT_EQ(syndrome_of(IBV_WC_REM_OP_ERR), Syndrome::remote_operation);
    EXPECT_EQ(syndrome_of(IBV_WC_RETRY_EXC_ERR), Syndrome::retry_exceeded);
    EXPECT_EQ(syndrome_of(IBV_WC_RNR_RETRY_EXC_ERR), Syndrome::rnr_exceeded);
    EXPECT_EQ(syndrome_of(IBV_WC_FATAL_ERR), Syndrome::remote_aborted);
}

}  // namespace
}  // namespace verbatim::verbs
