// Revocation while others copy: threads of one process, also under the thread sanitizer, and two
// processes without fences.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <thread>

#include "keys/access_sequence.hpp"
#include "keys/revocation.hpp"
#include "softnic_end.hpp"
#include "softnic_process.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

constexpr int kRounds = 150;
constexpr std::size_t kBytes = 6000;

// Posts, and polls, until it is told to stop; each time with the key of the moment.
class Requester {
  public:
    Requester(End& end, bool inline_only)
        : thread_([this, &end, inline_only] {
              while (!stop_.load()) {
                  WorkRequest request;
                  request.opcode = Opcode::write;
                  request.remote_address = address_.load();
                  request.remote_key = key_.load();
                  request.inline_payload = inline_only ? std::span<const std::byte>(payload_)
                                                       : std::span<const std::byte>();
                  const Element from = end.element(0, kBytes);
                  if (!inline_only) request.elements = std::span(&from, 1);
                  if (end.send->post(request) == Errc::ok) posted_.fetch_add(1);
                  static_cast<void>(end.poll());
              }
          }) {}
    ~Requester() {
        stop_.store(true);
        thread_.join();
    }
    void aim(const MemoryRegion& region) {
        address_.store(reinterpret_cast<std::uint64_t>(region.address()));
        key_.store(region.remote_key());
    }
    std::uint64_t posted() const { return posted_.load(); }

  private:
    std::vector<std::byte> payload_ = pattern(100);
    std::atomic<std::uint64_t> address_{0}, posted_{0};
    std::atomic<std::uint32_t> key_{0};
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

// The owner writes with plain stores as soon as the region is released: a sanitizer sees a copy
// that is not over, and so does the comparison.
void take_away_while_written(bool inline_only, bool barriers) {
    EndOptions options;
    options.device.membarrier = barriers;
    for (int round = 0; round < kRounds / 10; ++round) {
        Pair pair(options);
        std::vector<std::byte> memory(kBytes);
        auto region = pair.b.device->register_memory(memory.data(), kBytes, kAllAccess, {});
        const auto* const first = reinterpret_cast<volatile std::uint64_t*>(memory.data());
        {
            Requester requester(pair.a, inline_only);
            requester.aim(*region);
            const auto deadline = std::chrono::steady_clock::now() + kPatience;
            while (requester.posted() < 3 && std::chrono::steady_clock::now() < deadline)
                std::this_thread::yield();
            region->release();
            std::fill(memory.begin(), memory.end(), std::byte{0xee});
            const std::uint64_t posted = requester.posted();
            while (requester.posted() < posted + 2 && *first == 0xeeeeeeeeeeeeeeee &&
                   pair.a.queue_pair->state() != QueuePairState::error &&
                   std::chrono::steady_clock::now() < deadline)
                std::this_thread::yield();
        }
        ASSERT_TRUE(std::all_of(memory.begin(), memory.end(),
                                [](std::byte one) { return one == std::byte{0xee}; }));
    }
}

TEST(Revocation, released_memory_is_not_written_by_another_thread) {
    for (const bool barriers : {true, false}) {
        take_away_while_written(true, barriers);
        take_away_while_written(false, barriers);
    }
}

// The requester's own elements: read no more once their region was released.
TEST(Revocation, released_memory_is_not_read_by_the_own_engine) {
    for (int round = 0; round < kRounds / 10; ++round) {
        Pair pair;
        std::vector<std::byte> memory(kBytes);
        auto region = pair.a.device->register_memory(memory.data(), kBytes, kAllAccess, {});
        std::atomic<std::uint64_t> posted{0};
        std::thread poster([&] {
            const Element from{reinterpret_cast<std::uint64_t>(memory.data()), kBytes,
                               region->local_key()};
            while (pair.a.queue_pair->state() != QueuePairState::error) {
                WorkRequest request = pair.a.request(Opcode::write, 0);
                request.elements = std::span(&from, 1);
                if (pair.a.send->post(request) == Errc::ok) posted.fetch_add(1);
                static_cast<void>(pair.a.poll());
            }
        });
        while (posted.load() < 3) std::this_thread::yield();
        region->release();
        std::fill(memory.begin(), memory.end(), std::byte{0xee});
        poster.join();
    }
}

// What two processes share.
struct Shared {
    alignas(64) std::atomic<std::uint64_t> word{0};
    alignas(64) std::atomic<std::uint64_t> version{0};
    alignas(64) std::atomic<std::uint64_t> copies_by{
        0};  // the version that a copy goes by, 0: none
    std::atomic<std::uint64_t> copies{0};
    std::atomic<bool> stop{false};
};

// The requester's part as the engine has it, with the smallest possible copy.
int copy_for_ever(Shared& shared) {
    if (!join_barriers()) return 1;
    AccessSequence access;
    access.bind(shared.word, false);
    while (!shared.stop.load(std::memory_order_relaxed)) {
        access.enter();
        const std::uint64_t version = shared.version.load(std::memory_order_acquire);
        shared.copies_by.store(version, std::memory_order_relaxed);
        shared.copies_by.store(0, std::memory_order_relaxed);
        access.leave();
        shared.copies.store(shared.copies.load(std::memory_order_relaxed) + 1,
                            std::memory_order_relaxed);
    }
    return 0;
}

TEST(Revocation, without_fences_no_copy_outlives_its_version_between_two_processes) {
    if (!join_barriers()) GTEST_SKIP() << "needs a kernel with membarrier(2)";
    void* const memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto& shared = *new (memory) Shared;
    {
        Child child([&](Wire&) { return copy_for_ever(shared); });
        AccessRegistry registry;
        const auto word = std::make_shared<AccessWord>(shared.word, nullptr, 1);
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (shared.copies.load() == 0 && std::chrono::steady_clock::now() < deadline)
            std::this_thread::yield();
        for (std::uint64_t version = 1; version <= 20000; ++version) {
            shared.version.store(version, std::memory_order_release);
            ASSERT_TRUE(Revocation(registry, word).wait());
            const std::uint64_t by = shared.copies_by.load(std::memory_order_relaxed);
            ASSERT_TRUE(by == 0 || by >= version) << "a copy by " << by << " after " << version;
        }
        shared.stop.store(true);
        EXPECT_EQ(child.reap(), 0);
    }
    EXPECT_GT(shared.copies.load(), 0u);
    munmap(memory, sizeof(Shared));
}

TEST(Revocation, more_words_than_it_notes_are_waited_for_all_the_same) {
    AccessRegistry registry({.patience = std::chrono::milliseconds(10)});
    std::vector<std::shared_ptr<AccessWord>> words;
    for (std::uint32_t i = 0; i < 100; ++i) {
        words.push_back(std::make_shared<AccessWord>(i));
        words.back()->own().store(1);
        registry.add(words.back());
    }
    Revocation revocation(registry);
    for (const auto& word : words) {
        EXPECT_FALSE(revocation.settled());
        word->own().store(2);
    }
    EXPECT_TRUE(revocation.settled());
    words[50]->own().store(3);
    EXPECT_TRUE(Revocation(registry, 51).settled()) << "only queue pair 51 is asked for";
    EXPECT_FALSE(Revocation(registry, 50).settled());
    EXPECT_FALSE(Revocation(registry).wait());
    registry.remove(*words[50]);
    EXPECT_EQ(registry.size(), 100u) << "it is in quarantine";
    words[50]->own().store(4);
    registry.add(std::make_shared<AccessWord>(1000));
    EXPECT_EQ(registry.size(), 100u);
    EXPECT_TRUE(Revocation(registry).wait());
}

}  // namespace
}  // namespace verbatim::softnic::test
