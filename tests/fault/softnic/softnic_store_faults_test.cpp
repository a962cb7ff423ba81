// A process killed at any store of the shared-memory protocols, injected at the first, the second,
// ... store until it survives: its peer retires every request of that connection exactly once, and
// another connection of the same device goes on as if nothing had happened.
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "softnic_end.hpp"
#include "softnic_process.hpp"
#include "softnic_store_faults.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::CompletionKind;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

// A ring this short makes a message lap it.
constexpr std::size_t kRingBytes = 1024, kMessageBytes = 2500;
constexpr int kSurvived = 0;

EndOptions small_ring() {
    EndOptions options;
    options.device.ring_bytes = kRingBytes;
    options.access = kAllAccess | Access::window_bind;
    options.channel = true;
    return options;
}

// Polls until `sends` and `receives` of these kinds came. False: the connection ended or time is
// over.
bool gather(End& end, int sends, int receives) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (sends > 0 || receives > 0) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        for (const Completion& completion : end.poll()) {
            if (completion.status != Errc::ok) return false;
            --(completion.kind == CompletionKind::send_side ? sends : receives);
        }
    }
    return true;
}

bool post_all_kinds(End& end) {
    const Element message = end.element(0, kMessageBytes), word = end.element(8, 8);
    const auto payload = pattern(20);
    WorkRequest gathered = end.request(Opcode::write, 40001),
                immediate = end.request(Opcode::write_immediate, 64),
                add = end.request(Opcode::fetch_add, 128);
    gathered.elements = std::span(&message, 1);
    immediate.inline_payload = payload;
    add.elements = std::span(&word, 1);
    return end.post_write(pattern(8), 0) == Errc::ok && end.send->post(gathered) == Errc::ok &&
           end.post_send(std::span(&message, 1)) == Errc::ok &&
           end.send->post(immediate) == Errc::ok && end.send->post(add) == Errc::ok;
}

// Opens a window and invalidates it.
bool lend_and_take_back(End& end) {
    const auto window = end.device->create_memory_window(WindowType::queue_pair);
    mlx5::WindowBinding binding;
    binding.window_key = window->key();
    binding.new_key = mlx5::next_window_key(window->key());
    binding.local_key = end.region->local_key();
    binding.address = end.peer_address_of(0);
    binding.bytes = 64;
    WorkRequest updates[2];
    updates[0].opcode = Opcode::bind_window;
    updates[0].window = &binding;
    updates[1].opcode = Opcode::local_invalidate;
    updates[1].invalidated_key = binding.new_key;
    return end.send->post(updates) == Errc::ok && gather(end, 2, 0);
}

// Everything a process does to memory that others map: registers and releases keys, opens and
// closes windows, connects, says that it sleeps, writes, sends, receives, acknowledges, fails. From
// the beginning it may die at the nth store.
int victim(Wire& wire, std::uint64_t nth) {
    die_before_store(nth);
    End end(small_ring());
    EndAddress peer;
    if (!wire.put(end.address()) || !wire.get(peer)) return 1;
    end.connect(peer);
    for (std::size_t i = 0; i < 2; ++i)
        if (end.post_receive(100000 + i * kMessageBytes, kMessageBytes) != Errc::ok) return 2;
    if (!wire.signal() || !wire.wait()) return 3;
    if (!post_all_kinds(end) || end.completions->arm() != Errc::ok || !gather(end, 5, 1)) return 4;
    if (!lend_and_take_back(end)) return 5;
    {
        const auto extra =
            end.device->register_memory(end.at(4096), 64, kAllAccess, {end.memory.file(), 4096});
    }
    end.queue_pair->fail();
    const std::uint64_t stores = stores_counted();
    wire.put(stores);
    return kSurvived;
}

// A process that refuses a message, because its receive is too short, and closes.
int refusing_victim(Wire& wire, std::uint64_t nth) {
    die_before_store(nth);
    End end(small_ring());
    EndAddress peer;
    if (!wire.put(end.address()) || !wire.get(peer)) return 1;
    end.connect(peer);
    if (end.post_receive(100000, 10) != Errc::ok) return 2;
    if (!wire.signal() || !wire.wait()) return 3;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (end.queue_pair->state() != QueuePairState::error) {
        static_cast<void>(end.poll());
        if (std::chrono::steady_clock::now() > deadline) return 4;
    }
    return kSurvived;
}

class StoreFaults : public testing::Test {
  public:
    // The other connection: kept over all deaths.
    Pair bystander{small_ring()};
    std::size_t bystander_seen = 0;

    void expect_bystander_works() {
        const Element message = bystander.a.element(0, kMessageBytes);
        ASSERT_EQ(bystander.b.post_receive(0, kMessageBytes), Errc::ok);
        ASSERT_EQ(bystander.a.post_send(std::span(&message, 1)), Errc::ok);
        ASSERT_EQ(bystander.a.post_write(pattern(8), 500000), Errc::ok);
        ++bystander_seen;
        ASSERT_TRUE(bystander.poll_for(2 * bystander_seen, bystander_seen));
        ASSERT_EQ(bystander.seen_a.back().status, Errc::ok);
        ASSERT_EQ(bystander.seen_b.back().status, Errc::ok);
    }
};

