// The smallest queues, at every place and filled to every degree: whatever way a request comes, it
// is posted whole where there is room, also over the end, and refused without a trace where not.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <mlx5_test_shared_receives.hpp>
#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

using Post = std::function<Errc()>;

// One way to post, what the device should see of it, and how many blocks that is.
struct Way {
    std::string name;
    std::vector<Request> asked;
    std::function<Post(SendQueue&, std::vector<Request>&)> make;
};

Post fresh(SendQueue& queue, std::vector<Request>& asked) {
    return [&] { return queue.post(asked[0].get()); };
}
Post listed(SendQueue& queue, std::vector<Request>& asked) {
    return [&] {
        std::vector<WorkRequest> all;
        for (Request& one : asked) all.push_back(one.get());
        return queue.post(std::span<const WorkRequest>(all));
    };
}
template <Opcode kOpcode, class Payload, class Variable>
Post prepared(SendQueue& queue, std::vector<Request>& asked, Variable payload) {
    auto made = std::make_shared<Prepared<kOpcode, Payload>>(queue, asked[0].get());
    return [&, made, payload] {
        if constexpr (FixedShape<kOpcode, Payload>::kNamesRemoteMemory)
            return made->post(0, asked[0].work.remote_address, payload);
        else
            return made->post(0, payload);
    };
}
Post prepared_small(SendQueue& queue, std::vector<Request>& asked) {
    return prepared<Opcode::send, Inline<30>>(
        queue, asked, static_cast<const std::byte*>(asked[0].inline_payload.data()));
}
Post prepared_large(SendQueue& queue, std::vector<Request>& asked) {
    return prepared<Opcode::write, Elements<9>>(queue, asked, kUnchanged);
}
Post prepared_list(SendQueue& queue, std::vector<Request>& asked) {
    auto made = std::make_shared<Prepared<Opcode::read, Elements<3>>>(queue, asked[0].get());
    made->set_signaled(true);
    return [made, &asked] {
        return made->post_list(0, static_cast<std::uint32_t>(asked.size()), [&](std::uint32_t i) {
            return Listed{asked[i].work.remote_address, kUnchanged};
        });
    };
}
Post write8(SendQueue& queue, std::vector<Request>& asked) {
    auto made = std::make_shared<PreparedWrite8>(queue, asked[0].get());
    return [made, &asked] {
        made->set_signaled(true);
        const auto count = static_cast<std::uint32_t>(asked.size());
        return made->post_list(0, count, [&](std::uint32_t i) {
            std::uint64_t payload = 0;
            std::memcpy(&payload, asked[i].inline_payload.data(), sizeof payload);
            return Listed{asked[i].work.remote_address, payload};
        });
    };
}

std::vector<Request> writes8(std::uint32_t count) {
    std::vector<Request> all;
    for (std::uint32_t i = 0; i < count; ++i) {
        all.push_back(inline_request(Opcode::write, 8, i));
        all.back().work.remote_address += std::uint64_t{i} * 0x1001;
        all.back().work.signaled = i == count - 1;
    }
    return all;
}

// Two blocks each.
std::vector<Request> reads(std::uint32_t count) {
    std::vector<Request> all;
    for (std::uint32_t i = 0; i < count; ++i) {
        all.push_back(gather_request(Opcode::read, 3));
        all.back().work.remote_address += i;
        all.back().work.signaled = i == count - 1;
    }
    return all;
}

