// Operations of a shape known at compile time, by both copy strategies: a device sees of each post
// what it sees of a fresh one, at every place of the ring; nothing else is ever heard of.
#include <gtest/gtest.h>

#include <memory>

#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/prebuilt_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>

#include "mlx5_fixed_cases.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

TYPED_TEST_SUITE(Fixed, Cases);

TYPED_TEST(Fixed, copied_equals_a_fresh_post_at_every_place_and_register) {
    for (const std::uint32_t blueflame_bytes : {256U, 64U, 128U, 512U, 0U}) {
        TestDevice device({.send_blocks = 32, .blueflame_bytes = blueflame_bytes});
        SendQueue queue(device.queue_pair());
        Request fresh = TypeParam::request();
        typename TypeParam::Copied copied(queue, fresh.get());
        for (std::uint32_t i = 0; i < kLaps * 32; ++i) {
            ASSERT_EQ(TypeParam::post(copied, fresh, i), Errc::ok);
            const SeenWqe seen = only_request(device);
            expect_sees(seen, fresh);
            ASSERT_EQ(queue.retire(seen.index), i);
        }
        EXPECT_EQ(queue.outstanding(), 0U);
    }
}

TYPED_TEST(Fixed, in_place_equals_a_fresh_post_in_every_lap) {
    TestDevice device({.send_blocks = 32});
    Request fresh = TypeParam::request();
    typename TypeParam::InPlace queue(device.queue_pair(), fresh.get());
    for (std::uint32_t i = 0; i < 0x10000 / 32 + kLaps * 32; ++i) {
        ASSERT_EQ(TypeParam::post(queue, fresh, i), Errc::ok);
        const SeenWqe seen = only_request(device);
        expect_sees(seen, fresh);
        ASSERT_EQ(queue.retire(seen.index), i);
        ASSERT_EQ(queue.free_blocks(), queue.blocks());
    }
}

// Fills the queue from every place; a refused post leaves no trace.
template <class Case, class Queue, class Poster>
void expect_fills(TestDevice& device, Queue& queue, Poster& poster) {
    Request fresh = Case::request();
    std::uint32_t id = 0;
    for (std::uint32_t round = 0; round < kLaps; ++round) {
        std::vector<std::uint16_t> posted;
        Errc error = Errc::ok;
        while ((error = Case::post(poster, fresh, id)) == Errc::ok) {
            posted.push_back(only_request(device).index);
            ++id;
        }
        ASSERT_EQ(error, Errc::would_block);
        ASSERT_TRUE(device.fetch().empty());
        ASSERT_EQ(queue.outstanding(), posted.size());
        ASSERT_FALSE(posted.empty());
        ASSERT_EQ(queue.retire(posted.back()), id - 1);
        ASSERT_EQ(queue.free_blocks(), queue.blocks());
    }
}

TYPED_TEST(Fixed, fills_its_queue_and_no_more) {
    TestDevice copied_device({.send_blocks = 16}), in_place_device({.send_blocks = 16});
    SendQueue queue(copied_device.queue_pair());
    typename TypeParam::Copied copied(queue, TypeParam::request().get());
    expect_fills<TypeParam>(copied_device, queue, copied);
    typename TypeParam::InPlace in_place(in_place_device.queue_pair(), TypeParam::request().get());
    expect_fills<TypeParam>(in_place_device, in_place, in_place);
}

TYPED_TEST(Fixed, starts_again_after_a_reset) {
    TestDevice device({.send_blocks = 16});
    typename TypeParam::InPlace queue(device.queue_pair(), TypeParam::request().get());
    Request fresh = TypeParam::request();
    ASSERT_EQ(TypeParam::post(queue, fresh, 1), Errc::ok);
    queue.reset();
    device.reset();
    EXPECT_EQ(queue.outstanding(), 0U);
    ASSERT_EQ(TypeParam::post(queue, fresh, 2), Errc::ok);
    expect_sees(only_request(device), fresh);
}

