// The requester over its ports: every request retires exactly once, in the order of posting,
// whatever the peer does and however late. The same tests over shared memory and over a port that
// the test answers for.
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "queue_pair.hpp"
#include "queue_pair/peer_waking.hpp"
#include "softnic_end.hpp"
#include "softnic_test_port.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

constexpr std::size_t kMemoryBytes = 1 << 18;

// A send queue, and the peer that its requests go to.
class Bed {
  public:
    virtual ~Bed() = default;
    virtual mlx5::SendQueue& queue() = 0;
    virtual std::vector<Completion> poll() = 0;
    // The peer does what it can.
    virtual void answer() = 0;
    virtual void post_receive() = 0;
    virtual std::size_t received() = 0;
    virtual void lose_peer() = 0;
    // How often, and how long each time, a message waits for its receive.
    virtual void set_patience(std::uint8_t retries, std::chrono::nanoseconds one_try) = 0;
    virtual std::byte* own(std::size_t offset) = 0;
    virtual std::byte* peers(std::size_t offset) = 0;
    virtual Element element(std::size_t offset, std::size_t bytes) = 0;
    virtual WorkRequest request(Opcode opcode, std::size_t remote_offset) = 0;

    Errc post(Opcode opcode, std::uint64_t id, std::size_t own_offset, std::size_t bytes,
              std::size_t remote_offset = 0, bool signaled = true) {
        const Element where = element(own_offset, bytes);
        WorkRequest wanted = request(opcode, remote_offset);
        wanted.elements = std::span(&where, 1);
        wanted.id = id;
        wanted.signaled = signaled;
        wanted.swap_or_add = 1;
        return queue().post(wanted);
    }
    // Until there are so many completions.
    bool await(std::size_t count) {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (seen.size() < count && std::chrono::steady_clock::now() < deadline) {
            answer();
            for (const Completion& completion : poll()) seen.push_back(completion);
        }
        return seen.size() == count;
    }
    std::vector<Completion> seen;
};

class ShmBed final : public Bed {
  public:
    ShmBed() {
        for (QueuePairHandle* handle : {pair_.a.queue_pair.get(), pair_.b.queue_pair.get()})
            dynamic_cast<QueuePair&>(*handle).setup().set_not_ready_for(std::chrono::seconds(10));
    }
    mlx5::SendQueue& queue() override { return *pair_.a.send; }
    std::vector<Completion> poll() override { return pair_.a.poll(); }
    void answer() override { received_ += pair_.b.poll().size(); }
    void post_receive() override { EXPECT_EQ(pair_.b.post_receive(kLanding, 8192), Errc::ok); }
    std::size_t received() override { return received_; }
    void lose_peer() override { pair_.b.queue_pair->fail(); }
    void set_patience(std::uint8_t retries, std::chrono::nanoseconds one_try) override {
        dynamic_cast<QueuePair&>(*pair_.a.queue_pair).limits().not_ready_retries.store(retries);
        dynamic_cast<QueuePair&>(*pair_.b.queue_pair).setup().set_not_ready_for(one_try);
    }
    std::byte* own(std::size_t offset) override { return pair_.a.at(offset); }
    std::byte* peers(std::size_t offset) override { return pair_.b.at(offset); }
    Element element(std::size_t offset, std::size_t bytes) override {
        return pair_.a.element(offset, bytes);
    }
    WorkRequest request(Opcode opcode, std::size_t remote_offset) override {
        return pair_.a.request(opcode, remote_offset);
    }

  private:
    static constexpr std::size_t kLanding = kMemoryBytes;
    static EndOptions options() {
        EndOptions options;
        options.queues.send_blocks = 256;
        return options;
    }
    Pair pair_{options()};
    std::size_t received_ = 0;
};

