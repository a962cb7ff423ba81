// What the models of posting have in common: two ends on a strict software NIC with what their
// memory must hold, an account of what is outstanding, and random numbers.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include <verbatim/mlx5/prepared.hpp>

#include <softnic_end.hpp>

namespace verbatim::softnic::test {

using mlx5::Completion;
using mlx5::RemoteMemory;

inline constexpr std::uint32_t kWords = 4096;  // of 8 bytes, in the memory of each end
inline constexpr std::uint32_t kMost = 40;     // requests in one list

// A queue pair on a strict NIC, its peer, and what either must hold.
class Ends {
  public:
    Ends(std::uint32_t blocks, bool words_only)
        : pair_(options(blocks)), words_only_(words_only), near_(kWords), far_(kWords) {}

    End& a() { return pair_.a; }
    mlx5::QueuePairView view() {
        mlx5::QueuePairView view = pair_.a.queue_pair->view();
        // As a register that several queue pairs share, or one of 8 bytes.
        if (words_only_) view.blueflame_bytes = 0;
        return view;
    }
    // From the error state, or any other, to a new life.
    void start_over() {
        for (End* end : {&pair_.a, &pair_.b}) {
            end->queue_pair->reset();
            end->completions->discard(end->queue_pair->view().number);
            end->receive->reset();
        }
        pair_.a.connect(pair_.b.address());
        pair_.b.connect(pair_.a.address());
    }
    std::uint64_t remote(std::uint32_t word) const { return pair_.a.peer.address + word * 8ULL; }
    std::uint64_t local(std::uint32_t word) const { return pair_.a.peer_address_of(word * 8ULL); }

    // The model's side of an operation on so many words.
    void writes(std::uint32_t to, const std::byte* bytes, std::uint32_t words) {
        std::memcpy(&far_[to], bytes, words * 8);
    }
    void moves(std::uint32_t to, std::uint32_t from, std::uint32_t words) {
        std::memcpy(&far_[to], &near_[from], words * 8);
    }
    void reads(std::uint32_t from, std::uint32_t to, std::uint32_t words) {
        std::memcpy(&near_[to], &far_[from], words * 8);
    }
    void adds(std::uint32_t at, std::uint64_t addend, std::uint32_t old_to) {
        near_[old_to] = far_[at];
        far_[at] += addend;
    }
    void exchanges(std::uint32_t at, mlx5::Exchange::Values values, std::uint32_t old_to) {
        near_[old_to] = far_[at];
        if (far_[at] == values.compare) far_[at] = values.swap;
    }
    std::uint64_t far_value(std::uint32_t at) const { return far_[at]; }
    bool holds() {
        return std::memcmp(pair_.a.at(0), near_.data(), kWords * 8) == 0 &&
               std::memcmp(pair_.b.at(0), far_.data(), kWords * 8) == 0;
    }

  private:
    static EndOptions options(std::uint32_t blocks) {
        EndOptions made;
        made.memory_bytes = kWords * 8;
        made.access = kAllAccess | Access::window_bind;
        made.channel = true;
        made.completions = 1024;
        made.queues = {.send_blocks = blocks,
                       .receive_entries = 16,
                       .max_inline_bytes = 200,
                       .max_send_elements = 10,
                       .max_receive_elements = 1};
        return made;
    }
    Pair pair_;
    const bool words_only_;
    std::vector<std::uint64_t> near_, far_;
};

// What is outstanding, and what polling must therefore say.
class Account {
  public:
    explicit Account(mlx5::SendRing& ring) : ring_(ring) {}

    std::uint64_t next_id() const { return next_id_; }
    std::uint64_t accepted() const { return accepted_; }
    std::uint32_t free() const { return ring_.blocks() - used_; }
    // Whether these blocks must be signaled, so that a full queue always has a completion to come.
    bool must_signal(std::uint32_t blocks) const {
        return (unsignaled_ + blocks) * 4 >= ring_.blocks();
    }

