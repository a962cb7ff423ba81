// What goes wrong: keys, lengths, overflow, lost peers. Each accepted request retires exactly once,
// the first one with the reason, the rest flushed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "softnic_end.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::CompletionKind;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

class Errors : public testing::Test {
  protected:
    Pair pair;
    End& a = pair.a;
    End& b = pair.b;

    // The only completion there is.
    Completion only() {
        const auto seen = a.poll();
        EXPECT_EQ(seen.size(), 1u);
        return seen.empty() ? Completion{} : seen[0];
    }
    std::string text() const { return failure_text(*a.queue_pair); }
};

TEST_F(Errors, unknown_remote_key_is_remote_access) {
    a.peer.key ^= 1;
    ASSERT_EQ(a.post_write(pattern(8), 0, 9), Errc::ok);
    const Completion completion = only();
    EXPECT_EQ(completion.status, Errc::remote_access);
    EXPECT_EQ(completion.id, 9u);
    EXPECT_EQ(a.queue_pair->state(), QueuePairState::error);
    EXPECT_NE(text().find("not registered"), std::string::npos) << text();
    EXPECT_EQ(b.value<std::uint64_t>(0), 0u);
}

TEST_F(Errors, released_remote_key_fails_at_once_and_keeps_failing_when_its_slot_is_reused) {
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    ASSERT_EQ(only().status, Errc::ok);
    b.region.reset();
    std::memset(b.at(0), 0, 8);
    const auto other = b.device->register_memory(b.at(0), 4096, kAllAccess, {b.memory.file(), 0});
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_EQ(only().status, Errc::remote_access);
    EXPECT_EQ(b.value<std::uint64_t>(0), 0u);
}

TEST_F(Errors, write_past_the_region_is_refused_also_where_addresses_overflow) {
    for (const std::size_t offset : {a.peer.address * 0 + b.memory.bytes() - 7, SIZE_MAX - 3}) {
        Pair fresh;
        ASSERT_EQ(fresh.a.post_write(pattern(8), offset), Errc::ok);
        const auto seen = fresh.a.poll();
        ASSERT_EQ(seen.size(), 1u);
        EXPECT_EQ(seen[0].status, Errc::remote_access);
        EXPECT_NE(failure_text(*fresh.a.queue_pair).find("covers"), std::string::npos);
    }
}

TEST_F(Errors, missing_permission_is_refused_per_kind) {
    struct Case {
        Access granted;
        Opcode opcode;
    };
    for (const Case& c :
         {Case{Access::remote_read, Opcode::write}, Case{Access::remote_write, Opcode::read},
          Case{Access::remote_write | Access::remote_read, Opcode::fetch_add}}) {
        EndOptions options;
        options.access = c.granted | Access::local_write;
        Pair fresh(options);
        const Element element = fresh.a.element(0, 8);
        WorkRequest request = fresh.a.request(c.opcode);
        request.elements = std::span(&element, 1);
        ASSERT_EQ(fresh.a.send->post(request), Errc::ok);
        const auto seen = fresh.a.poll();
        ASSERT_EQ(seen.size(), 1u);
        EXPECT_EQ(seen[0].status, Errc::remote_access);
        EXPECT_NE(failure_text(*fresh.a.queue_pair).find("allows access"), std::string::npos);
    }
}

TEST_F(Errors, local_key_must_cover_and_allow) {
    EndOptions read_only;
    read_only.access = Access::remote_write | Access::remote_read;
    Pair fresh(read_only);
    Element element = fresh.a.element(0, 8);
    WorkRequest read = fresh.a.request(Opcode::read);
    read.elements = std::span(&element, 1);
    ASSERT_EQ(fresh.a.send->post(read), Errc::ok);
    auto seen = fresh.a.poll();
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].status, Errc::local_protection);

    element = a.element(a.memory.bytes() - 4, 8);
    WorkRequest write = a.request(Opcode::write);
    write.elements = std::span(&element, 1);
    ASSERT_EQ(a.send->post(write), Errc::ok);
    EXPECT_EQ(only().status, Errc::local_protection);
    EXPECT_NE(text().find("local key"), std::string::npos);
}

// Drivers refuse this when posting, so the entry is altered in the ring of a parked device.
TEST_F(Errors, atomics_must_be_aligned) {
    EndOptions options;
    options.device.parked = true;
    Pair parked(options);
    const Element element = parked.a.element(0, 8);
    WorkRequest add = parked.a.request(Opcode::fetch_add, 0);
    add.elements = std::span(&element, 1);
    ASSERT_EQ(parked.a.send->post(add), Errc::ok);
    const mlx5::be64 odd(add.remote_address + 4);
    std::memcpy(parked.a.queue_pair->view().send_buffer + sizeof(mlx5::ControlSegment), &odd,
                sizeof odd);
    execute(*parked.a.queue_pair);
    const auto seen = parked.a.poll();
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].status, Errc::remote_invalid);
}

