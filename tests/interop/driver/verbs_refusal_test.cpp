// The data path over verbs where the provider does not behave: it refuses requests that it should
// take, takes little inline, or delivers completions of an earlier life. A real provider (libmlx5
// on the software NIC), whose post function is replaced by one that refuses now and then.
#include <gtest/gtest.h>

#include <optional>

#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/receive_queue.hpp>
#include <verbatim/mlx5/send_queue.hpp>

#include <verbs_pair.hpp>

#include "softqueue/queue_memory.hpp"
#include "verbs/receive_translator.hpp"
#include "verbs/send_translator.hpp"

namespace verbatim::verbs {
namespace {

using mlx5::Completion;
using mlx5::Opcode;
using mlx5::WorkRequest;

// What the provider's post functions do from now on. Tests run one after the other.
struct Moods {
    decltype(ibv_context_ops::post_send) send = nullptr;
    decltype(ibv_context_ops::post_recv) receive = nullptr;
    std::uint32_t taken = 0;      // requests so far
    std::uint32_t refuses = ~0u;  // the one with this number, once; unless
    bool for_good = false;        // it takes nothing from then on
    std::vector<ibv_send_wr> seen;
    std::vector<ibv_sge> seen_elements;
} g_moods;

template <class Work, class Post>
int post_some(ibv_qp* pair, Work* work, Work** bad, Post* post) {
    for (; work != nullptr; work = work->next) {
        if (g_moods.taken >= g_moods.refuses) {
            if (!g_moods.for_good) g_moods.refuses = ~0u;
            *bad = work;
            return EINVAL;
        }
        ++g_moods.taken;
        Work alone = *work;
        alone.next = nullptr;
        Work* refused = nullptr;
        if (const int error = post(pair, &alone, &refused); error != 0) {
            *bad = work;
            return error;
        }
    }
    return 0;
}

int moody_send(ibv_qp* pair, ibv_send_wr* work, ibv_send_wr** bad) {
    for (const ibv_send_wr* one = work; one != nullptr; one = one->next) {
        g_moods.seen.push_back(*one);
        if (one->num_sge > 0) g_moods.seen_elements.push_back(one->sg_list[0]);
    }
    return post_some(pair, work, bad, g_moods.send);
}
int moody_receive(ibv_qp* pair, ibv_recv_wr* work, ibv_recv_wr** bad) {
    return post_some(pair, work, bad, g_moods.receive);
}

class MoodyProvider : public testing::Test {
  protected:
    MoodyProvider() {
        interop::connect(near.pair.get(), far.pair->qp_num);
        interop::connect(far.pair.get(), near.pair->qp_num);
        g_moods = {near.pair->context->ops.post_send, near.pair->context->ops.post_recv};
        near.pair->context->ops.post_send = moody_send;
        near.pair->context->ops.post_recv = moody_receive;
        softnic_view().number = near.pair->qp_num;
        softnic_view().masked_atomics = false;
        ring.reset(interop::good(
            ibv_reg_mr(near.domain.get(), softnic_view().send_buffer, 64 * mlx5::kBlockBytes, 0),
            "ibv_reg_mr"));
        translators(/*inline_bytes=*/16);
    }

    mlx5::QueuePairView& softnic_view() { return memory.view(); }
    void translators(std::uint32_t inline_bytes) {
        mlx5::CompletionQueueView& entries = completion_memory.view();
        taken.emplace(near.completions.get(), entries);
        entries.progress_hook = {
            [](void* self) noexcept { static_cast<CompletionTranslator*>(self)->progress(); },
            &*taken};
        mlx5::QueuePairView& view = softnic_view();
        sends.emplace(SendTranslator::Parts{.view = view,
                                            .queue_pair = near.pair.get(),
                                            .completions = &*taken,
                                            .keys = &keys,
                                            .ring_key = ring->lkey,
                                            .inline_bytes = inline_bytes,
                                            .max_elements = 4});
        receives.emplace(view, near.pair.get(), *taken);
        view.doorbell_hook = {[](void* self, const volatile void*) noexcept {
                                  static_cast<SendTranslator*>(self)->run();
                              },
                              &*sends};
        view.receive_hook = {
            [](void* self) noexcept { static_cast<ReceiveTranslator*>(self)->run(); }, &*receives};
        queue.emplace(view);
        receive_queue.emplace(view);
        completions.emplace(entries);
        completions->attach(&*queue, &*receive_queue);
        sends->open();
        receives->open();
    }

