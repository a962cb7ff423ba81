// Key tables grow: peers that know an older table see what was added, and use it.
#include <gtest/gtest.h>

#include "keys/key_table.hpp"
#include "softnic_meeting.hpp"

namespace verbatim::softnic::test {
namespace {

constexpr std::uint32_t kRegions = 100000;
constexpr std::size_t kEach = 8;

// Regions of 8 bytes, side by side.
class ManyRegions {
  public:
    explicit ManyRegions(End& end) : end_(end) {}
    void add(std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::size_t at = regions_.size() * kEach;
            regions_.push_back(end_.device->register_memory(end_.at(at), kEach, kAllAccess,
                                                            {end_.memory.file(), at}));
        }
    }
    const MemoryRegion& at(std::size_t i) const { return *regions_[i]; }

  private:
    End& end_;
    std::vector<std::unique_ptr<MemoryRegion>> regions_;
};

EndOptions options() {
    EndOptions options;
    options.memory_bytes = kRegions * kEach;
    return options;
}

// Tells the keys from `first` on, and checks that the peer wrote through each.
bool let_peer_write(End& end, Wire& wire, const ManyRegions& regions, std::uint32_t first,
                    std::uint32_t count) {
    for (std::uint32_t i = first; i < first + count; ++i)
        if (!wire.put(regions.at(i).remote_key())) return false;
    if (!wire.wait()) return false;
    for (std::uint64_t i = first; i < first + count; ++i)
        if (end.value<std::uint64_t>(i * kEach) != i + 1) return false;
    return true;
}

bool write_through(End& end, Wire& wire, std::uint64_t first, std::uint32_t count) {
    for (std::uint64_t i = first; i < first + count; ++i) {
        std::uint32_t key = 0;
        if (!wire.get(key)) return false;
        const std::uint64_t value = i + 1;
        mlx5::WorkRequest write = end.request(mlx5::Opcode::write, i * kEach);
        write.remote_key = key;
        write.inline_payload = std::as_bytes(std::span(&value, 1));
        if (end.send->post(write) != Errc::ok) return false;
        const auto found = end.poll();
        if (found.size() != 1 || found[0].status != Errc::ok) return false;
    }
    return wire.signal();
}

TEST(KeyGrowth, a_peer_uses_a_hundred_thousand_regions_made_before_and_after_it_came) {
    constexpr std::uint32_t kBefore = 30000;
    Child child([](Wire& wire) {
        End end(options());
        ManyRegions regions(end);
        regions.add(kBefore);
        if (!meet(end, wire)) return 1;
        if (!let_peer_write(end, wire, regions, 0, kBefore)) return 2;
        regions.add(kRegions - kBefore);
        if (!let_peer_write(end, wire, regions, kBefore, kRegions - kBefore)) return 3;
        return wire.wait() ? 0 : 4;
    });
    End end(options());
    ASSERT_TRUE(meet(end, child.wire()));
    ASSERT_TRUE(write_through(end, child.wire(), 0, kBefore));
    ASSERT_TRUE(write_through(end, child.wire(), kBefore, kRegions - kBefore));
    child.wire().signal();
    EXPECT_EQ(child.reap(), 0);
}

TEST(KeyGrowth, windows_beyond_the_first_chunk_open_and_close) {
    KeyTable table;
    FailureText failure;
    const std::uint32_t region =
        table.add({1 << 20, 1 << 20, Access::window_bind | Access::local_write});
    std::vector<std::uint32_t> windows;
    for (std::uint32_t i = 0; i < 40000; ++i)
        windows.push_back(table.add_window(WindowType::domain));
    EXPECT_EQ(table.view().chunks(), 3u);
    for (const std::uint32_t window : windows) {
        WindowOpening opening{window, static_cast<std::uint8_t>(window + 1), WindowType::domain};
        opening.region_key = region;
        opening.address = opening.start = 1 << 20;
        opening.bytes = 64;
        ASSERT_EQ(table.windows().open(opening, failure), KeyUpdate::done) << failure.view();
        Grant grant;
        ASSERT_TRUE(table.view().find((window & ~0xffU) | opening.variant, grant));
    }
    EXPECT_EQ(table.windows().close(windows.back(), failure), KeyUpdate::revoked);
    EXPECT_FALSE(table.retire(region));
    table.remove(region);
    Grant grant;
    for (const std::uint32_t window : windows)
        ASSERT_FALSE(table.view().find_index(window >> 8, grant));
}

// A key that the table cannot have costs no question to the peer.
TEST(KeyGrowth, a_key_beyond_the_table_is_unknown_at_once) {
    KeyTable table;
    EXPECT_FALSE(table.view().lacks(kChunkKeys << 8));
    EXPECT_FALSE(table.view().lacks(0xffffffff));
    Grant grant;
    EXPECT_FALSE(table.view().find(0xffffffff, grant));
}

}  // namespace
}  // namespace verbatim::softnic::test