TEST_F(Errors, too_small_receive_fails_both_sides) {
    ASSERT_EQ(b.post_receive(0, 99, 5), Errc::ok);
    ASSERT_EQ(b.post_receive(100, 100, 6), Errc::ok);
    const Element from = a.element(0, 100);
    ASSERT_EQ(a.post_send(std::span(&from, 1), 7), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 2));
    EXPECT_EQ(pair.seen_a[0].status, Errc::remote_invalid);
    EXPECT_EQ(pair.seen_a[0].id, 7u);
    EXPECT_EQ(pair.seen_b[0].status, Errc::local_length);
    EXPECT_EQ(pair.seen_b[0].id, 5u);
    EXPECT_EQ(pair.seen_b[1].status, Errc::flushed);
    EXPECT_EQ(b.queue_pair->state(), QueuePairState::error);
}

TEST_F(Errors, receive_with_a_bad_key_fails_both_sides) {
    Element into = b.element(0, 100);
    into.local_key ^= 0x300;
    ASSERT_EQ(b.receive->post(mlx5::ReceiveRequest{5, std::span(&into, 1)}), Errc::ok);
    const Element from = a.element(0, 100);
    ASSERT_EQ(a.post_send(std::span(&from, 1), 7), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 1));
    EXPECT_EQ(pair.seen_a[0].status, Errc::remote_operation);
    EXPECT_EQ(pair.seen_b[0].status, Errc::local_protection);
}

TEST_F(Errors, requests_that_the_peer_had_acknowledged_before_the_error_are_complete) {
    const Element from = a.element(0, 100);
    ASSERT_EQ(b.post_receive(0, 100, 1), Errc::ok);
    ASSERT_EQ(a.post_send(std::span(&from, 1), 1), Errc::ok);
    ASSERT_EQ(a.post_write(pattern(8), 0, 2), Errc::ok);  // held back by the send
    ASSERT_EQ(a.post_send(std::span(&from, 1), 3), Errc::ok);
    ASSERT_TRUE(poll_until({&b}, {&pair.seen_b}, [&] { return pair.seen_b.size() == 1; }));
    a.queue_pair->fail();
    ASSERT_TRUE(poll_until({&a}, {&pair.seen_a}, [&] { return pair.seen_a.size() == 3; }));
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(pair.seen_a[i].id, i + 1);
        EXPECT_EQ(pair.seen_a[i].status, i == 2 ? Errc::flushed : Errc::ok) << i;
    }
}

TEST_F(Errors, every_outstanding_request_is_flushed_once_and_later_ones_too) {
    const Element from = a.element(0, 100);
    std::map<std::uint64_t, int> retired;
    std::vector<Errc> order;
    for (std::uint64_t id = 0; id < 10; ++id)
        ASSERT_EQ(a.post_send(std::span(&from, 1), id), Errc::ok);
    for (std::uint64_t id = 100; id < 108; ++id) ASSERT_EQ(a.post_receive(0, 64, id), Errc::ok);
    for (std::uint64_t id = 10; id < 14; ++id)
        ASSERT_EQ(a.post_write(pattern(8), 0, id, false), Errc::ok);
    a.queue_pair->fail();
    ASSERT_EQ(a.post_write(pattern(8), 0, 14), Errc::ok);
    ASSERT_EQ(a.post_receive(0, 64, 108), Errc::ok);
    for (int i = 0; i < 4; ++i)
        for (const Completion& completion : a.poll()) {
            ++retired[completion.id];
            EXPECT_EQ(completion.status, Errc::flushed) << completion.id;
        }
    EXPECT_EQ(retired.size(), 15u + 9u);
    for (const auto& [id, times] : retired) EXPECT_EQ(times, 1) << id;
    EXPECT_EQ(a.send->outstanding(), 0u);
    EXPECT_EQ(a.receive->outstanding(), 0u);
    EXPECT_EQ(a.completions->strays(), 0u);
}