class TestPortBed final : public Bed {
  public:
    TestPortBed() {
        shared_.traits.number = memory_.view().number;
        shared_.access.emplace(keys_.accesses(), shared_.traits.number);
        requester_.emplace(memory_.view(), ring_, keys_, shared_, RequesterOptions{.port = &port});
        mlx5::QueuePairView view = memory_.view();
        view.doorbell_hook = {
            [](void* self, const volatile void*) noexcept { static_cast<Requester*>(self)->run(); },
            &*requester_};
        queue_.emplace(view);
        completions_.attach(&*queue_, nullptr);
        shared_.state = QueuePairState::ready;
    }
    mlx5::SendQueue& queue() override { return *queue_; }
    std::vector<Completion> poll() override {
        requester_->run();
        std::vector<Completion> found(32);
        found.resize(completions_.poll(found));
        return found;
    }
    void answer() override { port.answer_all(); }
    void post_receive() override { ++port.receives; }
    std::size_t received() override { return port.messages.size(); }
    void lose_peer() override { port.lose(); }
    void set_patience(std::uint8_t retries, std::chrono::nanoseconds one_try) override {
        shared_.limits.not_ready_retries = retries;
        port.one_try = one_try;
    }
    std::byte* own(std::size_t offset) override { return bytes_.data() + offset; }
    std::byte* peers(std::size_t offset) override { return port.memory.data() + offset; }
    Element element(std::size_t offset, std::size_t bytes) override {
        return {reinterpret_cast<std::uint64_t>(own(offset)), static_cast<std::uint32_t>(bytes),
                key_};
    }
    WorkRequest request(Opcode opcode, std::size_t remote_offset) override {
        WorkRequest request;
        request.opcode = opcode;
        request.remote_address = remote_offset;
        request.remote_key = TestPort::kKey;
        return request;
    }

    void release_key() { keys_.remove(key_); }

    TestPort port{kMemoryBytes};

  private:
    std::vector<std::byte> bytes_ = std::vector<std::byte>(kMemoryBytes);
    KeyTable keys_;
    std::uint32_t key_ = keys_.add(
        {reinterpret_cast<std::uint64_t>(bytes_.data()), bytes_.size(), Access::local_write});
    QueuePairMemory memory_{{.send_blocks = 256, .receive_entries = 1}, 77};
    CompletionQueueMemory completion_memory_{512, 64, 5};
    CompletionRing ring_{completion_memory_.view()};
    QueuePairShared shared_;
    std::optional<Requester> requester_;
    std::optional<mlx5::SendQueue> queue_;
    mlx5::CompletionQueue completions_{completion_memory_.view()};
};

enum class Kind : std::uint8_t { shm, test_port };

class RequesterOver : public testing::TestWithParam<Kind> {
  protected:
    std::unique_ptr<Bed> made_ = GetParam() == Kind::shm ? std::unique_ptr<Bed>(new ShmBed)
                                                         : std::unique_ptr<Bed>(new TestPortBed);
    Bed& bed = *made_;
    // The nth completion is the nth request's, once; all before `failed` are well.
    void expect_in_order(std::size_t failed, Errc why) {
        for (std::size_t i = 0; i < bed.seen.size(); ++i) {
            EXPECT_EQ(bed.seen[i].id, i);
            EXPECT_EQ(bed.seen[i].status, i < failed    ? Errc::ok
                                          : i == failed ? why
                                                        : Errc::flushed)
                << i;
        }
        EXPECT_TRUE(bed.poll().empty());
    }
};
INSTANTIATE_TEST_SUITE_P(Ports, RequesterOver, testing::Values(Kind::shm, Kind::test_port),
                         [](const auto& chosen) {
                             return chosen.param == Kind::shm ? "shm" : "test_port";
                         });

TEST_P(RequesterOver, completes_requests_of_all_kinds_once_and_in_order) {
    const auto bytes = pattern(3000);
    std::memcpy(bed.own(0), bytes.data(), bytes.size());
    for (int i = 0; i < 8; ++i) bed.post_receive();
    std::uint64_t id = 0;
    for (std::size_t round = 0; round < 8; ++round) {
        ASSERT_EQ(bed.post(Opcode::write, id++, 0, 3000, 10000), Errc::ok);
        ASSERT_EQ(bed.post(Opcode::send, id++, 100, 500), Errc::ok);
        ASSERT_EQ(bed.post(Opcode::read, id++, 20000 + round * 3000, 3000, 10000), Errc::ok);
        ASSERT_EQ(bed.post(Opcode::fetch_add, id++, 60000 + round * 8, 8, 8), Errc::ok);
    }
    ASSERT_TRUE(bed.await(32));
    expect_in_order(32, Errc::ok);
    EXPECT_EQ(bed.received(), 8u);
    EXPECT_EQ(std::memcmp(bed.peers(10000), bytes.data(), 3000), 0);
    for (std::size_t round = 0; round < 8; ++round) {
        EXPECT_EQ(std::memcmp(bed.own(20000 + round * 3000), bytes.data(), 3000), 0) << round;
        std::uint64_t before = 0;
        std::memcpy(&before, bed.own(60000 + round * 8), sizeof before);
        EXPECT_EQ(before, round);
    }
}

