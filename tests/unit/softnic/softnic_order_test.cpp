// Order at the target: requests of one queue pair take effect in the order of posting, whatever
// kinds of memory they go to, and whether this side executes them or the peer does.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "softnic_meeting.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

constexpr std::size_t kFlag = 0, kOther = 64, kLong = 65536, kLanding = 4 * kLong;
constexpr std::uint64_t kData = 0x1122334455667788;

// Memory of a program, as its allocator gave it: no peer maps it.
class Heap {
  public:
    explicit Heap(End& end)
        : region_(end.device->register_memory(bytes_.data(), bytes_.size(), kAllAccess, {-1, 0})) {}
    std::uint64_t word() const {
        return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(bytes_.data()),
                               __ATOMIC_ACQUIRE);
    }
    std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(bytes_.data()); }
    std::uint32_t key() const { return region_->remote_key(); }

  private:
    alignas(64) std::array<std::byte, 4096> bytes_{};
    std::unique_ptr<MemoryRegion> region_;
};

// Where another request than End's own goes.
struct HeapAddress {
    std::uint64_t address = 0;
    std::uint32_t key = 0;
};
WorkRequest on_heap(WorkRequest request, const HeapAddress& heap) {
    request.remote_address = heap.address;
    request.remote_key = heap.key;
    return request;
}

bool post_word(End& end, WorkRequest request, std::uint64_t value) {
    request.opcode = Opcode::write;
    request.inline_payload = std::as_bytes(std::span(&value, 1));
    return end.send->post(request) == Errc::ok;
}
bool post_add(End& end, WorkRequest request, std::uint64_t more) {
    const Element result = end.element(kOther, 8);
    request.opcode = Opcode::fetch_add;
    request.elements = std::span(&result, 1);
    request.swap_or_add = more;
    return end.send->post(request) == Errc::ok;
}
bool post_long_write(End& end, std::size_t remote_offset) {
    const Element element = end.element(kLong, kLong);
    WorkRequest write = end.request(Opcode::write, remote_offset);
    write.elements = std::span(&element, 1);
    return end.send->post(write) == Errc::ok;
}

// Two requests of a process: data for the heap, and then a flag for the arena.
struct HeapThenArena {
    const char* name;
    bool (*data)(End& end, const HeapAddress& heap);
    bool (*flag)(End& end);
};
const HeapThenArena kHeapThenArena[] = {
    {"write_then_write",
     [](End& end, const HeapAddress& heap) {
         return post_word(end, on_heap(end.request(Opcode::write), heap), kData);
     },
     [](End& end) { return post_word(end, end.request(Opcode::write, kFlag), 1); }},
    {"write_then_atomic",
     [](End& end, const HeapAddress& heap) {
         return post_word(end, on_heap(end.request(Opcode::write), heap), kData);
     },
     [](End& end) { return post_add(end, end.request(Opcode::fetch_add, kFlag), 1); }},
    {"write_then_long_write",
     [](End& end, const HeapAddress& heap) {
         return post_word(end, on_heap(end.request(Opcode::write), heap), kData);
     },
     [](End& end) {
         end.at(kLong)[0] = std::byte{1};
         return post_long_write(end, kFlag);
     }},
    {"atomic_then_write",
     [](End& end, const HeapAddress& heap) {
         return post_add(end, on_heap(end.request(Opcode::fetch_add), heap), kData);
     },
     [](End& end) { return post_word(end, end.request(Opcode::write, kFlag), 1); }},
};

// The owner looks at the flag before it has polled, and after each poll.
int watch_flag(Wire& wire) {
    forbid_attach();
    End end;
    const Heap heap(end);
    if (!meet(end, wire) || !wire.put(HeapAddress{heap.address(), heap.key()})) return 1;
    if (!wire.wait()) return 2;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (true) {
        const bool flagged = watch(end, kFlag) == 1;
        if (flagged && heap.word() != kData) return 3;
        if (flagged) return wire.wait() ? 0 : 4;
        if (std::chrono::steady_clock::now() > deadline) return 5;
        execute(*end.queue_pair);
    }
}

