// Byte order of what atomics return: the device leaves it in big endian, in host order, or in the
// completion's entry; programs find host order, whichever it was and however they posted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

constexpr std::uint64_t kValue = 0x0102030405060708;
constexpr std::uint32_t kFour = 4, kEight = 8;

// A queue pair whose atomics return into `results`.
class Results {
  public:
    explicit Results(std::uint32_t big_endian)
        : big_endian_(big_endian),
          device({.send_blocks = 64, .big_endian_results = big_endian}),
          queue(device.queue_pair()),
          completions(device.completion_queue()) {
        completions.attach(&queue, nullptr);
    }

    static std::uint64_t expected(std::uint32_t bytes) {
        return bytes == kFour ? kValue & 0xffffffff : kValue;
    }
    Request atomic(Opcode opcode, std::uint32_t bytes, std::size_t result, bool signaled = true) {
        Request made = masked_request(opcode, bytes, result);
        made.elements[0].address = reinterpret_cast<std::uint64_t>(&results[result]);
        made.work.signaled = signaled;
        return made;
    }
    // What a device leaves in memory for this request.
    void answer(const SeenWqe& wqe) {
        const std::uint32_t bytes = be32toh(wqe.elements.at(0).byte_count);
        const std::uint64_t value = expected(bytes);
        std::array<std::byte, 8> left;
        std::memcpy(left.data(), &value, sizeof value);
        if ((big_endian_ & bytes) != 0) std::reverse(left.data(), left.data() + bytes);
        std::memcpy(reinterpret_cast<void*>(be64toh(wqe.elements[0].addr)), left.data(), bytes);
    }
    std::size_t poll() {
        std::array<Completion, 16> seen;
        const std::size_t count = completions.poll(seen);
        for (std::size_t i = 0; i < count; ++i) last = seen[i];
        return count;
    }

  private:
    std::uint32_t big_endian_;

  public:
    TestDevice device;
    SendQueue queue;
    CompletionQueue completions;
    std::array<std::uint64_t, 8> results{};
    Completion last;
};

class AtomicResults : public testing::TestWithParam<std::uint32_t> {
  protected:
    Results it{GetParam()};
};

TEST_P(AtomicResults, each_kind_is_in_host_order_after_its_completion) {
    for (const Opcode opcode : {Opcode::fetch_add, Opcode::compare_swap, Opcode::masked_fetch_add,
                                Opcode::masked_compare_swap}) {
        for (const std::uint32_t bytes : {kFour, kEight}) {
            it.results.fill(0);
            Request asked = it.atomic(opcode, bytes, 0);
            ASSERT_EQ(it.queue.post(asked.get()), Errc::ok);
            const SeenWqe seen = it.device.fetch().at(0);
            it.answer(seen);
            it.device.complete(seen, bytes);
            ASSERT_EQ(it.poll(), 1u);
            EXPECT_EQ(it.results[0], Results::expected(bytes)) << bytes;
            EXPECT_EQ(it.poll(), 0u);
            EXPECT_EQ(it.results[0], Results::expected(bytes)) << "turned round once";
        }
    }
}

TEST_P(AtomicResults, unsignaled_ones_are_in_host_order_after_a_later_completion) {
    for (int round = 0; round < 40;
         ++round) {  // the ring wraps, and entries of writes come in runs
        it.results.fill(0);
        std::size_t next = 0;
        for (const std::uint32_t bytes : {kFour, kEight, kFour}) {
            Request asked = it.atomic(Opcode::masked_compare_swap, bytes, next++, false);
            ASSERT_EQ(it.queue.post(asked.get()), Errc::ok);
        }
        for (int i = 0; i < 2; ++i) {
            Request write = inline_request(Opcode::write, 8);
            ASSERT_EQ(it.queue.post(write.get()), Errc::ok);
        }
        const auto seen = it.device.fetch();
        for (std::size_t i = 0; i < 3; ++i) it.answer(seen.at(i));
        it.device.complete(seen.at(3));
        it.device.complete(seen.at(4));
        ASSERT_EQ(it.poll(), 2u);
        EXPECT_EQ(it.results[0], Results::expected(kFour));
        EXPECT_EQ(it.results[1], Results::expected(kEight));
        EXPECT_EQ(it.results[2], Results::expected(kFour));
    }
    EXPECT_EQ(it.queue.outstanding(), 0u);
}

