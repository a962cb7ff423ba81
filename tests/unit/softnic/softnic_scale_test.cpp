// Ten thousand queue pairs in one process, connected to another one's: what a poll looks at, and
// what a queue pair costs.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "completion_queue.hpp"
#include "process_cost.hpp"
#include "sanitized.hpp"
#include "softnic_end.hpp"
#include "softnic_process.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using verbatim::test::kSanitized;
using verbatim::test::process_cost;
using verbatim::test::ProcessCost;

// Sanitizers take memory and time of their own.
constexpr std::uint32_t kMany = kSanitized ? 1000 : 10000;
constexpr std::uint32_t kBlocks = 4, kReceives = 2, kMessageBytes = 8;

// One process's queue pairs, on some completion queues.
class Crowd {
  public:
    Crowd(std::uint32_t pairs, std::uint32_t queues)
        : device_(open_device({})),
          memory_(1 << 20),
          region_(device_->register_memory(memory_.data(), memory_.bytes(), kAllAccess,
                                           {memory_.file(), 0})) {
        for (std::uint32_t i = 0; i < queues; ++i)
            queues_.push_back(device_->create_completion_queue(64));
        pairs_.reserve(pairs);
        for (std::uint32_t i = 0; i < pairs; ++i) {
            QueuePairOptions options{.send_blocks = kBlocks, .receive_entries = kReceives};
            options.send_completions = options.receive_completions = queues_[i % queues].get();
            pairs_.push_back(device_->create_queue_pair(options));
        }
    }
    // Queue buffers of a queue pair.
    static constexpr long kAskedFor = kBlocks * 64 + kReceives * 16;

    std::uint32_t pairs() const { return static_cast<std::uint32_t>(pairs_.size()); }
    QueuePairAddress address(std::uint32_t i) const { return pairs_[i]->address(); }
    void connect(std::uint32_t i, const QueuePairAddress& peer) { pairs_[i]->connect(peer, 20000); }

    // Of the queues together: queue pairs that their next polls look at.
    std::uint32_t looks() const {
        std::uint32_t sum = 0;
        for (const auto& queue : queues_) {
            auto& engine = static_cast<CompletionQueue&>(*queue);
            engine.progress();
            sum += engine.list().looked_at();
        }
        return sum;
    }
    // True: polls find nothing and look at no queue pair any more.
    bool calms_down() const {
        const auto end = std::chrono::steady_clock::now() + kPatience;
        while (looks() != 0)
            if (std::chrono::steady_clock::now() > end) return false;
        return true;
    }

    // The program's side of one queue pair, made when it is first used.
    struct Ends {
        std::unique_ptr<mlx5::SendQueue> send;
        std::unique_ptr<mlx5::ReceiveQueue> receive;
        mlx5::CompletionQueue* completions = nullptr;
    };
    Ends& ends(std::uint32_t i) {
        const auto [found, fresh] = ends_.try_emplace(i);
        Ends& ends = found->second;
        if (!fresh) return ends;
        const std::size_t queue = i % queues_.size();
        completions_.resize(queues_.size());
        if (completions_[queue] == nullptr)
            completions_[queue] = std::make_unique<mlx5::CompletionQueue>(queues_[queue]->view());
        ends.completions = completions_[queue].get();
        ends.send =
            std::make_unique<mlx5::SendQueue>(pairs_[i]->view(), device_->invalidation_epoch());
        ends.receive = std::make_unique<mlx5::ReceiveQueue>(pairs_[i]->view());
        ends.completions->attach(ends.send.get(), ends.receive.get());
        return ends;
    }
    mlx5::Element element() const {
        return {reinterpret_cast<std::uint64_t>(memory_.data()), kMessageBytes,
                region_->local_key()};
    }

  private:
    std::unique_ptr<Device> device_;
    SharedPages memory_;
    std::unique_ptr<MemoryRegion> region_;
    std::vector<std::unique_ptr<CompletionQueueHandle>> queues_;
    std::vector<std::unique_ptr<QueuePairHandle>> pairs_;
    std::vector<std::unique_ptr<mlx5::CompletionQueue>> completions_;
    std::map<std::uint32_t, Ends> ends_;
};

// Sends or receives one message on a queue pair.
void post_receive(Crowd& crowd, Crowd::Ends& ends) {
    const mlx5::Element element = crowd.element();
    ASSERT_EQ(ends.receive->post({.elements = std::span(&element, 1)}), Errc::ok);
}
void post_send(Crowd& crowd, Crowd::Ends& ends) {
    const mlx5::Element element = crowd.element();
    mlx5::WorkRequest request;
    request.opcode = mlx5::Opcode::send;
    request.elements = std::span(&element, 1);
    request.signaled = true;
    ASSERT_EQ(ends.send->post(request), Errc::ok);
}
// Until that many completions came; false: they do not.
bool await(Crowd::Ends& ends, std::size_t wanted) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    std::array<Completion, 8> found;
    for (std::size_t count = 0; count < wanted;) {
        count += ends.completions->poll(found);
        if (std::chrono::steady_clock::now() > end) return false;
    }
    return true;
}