int post_both(Wire& wire, const HeapThenArena& requests) {
    forbid_attach();
    End end;
    HeapAddress heap;
    if (!meet(end, wire) || !wire.get(heap)) return 1;
    if (!requests.data(end, heap) || !requests.flag(end) || !wire.signal()) return 2;
    std::vector<Completion> seen;
    if (!poll_until({&end}, {&seen}, [&] { return seen.size() == 2; })) return 3;
    for (const Completion& completion : seen)
        if (completion.status != Errc::ok) return 4;
    return 0;
}

class Order : public testing::TestWithParam<HeapThenArena> {};
INSTANTIATE_TEST_SUITE_P(Between, Order, testing::ValuesIn(kHeapThenArena),
                         [](const auto& chosen) { return chosen.param.name; });

TEST_P(Order, data_on_the_heap_is_there_when_the_flag_in_the_arena_is) {
    Child owner(watch_flag);
    Child writer([](Wire& wire) { return post_both(wire, GetParam()); });
    introduce(owner, writer);
    HeapAddress heap;
    ASSERT_TRUE(owner.wire().get(heap));
    writer.wire().put(heap);
    ASSERT_TRUE(writer.wire().wait());
    owner.wire().signal();
    EXPECT_EQ(writer.reap(), 0);
    owner.wire().signal();
    EXPECT_EQ(owner.reap(), 0);
}

// What a responder of a card does: a message that waits for its receive holds up what follows.
class BehindASend : public testing::Test {
  protected:
    void SetUp() override {
        const std::uint64_t data = kData;
        std::memcpy(a.at(kLanding), &data, sizeof data);
        const Element message = a.element(kLanding, sizeof data);
        ASSERT_EQ(a.post_send(std::span(&message, 1)), Errc::ok);
    }
    std::uint64_t flag() const { return watch(b, kFlag); }
    // Until the message has its receive nothing behind it happens; then it is there first.
    void receive_and_check() {
        for (int i = 0; i < 3; ++i) {
            a.poll(), b.poll();
            ASSERT_EQ(flag(), 0u) << "before the message found a receive";
        }
        ASSERT_EQ(b.post_receive(kLanding, 64), Errc::ok);
        std::vector<Completion> at_a, at_b;
        ASSERT_TRUE(poll_until({&a, &b}, {&at_a, &at_b}, [&] {
            EXPECT_TRUE(flag() == 0 || b.value<std::uint64_t>(kLanding) == kData);
            return at_a.size() == 2 && at_b.size() == 1;
        }));
        for (const Completion& completion : at_a) EXPECT_EQ(completion.status, Errc::ok);
        EXPECT_EQ(at_a[0].opcode, Opcode::send);
        EXPECT_NE(flag(), 0u);
    }
    Pair pair;
    End& a = pair.a;
    End& b = pair.b;
};

TEST_F(BehindASend, small_write_is_executed) {
    ASSERT_TRUE(post_word(a, a.request(Opcode::write, kFlag), 1));
    receive_and_check();
}

TEST_F(BehindASend, long_write_is_executed) {
    a.at(kLong)[0] = std::byte{1};
    ASSERT_TRUE(post_long_write(a, kFlag));
    receive_and_check();
}

TEST_F(BehindASend, atomic_is_executed) {
    ASSERT_TRUE(post_add(a, a.request(Opcode::fetch_add, kFlag), 1));
    receive_and_check();
}

