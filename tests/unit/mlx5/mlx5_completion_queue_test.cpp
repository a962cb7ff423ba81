// The completion queue against CQEs that a device writes through rdma-core's structures.
#include <verbatim/mlx5/completion_queue.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "mlx5_requests.hpp"
#include "sanitized.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;
using verbatim::test::kSanitized;

// A queue pair with everything on one completion queue.
struct Fixture {
    explicit Fixture(DeviceOptions options = {})
        : device(options),
          send(device.queue_pair()),
          receive(device.queue_pair()),
          completions(device.completion_queue()) {
        completions.attach(&send, &receive);
    }
    SeenWqe post(Request asked) {
        EXPECT_EQ(send.post(asked.get()), Errc::ok);
        return device.fetch().at(0);
    }
    std::vector<Completion> poll(std::size_t room = 16) {
        std::vector<Completion> result(room);
        result.resize(completions.poll(result));
        return result;
    }

    TestDevice device;
    SendQueue send;
    ReceiveQueue receive;
    CompletionQueue completions;
};

TEST(CompletionQueue, is_empty_until_the_device_writes) {
    Fixture test;
    EXPECT_TRUE(test.poll().empty());
    EXPECT_EQ(test.device.consumer_record(), 0U);
}

TEST(CompletionQueue, takes_no_entry_of_the_last_lap_again) {
    Fixture test({.receive_entries = 8, .completion_entries = 4});
    for (std::uint64_t id = 0; id < 8; ++id) ASSERT_EQ(test.receive.post({id, {}}), Errc::ok);
    for (int i = 0; i < 4; ++i) test.device.arrive({});
    ASSERT_EQ(test.poll(4).size(), 4U);
    ASSERT_EQ(test.poll(4).size(), 0U);  // receives are outstanding that old entries would retire
    test.device.arrive({});
    EXPECT_EQ(test.poll(4).size(), 1U);
}

TEST(CompletionQueue, tells_what_a_send_side_request_was) {
    Fixture test;
    test.device.complete(test.post(inline_request(Opcode::write, 8, 41)));
    const SeenWqe read = test.post(gather_request(Opcode::read, 1, 42));
    test.device.complete(read, 8);
    const auto polled = test.poll();
    ASSERT_EQ(polled.size(), 2U);
    EXPECT_EQ(polled[0].id, 41U);
    EXPECT_EQ(polled[0].status, Errc::ok);
    EXPECT_EQ(polled[0].kind, CompletionKind::send_side);
    EXPECT_EQ(polled[0].opcode, Opcode::write);
    EXPECT_EQ(polled[0].queue_pair, 0xabcdU);
    EXPECT_FALSE(polled[0].has_immediate);
    EXPECT_EQ(polled[1].id, 42U);
    EXPECT_EQ(polled[1].opcode, Opcode::read);
    EXPECT_EQ(polled[1].bytes, 8U);
    EXPECT_EQ(test.send.outstanding(), 0U);
    EXPECT_EQ(test.completions.strays(), 0U);
}

TEST(CompletionQueue, tells_what_was_received) {
    Fixture test;
    for (std::uint64_t id = 0; id < 4; ++id) ASSERT_EQ(test.receive.post({id, {}}), Errc::ok);
    test.device.arrive({.opcode = MLX5_CQE_RESP_SEND, .bytes = 100, .immediate = 5});
    test.device.arrive({.opcode = MLX5_CQE_RESP_SEND_IMM, .bytes = 200, .immediate = 0x01020304});
    test.device.arrive({.opcode = MLX5_CQE_RESP_WR_IMM, .bytes = 300, .immediate = 0xffffffff});
    test.device.arrive({.opcode = MLX5_CQE_RESP_SEND_INV, .bytes = 1, .immediate = 9});
    const auto polled = test.poll();
    ASSERT_EQ(polled.size(), 4U);
    for (std::uint64_t id = 0; id < 4; ++id) EXPECT_EQ(polled[id].id, id);
    EXPECT_EQ(polled[0].kind, CompletionKind::receive);
    EXPECT_EQ(polled[0].bytes, 100U);
    EXPECT_FALSE(polled[0].has_immediate);
    EXPECT_EQ(polled[1].kind, CompletionKind::receive);
    EXPECT_TRUE(polled[1].has_immediate);
    EXPECT_EQ(polled[1].immediate, 0x01020304U);
    EXPECT_EQ(polled[2].kind, CompletionKind::receive_immediate);
    EXPECT_EQ(polled[2].bytes, 300U);
    EXPECT_EQ(polled[2].immediate, 0xffffffffU);
    EXPECT_FALSE(polled[3].has_immediate);
    EXPECT_EQ(test.receive.outstanding(), 0U);
}