std::vector<Way> all_ways() {
    Request window = request(Opcode::bind_window);
    window.binding = WindowBinding{.window_key = 0x1200, .new_key = 0x1234, .bytes = 64};
    const std::vector<Request> mixed{inline_request(Opcode::write, 100),
                                     gather_request(Opcode::read, 1), request(Opcode::nop)};
    std::vector<Way> ways;
    for (const std::uint32_t bytes : {8U, 80U, 150U, 220U})
        ways.push_back({"fresh_inline_" + std::to_string(bytes),
                        {inline_request(Opcode::write, bytes)},
                        fresh});
    ways.push_back({"fresh_elements", {gather_request(Opcode::read, 9)}, fresh});
    ways.push_back({"fresh_invalidation", {request(Opcode::local_invalidate)}, fresh});
    ways.push_back({"fresh_window", {window}, fresh});
    ways.push_back({"list", mixed, listed});
    ways.push_back({"prepared_small", {inline_request(Opcode::send, 30)}, prepared_small});
    ways.push_back({"prepared_large", {gather_request(Opcode::write, 9)}, prepared_large});
    for (const std::uint32_t count : {2U, 3U})
        ways.push_back({"prepared_list_" + std::to_string(count), reads(count), prepared_list});
    for (const std::uint32_t count : {1U, 2U, 3U, 4U})
        ways.push_back({"write8_" + std::to_string(count), writes8(count), write8});
    return ways;
}

// A queue that starts at a place with so many one-block requests outstanding.
class Started {
  public:
    Started(std::uint32_t size, std::uint32_t start, std::uint32_t filled)
        : device_({.send_blocks = size}), queue_(device_.queue_pair()) {
        for (std::uint32_t i = 0; i < start; ++i) {
            post_filler();
            EXPECT_TRUE(queue_.retire(static_cast<std::uint16_t>(i)));
        }
        for (std::uint32_t i = 0; i < filled; ++i) post_filler();
    }
    TestDevice& device() { return device_; }
    SendQueue& queue() { return queue_; }

  private:
    void post_filler() {
        EXPECT_EQ(queue_.post(request(Opcode::nop).get()), Errc::ok);
        device_.fetch();
    }
    TestDevice device_;
    SendQueue queue_;
};

class EachWay : public testing::TestWithParam<Way> {};

TEST_P(EachWay, is_whole_or_refused_at_every_place_of_the_smallest_queue_at_every_fill) {
    Way way = GetParam();
    std::uint32_t blocks = 0;
    for (Request& one : way.asked) blocks += shape_of(one.get()).blocks();
    for (std::uint32_t size = std::bit_ceil(blocks); size <= 2 * std::bit_ceil(blocks); size *= 2)
        for (std::uint32_t start = 0; start < size; ++start)
            for (std::uint32_t filled = 0; filled <= size && !HasFailure(); ++filled) {
                Started at(size, start, filled);
                const std::vector<std::byte> before(at.device().ring(),
                                                    at.device().ring() + at.device().ring_bytes());
                const std::uint32_t record = at.device().raw_send_record();
                const Post post = way.make(at.queue(), way.asked);
                const bool fits = blocks <= size - filled;
                ASSERT_EQ(post(), fits ? Errc::ok : Errc::would_block);
                const auto seen = at.device().fetch();
                ASSERT_EQ(seen.size(), fits ? way.asked.size() : 0);
                for (std::size_t i = 0; i < seen.size(); ++i) expect_sees(seen[i], way.asked[i]);
                EXPECT_EQ(at.queue().free_blocks(), size - filled - (fits ? blocks : 0));
                if (fits) continue;
                EXPECT_EQ(at.device().raw_send_record(), record);
                EXPECT_EQ(std::memcmp(before.data(), at.device().ring(), before.size()), 0);
            }
}

TEST_P(EachWay, is_too_large_for_a_queue_that_can_never_hold_it) {
    Way way = GetParam();
    std::uint32_t blocks = 0;
    for (Request& one : way.asked) blocks += shape_of(one.get()).blocks();
    if (blocks == 1) return;
    Started at(std::bit_floor(blocks - 1), 0, 0);
    try {
        EXPECT_EQ(way.make(at.queue(), way.asked)(), Errc::message_too_large);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::message_too_large);  // prepared ones find out at once
    }
    EXPECT_EQ(at.queue().free_blocks(), at.queue().blocks());
}

INSTANTIATE_TEST_SUITE_P(Wrap, EachWay, testing::ValuesIn(all_ways()),
                         [](const auto& way) { return way.param.name; });