TEST_F(BehindASend, read_sees_what_the_receiver_wrote_before_it_took_the_message) {
    const Element element = a.element(kOther, 8);
    WorkRequest read = a.request(Opcode::read, kFlag);
    read.elements = std::span(&element, 1);
    ASSERT_EQ(a.send->post(read), Errc::ok);
    a.poll();
    const std::uint64_t late = 7;
    std::memcpy(b.at(kFlag), &late, sizeof late);
    ASSERT_EQ(b.post_receive(kLanding, 64), Errc::ok);
    ASSERT_TRUE(pair.poll_for(2, 1));
    EXPECT_EQ(a.value<std::uint64_t>(kOther), late);
}

TEST_F(BehindASend, refused_message_lets_nothing_behind_it_happen) {
    ASSERT_TRUE(post_word(a, a.request(Opcode::write, kFlag), 1));
    ASSERT_TRUE(post_add(a, a.request(Opcode::fetch_add, kFlag), 1));
    ASSERT_EQ(b.post_receive(kLanding, 4), Errc::ok);  // too short
    ASSERT_TRUE(pair.poll_for(3, 1));
    EXPECT_EQ(pair.seen_a[0].status, Errc::remote_invalid);
    EXPECT_EQ(pair.seen_a[1].status, Errc::flushed);
    EXPECT_EQ(pair.seen_a[2].status, Errc::flushed);
    EXPECT_EQ(flag(), 0u);
}

// Write-protects the first whole page of an end's completion queue; the engine's first store there
// shows what the sender sees by then.
class FirstStore {
  public:
    FirstStore(const End& receiver, End& sender) : entries_(page_of(receiver)), sender_(&sender) {
        here_ = this;
        struct sigaction action {};
        action.sa_sigaction = seen;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &action, &before_);
        EXPECT_EQ(mprotect(entries_, kBytes, PROT_READ), 0);
    }
    ~FirstStore() { sigaction(SIGSEGV, &before_, nullptr); }
    std::optional<std::size_t> completed_by_then() const { return completed_; }
    static std::size_t entries_before(const End& end) {
        const mlx5::CompletionQueueView& view = end.completion_queue->view();
        return static_cast<std::size_t>(page_of(end) - view.buffer) / view.entry_bytes;
    }

  private:
    static constexpr std::size_t kBytes = 4096;
    static std::byte* page_of(const End& end) {
        const auto start = reinterpret_cast<std::uintptr_t>(end.completion_queue->view().buffer);
        return reinterpret_cast<std::byte*>((start + kBytes - 1) & ~(kBytes - 1));
    }
    static void seen(int, siginfo_t* info, void*) {
        const auto* const at = static_cast<const std::byte*>(info->si_addr);
        if (at < here_->entries_ || at >= here_->entries_ + kBytes) _exit(1);
        mprotect(here_->entries_, kBytes, PROT_READ | PROT_WRITE);
        here_->completed_ = here_->sender_->poll().size();
    }
    static inline FirstStore* here_ = nullptr;
    std::byte* const entries_;
    End* const sender_;
    std::optional<std::size_t> completed_;
    struct sigaction before_ {};
};

// Else a receiver's answer can be at the sender before the acknowledgement of what it answers.
TEST_F(BehindASend, message_is_acknowledged_before_its_receiver_sees_it) {
    const Element message = a.element(kLanding, 8);
    const std::size_t before = FirstStore::entries_before(b);
    for (std::size_t sent = 1; sent <= before; ++sent) {
        ASSERT_EQ(b.post_receive(kLanding, 64), Errc::ok);
        ASSERT_TRUE(pair.poll_for(sent, sent));
        ASSERT_EQ(a.post_send(std::span(&message, 1)), Errc::ok);
    }
    ASSERT_EQ(b.post_receive(kLanding, 64), Errc::ok);
    a.poll();
    const FirstStore store(b, a);
    std::vector<Completion> at_b;
    ASSERT_TRUE(poll_until({&b}, {&at_b}, [&] { return !at_b.empty(); }));
    EXPECT_EQ(store.completed_by_then(), std::size_t{1});
}

}  // namespace
}  // namespace verbatim::softnic::test
