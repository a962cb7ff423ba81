// Ten thousand queue pairs of unmodified libibverbs and libmlx5 in one process.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "../uverbs/verbs_pair.hpp"
#include "process_cost.hpp"
#include "sanitized.hpp"

namespace verbatim::interop {
namespace {

using verbatim::test::kSanitized;
using verbatim::test::process_cost;
using verbatim::test::ProcessCost;

constexpr std::size_t kMany = kSanitized ? 1000 : 10000;

// Queue pairs of one completion queue; the first ones are connected, each to the one with the other
// lowest bit.
class Crowd {
  public:
    explicit Crowd(std::size_t pairs = kMany, std::size_t connected = kMany)
        : context_(open_device()),
          domain_(good(ibv_alloc_pd(context_.get()), "ibv_alloc_pd")),
          memory_(kMany * 8),
          region_(good(ibv_reg_mr(domain_.get(), memory_.data(), memory_.size(),
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
                       "ibv_reg_mr")),
          completions_(good(ibv_create_cq(context_.get(), 4 * int{kMany}, nullptr, nullptr, 0),
                            "ibv_create_cq")) {
        ibv_qp_init_attr wanted{};
        wanted.send_cq = wanted.recv_cq = completions_.get();
        wanted.cap = {2, 2, 1, 1, 0};
        wanted.qp_type = IBV_QPT_RC;
        for (std::size_t i = 0; i < pairs; ++i)
            pairs_.emplace_back(good(ibv_create_qp(domain_.get(), &wanted), "ibv_create_qp"));
        for (std::size_t i = 0; i < connected; ++i) meet(i, i ^ 1);
    }
    void meet(std::size_t i, std::size_t peer) { connect(pairs_[i].get(), pairs_[peer]->qp_num); }
    std::uint32_t number(std::size_t i) const { return pairs_[i]->qp_num; }
    std::byte* at(std::size_t i) { return memory_.data() + 8 * i; }
    void post(std::size_t i, ibv_wr_opcode opcode) {
        Request(opcode, at(i), 8, region_->lkey)
            .to(at(i ^ 1), region_->rkey)
            .post(pairs_[i].get(), i);
    }
    void send(std::size_t i) {
        Request(IBV_WR_SEND, at(0), 8, region_->lkey).post(pairs_[i].get(), i);
    }
    void receive(std::size_t i) {
        ibv_sge element{reinterpret_cast<std::uint64_t>(at(i % kMany)), 8, region_->lkey};
        ibv_recv_wr work{1000000 + i, nullptr, &element, 1}, *bad = nullptr;
        good(ibv_post_recv(pairs_[i].get(), &work, &bad), "ibv_post_recv");
    }
    // Until each of so many is complete; by the requests' numbers.
    std::map<std::uint64_t, int> collect(std::size_t wanted) {
        std::map<std::uint64_t, int> seen;
        for (std::size_t i = 0; i < wanted; ++i) {
            const ibv_wc done = poll(completions_.get());
            EXPECT_EQ(done.status, IBV_WC_SUCCESS) << ibv_wc_status_str(done.status);
            ++seen[done.wr_id];
        }
        return seen;
    }
    ibv_cq* completions() { return completions_.get(); }

  private:
    Context context_;
    Domain domain_;
    std::vector<std::byte> memory_;
    Region region_;
    Completions completions_;
    std::vector<Pair> pairs_;
};

TEST(Scale, ten_thousand_queue_pairs_work_and_need_few_descriptors_and_mappings) {
    ProcessCost before;
    {
        const Context first = open_device();  // what the library needs anyway
        before = process_cost();
    }
    Crowd crowd;
    for (std::size_t i = 0; i < kMany; ++i) crowd.post(i, IBV_WR_RDMA_WRITE);
    EXPECT_EQ(crowd.collect(kMany).size(), kMany);
    const ProcessCost cost = process_cost() - before;
    std::printf(
        "%ld bytes a queue pair, libmlx5's own and queues too; %ld descriptors and %ld "
        "mappings in all\n",
        cost.bytes / long{kMany}, cost.descriptors, cost.mappings);
    EXPECT_LE(cost.descriptors, 64);
    EXPECT_LE(cost.mappings, 1024);
    // Idle for a while, all of them, then each is found by its message.
    ibv_wc none;
    for (int i = 0; i < 4000; ++i) ASSERT_EQ(ibv_poll_cq(crowd.completions(), 1, &none), 0);
    for (std::size_t i = 0; i < kMany; i += 2) crowd.receive(i + 1);
    for (std::size_t i = 0; i < kMany; i += 2) crowd.post(i, IBV_WR_SEND);
    EXPECT_EQ(crowd.collect(kMany).size(), kMany);
}

TEST(Scale, numbers_of_queue_pairs_grow_beyond_one_slot) {
    if (verbatim::test::kSanitized) GTEST_SKIP() << "slow; runs in every other build";
    constexpr std::size_t kSlot = 1 << 14, kAll = kSlot + 3;
    Crowd crowd(kAll, 0);
    EXPECT_NE(crowd.number(0) >> 14, crowd.number(kAll - 1) >> 14);
    // One of each slot, and two of the second one.
    for (const auto& [one, other] : {std::pair(std::size_t{0}, kSlot), {kSlot + 1, kSlot + 2}}) {
        crowd.meet(one, other), crowd.meet(other, one);
        crowd.receive(other), crowd.receive(one);
        crowd.send(one), crowd.send(other);
        EXPECT_EQ(crowd.collect(4).size(), 4U);
    }
}

}  // namespace
}  // namespace verbatim::interop
