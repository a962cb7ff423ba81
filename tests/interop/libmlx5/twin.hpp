// One queue pair of libmlx5 and one of ours with the same geometry, side by side: the same requests
// are posted to both, and what both wrote must be the same: WQEs, doorbell record, register. The
// test is the device: it writes the same completions for both, which both must read alike.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>
#include <verbatim/mlx5/send_queue.hpp>

#include <gtest/gtest.h>

#include "libmlx5.hpp"
#include "mlx5_requests.hpp"

namespace verbatim::interop {

using mlx5::Opcode;
using mlx5::WorkRequest;
using mlx5::test::Request;

// Two halves of 256 bytes.
using Register = std::array<std::byte, 512>;

// What a side has written since the last look.
struct Written {
    std::vector<std::byte> wqes;  // whole blocks, from the first new one on
    std::uint32_t record = 0;
    Register bells{};
};

class Twin {
  public:
    explicit Twin(const PairOptions& options = {})
        : lib_(options),
          eight_bytes_(options.variable != nullptr &&
                       options.variable == std::string_view("MLX5_SHUT_UP_BF")),
          ring_(std::size_t{lib_.facts.sq.wqe_cnt} * 64),
          completion_ring_(std::size_t{lib_.completion_facts.cqe_cnt} *
                           lib_.completion_facts.cqe_size),
          send_(view(options)),
          completions_(completion_view()) {
        completions_.attach(&send_, nullptr);
        std::memset(completion_ring_.data(), 0xff, completion_ring_.size());
        bells_of_lib() = {};
    }

    mlx5::SendQueue& ours() { return send_; }
    LibQueues& lib() { return lib_; }
    std::uint32_t blocks() const { return lib_.facts.sq.wqe_cnt; }
    std::uint32_t next() const { return next_; }
    std::uint32_t region_key() const { return region_->lkey; }
    std::uint64_t region_address() const { return reinterpret_cast<std::uint64_t>(memory_.data()); }
    // Counter of the last request that was compared.
    std::uint32_t last_first_block() const { return last_first_; }

    // What each side has written; both ends up with nothing new.
    Written take_ours(std::uint32_t count) {
        Written written{copy(ring_.data(), count), records_[1], bells_};
        bells_ = {};
        return written;
    }
    Written take_lib(std::uint32_t count) {
        Written written{copy(static_cast<const std::byte*>(lib_.facts.sq.buf), count),
                        lib_.facts.dbrec[1], bells_of_lib()};
        bells_of_lib() = {};
        if (eight_bytes_) join_halves(written.bells);
        return written;
    }

    // What the manual's tables find in libmlx5's WQEs is what was asked for.
    void expect_describes(std::span<Request> requests) {
        ASSERT_EQ(described_.size(), requests.size());
        for (std::size_t i = 0; i < requests.size(); ++i) {
            const auto& [seen, behind_update] = described_[i];
            EXPECT_TRUE(seen == mlx5::test::expected_wqe(seen, requests[i], behind_update))
                << "request " << i;
        }
    }

    // Compares what both wrote for `requests` requests since the last call. WQEs are compared over
    // their own length; what both leave behind it, in the ring and in the register, is anything.
    // So is what the device ignores and libmlx5 leaves as the ring had it, where we write zeros:
    // the padding of inline payload, the comparand of a fetch-and-add, fields of a memory key that
    // an update leaves alone, and, by libmlx5's builder (ibv_wr_*), the immediate of a request
    // without one.
    void expect_same(std::uint32_t requests, bool by_builder = false) {
        const std::uint32_t used = static_cast<std::uint16_t>(be32toh(records_[1]) - next_);
        Written ours = take_ours(used), theirs = take_lib(used);
        EXPECT_EQ(be32toh(ours.record), be32toh(theirs.record)) << "doorbell record";
        described_.clear();
        std::uint32_t at = 0, found = 0;
        for (; at < used; ++found) {
            const std::uint32_t first = at;
            last_first_ = next_ + first;
            at += blank_the_rest(ours.wqes, at);
            if (blank_the_rest(theirs.wqes, first) != at - first) break;
            if (by_builder) blank_immediate(theirs.wqes.data() + std::size_t{first} * 64);
            const auto wqe = std::span(theirs.wqes).subspan(std::size_t{first} * 64);
            described_.push_back({prm::describe_send(wqe), behind_update_});
            behind_update_ = described_.back().seen.opcode == MLX5_OPCODE_UMR;
        }
        EXPECT_EQ(found, requests);
        EXPECT_EQ(dump(ours.wqes), dump(theirs.wqes));
        if (requests == 1) {
            blank_register(ours.bells, ours.wqes, false);
            blank_register(theirs.bells, ours.wqes, by_builder);
        }
        EXPECT_EQ(dump(ours.bells), dump(theirs.bells)) << "doorbell register";
        next_ += used;
    }