TEST_P(RequesterOver, unsignaled_requests_retire_with_the_next_signaled_one) {
    for (std::uint64_t id = 0; id < 9; ++id) {
        bed.post_receive();
        ASSERT_EQ(bed.post(Opcode::send, id, 0, 64, 0, id % 3 == 2), Errc::ok);
    }
    ASSERT_TRUE(bed.await(3));
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(bed.seen[i].id, 3 * i + 2);
    EXPECT_EQ(bed.received(), 9u);
}

TEST_P(RequesterOver, refused_request_ends_those_behind_it_and_none_before) {
    ASSERT_EQ(bed.post(Opcode::write, 0, 0, 64), Errc::ok);
    ASSERT_EQ(bed.post(Opcode::read, 1, 4096, 64), Errc::ok);
    const Element where = bed.element(0, 64);
    WorkRequest bad = bed.request(Opcode::write, 0);
    bad.remote_key ^= 0x7700;
    bad.elements = std::span(&where, 1);
    bad.id = 2;
    ASSERT_EQ(bed.queue().post(bad), Errc::ok);
    ASSERT_EQ(bed.post(Opcode::write, 3, 0, 64), Errc::ok);
    ASSERT_EQ(bed.post(Opcode::send, 4, 0, 64), Errc::ok);
    ASSERT_TRUE(bed.await(5));
    expect_in_order(2, Errc::remote_access);
}

TEST_P(RequesterOver, lost_peer_ends_what_it_has_not_answered) {
    bed.post_receive();
    ASSERT_EQ(bed.post(Opcode::send, 0, 0, 64), Errc::ok);
    ASSERT_TRUE(bed.await(1));
    ASSERT_EQ(bed.post(Opcode::send, 1, 0, 64), Errc::ok);  // without a receive
    ASSERT_EQ(bed.post(Opcode::write, 2, 0, 64), Errc::ok);
    ASSERT_EQ(bed.post(Opcode::read, 3, 0, 64), Errc::ok);
    bed.answer();
    EXPECT_TRUE(bed.poll().empty());
    bed.lose_peer();
    ASSERT_TRUE(bed.await(4));
    ASSERT_EQ(bed.post(Opcode::write, 4, 0, 64), Errc::ok);
    ASSERT_TRUE(bed.await(5));
    expect_in_order(1, Errc::retry_exceeded);
}

TEST_P(RequesterOver, message_waits_for_its_receive_and_holds_up_what_is_behind_it) {
    ASSERT_EQ(bed.post(Opcode::send, 0, 0, 64), Errc::ok);
    std::memset(bed.own(0), 7, 64);
    ASSERT_EQ(bed.post(Opcode::write, 1, 0, 64, 512), Errc::ok);
    for (int i = 0; i < 3; ++i) {
        bed.answer();
        EXPECT_TRUE(bed.poll().empty());
        EXPECT_EQ(bed.peers(512)[0], std::byte{0});
    }
    bed.post_receive();
    ASSERT_TRUE(bed.await(2));
    expect_in_order(2, Errc::ok);
    EXPECT_EQ(bed.peers(512)[0], std::byte{7});
}

TEST_P(RequesterOver, message_gives_up_when_its_tries_are_over) {
    bed.set_patience(2, std::chrono::milliseconds(2));
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(bed.post(Opcode::send, 0, 0, 64), Errc::ok);
    ASSERT_EQ(bed.post(Opcode::write, 1, 0, 64, 512), Errc::ok);
    ASSERT_TRUE(bed.await(2));
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(6));
    expect_in_order(0, Errc::rnr_exceeded);
}

TEST_P(RequesterOver, failing_the_queue_flushes_each_request_once) {
    for (std::uint64_t id = 0; id < 40; ++id)
        ASSERT_EQ(bed.post(id % 2 == 0 ? Opcode::send : Opcode::read, id, 0, 64), Errc::ok);
    bed.answer();
    EXPECT_TRUE(bed.poll().empty());
    bed.lose_peer();
    ASSERT_TRUE(bed.await(40));
    expect_in_order(0, Errc::retry_exceeded);
}

// What only a peer shows that answers late.
class RequesterOverTestPort : public testing::Test {
  protected:
    TestPortBed bed;
};