// The survivor's side of one round, on a queue pair of the bystander's device.
class Survivor {
  public:
    explicit Survivor(End& host) : host_(host) {
        completion_queue_ = host.device->create_completion_queue(256);
        QueuePairOptions wanted{.send_completions = completion_queue_.get(),
                                .receive_completions = completion_queue_.get()};
        queue_pair_ = host.device->create_queue_pair(wanted);
        send_ = std::make_unique<mlx5::SendQueue>(queue_pair_->view());
        receive_ = std::make_unique<mlx5::ReceiveQueue>(queue_pair_->view());
        completions_ = std::make_unique<mlx5::CompletionQueue>(completion_queue_->view());
        completions_->attach(send_.get(), receive_.get());
    }

    // Meets the victim; false where it died before.
    bool meet(Wire& wire) {
        EndAddress mine = host_.address();
        mine.queue_pair = queue_pair_->address();
        if (!wire.get(peer_) || !wire.put(mine)) return false;
        try {
            queue_pair_->connect(peer_.queue_pair, 5000);
        } catch (const Error&) {
            return false;
        }
        return true;
    }
    void post_receives(int count) {
        for (int i = 0; i < count; ++i) {
            const Element into =
                host_.element(200000 + static_cast<std::size_t>(i) * kMessageBytes, kMessageBytes);
            ASSERT_EQ(receive_->post(mlx5::ReceiveRequest{next_id_++, std::span(&into, 1)}),
                      Errc::ok);
        }
    }
    // Requests of every kind towards the victim, alive or not.
    void post_requests() {
        const Element message = host_.element(0, kMessageBytes);
        for (const Opcode opcode : {Opcode::send, Opcode::write, Opcode::read}) {
            WorkRequest request;
            request.opcode = opcode;
            request.id = next_id_++;
            request.remote_address = peer_.address + 8192;
            request.remote_key = peer_.key;
            request.elements = std::span(&message, 1);
            ASSERT_EQ(send_->post(request), Errc::ok);
        }
    }
    void poll() {
        std::array<Completion, 32> found;
        const std::size_t count = completions_->poll(found);
        for (std::size_t i = 0; i < count; ++i) ++retired_[found[i].id];
    }
    bool all_retired() const { return retired_.size() == next_id_; }
    void expect_each_retired_once() const {
        EXPECT_EQ(retired_.size(), next_id_);
        for (const auto& [id, times] : retired_) EXPECT_EQ(times, 1) << id;
        EXPECT_EQ(send_->outstanding(), 0u);
        EXPECT_EQ(receive_->outstanding(), 0u);
        EXPECT_EQ(completions_->strays(), 0u);
    }
    QueuePairHandle& queue_pair() { return *queue_pair_; }

  private:
    End& host_;
    std::unique_ptr<CompletionQueueHandle> completion_queue_;
    std::unique_ptr<QueuePairHandle> queue_pair_;
    std::unique_ptr<mlx5::SendQueue> send_;
    std::unique_ptr<mlx5::ReceiveQueue> receive_;
    std::unique_ptr<mlx5::CompletionQueue> completions_;
    EndAddress peer_;
    std::uint64_t next_id_ = 0;
    std::map<std::uint64_t, int> retired_;
};

// Drives the connection until the victim has ended. Its exit code, or minus the signal.
int play(Survivor& survivor, Child& child) {
    const bool met = survivor.meet(child.wire());
    if (met) {
        survivor.post_receives(4);
        if (child.wire().wait()) {
            survivor.post_requests();
            child.wire().signal();
        }
    }
    int code = 0;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!child.try_reap(code)) {
        survivor.poll();
        if (std::chrono::steady_clock::now() > deadline) return -1000;
    }
    if (met) {
        // Whatever the death left behind, the connection ends, and later requests end too.
        while (!survivor.queue_pair().peer_lost() && std::chrono::steady_clock::now() < deadline)
            survivor.poll();
        survivor.post_requests();
        survivor.post_receives(1);
        while (!survivor.all_retired() && std::chrono::steady_clock::now() < deadline)
            survivor.poll();
        survivor.expect_each_retired_once();
        EXPECT_TRUE(survivor.queue_pair().peer_lost());
    }
    return code;
}

// Deaths until the victim survived, which are as many as it has stores; 0 if something failed.
std::uint64_t kill_at_every_store(StoreFaults& test, int (*victim_body)(Wire&, std::uint64_t)) {
    for (std::uint64_t nth = 1; nth < 2000; ++nth) {
        SCOPED_TRACE("store " + std::to_string(nth));
        Child child([&](Wire& wire) { return victim_body(wire, nth); });
        Survivor survivor(test.bystander.a);
        const int code = play(survivor, child);
        test.expect_bystander_works();
        if (testing::Test::HasFailure()) return 0;
        if (code == -SIGKILL) continue;
        EXPECT_EQ(code, kSurvived);
        std::printf("died at each of %d stores\n", static_cast<int>(nth - 1));
        return nth - 1;
    }
    return 0;
}

// The lower bounds would be missed if stores were not counted any more.
TEST_F(StoreFaults, death_at_any_store_ends_one_connection_only) {
    EXPECT_GT(kill_at_every_store(*this, victim), 50u);
}

TEST_F(StoreFaults, death_while_refusing_a_message_ends_one_connection_only) {
    EXPECT_GT(kill_at_every_store(*this, refusing_victim), 10u);
}

}  // namespace
}  // namespace verbatim::softnic::test
