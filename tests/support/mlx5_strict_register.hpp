// What a device would punish, checked at every doorbell that a test of the data path rings: the
// record counts whole WQEs of this queue, the halves alternate, and the register holds the last
// WQE's first word or all its blocks, and nothing else. Reads through rdma-core's structures, as
// the test device does. Threads: the posting thread.
#pragma once

#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <verbatim/driver/queue_view.hpp>

namespace verbatim::mlx5::test {

class StrictRegister {
  public:
    // What the register holds where nothing was written: no request of a test is full of it.
    static constexpr std::byte kUnwritten{0xa5};

    void reset() noexcept {
        rung_ = 0;
        copies_ = false;
    }

    // One doorbell: `half` was written. Leaves that half as it is, for tests to look at, and wipes
    // the other one, which is next.
    void check(const QueuePairView& view, const volatile void* half) noexcept {
        const auto* written = static_cast<const std::byte*>(const_cast<const void*>(half));
        const std::size_t size = view.blueflame_bytes;
        auto* first = const_cast<std::byte*>(view.doorbell_register);
        const bool is_half = written == first || (size != 0 && written == first + size);
        EXPECT_TRUE(is_half) << "the doorbell was written outside the register";
        // Where only words were ever written, the device cannot find a half-written one.
        copies_ = copies_ || (size != 0 && !std::all_of(written + 8, written + size, unwritten));
        EXPECT_TRUE(!copies_ || written != previous_) << "one half was written twice in a row";
        previous_ = written;
        if (is_half && walk(view)) {
            check_contents(view, written);
            std::memset(written == first ? first + size : first, static_cast<int>(kUnwritten),
                        size);
        }
    }

  private:
    static const std::byte* block(const QueuePairView& view, std::uint32_t index) noexcept {
        return view.send_buffer + std::size_t{index % view.send_blocks} * 64;
    }

    static bool unwritten(std::byte byte) noexcept { return byte == kUnwritten; }

    // Finds the last WQE before the record. False where the ring makes no sense.
    bool walk(const QueuePairView& view) noexcept {
        const std::uint32_t record =
            be32toh(__atomic_load_n(view.doorbell_record + MLX5_SND_DBR, __ATOMIC_ACQUIRE));
        EXPECT_LE(record, 0xffffU) << "reserved bits of the doorbell record are set";
        EXPECT_NE(record, rung_) << "a doorbell without a request";
        std::uint32_t posted = (record - rung_) & 0xffff;
        EXPECT_LE(posted, view.send_blocks) << "the doorbell record went too far";
        while (posted != 0) {
            mlx5_wqe_ctrl_seg control;
            std::memcpy(&control, block(view, rung_), sizeof control);
            units_ = be32toh(control.qpn_ds) & 0x3f;
            const std::uint32_t blocks = (units_ + 3) / 4;
            const std::uint32_t index = be32toh(control.opmod_idx_opcode) >> 8 & 0xffff;
            EXPECT_EQ(be32toh(control.qpn_ds) >> 8, view.number) << "at " << rung_;
            EXPECT_EQ(index, rung_) << "a WQE has the index of another place";
            EXPECT_TRUE(blocks != 0 && blocks <= posted) << "at " << rung_ << ": " << blocks;
            if (testing::Test::HasFailure()) return false;
            last_ = rung_;
            blocks_ = blocks;
            posted -= blocks;
            rung_ = (rung_ + blocks) & 0xffff;
        }
        return true;
    }

    void check_contents(const QueuePairView& view, const std::byte* half) const noexcept {
        EXPECT_EQ(std::memcmp(half, block(view, last_), 8), 0) << "the register names another WQE";
        const std::byte* const end = half + view.blueflame_bytes;
        if (view.blueflame_bytes == 0 || std::all_of(half + 8, end, unwritten)) return;
        const std::byte* at = half;
        for (std::uint32_t i = 0; i < blocks_ && at + 64 <= end; ++i, at += 64) {
            // What lies behind the WQE in its last block is anything.
            const std::uint32_t bytes = std::min(64U, (units_ - 4 * i) * 16);
            EXPECT_EQ(std::memcmp(at, block(view, last_ + i), bytes), 0)
                << "block " << i << " of the BlueFlame copy differs from the WQE at " << last_;
        }
        EXPECT_EQ(at, half + blocks_ * 64) << "the BlueFlame copy is cut off";
        EXPECT_TRUE(std::all_of(at, end, unwritten)) << "bytes behind the BlueFlame copy";
    }

    std::uint32_t rung_ = 0;  // the record at the last doorbell
    std::uint32_t last_ = 0;  // the last WQE
    std::uint32_t blocks_ = 0;
    std::uint32_t units_ = 0;
    const std::byte* previous_ = nullptr;
    bool copies_ = false;  // more than words were written
};

}  // namespace verbatim::mlx5::test