TEST_F(Errors, error_behind_an_unacknowledged_message_waits_for_it) {
    const Element from = a.element(0, 100);
    ASSERT_EQ(a.post_send(std::span(&from, 1), 1), Errc::ok);
    a.peer.key ^= 1;
    ASSERT_EQ(a.post_write(pattern(8), 0, 2), Errc::ok);
    a.peer.key ^= 1;
    ASSERT_EQ(a.post_write(pattern(8), 64, 3), Errc::ok);
    EXPECT_TRUE(a.poll().empty());
    EXPECT_EQ(b.value<std::uint64_t>(64), 0u) << "executed after a failed request";
    ASSERT_EQ(b.post_receive(0, 100), Errc::ok);
    ASSERT_TRUE(pair.poll_for(3, 1));
    EXPECT_EQ(pair.seen_a[0].status, Errc::ok);
    EXPECT_EQ(pair.seen_a[1].status, Errc::remote_access);
    EXPECT_EQ(pair.seen_a[2].status, Errc::flushed);
}

TEST_F(Errors, full_completion_queue_is_an_error_and_overwrites_nothing) {
    EndOptions options;
    options.completions = 8;
    Pair fresh(options);
    for (std::uint64_t id = 0; id < 20; ++id)
        ASSERT_EQ(fresh.a.post_write(pattern(8), 0, id), Errc::ok);
    EXPECT_EQ(fresh.a.queue_pair->state(), QueuePairState::error);
    EXPECT_NE(failure_text(*fresh.a.queue_pair).find("completion queue is full"),
              std::string::npos);
    std::vector<Completion> all;
    for (int i = 0; i < 8; ++i)
        for (const Completion& completion : fresh.a.poll()) all.push_back(completion);
    ASSERT_EQ(all.size(), 20u);
    for (std::uint64_t id = 0; id < 20; ++id) {
        EXPECT_EQ(all[id].id, id);
        EXPECT_EQ(all[id].status, id < 8 ? Errc::ok : Errc::flushed) << id;
    }
}

TEST_F(Errors, full_receive_completion_queue_fails_the_message) {
    EndOptions small;
    small.completions = 4;
    Pair fresh(EndOptions{}, small);
    const Element from = fresh.a.element(0, 10);
    for (std::uint64_t id = 0; id < 8; ++id) {
        ASSERT_EQ(fresh.b.post_receive(0, 10, id), Errc::ok);
        ASSERT_EQ(fresh.a.post_send(std::span(&from, 1), id), Errc::ok);
    }
    execute(*fresh.b.queue_pair);
    ASSERT_TRUE(fresh.poll_for(8, 8));
    for (std::uint64_t id = 0; id < 8; ++id) {
        EXPECT_EQ(fresh.seen_b[id].status, id < 4   ? Errc::ok
                                           : id > 4 ? Errc::flushed
                                                    : Errc::local_queue_pair);
        EXPECT_EQ(fresh.seen_a[id].status, id < 4   ? Errc::ok
                                           : id > 4 ? Errc::flushed
                                                    : Errc::remote_operation);
    }
}

TEST_F(Errors, destroyed_peer_ends_this_connection_only) {
    End c, d;
    c.connect(d.address());
    d.connect(c.address());
    const Element from = a.element(0, 100);
    ASSERT_EQ(a.post_send(std::span(&from, 1), 1), Errc::ok);
    ASSERT_EQ(a.post_send(std::span(&from, 1), 2), Errc::ok);
    ASSERT_EQ(a.post_receive(0, 100, 3), Errc::ok);
    EXPECT_FALSE(a.queue_pair->peer_lost());
    b.queue_pair.reset();
    EXPECT_TRUE(a.queue_pair->peer_lost());
    ASSERT_TRUE(poll_until({&a}, {&pair.seen_a}, [&] { return pair.seen_a.size() == 3; }));
    for (const Completion& completion : pair.seen_a)
        EXPECT_EQ(completion.status, completion.id == 1 ? Errc::retry_exceeded : Errc::flushed);
    ASSERT_EQ(c.post_write(pattern(8), 0), Errc::ok);
    EXPECT_EQ(c.poll().at(0).status, Errc::ok);
}

TEST_F(Errors, message_sent_before_the_sender_closed_is_still_delivered) {
    const Element from = a.element(0, 100);
    ASSERT_EQ(a.post_send(std::span(&from, 1)), Errc::ok);
    a.queue_pair.reset();
    EXPECT_TRUE(b.queue_pair->peer_lost());
    ASSERT_EQ(b.post_receive(0, 100, 1), Errc::ok);
    ASSERT_EQ(b.post_receive(0, 100, 2), Errc::ok);
    ASSERT_TRUE(poll_until({&b}, {&pair.seen_b}, [&] { return pair.seen_b.size() == 2; }));
    EXPECT_EQ(pair.seen_b[0].status, Errc::ok);
    EXPECT_EQ(pair.seen_b[1].status, Errc::flushed);
}