class EntrySize : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(CompletionQueue, EntrySize, testing::Values(64U, 128U));

TEST_P(EntrySize, ownership_alternates_over_many_laps) {
    Fixture test({.send_blocks = 4, .completion_entries = 4, .entry_bytes = GetParam()});
    std::uint64_t id = 0;
    for (int lap = 0; lap < 1000; ++lap) {
        for (std::uint32_t burst = 1; burst <= 4; ++burst) {
            const std::uint64_t first = id;
            for (std::uint32_t i = 0; i < burst; ++i) {
                test.device.complete(test.post(inline_request(Opcode::write, 8, id++)));
            }
            const auto polled = test.poll();
            ASSERT_EQ(polled.size(), burst);
            for (std::uint32_t i = 0; i < burst; ++i) ASSERT_EQ(polled[i].id, first + i);
            ASSERT_TRUE(test.poll().empty());
            ASSERT_EQ(test.device.consumer_record(), test.device.produced() & 0xffffff);
        }
    }
}

TEST(CompletionQueue, a_batch_takes_no_more_than_there_is_room_for) {
    Fixture test;
    for (std::uint64_t id = 0; id < 5; ++id)
        test.device.complete(test.post(inline_request(Opcode::write, 8, id)));
    EXPECT_EQ(test.poll(2).size(), 2U);
    EXPECT_EQ(test.device.consumer_record(), 2U);
    EXPECT_EQ(test.poll(0).size(), 0U);
    const auto rest = test.poll(9);
    ASSERT_EQ(rest.size(), 3U);
    EXPECT_EQ(rest[0].id, 2U);
    EXPECT_EQ(test.device.consumer_record(), 5U);
}

TEST(CompletionQueue, the_published_consumer_index_has_24_bits) {
    if (kSanitized) GTEST_SKIP() << "takes two minutes with a sanitizer: runs in the release build";
    constexpr std::uint32_t kEntries = 1U << 16;
    TestDevice device({.completion_entries = kEntries});
    CompletionQueue completions(device.completion_queue());
    mlx5_cqe64 of_nobody{};  // quick to poll, and as good as any other here
    of_nobody.sop_drop_qpn = htobe32(0x123456);
    std::array<Completion, 1> none;
    while (device.produced() <= 1U << 24) {
        for (std::uint32_t i = 0; i < kEntries; ++i) device.write(of_nobody, MLX5_CQE_REQ);
        EXPECT_EQ(completions.poll(none), 0U);
        ASSERT_EQ(device.consumer_record(), device.produced() & 0xffffff);
    }
}

TEST(CompletionQueue, unsignaled_requests_retire_silently_and_once) {
    Fixture test;
    std::vector<SeenWqe> seen;
    for (std::uint64_t id = 0; id < 6; ++id) {
        Request asked = inline_request(Opcode::write, id % 2 == 0 ? 8 : 64, id);
        asked.work.signaled = id % 3 == 2;
        seen.push_back(test.post(asked));
        if (seen.back().signaled()) test.device.complete(seen.back());
    }
    const auto polled = test.poll();
    ASSERT_EQ(polled.size(), 2U);
    EXPECT_EQ(polled[0].id, 2U);
    EXPECT_EQ(polled[1].id, 5U);
    EXPECT_EQ(test.send.outstanding(), 0U);
    EXPECT_EQ(test.send.free_blocks(), test.send.blocks());
}

