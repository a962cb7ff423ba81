// Lists of operations of a fixed shape, by both copy strategies: a device sees under one doorbell
// what it sees of fresh posts, wherever in the ring a list starts and however long it is.
#include "mlx5_fixed_cases.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

template <class Case>
class FixedList : public testing::Test {};
TYPED_TEST_SUITE(FixedList, Cases);

// A list of fresh requests, and the same posted as a list of prepared ones.
template <class Case>
class Both {
  public:
    explicit Both(std::uint32_t count) : fresh_(count, Case::request()) {
        for (std::uint32_t i = 0; i < count; ++i) {
            fresh_[i].work.remote_address += 0x1001 * (i + 1);
            fresh_[i].work.signaled = i == count - 1;
            if constexpr (!Case::Shape::kNamesRemoteMemory) fresh_[i].work.remote_address = 0;
            payloads_.push_back(Change<typename Case::Payload>::apply(fresh_[i], i));
        }
    }
    template <class Poster>
    Errc post(Poster& poster, std::uint64_t first_id) {
        return poster.post_list(first_id, static_cast<std::uint32_t>(fresh_.size()),
                                [&](std::uint32_t i) {
                                    return Listed{fresh_[i].work.remote_address, payloads_[i]};
                                });
    }
    void expect_seen(TestDevice& device) {
        seen_ = all_requests(device);
        ASSERT_EQ(seen_.size(), fresh_.size());
        for (std::size_t i = 0; i < fresh_.size(); ++i) expect_sees(seen_[i], fresh_[i]);
    }
    std::uint16_t last_index() const { return seen_.back().index; }

  private:
    using Payload = decltype(Change<typename Case::Payload>::apply(std::declval<Request&>(), 0));
    std::vector<Request> fresh_;
    std::vector<Payload> payloads_;
    std::vector<SeenWqe> seen_;
};

constexpr std::uint32_t kBlocks = 64;

// Lists of 1, 2, 3... operations, so that they begin and wrap everywhere.
template <class Case, class Queue, class Poster>
void expect_equal(TestDevice& device, Queue& queue, Poster& poster) {
    std::uint64_t id = 0;
    constexpr std::uint32_t kMost = kBlocks / std::bit_ceil(Case::Shape::kBlocks);
    for (std::uint32_t round = 0; round < 200; ++round) {
        const std::uint32_t count = round % kMost + 1;
        Both<Case> both(count);
        ASSERT_EQ(both.post(poster, id), Errc::ok);
        both.expect_seen(device);
        if (testing::Test::HasFailure()) return;
        ASSERT_EQ(queue.outstanding(), count);
        id += count;
        ASSERT_EQ(queue.retire(both.last_index()), id - 1);
        ASSERT_EQ(queue.free_blocks(), queue.blocks());
    }
}

TYPED_TEST(FixedList, copied_equals_fresh_posts) {
    TestDevice device({.send_blocks = kBlocks});
    SendQueue queue(device.queue_pair());
    typename TypeParam::Copied copied(queue, TypeParam::request().get());
    expect_equal<TypeParam>(device, queue, copied);
}

TYPED_TEST(FixedList, in_place_equals_fresh_posts) {
    TestDevice device({.send_blocks = kBlocks});
    typename TypeParam::InPlace in_place(device.queue_pair(), TypeParam::request().get());
    expect_equal<TypeParam>(device, in_place, in_place);
}

template <class Case, class Queue, class Poster>
void expect_whole_or_refused(TestDevice& device, Queue& queue, Poster& poster) {
    constexpr std::uint32_t kSlots = kBlocks / Case::Shape::kBlocks;
    Both<Case> half(kSlots / 2), most(kSlots - kSlots / 2 + 1), too_many(kBlocks + 1);
    ASSERT_EQ(half.post(poster, 0), Errc::ok);
    half.expect_seen(device);
    EXPECT_EQ(most.post(poster, 100), Errc::would_block);
    EXPECT_EQ(too_many.post(poster, 100), Errc::message_too_large);
    EXPECT_EQ(Both<Case>(0).post(poster, 100), Errc::ok);
    EXPECT_TRUE(device.fetch().empty());
    EXPECT_EQ(queue.outstanding(), kSlots / 2);
}

TYPED_TEST(FixedList, is_posted_whole_or_not_at_all) {
    TestDevice device({.send_blocks = kBlocks}), other({.send_blocks = kBlocks});
    SendQueue queue(device.queue_pair());
    typename TypeParam::Copied copied(queue, TypeParam::request().get());
    expect_whole_or_refused<TypeParam>(device, queue, copied);
    if constexpr (std::has_single_bit(TypeParam::Shape::kBlocks)) {
        typename TypeParam::InPlace in_place(other.queue_pair(), TypeParam::request().get());
        expect_whole_or_refused<TypeParam>(other, in_place, in_place);
    }
}

TYPED_TEST(FixedList, its_first_one_waits_for_a_key_update_wherever_it_lies) {
    for (std::uint32_t start = 0; start < kBlocks; ++start) {
        TestDevice device({.send_blocks = kBlocks});
        SendQueue queue(device.queue_pair());
        typename TypeParam::Copied copied(queue, TypeParam::request().get());
        for (std::uint32_t i = 0; i < start; ++i) {
            ASSERT_EQ(queue.post(request(Opcode::nop).get()), Errc::ok);
            ASSERT_TRUE(queue.retire(static_cast<std::uint16_t>(i)));
        }
        device.fetch();
        ASSERT_EQ(queue.post(request(Opcode::local_invalidate).get()), Errc::ok);
        ASSERT_EQ(Both<TypeParam>(3).post(copied, 1), Errc::ok);
        const auto seen = device.fetch();
        ASSERT_EQ(seen.size(), 4U);
        EXPECT_EQ(seen[1].flags & kSmallFence, kSmallFence) << start;
        EXPECT_EQ((seen[2].flags | seen[3].flags) & kSmallFence, 0) << start;
    }
}

TYPED_TEST(FixedList, a_reset_queue_ends_it) {
    TestDevice device({.send_blocks = kBlocks});
    SendQueue queue(device.queue_pair());
    typename TypeParam::Copied copied(queue, TypeParam::request().get());
    queue.reset();
    EXPECT_EQ(Both<TypeParam>(2).post(copied, 1), Errc::invalid_prepared);
}

}  // namespace
}  // namespace verbatim::mlx5