    // Both get the completion of the request whose first block has this counter, and must say the
    // same of it.
    void complete(std::uint32_t counter, std::uint8_t error_syndrome = 0, std::uint32_t bytes = 0);

    // Both posts must be accepted; then compares.
    void post(Request& request) { post(std::span(&request, 1)); }
    void post(std::span<Request> requests);
    // The same through ibv_wr_start ... ibv_wr_complete.
    void post_by_builder(std::span<Request> requests);
    // To libmlx5 only; ours is posted otherwise.
    void post_to_lib(Request& request) { post_to_lib(std::span(&request, 1)); }
    void post_to_lib(std::span<Request> requests);

    static std::string dump(std::span<const std::byte> bytes) {
        std::string text;
        char unit[64];
        for (std::size_t at = 0; at + 16 <= bytes.size(); at += 16) {
            std::array<std::uint32_t, 4> words;
            std::memcpy(words.data(), bytes.data() + at, sizeof words);
            if ((words[0] | words[1] | words[2] | words[3]) == 0) continue;
            std::snprintf(unit, sizeof unit, "%4zu: %08x %08x %08x %08x\n", at, be32toh(words[0]),
                          be32toh(words[1]), be32toh(words[2]), be32toh(words[3]));
            text += unit;
        }
        return text;
    }

  private:
    mlx5::QueuePairView view(const PairOptions& options) {
        mlx5::QueuePairView made;
        made.send_buffer = ring_.data();
        made.send_blocks = lib_.facts.sq.wqe_cnt;
        made.doorbell_record = records_.data();
        made.doorbell_register = bells_.data();
        made.blueflame_bytes = eight_bytes_ ? 0 : lib_.facts.bf.size;
        made.number = lib_.pair->qp_num;
        made.max_inline_bytes = lib_.inline_bytes;
        made.max_send_elements = options.send_elements;
        return made;
    }
    mlx5::CompletionQueueView completion_view() {
        mlx5::CompletionQueueView made;
        made.buffer = completion_ring_.data();
        made.entries = lib_.completion_facts.cqe_cnt;
        made.entry_bytes = lib_.completion_facts.cqe_size;
        made.doorbell_record = completion_records_.data();
        return made;
    }
    // libmlx5 takes both halves in turn for doorbells too. Any will do: we take the first.
    static void join_halves(Register& bells) {
        for (std::size_t i = 0; i < 256; ++i) bells[i] |= std::exchange(bells[256 + i], {});
    }
    Register& bells_of_lib() { return *static_cast<Register*>(lib_.facts.bf.reg); }

    std::vector<std::byte> copy(const std::byte* ring, std::uint32_t count) const {
        std::vector<std::byte> bytes(std::size_t{count} * 64);
        for (std::uint32_t i = 0; i < count; ++i)
            std::memcpy(bytes.data() + i * std::size_t{64},
                        ring + std::size_t{(next_ + i) % blocks()} * 64, 64);
        return bytes;
    }
    std::uint32_t blank_the_rest(std::vector<std::byte>& wqes, std::uint32_t block) const;
    static void blank_immediate(std::byte* wqe);
    void blank_register(Register& bells, std::span<const std::byte> wqe, bool by_builder) const;

    LibQueues lib_;
    bool eight_bytes_;  // no BlueFlame
    alignas(4096) std::array<std::byte, 4096> memory_{};
    // Windows are bound to parts of it; its key is what a binding's local_key must name.
    Region region_{made(ibv_reg_mr(lib_.domain.get(), memory_.data(), memory_.size(),
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND),
                        "ibv_reg_mr")};
    mlx5::test::Pages ring_, completion_ring_;
    std::array<std::uint32_t, 2> records_{}, completion_records_{};
    alignas(64) Register bells_{};
    mlx5::SendQueue send_;
    mlx5::CompletionQueue completions_;
    std::uint32_t next_ = 0;      // counter of the first block not yet looked at
    std::uint32_t produced_ = 0;  // completions written
    std::uint32_t last_first_ = 0;
    struct Described {
        prm::SendWqe seen;
        bool behind_update;
    };
    std::vector<Described> described_;  // libmlx5's WQEs of the last comparison
    bool behind_update_ = false;        // the last of them was an update of a memory key
};

}  // namespace verbatim::interop
