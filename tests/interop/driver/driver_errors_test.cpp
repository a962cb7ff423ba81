// What goes wrong, and what each side hears of it, exactly once: on every backend.
#include <map>

#include "backend.hpp"

namespace verbatim::test {
namespace {

using mlx5::Completion;
using mlx5::CompletionKind;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::Syndrome;
using mlx5::WorkRequest;

using DriverErrors = DriverTest;

// Which path it took; the names of tests are no proof.
TEST_P(DriverErrors, backend_is_what_it_is_called) {
    const bool verbs = GetParam().name.find("verbs") != std::string::npos;
    EXPECT_EQ(a.device->info().data_path, verbs ? "verbs" : "mlx5");
    EXPECT_EQ(a.queue_pair->view().receive_hook.call != nullptr, verbs);
}

TEST_P(DriverErrors, an_unknown_remote_key_is_remote_access_and_what_is_behind_is_flushed) {
    a.peer.key ^= 0x500;
    ASSERT_EQ(a.post_write(pattern(8), 0, 1, false), Errc::ok);
    a.peer.key ^= 0x500;
    for (std::uint64_t id = 2; id < 6; ++id) ASSERT_EQ(a.post_write(pattern(8), 0, id), Errc::ok);
    const auto seen = wait(a, 5);
    ASSERT_EQ(seen.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(seen[i].id, i + 1);
        EXPECT_EQ(seen[i].status, i == 0 ? Errc::remote_access : Errc::flushed);
        EXPECT_EQ(seen[i].syndrome,
                  std::uint8_t(i == 0 ? Syndrome::remote_access : Syndrome::flushed));
        EXPECT_EQ(seen[i].queue_pair, a.send->number());
    }
    EXPECT_EQ(a.queue_pair->state(), QueuePairState::error);
    EXPECT_EQ(a.send->outstanding(), 0u);
    EXPECT_EQ(leftovers(), 0u);
    EXPECT_EQ(b.value<std::uint64_t>(0), 0u) << "executed after a failed request";
}

TEST_P(DriverErrors, a_write_past_the_region_and_one_without_permission_are_refused) {
    ASSERT_EQ(a.post_write(pattern(8), b.memory.bytes() - 7), Errc::ok);
    EXPECT_EQ(wait_one(a).status, Errc::remote_access);
    EndOptions read_only = options();
    read_only.access = Access::local_write | Access::remote_read;
    Pair other(read_only);
    ASSERT_EQ(other.a.post_write(pattern(8), 0), Errc::ok);
    ASSERT_TRUE(other.poll_for(1, 0));
    EXPECT_EQ(other.seen_a[0].status, Errc::remote_access);
    EXPECT_EQ(other.b.value<std::uint64_t>(0), 0u);
}

TEST_P(DriverErrors, a_local_key_must_cover_the_bytes) {
    const Element element = a.element(a.memory.bytes() - 4, 8);
    WorkRequest write = a.request(Opcode::write);
    write.elements = std::span(&element, 1);
    write.id = 4;
    const Completion done = finish(write);
    EXPECT_EQ(done.status, Errc::local_protection);
    EXPECT_EQ(done.id, 4u);
}

TEST_P(DriverErrors, a_receive_that_is_too_small_fails_both_sides) {
    ASSERT_EQ(b.post_receive(0, 99, 5), Errc::ok);
    ASSERT_EQ(b.post_receive(100, 100, 6), Errc::ok);
    const Element from = a.element(0, 100);
    ASSERT_EQ(a.post_send(std::span(&from, 1), 7), Errc::ok);
    const Completion sent = wait_one(a);
    EXPECT_EQ(sent.status, Errc::remote_invalid);
    EXPECT_EQ(sent.id, 7u);
    const auto got = wait(b, 2);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].status, Errc::local_length);
    EXPECT_EQ(got[0].id, 5u);
    EXPECT_EQ(got[1].status, Errc::flushed);
    EXPECT_EQ(got[1].kind, CompletionKind::receive);
    EXPECT_EQ(b.queue_pair->state(), QueuePairState::error);
}

TEST_P(DriverErrors, failing_flushes_each_request_once_and_later_ones_too) {
    const Element from = a.element(0, 100);
    for (std::uint64_t id = 0; id < 10; ++id)
        ASSERT_EQ(a.post_send(std::span(&from, 1), id), Errc::ok);
    for (std::uint64_t id = 100; id < 108; ++id) ASSERT_EQ(a.post_receive(0, 64, id), Errc::ok);
    a.queue_pair->fail();
    ASSERT_EQ(a.post_write(pattern(8), 0, 10, false), Errc::ok);
    ASSERT_EQ(a.post_write(pattern(8), 0, 11), Errc::ok);
    ASSERT_EQ(a.post_receive(0, 64, 108), Errc::ok);
    std::map<std::uint64_t, int> retired;
    for (const Completion& completion : wait(a, 12 + 9)) {
        ++retired[completion.id];
        EXPECT_EQ(completion.status, Errc::flushed) << completion.id;
    }
    EXPECT_EQ(retired.size(), 12u + 9u);
    EXPECT_EQ(leftovers(), 0u);
    EXPECT_EQ(a.send->outstanding(), 0u);
    EXPECT_EQ(a.receive->outstanding(), 0u);
    EXPECT_EQ(a.completions->strays(), 0u);
}

