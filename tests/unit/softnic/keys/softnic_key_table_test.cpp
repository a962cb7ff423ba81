// The table of memory keys: what readers may see while its owner changes it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "keys/key_table.hpp"

namespace verbatim::softnic {
namespace {

Registration registration(std::uint64_t address, std::uint64_t bytes) {
    return {address, bytes, Access::remote_write, 7, 4096};
}

TEST(KeyTable, finds_what_was_added_and_nothing_else) {
    KeyTable table;
    const std::uint32_t key = table.add(registration(0x1000, 0x100));
    Grant grant;
    ASSERT_TRUE(table.view().find(key, grant));
    EXPECT_EQ(grant.address, 0x1000u);
    EXPECT_EQ(grant.bytes, 0x100u);
    EXPECT_EQ(grant.file, 7u);
    EXPECT_EQ(grant.file_offset, 4096u);
    EXPECT_EQ(grant.access, Access::remote_write);
    EXPECT_TRUE(grant.current());
    for (const std::uint32_t other : {0u, 1u, 0x100u, key ^ 1, key + 0x100, 0xffffffffu})
        EXPECT_FALSE(table.view().find(other, grant)) << other;
}

TEST(KeyTable, released_key_is_gone_at_once_and_returns_late) {
    KeyTable table;
    const std::uint32_t key = table.add(registration(0x1000, 0x100));
    Grant grant;
    ASSERT_TRUE(table.view().find(key, grant));
    table.remove(key);
    EXPECT_FALSE(grant.current());
    EXPECT_FALSE(table.view().find(key, grant));
    for (std::uint32_t i = 0; i < 2 * kChunkKeys; ++i) {
        const std::uint32_t next = table.add(registration(0x2000, 1));
        ASSERT_NE(next, key);
        table.remove(next);
    }
}

TEST(KeyTable, bounds_do_not_overflow) {
    const GrantedRange grant{.address = 0xfffffffffffff000, .bytes = 0x800};
    EXPECT_TRUE(grant.covers(0xfffffffffffff000, 0x800));
    EXPECT_TRUE(grant.covers(0xfffffffffffff7ff, 1));
    EXPECT_FALSE(grant.covers(0xfffffffffffff7ff, 2));
    EXPECT_FALSE(grant.covers(0xffffffffffffefff, 2));
    EXPECT_FALSE(grant.covers(0xfffffffffffff001, ~std::uint64_t{0}));
    EXPECT_FALSE(grant.covers(0, 0x1000));
}

// A process that is killed while it changes an entry leaves it odd for ever.
TEST(KeyTable, half_written_entry_is_no_key) {
    KeyTable table;
    const std::uint32_t key = table.add(registration(0x1000, 0x100));
    auto writable =
        SharedMemory::map(table.view().file(), kKeyChunkBytes, Mapping::read_write, "table");
    auto& entry = reinterpret_cast<KeyEntry*>(writable->data())[key >> 8];
    Grant grant;
    ASSERT_TRUE(table.view().find(key, grant));
    entry.version.fetch_add(1);
    EXPECT_FALSE(grant.current());
    EXPECT_FALSE(table.view().find(key, grant));
}

// Peers get a table that they cannot map writable.
TEST(KeyTable, file_cannot_be_written_by_others) {
    KeyTable table;
    void* const data =
        mmap(nullptr, kKeyChunkBytes, PROT_READ | PROT_WRITE, MAP_SHARED, table.view().file(), 0);
    EXPECT_EQ(data, MAP_FAILED);
    EXPECT_NE(ftruncate(table.view().file(), 4096), 0);
}

// Each of two threads opens and closes the same windows; whatever a reader finds is one opening.
TEST(KeyTable, reader_never_sees_a_mixture_of_openings) {
    KeyTable table;
    const std::uint32_t region =
        table.add({1 << 20, 1 << 20, Access::window_bind | Access::local_write});
    const std::uint32_t window = table.add_window(WindowType::domain);
    std::atomic<int> running{2};
    FailureText failure;
    const auto open = [&](std::uint64_t seed) {
        for (std::uint64_t i = 0; i < 20000; ++i) {
            WindowOpening opening{window, static_cast<std::uint8_t>(window), WindowType::domain};
            opening.region_key = region;
            opening.bytes = (i * 2 + seed) % 1000 + 1;
            opening.address = (1 << 20) + opening.bytes;
            opening.start = opening.bytes << 12;
            ASSERT_NE(table.windows().open(opening, failure), KeyUpdate::refused) << failure.view();
            if (i % 16 == 0) {
                ASSERT_NE(table.windows().close(window, failure), KeyUpdate::refused);
            }
        }
        running.fetch_sub(1);
    };
    std::thread one(open, 0), two(open, 1);
    while (running.load() != 0) {
        Grant grant;
        if (!table.view().find(window, grant)) continue;
        ASSERT_EQ(grant.address, grant.bytes << 12);
        ASSERT_EQ(grant.address + grant.origin, (1 << 20) + grant.bytes);
    }
    one.join();
    two.join();
    table.remove_window(window);
    EXPECT_TRUE(table.retire(region)) << "nothing holds it any more";
}

// A region that is released while another thread opens windows onto it: none stays open.
TEST(KeyTable, no_window_survives_its_region) {
    KeyTable table;
    FailureText failure;
    const std::uint32_t window = table.add_window(WindowType::domain);
    for (int round = 0; round < 300; ++round) {
        const std::uint32_t region =
            table.add({1 << 20, 1 << 20, Access::window_bind | Access::local_write});
        std::thread opener([&] {
            WindowOpening opening{window, static_cast<std::uint8_t>(window), WindowType::domain};
            opening.region_key = region;
            opening.address = opening.start = 1 << 20;
            opening.bytes = 64;
            while (table.windows().open(opening, failure) != KeyUpdate::refused) {
            }
        });
        if (round % 2 == 0) std::this_thread::yield();
        table.remove(region);
        Grant grant;
        EXPECT_FALSE(table.view().find(window, grant) && grant.address == 1 << 20);
        opener.join();
        ASSERT_FALSE(table.view().find(window, grant)) << round;
    }
}

TEST(KeyTable, reader_never_sees_a_mixture) {
    KeyTable table;
    std::atomic<std::uint32_t> key{table.add(registration(1 << 12, 1))};
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> found{0};
    std::thread reader([&] {
        while (!stop.load(std::memory_order_relaxed)) {
            Grant grant;
            // bytes and address always belong together.
            if (!table.view().find(key.load(std::memory_order_relaxed), grant)) continue;
            ASSERT_EQ(grant.address, grant.bytes << 12);
            found.fetch_add(1, std::memory_order_relaxed);
        }
    });
    for (std::uint64_t i = 2; i < 20000 || found.load() < 100; ++i) {
        table.remove(key.load(std::memory_order_relaxed));
        key.store(table.add(registration(i << 12, i)), std::memory_order_relaxed);
    }
    stop.store(true);
    reader.join();
}

}  // namespace
}  // namespace verbatim::softnic