TEST(CompletionQueue, an_error_names_its_syndrome_and_flushes_retire_the_rest_once_each) {
    Fixture test;
    std::vector<SeenWqe> seen;
    for (std::uint64_t id = 0; id < 5; ++id) {
        Request asked = inline_request(Opcode::write, 8, id);
        asked.work.signaled = false;
        seen.push_back(test.post(asked));
    }
    // 0 went through silently, 1 failed, the others are flushed although unsignaled.
    test.device.fail(seen[1], MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR, 0x88);
    for (std::size_t i = 2; i < 5; ++i)
        test.device.fail(seen[i], MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0xf9);
    for (std::uint64_t id = 50; id < 53; ++id) ASSERT_EQ(test.receive.post({id, {}}), Errc::ok);
    for (int i = 0; i < 3; ++i) test.device.flush_receive(MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
    const auto polled = test.poll();
    ASSERT_EQ(polled.size(), 7U);
    EXPECT_EQ(polled[0].id, 1U);
    EXPECT_EQ(polled[0].status, Errc::remote_access);
    EXPECT_EQ(polled[0].syndrome, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
    EXPECT_EQ(polled[0].vendor_syndrome, 0x88);
    EXPECT_EQ(polled[0].opcode, Opcode::write);
    for (std::size_t i = 1; i < 4; ++i) {
        EXPECT_EQ(polled[i].id, i + 1);
        EXPECT_EQ(polled[i].status, Errc::flushed);
        EXPECT_EQ(polled[i].kind, CompletionKind::send_side);
    }
    for (std::size_t i = 4; i < 7; ++i) {
        EXPECT_EQ(polled[i].id, 46 + i);
        EXPECT_EQ(polled[i].status, Errc::flushed);
        EXPECT_EQ(polled[i].kind, CompletionKind::receive);
    }
    EXPECT_EQ(test.send.outstanding(), 0U);
    EXPECT_EQ(test.receive.outstanding(), 0U);
}

TEST(CompletionQueue, a_completion_for_nothing_outstanding_is_a_stray) {
    Fixture test;
    const SeenWqe seen = test.post(inline_request(Opcode::write, 8, 1));
    test.device.complete(seen);
    test.device.complete(seen);  // twice
    test.device.fail(seen, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
    test.device.arrive({});  // no receive is posted
    test.device.flush_receive(MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
    mlx5_cqe64 of_another{};
    of_another.sop_drop_qpn = htobe32(0x123456);
    test.device.write(of_another, MLX5_CQE_REQ);
    mlx5_cqe64 odd{};
    odd.sop_drop_qpn = htobe32(0xabcd);
    test.device.write(odd, MLX5_CQE_RESIZE_CQ);
    const auto polled = test.poll();
    ASSERT_EQ(polled.size(), 1U);
    EXPECT_EQ(polled[0].id, 1U);
    EXPECT_EQ(test.completions.strays(), 6U);
    EXPECT_EQ(test.device.consumer_record(), 7U);
}

// Completions in a row take a shorter way, and another one where each request has one block.
TEST(CompletionQueue, a_run_ends_where_an_entry_names_nothing_outstanding) {
    for (const std::uint32_t bytes : {8U, 60U}) {  // one block, two
        Fixture test;
        std::vector<SeenWqe> seen;
        for (std::uint64_t id = 0; id < 5; ++id)
            seen.push_back(test.post(inline_request(Opcode::write, bytes, id)));
        SeenWqe inside = seen[2], beyond = seen[4];
        ++inside.index;
        beyond.index = static_cast<std::uint16_t>(beyond.index + bytes / 32 + 1);
        test.device.complete(seen[0]);
        test.device.complete(seen[1]);
        test.device.complete(seen[1]);  // twice
        if (bytes > 8) test.device.complete(inside);
        test.device.complete(beyond);
        test.device.complete(seen[2]);
        test.device.complete(seen[4]);
        const auto polled = test.poll();
        std::vector<std::uint64_t> ids;
        for (const Completion& one : polled) ids.push_back(one.id);
        EXPECT_EQ(ids, (std::vector<std::uint64_t>{0, 1, 2, 4})) << bytes;
        EXPECT_EQ(test.completions.strays(), bytes > 8 ? 3U : 2U);
        EXPECT_EQ(test.send.outstanding(), 0U);
        EXPECT_EQ(test.send.free_blocks(), test.send.blocks());
    }
}

TEST(CompletionQueue, lets_a_software_device_work_once_when_empty) {
    struct Work {
        TestDevice* device = nullptr;
        int calls = 0;
    } work;
    TestDevice device;
    work.device = &device;
    device.progress_hook = {[](void* context) noexcept {
                                auto& self = *static_cast<Work*>(context);
                                ++self.calls;
                                for (const SeenWqe& wqe : self.device->fetch())
                                    self.device->complete(wqe);
                            },
                            &work};
    SendQueue send(device.queue_pair());
    CompletionQueue completions(device.completion_queue());
    completions.attach(&send, nullptr);
    std::array<Completion, 4> out;
    EXPECT_EQ(completions.poll(out), 0U);
    EXPECT_EQ(work.calls, 1);
    Request asked = inline_request(Opcode::write, 8, 7);
    ASSERT_EQ(send.post(asked.get()), Errc::ok);
    ASSERT_EQ(send.post(asked.get()), Errc::ok);
    EXPECT_EQ(completions.poll(std::span(out).first(1)), 1U);
    EXPECT_EQ(work.calls, 2);
    EXPECT_EQ(completions.poll(out), 1U);  // still one there: no reason to ask the device
    EXPECT_EQ(work.calls, 2);
}

TEST(CompletionQueue, tells_many_queue_pairs_apart) {
    constexpr std::uint32_t kPairs = 40;
    TestDevice shared({.completion_entries = 128});
    CompletionQueue completions(shared.completion_queue());
    std::vector<std::unique_ptr<TestDevice>> devices;
    std::vector<std::unique_ptr<SendQueue>> sends;
    const auto number = [](std::uint32_t i) { return i % 2 == 0 ? i : i << 16; };  // some collide
    for (std::uint32_t i = 0; i < kPairs; ++i) {
        devices.push_back(std::make_unique<TestDevice>(DeviceOptions{.number = number(i)}));
        sends.push_back(std::make_unique<SendQueue>(devices[i]->queue_pair()));
        completions.attach(sends[i].get(), nullptr);
        ASSERT_EQ(sends[i]->post(inline_request(Opcode::write, 8, i).get()), Errc::ok);
    }
    for (std::uint32_t i = 0; i < kPairs; i += 3) completions.detach(number(i));
    for (std::uint32_t i = 0; i < kPairs; ++i) {
        mlx5_cqe64 cqe{};
        cqe.sop_drop_qpn = htobe32(std::uint32_t{MLX5_OPCODE_RDMA_WRITE} << 24 | number(i));
        shared.write(cqe, MLX5_CQE_REQ);
    }
    std::vector<Completion> out(kPairs);
    out.resize(completions.poll(out));
    std::vector<std::uint64_t> ids, expected;
    for (const Completion& one : out) {
        ids.push_back(one.id);
        EXPECT_EQ(one.queue_pair, number(static_cast<std::uint32_t>(one.id)));
    }
    for (std::uint32_t i = 0; i < kPairs; ++i) {
        if (i % 3 != 0) expected.push_back(i);
    }
    EXPECT_EQ(ids, expected);
    EXPECT_EQ(completions.strays(), kPairs - expected.size());
}

TEST(CompletionQueue, discarded_entries_cannot_retire_requests_posted_after_a_reset) {
    Fixture test({.completion_entries = 4});
    for (int lap = 0; lap < 5; ++lap) {
        test.device.complete(test.post(inline_request(Opcode::write, 8, 1)));
        test.completions.discard(test.send.number());
        test.send.reset();
        test.device.reset();
        const SeenWqe seen = test.post(inline_request(Opcode::write, 8, 2));
        EXPECT_TRUE(test.poll().empty());
        EXPECT_EQ(test.send.outstanding(), 1U);
        test.device.complete(seen);
        const auto polled = test.poll();
        ASSERT_EQ(polled.size(), 1U);
        EXPECT_EQ(polled[0].id, 2U);
        test.send.reset();
        test.device.reset();
    }
}

TEST(CompletionQueue, data_left_in_the_cqe_is_copied_to_where_it_belongs) {
    for (const std::uint32_t entry_bytes : {64U, 128U}) {
        Fixture test({.entry_bytes = entry_bytes});
        const std::uint8_t format =
            entry_bytes == 64 ? MLX5_INLINE_SCATTER_32 : MLX5_INLINE_SCATTER_64;
        const auto data = pattern(64);
        std::memcpy(test.device.scatter.data(), data.data(), 64);
        const std::uint32_t bytes = entry_bytes / 2 - 2;
        std::array<std::byte, 64> first{}, second{};
        const auto address = [](auto& buffer) {
            return reinterpret_cast<std::uint64_t>(buffer.data());
        };

        const std::array<Element, 2> elements{{{address(first), 10, 1}, {address(second), 60, 1}}};
        ASSERT_EQ(test.receive.post({1, elements}), Errc::ok);
        test.device.arrive({.bytes = bytes, .format = format});
        ASSERT_EQ(test.poll().size(), 1U);
        EXPECT_EQ(std::memcmp(first.data(), data.data(), 10), 0);
        EXPECT_EQ(std::memcmp(second.data(), data.data() + 10, bytes - 10), 0);
        EXPECT_EQ(first[10], std::byte{0});
        EXPECT_EQ(second[bytes - 10], std::byte{0});

        first = second = {};
        // Posted so that the list wraps: 13 one-block requests, then a read of 4 elements in 2
        // blocks.
        for (int i = 0; i < 15; ++i) {
            test.device.complete(test.post(inline_request(Opcode::write, 8)));
            test.poll();
        }
        Request read = request(Opcode::read, 5);
        read.elements = {{address(first), 4, 1},
                         {address(first) + 4, 4, 1},
                         {address(first) + 8, 4, 1},
                         {address(second), 60, 1}};
        test.device.complete(test.post(read), bytes, format);
        ASSERT_EQ(test.poll().size(), 1U);
        EXPECT_EQ(std::memcmp(first.data(), data.data(), 12), 0);
        EXPECT_EQ(std::memcmp(second.data(), data.data() + 12, bytes - 12), 0);

        first = {};
        Request atomic = atomic_request(Opcode::fetch_add, 6);
        atomic.elements[0].address = address(first);
        test.device.complete(test.post(atomic), 0, format);  // always 8, whatever it says
        ASSERT_EQ(test.poll().size(), 1U);
        // In an entry a result is big endian.
        EXPECT_TRUE(std::equal(data.begin(), data.begin() + 8,
                               std::make_reverse_iterator(first.begin() + 8)));
        EXPECT_EQ(first[8], std::byte{0});
    }
}

// What retires is one request, whatever the entry says of its data.
TEST(CompletionQueue, data_in_the_cqe_that_do_not_fit_fail_their_request) {
    for (const std::uint32_t entry_bytes : {64U, 128U}) {
        Fixture test({.entry_bytes = entry_bytes});
        std::array<std::byte, 64> memory{};
        const auto at = reinterpret_cast<std::uint64_t>(memory.data());
        const std::array<Element, 1> five{{{at, 5, 1}}}, all{{{at, 64, 1}}};
        const auto arrive = [&](std::span<const Element> elements, TestDevice::Arrival arrival) {
            memory.fill(std::byte{0});
            EXPECT_EQ(test.receive.post({1, elements}), Errc::ok);
            test.device.arrive(arrival);
            const auto polled = test.poll();
            EXPECT_EQ(polled.size(), 1U);
            return polled.at(0);
        };
        test.device.scatter.fill(std::byte{0x11});
        const Completion longer = arrive(five, {.bytes = 6, .format = MLX5_INLINE_SCATTER_32});
        EXPECT_EQ(longer.status, Errc::local_length);
        EXPECT_EQ(longer.syndrome, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
        EXPECT_EQ(memory[4], std::byte{0x11});
        EXPECT_EQ(memory[5], std::byte{0});
        // More than there is room for in the entry.
        for (const TestDevice::Arrival& arrival :
             {TestDevice::Arrival{.bytes = 33, .format = MLX5_INLINE_SCATTER_32},
              {.bytes = entry_bytes == 64 ? 1U : 65U, .format = MLX5_INLINE_SCATTER_64},
              {.bytes = 1, .format = MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64}}) {
            test.device.arrive(
                {});  // there is an entry before the next one: the device writes there
            EXPECT_TRUE(test.poll().empty());
            EXPECT_EQ(arrive(all, arrival).status, Errc::local_length) << arrival.bytes;
            EXPECT_EQ(memory[0], std::byte{0});
        }
        Request read = request(Opcode::read, 5);
        read.elements = {{at, 4, 1}, {at + 4, 1, 1}};
        test.device.complete(test.post(read), 6, MLX5_INLINE_SCATTER_32);
        EXPECT_EQ(test.poll().at(0).status, Errc::local_length);
        EXPECT_EQ(memory[4], std::byte{0x11});
        EXPECT_EQ(memory[5], std::byte{0});
        EXPECT_EQ(test.send.outstanding() + test.receive.outstanding(), 0U);
    }
}

TEST(CompletionQueue, data_in_the_cqe_go_nowhere_where_no_request_asked_for_them) {
    Fixture test;
    std::array<std::byte, 64> memory{};
    const std::array<Element, 1> all{{{reinterpret_cast<std::uint64_t>(memory.data()), 64, 1}}};
    test.device.scatter.fill(std::byte{0x11});
    ASSERT_EQ(test.receive.post({1, all}), Errc::ok);
    test.device.arrive({});
    ASSERT_EQ(test.poll().size(), 1U);
    test.device.arrive({.bytes = 8, .format = MLX5_INLINE_SCATTER_32});  // no receive is posted
    EXPECT_TRUE(test.poll().empty());
    Request write = request(Opcode::write);
    write.elements = {all[0]};
    test.device.complete(test.post(write), 8, MLX5_INLINE_SCATTER_32);  // returns nothing
    EXPECT_EQ(test.poll().at(0).status, Errc::ok);
    EXPECT_EQ(memory, (std::array<std::byte, 64>{}));
}

TEST(CompletionQueue, refuses_views_and_attachments_that_cannot_work) {
    TestDevice device, other({.number = 5});
    const auto refused = [&](auto spoil) {
        CompletionQueueView view = device.completion_queue();
        spoil(view);
        EXPECT_THROW(CompletionQueue{view}, Error);
    };
    refused([](CompletionQueueView& view) { view.buffer = nullptr; });
    refused([](CompletionQueueView& view) { view.buffer += 8; });
    refused([](CompletionQueueView& view) { view.entries = 0; });
    refused([](CompletionQueueView& view) { view.entries = 48; });
    refused([](CompletionQueueView& view) { view.entry_bytes = 32; });
    refused([](CompletionQueueView& view) { view.doorbell_record = nullptr; });
    CompletionQueue completions(device.completion_queue());
    SendQueue send(device.queue_pair());
    ReceiveQueue receive(other.queue_pair());
    EXPECT_THROW(completions.attach(&send, &receive), Error);
    completions.attach(nullptr, nullptr);
}

}  // namespace
}  // namespace verbatim::mlx5