TYPED_TEST(Fixed, waits_for_a_key_update_before_it) {
    TestDevice device({.send_blocks = 32});
    SendQueue queue(device.queue_pair());
    typename TypeParam::Copied copied(queue, TypeParam::request().get());
    Request fresh = TypeParam::request();
    ASSERT_EQ(queue.post(request(Opcode::local_invalidate).get()), Errc::ok);
    ASSERT_EQ(TypeParam::post(copied, fresh, 1), Errc::ok);
    ASSERT_EQ(TypeParam::post(copied, fresh, 2), Errc::ok);
    const auto seen = device.fetch();
    ASSERT_EQ(seen.size(), 3U);
    EXPECT_EQ(seen[1].flags & kSmallFence, kSmallFence);
    EXPECT_EQ(seen[2].flags & kSmallFence, 0);
}

TYPED_TEST(Fixed, refuses_a_request_of_another_shape) {
    TestDevice device({.send_blocks = 32});
    SendQueue queue(device.queue_pair());
    EXPECT_THROW((typename TypeParam::Copied(queue, inline_request(Opcode::write, 9).get())),
                 Error);
    EXPECT_THROW(
        (typename TypeParam::InPlace(device.queue_pair(), gather_request(Opcode::read, 4).get())),
        Error);
}

class FakeRegion final : public MemoryRegion {
  public:
    explicit FakeRegion(std::uint64_t& epoch) : epoch_(epoch) { local_key_ = remote_key_ = 7; }
    ~FakeRegion() override { release(); }
    void release() override {
        mark_released();
        ++epoch_;
    }

  private:
    std::uint64_t& epoch_;
};

TEST(FixedRegions, a_released_region_ends_it) {
    TestDevice device({.send_blocks = 32}), other({.send_blocks = 32});
    std::uint64_t epoch = 0;
    auto region = std::make_unique<FakeRegion>(epoch);
    auto unrelated = std::make_unique<FakeRegion>(epoch);
    const MemoryRegion* const named[] = {region.get()};
    SendQueue queue(device.queue_pair(), &epoch);
    Request fresh = gather_request(Opcode::write, 1);
    Prepared<Opcode::write, Gather<1>> copied(queue, fresh.get(), named);
    PrebuiltQueue<Opcode::write, Gather<1>> in_place(other.queue_pair(), fresh.get(), named,
                                                     &epoch);
    const auto address = [](std::size_t) { return std::uint64_t{0x5000}; };
    unrelated.reset();
    EXPECT_EQ(copied.post(1, 0x1000, address), Errc::ok);
    EXPECT_EQ(in_place.post(1, 0x1000, address), Errc::ok);
    region.reset();
    EXPECT_EQ(copied.post(2, 0x1000, address), Errc::invalid_prepared);
    EXPECT_EQ(in_place.post(2, 0x1000, address), Errc::invalid_prepared);
    EXPECT_FALSE(copied.valid() || in_place.valid());
    EXPECT_THROW(
        (PrebuiltQueue<Opcode::write, Gather<1>>(other.queue_pair(), fresh.get(), named, nullptr)),
        Error);
}

TEST(Prebuilt, a_queue_shorter_than_a_slot_is_refused) {
    TestDevice device({.send_blocks = 2});
    EXPECT_THROW((PrebuiltQueue<Opcode::read, Elements<10>>(
                     device.queue_pair(), gather_request(Opcode::read, 10).get())),
                 Error);
}

// In the error state a device flushes every entry of the ring, fillers too.
TEST(Prebuilt, flushed_fillers_are_not_heard_of) {
    TestDevice device({.send_blocks = 16});
    PrebuiltQueue<Opcode::read, Elements<10>> queue(device.queue_pair(),
                                                    gather_request(Opcode::read, 10).get());
    CompletionQueue completions(device.completion_queue());
    completions.attach(&queue, nullptr);
    for (std::uint64_t id = 10; id != 13; ++id)
        ASSERT_EQ(queue.post(id, 0x1000, kUnchanged), Errc::ok);
    EXPECT_EQ(queue.outstanding(), 3U);
    for (const SeenWqe& seen : device.fetch()) device.fail(seen, MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
    std::array<Completion, 16> taken;
    ASSERT_EQ(completions.poll(taken), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(taken[i].id, 10 + i);
        EXPECT_EQ(taken[i].opcode, Opcode::read);
        EXPECT_NE(taken[i].status, Errc::ok);
    }
    EXPECT_EQ(completions.strays(), 0U);
    EXPECT_EQ(queue.free_blocks(), queue.blocks());
}

}  // namespace
}  // namespace verbatim::mlx5