    WorkRequest write(std::uint64_t id, std::span<const std::byte> payload) {
        WorkRequest request;
        request.opcode = Opcode::write;
        request.id = id;
        request.inline_payload = payload;
        request.remote_address = reinterpret_cast<std::uint64_t>(far.memory.data()) + id * 64;
        request.remote_key = far.region->rkey;
        return request;
    }
    std::vector<Completion> wait(std::size_t count) {
        std::vector<Completion> seen;
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (seen.size() < count && std::chrono::steady_clock::now() < deadline) {
            std::array<Completion, 8> found;
            const std::size_t now = completions->poll(found);
            seen.insert(seen.end(), found.begin(), found.begin() + std::ptrdiff_t(now));
        }
        return seen;
    }
    interop::Context context = interop::open_device();
    interop::Side near{context.get()}, far{context.get()};
    softnic::QueuePairMemory memory{
        QueuePairOptions{.send_blocks = 64, .receive_entries = 8, .max_inline_bytes = 300}, 0};
    softnic::CompletionQueueMemory completion_memory{64, 64, 1};
    interop::Region ring;
    KeyTable keys;
    std::optional<CompletionTranslator> taken;
    std::optional<SendTranslator> sends;
    std::optional<ReceiveTranslator> receives;
    std::optional<mlx5::SendQueue> queue;
    std::optional<mlx5::ReceiveQueue> receive_queue;
    std::optional<mlx5::CompletionQueue> completions;
};

TEST_F(MoodyProvider, a_refused_request_fails_and_what_is_behind_it_is_flushed_in_order) {
    const std::array<std::byte, 8> payload{std::byte{1}};
    std::vector<WorkRequest> five;
    for (std::uint64_t id = 0; id < 5; ++id) five.push_back(write(id, payload));
    five[1].signaled = five[3].signaled = false;
    // Once connected, requests are executed as they are posted.
    ASSERT_EQ(queue->post(write(7, payload)), Errc::ok);
    ASSERT_EQ(wait(1).size(), 1u);
    g_moods.refuses = g_moods.taken + 2;
    ASSERT_EQ(queue->post(five), Errc::ok);
    const auto seen = wait(4);
    ASSERT_EQ(seen.size(), 4u);
    EXPECT_EQ(seen[0].id, 0u);
    EXPECT_EQ(seen[0].status, Errc::ok);
    for (std::size_t i = 1; i < 4; ++i) {
        EXPECT_EQ(seen[i].id, i + 1);
        EXPECT_EQ(seen[i].status, i == 1 ? Errc::local_queue_pair : Errc::flushed);
        EXPECT_EQ(seen[i].opcode, Opcode::write);
    }
    EXPECT_EQ(queue->outstanding(), 0u);
    EXPECT_EQ(interop::state_of(near.pair.get()), IBV_QPS_ERR);
    EXPECT_EQ(far.memory[128], std::byte{0}) << "executed after a refused request";
    ASSERT_EQ(queue->post(write(9, payload)), Errc::ok);
    const auto later = wait(1);
    ASSERT_EQ(later.size(), 1u);
    EXPECT_EQ(later[0].id, 9u);
    EXPECT_EQ(later[0].status, Errc::flushed);
    EXPECT_EQ(completions->strays(), 0u);
}

TEST_F(MoodyProvider, a_provider_that_takes_nothing_any_more_changes_nothing_of_that) {
    g_moods.for_good = true;
    // The two that it took may be told later than those that it did not: they are retired by them.
    const std::array<std::byte, 8> payload{std::byte{1}};
    std::vector<WorkRequest> five;
    for (std::uint64_t id = 0; id < 5; ++id) five.push_back(write(id, payload));
    g_moods.refuses = 0;
    ASSERT_EQ(queue->post(five), Errc::ok);
    const auto seen = wait(5);
    ASSERT_EQ(seen.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(seen[i].id, i);
        EXPECT_EQ(seen[i].status, i == 0 ? Errc::local_queue_pair : Errc::flushed);
    }
    EXPECT_EQ(queue->outstanding(), 0u);
    EXPECT_EQ(completions->strays(), 0u);
}

TEST_F(MoodyProvider, a_refused_receive_fails_the_queue_pair_and_each_is_flushed_once) {
    g_moods.refuses = 2;
    for (std::uint64_t id = 0; id < 5; ++id)
        ASSERT_EQ(receive_queue->post(mlx5::ReceiveRequest{id, {}}), Errc::ok);
    const auto seen = wait(5);
    ASSERT_EQ(seen.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(seen[i].id, i);
        EXPECT_EQ(seen[i].status, Errc::flushed);
    }
    EXPECT_EQ(interop::state_of(near.pair.get()), IBV_QPS_ERR);
    EXPECT_EQ(completions->strays(), 0u);
}

TEST_F(MoodyProvider, payload_goes_inline_as_far_as_the_device_takes_it) {
    std::array<std::byte, 200> payload;
    payload.fill(std::byte{7});
    for (const std::size_t bytes : {16u, 17u, 200u}) {
        g_moods.seen.clear(), g_moods.seen_elements.clear();
        ASSERT_EQ(queue->post(write(1, std::span(payload).first(bytes))), Errc::ok);
        ASSERT_EQ(g_moods.seen.size(), 1u);
        EXPECT_EQ((g_moods.seen[0].send_flags & IBV_SEND_INLINE) != 0, bytes <= 16);
        EXPECT_EQ(g_moods.seen_elements[0].lkey, ring->lkey);
        const auto done = wait(1);
        ASSERT_EQ(done.size(), 1u);
        EXPECT_EQ(done[0].status, Errc::ok);
        EXPECT_EQ(std::memcmp(&far.memory[64], payload.data(), bytes), 0);
        EXPECT_EQ(far.memory[64 + bytes], std::byte{0});
    }
}

TEST_F(MoodyProvider, only_what_is_signaled_fenced_or_solicited_is_posted_so) {
    WorkRequest request = write(1, {});
    request.signaled = false;
    request.fence = true;
    ASSERT_EQ(queue->post(request), Errc::ok);
    request = write(2, {});
    ASSERT_EQ(queue->post(request), Errc::ok);
    ASSERT_EQ(g_moods.seen.size(), 2u);
    EXPECT_EQ(g_moods.seen[0].send_flags, unsigned{IBV_SEND_FENCE});
    EXPECT_EQ(g_moods.seen[1].send_flags, unsigned{IBV_SEND_SIGNALED});
}

TEST_F(MoodyProvider, completions_of_a_life_before_are_dropped) {
    const std::array<std::byte, 8> payload{std::byte{1}};
    ASSERT_EQ(queue->post(write(1, payload)), Errc::ok);
    // In the provider's queue, and not taken from there.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (far.memory[64] == std::byte{0} && std::chrono::steady_clock::now() < deadline) {
    }
    sends->reset();
    queue->reset();
    memory.clear();
    sends->open();
    ASSERT_EQ(queue->post(write(2, payload)), Errc::ok);
    const auto seen = wait(1);
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].id, 2u);
    EXPECT_EQ(queue->outstanding(), 0u);
    EXPECT_EQ(completions->strays(), 0u);
}

}  // namespace
}  // namespace verbatim::verbs