    Errc expected(std::uint64_t blocks) const {
        return blocks <= free()          ? Errc::ok
               : blocks > ring_.blocks() ? Errc::message_too_large
                                         : Errc::would_block;
    }
    void accept(std::uint32_t count, std::uint32_t blocks, bool last_signaled) {
        for (std::uint32_t i = 0; i < count; ++i)
            outstanding_.push_back({next_id_++, blocks, last_signaled && i == count - 1});
        used_ += count * blocks;
        unsignaled_ = last_signaled ? 0 : unsignaled_ + count * blocks;
        accepted_ += count;
    }
    void poll(mlx5::CompletionQueue& completions) {
        std::array<Completion, 24> found;
        const std::size_t count = completions.poll(found);
        for (std::size_t i = 0; i < count; ++i) ASSERT_NO_FATAL_FAILURE(retire(found[i]));
        ASSERT_EQ(ring_.free_blocks(), free());
    }
    // From now on each is flushed, signaled or not; what was accepted before has been executed.
    void fail() { executed_ = next_id_ - 1; }
    // Something of it is still to come.
    bool waits() const {
        return std::ranges::any_of(
            outstanding_, [this](const One& one) { return one.signaled || one.id > executed_; });
    }
    std::size_t size() const { return outstanding_.size(); }
    void forget() {
        outstanding_.clear();
        used_ = unsignaled_ = 0;
        executed_ = kAll;
    }

  private:
    struct One {
        std::uint64_t id;
        std::uint32_t blocks;
        bool signaled;
    };
    void pop() {
        used_ -= outstanding_.front().blocks;
        outstanding_.pop_front();
    }
    void retire(const Completion& completion) {
        ASSERT_EQ(completion.status, completion.id > executed_ ? Errc::flushed : Errc::ok)
            << describe(completion.status);
        while (!outstanding_.empty() && outstanding_.front().id <= executed_ &&
               !outstanding_.front().signaled)
            pop();
        ASSERT_FALSE(outstanding_.empty());
        ASSERT_EQ(completion.id, outstanding_.front().id);
        pop();
    }
    mlx5::SendRing& ring_;
    std::deque<One> outstanding_;
    std::uint64_t next_id_ = 1, accepted_ = 0;
    std::uint32_t used_ = 0, unsignaled_ = 0;
    static constexpr std::uint64_t kAll = ~std::uint64_t{0};
    std::uint64_t executed_ = kAll;  // the last id that was
};

// Random numbers, and what a random request needs of them.
class Dice {
  public:
    explicit Dice(std::uint32_t seed) : random_(seed) {}
    std::uint32_t below(std::uint32_t bound) {
        return static_cast<std::uint32_t>(random_() % bound);
    }
    std::uint64_t word() { return random_() << 32 | random_(); }
    std::uint32_t place(std::uint32_t words) { return below(kWords - words + 1); }
    bool once_in(std::uint32_t times) { return below(times) == 0; }
    void fill(std::span<std::byte> bytes) {
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
    }

  private:
    std::mt19937_64 random_;
};

// What both kinds of queues have in common: polling, arming, failing.
class Run {
  public:
    Run(std::uint32_t blocks, bool words_only, std::uint32_t seed)
        : ends_(blocks, words_only), dice_(seed) {}

  protected:
    End& a() { return ends_.a(); }
    // Asks for an event now and then, and takes those that came.
    void arm() {
        ASSERT_EQ(a().completions->arm(), Errc::ok);
        while (a().channel->take_event() != nullptr) a().completions->count_event();
    }
    // All that is outstanding, and a few more, end in the error state, once each.
    void flush(Account& account) {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (account.waits()) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline) << account.size() << " are left";
            ASSERT_NO_FATAL_FAILURE(account.poll(*a().completions));
        }
    }
    RemoteMemory remote(std::uint32_t word) { return {ends_.remote(word), a().peer.key}; }
    std::uint32_t list_length() {
        return dice_.once_in(8) ? 1 + dice_.below(kMost) : dice_.below(4);
    }

    Ends ends_;
    Dice dice_;
};

}  // namespace verbatim::softnic::test