// The other process: as many queue pairs; those that it is told of send back what comes.
int answer(Wire& wire, std::uint32_t pairs, std::uint32_t queues) {
    Crowd crowd(pairs, queues);
    QueuePairAddress peer;
    for (std::uint32_t i = 0; i < pairs; ++i) {
        if (!wire.get(peer) || !wire.put(crowd.address(i))) return 1;
        crowd.connect(i, peer);
    }
    if (!wire.signal() || !wire.wait()) return 2;
    if (!crowd.calms_down()) return 3;
    for (std::uint32_t i = 0; wire.get(i) && i < pairs;) {
        Crowd::Ends& ends = crowd.ends(i);
        post_receive(crowd, ends);
        if (!wire.signal() || !await(ends, 1)) return 4;
        post_send(crowd, ends);
        if (!await(ends, 1) || !wire.signal()) return 5;
    }
    return 0;
}

struct Scale {
    std::uint32_t pairs, queues;
};
class QueuePairs : public testing::TestWithParam<Scale> {};

TEST_P(QueuePairs, idle_ones_cost_a_poll_nothing_and_are_found_when_they_have_work) {
    const std::uint32_t pairs = GetParam().pairs, queues = GetParam().queues;
    Child child([pairs, queues](Wire& wire) { return answer(wire, pairs, queues); });
    Crowd crowd(pairs, queues);
    std::vector<QueuePairAddress> peers(pairs);
    for (std::uint32_t i = 0; i < pairs; ++i) {
        ASSERT_TRUE(child.wire().put(crowd.address(i)) && child.wire().get(peers[i]));
        crowd.connect(i, peers[i]);
    }
    ASSERT_TRUE(child.wire().wait() && child.wire().signal());
    ASSERT_TRUE(crowd.calms_down());
    for (const std::uint32_t i : {0U, pairs / 2, pairs - 1}) {
        EXPECT_EQ(crowd.looks(), 0U);
        Crowd::Ends& ends = crowd.ends(i);
        post_receive(crowd, ends);
        ASSERT_TRUE(child.wire().put(i) && child.wire().wait());
        post_send(crowd, ends);
        ASSERT_TRUE(await(ends, 2)) << "queue pair " << i << " of " << pairs;
        EXPECT_LE(crowd.looks(), 1U);
        ASSERT_TRUE(child.wire().wait());
        ASSERT_TRUE(crowd.calms_down());
    }
    ASSERT_TRUE(child.wire().put(pairs));
    EXPECT_EQ(child.reap(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    , QueuePairs, testing::Values(Scale{1, 1}, Scale{100, 1}, Scale{kMany, 1}, Scale{kMany, 8}),
    [](const auto& one) {
        return std::to_string(one.param.pairs) + "_on_" + std::to_string(one.param.queues);
    });

TEST(QueuePair, costs_16_KiB_at_most_beside_its_queues_and_no_descriptor) {
    Child child([](Wire& wire) { return answer(wire, kMany, 1); });
    const ProcessCost empty = process_cost();
    Crowd crowd(kMany, 1);
    std::vector<QueuePairAddress> peers(kMany);
    for (std::uint32_t i = 0; i < kMany; ++i) {
        ASSERT_TRUE(child.wire().put(crowd.address(i)) && child.wire().get(peers[i]));
        crowd.connect(i, peers[i]);
    }
    ASSERT_TRUE(child.wire().wait() && child.wire().signal());
    const ProcessCost cost = process_cost() - empty;
    ASSERT_GT(cost.bytes, 0) << "what this process holds cannot be read";
    const long each = cost.bytes / kMany - Crowd::kAskedFor;
    RecordProperty("bytes_of_a_queue_pair", static_cast<int>(each));
    std::printf("%ld bytes a queue pair; %ld descriptors and %ld mappings in all\n", each,
                cost.descriptors, cost.mappings);
    if (!kSanitized) {
        // A page that processes share counts in parts: more beside fewer of them.
        constexpr long kSharedPages = 128;
        EXPECT_LE(each, (16 << 10) + kSharedPages);
    }
    EXPECT_LE(cost.descriptors, 64);
    EXPECT_LE(cost.mappings, 256);
    ASSERT_TRUE(child.wire().put(kMany));
    EXPECT_EQ(child.reap(), 0);
}

}  // namespace
}  // namespace verbatim::softnic::test