TEST_F(Errors, peer_in_error_answers_nothing_any_more) {
    b.queue_pair->fail();
    ASSERT_EQ(a.post_write(pattern(8), 0, 1), Errc::ok);
    EXPECT_EQ(only().status, Errc::retry_exceeded);
    EXPECT_FALSE(a.queue_pair->peer_lost());
    EXPECT_EQ(b.value<std::uint64_t>(0), 0u);
}

TEST_F(Errors, both_sides_work_again_after_reset_and_connect) {
    a.queue_pair->fail();
    while (!a.poll().empty()) {
    }
    const std::uint64_t epoch = *a.device->invalidation_epoch();
    for (End* end : {&a, &b}) {
        end->queue_pair->reset();
        end->completions->discard(end->send->number());
        end->send->reset();
        end->receive->reset();
    }
    EXPECT_GT(*a.device->invalidation_epoch(), epoch);
    EXPECT_EQ(a.queue_pair->state(), QueuePairState::reset);
    EXPECT_EQ(text(), "");
    a.connect(b.address());
    b.connect(a.address());
    ASSERT_EQ(b.post_receive(0, 100, 3), Errc::ok);
    const Element from = a.element(0, 100);
    ASSERT_EQ(a.post_send(std::span(&from, 1), 4), Errc::ok);
    pair.seen_a.clear(), pair.seen_b.clear();
    ASSERT_TRUE(pair.poll_for(1, 1));
    EXPECT_EQ(pair.seen_a[0].status, Errc::ok);
    EXPECT_EQ(pair.seen_b[0].status, Errc::ok);
}

TEST_F(Errors, reset_of_one_side_is_the_end_for_the_other) {
    b.queue_pair->reset();
    EXPECT_TRUE(a.queue_pair->peer_lost());
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_EQ(only().status, Errc::retry_exceeded);
}

TEST_F(Errors, third_party_cannot_take_over_a_connected_queue_pair) {
    End c;
    try {
        c.connect(b.address());
        FAIL() << "connected to a queue pair that is taken";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::invalid_argument);
        EXPECT_NE(std::string(error.what()).find("already belongs"), std::string::npos)
            << error.what();
    }
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_EQ(only().status, Errc::ok);
}

TEST_F(Errors, connect_to_a_queue_pair_that_is_gone_is_peer_lost) {
    EndAddress gone = b.address();
    gone.queue_pair.number = (gone.queue_pair.number + 77) & 0xffffff;
    End c;
    try {
        c.connect(gone);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::peer_lost);
    }
    // The failed attempt leaves the queue pair usable.
    End d;
    c.connect(d.address());
    d.connect(c.address());
    ASSERT_EQ(c.post_write(pattern(8), 0), Errc::ok);
    EXPECT_EQ(c.poll().at(0).status, Errc::ok);
}

TEST(Registration, file_that_can_shrink_is_refused_with_the_remedy) {
    const auto device = open_device();
    SharedPages pages(4096, 0);
    try {
        device->register_memory(pages.data(), 4096, kAllAccess, {pages.file(), 0});
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::invalid_argument);
        EXPECT_NE(std::string(error.what()).find("F_SEAL_SHRINK"), std::string::npos);
    }
}

TEST(Registration, range_beyond_its_file_is_refused) {
    const auto device = open_device();
    SharedPages pages(4096);
    EXPECT_THROW(device->register_memory(pages.data(), 4096, kAllAccess, {pages.file(), 1}), Error);
    EXPECT_THROW(device->register_memory(pages.data(), 0, kAllAccess, {pages.file(), 0}), Error);
}

TEST(Registration, released_key_does_not_come_back_at_once) {
    const auto device = open_device();
    SharedPages pages(4096);
    const auto add = [&] {
        return device->register_memory(pages.data(), 64, kAllAccess, {pages.file(), 0});
    };
    std::uint32_t key = 0;
    {
        const auto region = add();
        key = region->local_key();
    }
    EXPECT_NE(add()->local_key(), key);
}

TEST(Options, impossible_sizes_are_refused_with_the_limit) {
    Options options;
    options.ring_bytes = 100;
    EXPECT_THROW(open_device(options), Error);
    const auto device = open_device();
    const auto queue = device->create_completion_queue(64);
    EXPECT_THROW(device->create_completion_queue(1u << 30), Error);
    QueuePairOptions wanted{.send_completions = queue.get(), .receive_completions = queue.get()};
    wanted.send_blocks = 1 << 20;
    EXPECT_THROW(device->create_queue_pair(wanted), Error);
    wanted.send_blocks = 64;
    wanted.send_completions = nullptr;
    EXPECT_THROW(device->create_queue_pair(wanted), Error);
}

}  // namespace
}  // namespace verbatim::softnic::test