TEST_F(RequesterOverTestPort, gives_each_request_once_though_the_port_is_full_again_and_again) {
    bed.port.room = 3;
    for (std::uint64_t id = 0; id < 60; ++id)
        ASSERT_EQ(bed.post(Opcode::fetch_add, id, id * 8, 8, 0), Errc::ok);
    EXPECT_EQ(bed.port.on_their_way(), 3u);
    for (std::size_t done = 0; done < 60; ++done) {
        EXPECT_EQ(bed.seen.size(), done);
        ASSERT_TRUE(bed.port.answer());
        for (const Completion& completion : bed.poll()) bed.seen.push_back(completion);
    }
    ASSERT_EQ(bed.seen.size(), 60u);
    for (std::size_t i = 0; i < 60; ++i) {
        std::uint64_t before = 0;
        std::memcpy(&before, bed.own(i * 8), sizeof before);
        EXPECT_EQ(before, i);
        EXPECT_EQ(bed.seen[i].id, i);
    }
}

TEST_F(RequesterOverTestPort, puts_a_result_together_that_comes_in_pieces) {
    const auto bytes = pattern(10000);
    std::memcpy(bed.peers(0), bytes.data(), bytes.size());
    bed.port.piece_bytes = 999;
    const Element where[] = {bed.element(0, 100), bed.element(5000, 9900)};
    WorkRequest read = bed.request(Opcode::read, 0);
    read.elements = where;
    ASSERT_EQ(bed.queue().post(read), Errc::ok);
    ASSERT_EQ(bed.post(Opcode::write, 1, 0, 8, 20000), Errc::ok);
    bed.port.answer_all();
    EXPECT_TRUE(bed.poll().empty());  // the write is done, and waits for its turn
    ASSERT_TRUE(bed.await(2));
    EXPECT_EQ(bed.seen[0].bytes, 10000u);
    EXPECT_EQ(std::memcmp(bed.own(0), bytes.data(), 100), 0);
    EXPECT_EQ(std::memcmp(bed.own(5000), bytes.data() + 100, 9900), 0);
}

TEST_F(RequesterOverTestPort, fenced_request_leaves_after_the_results_before_it) {
    ASSERT_EQ(bed.post(Opcode::read, 0, 0, 64), Errc::ok);
    const Element where = bed.element(0, 64);
    WorkRequest fenced = bed.request(Opcode::write, 1024);
    fenced.elements = std::span(&where, 1);
    fenced.fence = true;
    fenced.id = 1;
    ASSERT_EQ(bed.queue().post(fenced), Errc::ok);
    EXPECT_EQ(bed.port.posts, 1u);
    std::memset(bed.peers(0), 9, 64);
    bed.port.answer_all();
    ASSERT_TRUE(bed.await(2));
    EXPECT_EQ(bed.port.posts, 2u);
    EXPECT_EQ(bed.peers(1024)[0], std::byte{9});  // what was read
}

TEST_F(RequesterOverTestPort, what_was_answered_before_the_loss_is_complete) {
    for (std::uint64_t id = 0; id < 6; ++id)
        ASSERT_EQ(bed.post(Opcode::read, id, 64 * id, 64), Errc::ok);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(bed.port.answer());
    bed.lose_peer();
    ASSERT_TRUE(bed.await(6));
    for (std::size_t id = 0; id < 6; ++id)
        EXPECT_EQ(bed.seen[id].status, id < 3    ? Errc::ok
                                       : id == 3 ? Errc::retry_exceeded
                                                 : Errc::flushed);
}

TEST_F(RequesterOverTestPort, result_without_its_memory_is_a_local_error) {
    ASSERT_EQ(bed.post(Opcode::read, 0, 0, 64), Errc::ok);
    ASSERT_EQ(bed.post(Opcode::read, 1, 0, 64), Errc::ok);
    bed.release_key();
    bed.port.answer_all();
    ASSERT_TRUE(bed.await(2));
    EXPECT_EQ(bed.seen[0].status, Errc::local_protection);
    EXPECT_EQ(bed.seen[1].status, Errc::flushed);
}

// The peer's words are not to be trusted: it says that it sleeps before there is a way to wake it.
TEST(PeerWaking, sender_is_not_woken_before_there_is_a_way_to_it) {
    QueuePairShared shared;
    ChannelSlabs slabs;
    const ChannelTerms terms{.ring_bytes = 4096};
    shared.connection.incoming = ChannelReceiver(slabs.take(Nonce{1}, terms.bytes()), terms);
    ChannelSender peer(shared.connection.incoming.lend());
    peer.set_sleeps();
    EXPECT_TRUE(shared.connection.wake_sender(true));  // it does not sleep now
    peer.set_asleep(next_sleep_word(0, false));
    EXPECT_FALSE(shared.connection.wake_sender(true));  // to be tried again
}

}  // namespace
}  // namespace verbatim::softnic::test