std::vector<Element> numbered(std::uint64_t id, std::size_t count) {
    std::vector<Element> made;
    for (std::size_t i = 0; i < count; ++i)
        made.push_back({id << 16 | i << 8, static_cast<std::uint32_t>(1 + id + i), 7});
    return made;
}

class ReceiveSizes : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Wrap, ReceiveSizes, testing::Values(1U, 2U, 4U));

// Lists of every length from every place, to the brim and over it.
TEST_P(ReceiveSizes, receives_are_full_and_empty_at_every_place) {
    const std::uint32_t entries = GetParam();
    TestDevice device({.receive_entries = entries, .receive_stride_log2 = 5});
    ReceiveQueue queue(device.queue_pair());
    std::uint64_t next = 0, oldest = 0;
    for (int round = 0; round < 1000 && !HasFailure(); ++round) {
        const auto wanted = static_cast<std::uint32_t>(round) % (entries + 2);
        std::vector<std::vector<Element>> elements;
        std::vector<ReceiveRequest> list;
        for (std::uint32_t i = 0; i < wanted; ++i) elements.push_back(numbered(next + i, i % 3));
        for (std::uint32_t i = 0; i < wanted; ++i) list.push_back({next + i, elements[i]});
        const auto room = entries - static_cast<std::uint32_t>(next - oldest);
        const Errc expected = wanted > entries ? Errc::message_too_large
                              : wanted > room  ? Errc::would_block
                                               : Errc::ok;
        ASSERT_EQ(queue.post(std::span<const ReceiveRequest>(list)), expected);
        if (expected == Errc::ok) {
            for (std::uint32_t i = 0; i < wanted; ++i) {
                const std::size_t place = (next + i) % entries * 32;
                const auto seen = prm::describe_receive({device.receive_ring() + place, 32}, false);
                ASSERT_EQ(seen.pieces.size(), elements[i].size());
                for (std::size_t e = 0; e < seen.pieces.size(); ++e)
                    EXPECT_EQ(seen.pieces[e].address, elements[i][e].address);
            }
            next += wanted;
        }
        ASSERT_EQ(device.receive_record(), next & 0xffff);
        ASSERT_EQ(queue.outstanding(), next - oldest);
        for (int i = round % 3; i > 0 && oldest < next; --i) ASSERT_EQ(queue.retire(), oldest++);
        while (round % 7 == 6 && oldest < next) ASSERT_EQ(queue.retire(), oldest++);
        if (oldest == next) {
            ASSERT_FALSE(queue.retire());
        }
    }
}

struct Geometry {
    std::uint32_t entries, entry_bytes;
};
class CompletionSizes : public testing::TestWithParam<Geometry> {};
INSTANTIATE_TEST_SUITE_P(Wrap, CompletionSizes,
                         testing::Values(Geometry{1, 64}, Geometry{1, 128}, Geometry{2, 64},
                                         Geometry{2, 128}, Geometry{8, 64}));

TEST_P(CompletionSizes, completions_are_full_and_empty_at_every_place) {
    const auto [entries, entry_bytes] = GetParam();
    TestDevice device(
        {.send_blocks = 8, .completion_entries = entries, .entry_bytes = entry_bytes});
    SendQueue queue(device.queue_pair());
    CompletionQueue completions(device.completion_queue());
    completions.attach(&queue, nullptr);
    std::uint64_t id = 0;
    for (std::uint32_t round = 0; round < 1000; ++round) {
        const std::uint32_t burst = 1 + round % entries;
        for (std::uint32_t i = 0; i < burst; ++i) {
            ASSERT_EQ(queue.post(inline_request(Opcode::write, 8, id + i).get()), Errc::ok);
            device.complete(device.fetch().at(0));
        }
        std::vector<Completion> polled(entries + 1);
        polled.resize(completions.poll(polled));
        ASSERT_EQ(polled.size(), burst);
        for (const Completion& one : polled) ASSERT_EQ(one.id, id++);
        Completion none;
        ASSERT_EQ(completions.poll(std::span(&none, 1)), 0U);
        ASSERT_EQ(device.consumer_record(), device.produced());
    }
}

}  // namespace
}  // namespace verbatim::mlx5
