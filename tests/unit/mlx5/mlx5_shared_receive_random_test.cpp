// Random posts, refills and retirements of a shared receive queue against a model: a device takes
// entries in the order of the list, several queue pairs finish them in any order, and some
// completions name entries that are not outstanding. Small queues are full and empty at every
// position.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <set>

#include <mlx5_test_shared_receives.hpp>
#include <verbatim/mlx5/shared_receive_queue.hpp>

namespace verbatim::mlx5 {
namespace {

using namespace test;

class SharedRun {
  public:
    SharedRun(std::uint32_t seed, std::uint32_t entries)
        : random_(seed), device_({.entries = entries}), queue_(device_.view()), entries_(entries) {
        for (std::uint32_t i = 0; i < entries; ++i) free_.push_back(static_cast<std::uint16_t>(i));
    }

    // Phases that rather fill, and phases that rather empty, so that both ends are reached.
    void step(std::uint32_t number) {
        const bool filling = number / 128 % 2 == 0;
        const std::uint32_t action = pick(100);
        if (action < (filling ? 60U : 5U))
            pick(2) == 0 ? post() : repost();
        else if (action < (filling ? 75U : 45U))
            take();
        else if (action < 95)
            retire();
        else
            stray();
        ASSERT_EQ(queue_.outstanding(), entries_ - free_.size());
        ASSERT_EQ(queue_.free_entries(), free_.size() - 1);
        ASSERT_EQ(device_.record(), posted_ & 0xffff);
        note_ends();
    }
    void expect_full_and_empty_everywhere() const {
        EXPECT_EQ(full_at_.size(), entries_);
        EXPECT_EQ(empty_at_.size(), entries_);
    }

  private:
    struct Filled {
        std::uint64_t id = 0;
        std::vector<Element> elements;
    };

    std::uint32_t pick(std::uint32_t below) {
        return static_cast<std::uint32_t>(random_() % below);
    }
    Filled any() {
        Filled made{next_id_++, {}};
        for (std::uint32_t i = pick(4); i > 0; --i)
            made.elements.push_back({random_(), 1 + pick(1 << 20), 0x1000 + pick(1 << 20)});
        return made;
    }
    Errc expected(std::size_t wanted) const {
        if (wanted < free_.size()) return Errc::ok;
        return wanted >= entries_ ? Errc::message_too_large : Errc::would_block;
    }
    void move_to_posted() {
        waiting_.push_back(free_.front());
        free_.pop_front();
        ++posted_;
    }

    void post() {
        std::vector<Filled> asked(1 + pick(3));
        std::vector<ReceiveRequest> requests;
        for (Filled& one : asked) {
            one = any();
            requests.push_back({one.id, one.elements});
        }
        const Errc should = expected(asked.size());
        ASSERT_EQ(queue_.post(std::span<const ReceiveRequest>(requests)), should);
        if (should != Errc::ok) return;
        for (Filled& one : asked) {
            contents_[free_.front()] = std::move(one);
            move_to_posted();
        }
    }
    void repost() {
        const std::uint32_t count = pick(4);
        Errc should = expected(count);
        if (should == Errc::ok && contents_.size() < entries_) should = Errc::invalid_argument;
        ASSERT_EQ(queue_.repost(count), should);
        if (should != Errc::ok) return;
        for (std::uint32_t i = 0; i < count; ++i) move_to_posted();
    }
    void take() {
        const auto index = device_.take();
        ASSERT_EQ(index.has_value(), !waiting_.empty());
        if (!index) return;
        ASSERT_EQ(*index, waiting_.front());
        waiting_.pop_front();
        taken_.push_back(*index);
        expect_contents(*index);
    }
    // Of those that the device has taken, any.
    void retire() {
        if (taken_.empty()) return;
        std::swap(taken_[pick(static_cast<std::uint32_t>(taken_.size()))], taken_.back());
        const std::uint16_t index = taken_.back();
        expect_contents(index);
        ASSERT_EQ(queue_.retire(index), contents_[index].id);
        taken_.pop_back();
        free_.push_back(index);
    }
    void stray() {
        ASSERT_FALSE(queue_.retire(free_[pick(static_cast<std::uint32_t>(free_.size()))]));
        ASSERT_FALSE(
            queue_.retire(static_cast<std::uint16_t>(entries_ + pick(0x10000 - entries_))));
    }
    void expect_contents(std::uint16_t index) {
        const auto seen = device_.elements(index);
        const auto& asked = contents_[index].elements;
        ASSERT_EQ(seen.size(), asked.size());
        for (std::size_t i = 0; i < seen.size(); ++i) {
            ASSERT_EQ(be32toh(seen[i].byte_count), asked[i].bytes);
            ASSERT_EQ(be32toh(seen[i].lkey), asked[i].local_key);
            ASSERT_EQ(be64toh(seen[i].addr), asked[i].address);
        }
    }
    void note_ends() {
        if (free_.size() == 1) full_at_.insert(free_.front());
        if (free_.size() == entries_) empty_at_.insert(free_.front());
    }

    std::mt19937 random_;
    TestSharedReceives device_;
    SharedReceiveQueue queue_;
    std::uint32_t entries_;
    std::uint32_t posted_ = 0;
    std::uint64_t next_id_ = 1;
    std::deque<std::uint16_t> free_;     // in the order of the list
    std::deque<std::uint16_t> waiting_;  // posted, not taken
    std::vector<std::uint16_t> taken_;   // by the device, not retired
    std::map<std::uint16_t, Filled> contents_;
    std::set<std::uint16_t> full_at_, empty_at_;  // where the list started then
};

class RandomShared : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, RandomShared, testing::Values(2U, 4U, 8U, 16U));

TEST_P(RandomShared, agrees_with_the_model_also_full_and_empty_at_every_position) {
    SharedRun run(GetParam() * 7919, GetParam());
    for (std::uint32_t i = 0; i < (1U << 16); ++i) {
        run.step(i);
        if (HasFatalFailure()) FAIL() << "in step " << i;
    }
    run.expect_full_and_empty_everywhere();
}

}  // namespace
}  // namespace verbatim::mlx5