TEST_P(AtomicResults, prepared_ones_and_lists_are_in_host_order_too) {
    Request one = it.atomic(Opcode::fetch_add, kEight, 0),
            two = it.atomic(Opcode::fetch_add, kFour, 1);
    Prepared<Opcode::fetch_add, Addend> eight(it.queue, one.get());
    const WorkRequest both[] = {one.get(), two.get()};
    const std::uint64_t to = one.work.remote_address, addend = one.work.swap_or_add;
    const auto nth = [&](std::uint32_t) { return Listed{to, addend}; };
    for (int i = 0; i < 3; ++i) {
        it.results.fill(0);
        if (i == 2) {
            ASSERT_EQ(it.queue.post(both), Errc::ok);
        } else {
            ASSERT_EQ(i == 0 ? eight.post(5, to, addend) : eight.post_list(5, 1, nth), Errc::ok);
            ASSERT_EQ(it.queue.post(two.get()), Errc::ok);
        }
        for (const SeenWqe& seen : it.device.fetch()) {
            it.answer(seen);
            it.device.complete(seen);
        }
        ASSERT_EQ(it.poll(), 2u);
        EXPECT_EQ(it.results[0], Results::expected(kEight)) << i;
        EXPECT_EQ(it.results[1], Results::expected(kFour)) << i;
    }
}

// An entry's data are big endian, whatever memory would have been; the element is written once.
TEST_P(AtomicResults, those_that_come_in_the_entry_are_big_endian_there) {
    for (const std::uint32_t bytes : {kFour, kEight}) {
        it.results.fill(0);
        Request asked = it.atomic(Opcode::masked_fetch_add, bytes, 0);
        ASSERT_EQ(it.queue.post(asked.get()), Errc::ok);
        const std::uint64_t raw =
            bytes == kFour ? htobe32(static_cast<std::uint32_t>(kValue)) : htobe64(kValue);
        it.device.scatter.fill(std::byte{0x77});
        std::memcpy(it.device.scatter.data(), &raw, bytes);
        it.device.complete(it.device.fetch().at(0), bytes, MLX5_INLINE_SCATTER_32);
        ASSERT_EQ(it.poll(), 1u);
        EXPECT_EQ(it.last.status, Errc::ok);
        EXPECT_EQ(it.results[0], Results::expected(bytes));
    }
}

TEST_P(AtomicResults, one_that_failed_leaves_its_memory_alone_but_not_those_before_it) {
    Request good = it.atomic(Opcode::fetch_add, kFour, 0, false),
            bad = it.atomic(Opcode::fetch_add, kFour, 1);
    it.results[1] = 0x1122334455667788;
    ASSERT_EQ(it.queue.post(good.get()), Errc::ok);
    ASSERT_EQ(it.queue.post(bad.get()), Errc::ok);
    const auto seen = it.device.fetch();
    it.answer(seen.at(0));
    it.device.fail(seen.at(1), MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
    ASSERT_EQ(it.poll(), 1u);
    EXPECT_EQ(it.last.status, Errc::remote_access);
    EXPECT_EQ(it.results[0], Results::expected(kFour));
    EXPECT_EQ(it.results[1], 0x1122334455667788u);
}

INSTANTIATE_TEST_SUITE_P(BigEndian, AtomicResults,
                         testing::Values(0, kFour, kEight, kFour | kEight),
                         [](const auto& which) { return "sizes_" + std::to_string(which.param); });

TEST(NoAtomics, a_device_without_atomics_refuses_them_all) {
    TestDevice device({.masked_atomics = false, .atomics = false});
    SendQueue queue(device.queue_pair());
    for (const std::uint32_t bytes : {kFour, kEight}) {
        Request asked = masked_request(Opcode::fetch_add, bytes);
        EXPECT_EQ(queue.post(asked.get()), Errc::unsupported);
        EXPECT_EQ(queue.post(std::span(&asked.get(), 1)), Errc::unsupported);
        EXPECT_THROW((Prepared<Opcode::fetch_add, Addend>(queue, asked.get())), Error);
    }
    Request write = inline_request(Opcode::write, 8);
    EXPECT_EQ(queue.post(write.get()), Errc::ok);
    EXPECT_EQ(queue.outstanding(), 1u);
}

}  // namespace
}  // namespace verbatim::mlx5