TEST_P(DriverErrors, requests_that_can_never_work_are_refused_by_value) {
    WorkRequest request = a.request(Opcode::write);
    const auto long_payload = pattern(1000);
    request.inline_payload = long_payload;
    EXPECT_EQ(a.send->post(request), Errc::message_too_large);
    request = a.request(Opcode::read);
    request.inline_payload = std::span(long_payload).first(8);
    EXPECT_EQ(a.send->post(request), Errc::invalid_argument);
    const std::vector<Element> many(a.send->limits().max_elements + 1, a.element(0, 1));
    request = a.request(Opcode::write);
    request.elements = many;
    EXPECT_EQ(a.send->post(request), Errc::invalid_argument);
    request = a.request(Opcode::fetch_add, 4);  // misaligned
    const Element eight = a.element(0, 8);
    request.elements = std::span(&eight, 1);
    EXPECT_EQ(a.send->post(request), Errc::invalid_argument);
    const std::vector<WorkRequest> longer_than_the_queue(a.send->blocks() + 1,
                                                         a.request(Opcode::nop));
    EXPECT_EQ(a.send->post(longer_than_the_queue), Errc::message_too_large);
    EXPECT_EQ(a.send->free_blocks(), a.send->blocks());
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_EQ(wait_one(a).status, Errc::ok) << "nothing of it was posted";
}

TEST_P(DriverErrors, both_sides_work_again_after_reset_and_connect) {
    const Element from = a.element(0, 100);
    for (std::uint64_t round = 0; round < 3; ++round) {
        for (std::uint64_t i = 0; i < 5; ++i) ASSERT_EQ(a.post_receive(0, 100, 50 + i), Errc::ok);
        ASSERT_EQ(a.post_send(std::span(&from, 1), 1), Errc::ok);  // no receive: outstanding
        if (round == 1) a.queue_pair->fail();
        const std::uint64_t epoch = *a.device->invalidation_epoch();
        for (End* end : {&a, &b}) {
            end->queue_pair->reset();
            end->completions->discard(end->send->number());
            end->send->reset();
            end->receive->reset();
        }
        EXPECT_GT(*a.device->invalidation_epoch(), epoch);
        EXPECT_EQ(a.queue_pair->state(), QueuePairState::reset);
        a.connect(b.address());
        b.connect(a.address());
        ASSERT_EQ(b.post_receive(0, 100, 3), Errc::ok);
        ASSERT_EQ(a.post_send(std::span(&from, 1), 4), Errc::ok);
        const Completion sent = wait_one(a), received = wait_one(b);
        EXPECT_EQ(sent.status, Errc::ok);
        EXPECT_EQ(sent.id, 4u) << "of the life before";
        EXPECT_EQ(received.status, Errc::ok);
        EXPECT_EQ(received.id, 3u);
        EXPECT_EQ(leftovers(), 0u);
    }
}

TEST_P(DriverErrors, a_window_that_is_none_is_a_bind_error_and_the_rest_is_flushed) {
    mlx5::WindowBinding binding;
    binding.window_key = a.region->remote_key();  // of a region
    binding.new_key = mlx5::next_window_key(binding.window_key);
    binding.local_key = a.region->local_key();
    binding.address = a.peer_address_of(0);
    binding.bytes = 64;
    WorkRequest bind;
    bind.opcode = Opcode::bind_window;
    bind.window = &binding;
    bind.id = 1;
    ASSERT_EQ(a.send->post(bind), Errc::ok);
    ASSERT_EQ(a.post_write(pattern(8), 0, 2), Errc::ok);
    const auto seen = wait(a, 2);
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].id, 1u);
    EXPECT_EQ(seen[0].opcode, Opcode::bind_window);
    EXPECT_EQ(seen[0].status, Errc::local_queue_pair);
    EXPECT_EQ(seen[0].syndrome, std::uint8_t(Syndrome::window_bind));
    EXPECT_EQ(seen[1].id, 2u);
    EXPECT_EQ(seen[1].status, Errc::flushed);
    EXPECT_EQ(a.queue_pair->state(), QueuePairState::error);
}

TEST_P(DriverErrors, completion_queues_resize_or_say_that_they_cannot) {
    if (!GetParam().resizes) {
        try {
            a.completions->resize(*a.completion_queue, 512);
            FAIL() << "it says that it cannot";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::unsupported);
        }
    } else {
        a.completions->resize(*a.completion_queue, 512);
        EXPECT_EQ(a.completions->entries(), 512u);
    }
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_EQ(wait_one(a).status, Errc::ok);
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverErrors, testing::ValuesIn(backends()), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DriverErrors);

}  // namespace
}  // namespace verbatim::test
