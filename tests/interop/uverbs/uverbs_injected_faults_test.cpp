// Fault policies under unmodified libibverbs: what the attributes of a queue pair make of a loss,
// and what datagrams make of each fault. Both ends are in this process, each with a device of its
// own; only the first one has the policy.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

using std::chrono::steady_clock;

constexpr std::uint32_t kQueueKey = 0x11111111;
constexpr std::size_t kHeader = 40;

// A device of its own, opened with this policy.
Context open_with(const char* faults) {
    setenv("VERBATIM_SOFTNIC_FAULTS", faults, 1);
    Context context = open_device();
    unsetenv("VERBATIM_SOFTNIC_FAULTS");
    return context;
}

struct Ends {
    Context context, other;
    Side a, b;
    explicit Ends(const char* faults)
        : context(open_with(faults)), other(open_device()), a(context.get()), b(other.get()) {
        interop::connect(a.pair.get(), b.pair->qp_num);
        interop::connect(b.pair.get(), a.pair->qp_num);
    }
};

// Both queues are polled, since the peer's thread is this one.
ibv_wc poll_both(Side& wanted, Side& other) {
    ibv_wc found{}, stray{};
    const auto deadline = steady_clock::now() + std::chrono::seconds(10);
    while (ibv_poll_cq(wanted.completions.get(), 1, &found) == 0) {
        EXPECT_LE(ibv_poll_cq(other.completions.get(), 0, &stray), 0);
        if (steady_clock::now() > deadline) throw std::runtime_error("no completion came");
    }
    return found;
}

TEST(UverbsInjectedFaults, a_loss_costs_the_time_of_the_attributes) {
    Ends ends("drop nth=1 times=2");
    ends.a.word(0) = 7;
    const auto start = steady_clock::now();
    ends.a.request(IBV_WR_RDMA_WRITE, 0, 8)
        .to(ends.b.memory.data(), ends.b.region->rkey)
        .post(ends.a.pair.get());
    EXPECT_EQ(poll_both(ends.a, ends.b).status, IBV_WC_SUCCESS);
    // Timeout 8 is 4.096 us * 2^8.
    EXPECT_GE(steady_clock::now() - start, std::chrono::microseconds(2 * 1048));
    EXPECT_EQ(ends.b.word(0), 7u);
}

TEST(UverbsInjectedFaults, losing_every_try_is_retry_exceeded) {
    Ends ends("corrupt rate=1");
    ends.b.receive(0, 64, 5);
    ends.a.request(IBV_WR_SEND, 0, 8).post(ends.a.pair.get());
    EXPECT_EQ(poll_both(ends.a, ends.b).status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(state_of(ends.a.pair.get()), IBV_QPS_ERR);
}

TEST(UverbsInjectedFaults, a_syndrome_is_the_programs_status) {
    Ends ends("fail operations=write nth=1 syndrome=rnr_exceeded");
    ends.a.request(IBV_WR_RDMA_WRITE, 0, 8)
        .to(ends.b.memory.data(), ends.b.region->rkey)
        .post(ends.a.pair.get());
    EXPECT_EQ(poll_both(ends.a, ends.b).status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST(UverbsInjectedFaults, a_policy_that_makes_no_sense_opens_no_device) {
    setenv("VERBATIM_SOFTNIC_FAULTS", "drip nth=1", 1);
    ibv_device** const list = ibv_get_device_list(nullptr);
    ASSERT_NE(list, nullptr);
    EXPECT_EQ(ibv_open_device(list[0]), nullptr);
    unsetenv("VERBATIM_SOFTNIC_FAULTS");
    ibv_free_device_list(list);
}

// A datagram queue pair with the memory of a Side.
struct Datagrams : Side {
    explicit Datagrams(ibv_context* context) : Side(context) {
        ibv_qp_init_attr wanted{};
        wanted.send_cq = wanted.recv_cq = completions.get();
        wanted.cap = {32, 32, 4, 4, 64};
        wanted.qp_type = IBV_QPT_UD;
        pair.reset(good(ibv_create_qp(domain.get(), &wanted), "ibv_create_qp"));
        ibv_qp_attr to = state(IBV_QPS_INIT);
        to.qkey = kQueueKey;
        good(ibv_modify_qp(pair.get(), &to,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
             "to INIT");
        to = state(IBV_QPS_RTR);
        good(ibv_modify_qp(pair.get(), &to, IBV_QP_STATE), "to RTR");
        to = state(IBV_QPS_RTS);
        good(ibv_modify_qp(pair.get(), &to, IBV_QP_STATE | IBV_QP_SQ_PSN), "to RTS");
    }

    // Sends the numbers 1, 2, ... as messages of 8 bytes each.
    void send_numbers(const Datagrams& to, std::uint64_t count) {
        ibv_ah_attr where{};
        where.is_global = 1;
        where.port_num = 1;
        where.grh.hop_limit = 1;
        good(ibv_query_gid(pair->context, 1, 0, &where.grh.dgid), "ibv_query_gid");
        const std::unique_ptr<ibv_ah, Destroyer<ibv_destroy_ah>> address(
            good(ibv_create_ah(domain.get(), &where), "ibv_create_ah"));
        for (std::uint64_t number = 1; number <= count; ++number) {
            word(8 * number) = number;
            Request request = this->request(IBV_WR_SEND, 8 * number, 8);
            request.work.wr.ud = {address.get(), to.pair->qp_num, kQueueKey};
            request.post(pair.get(), number);
        }
        for (std::uint64_t i = 0; i < count; ++i)
            if (poll().status != IBV_WC_SUCCESS) throw std::runtime_error("a datagram failed");
    }
    // The numbers that have come, up to `last`.
    std::vector<std::uint64_t> take_until(std::uint64_t last) {
        std::vector<std::uint64_t> found;
        do found.push_back(word(1024 * poll().wr_id + kHeader));
        while (found.back() != last);
        return found;
    }
};

std::vector<std::uint64_t> received_of_five(const char* faults) {
    const Context context = open_with(faults), other = open_device();
    Datagrams a(context.get()), b(other.get());
    for (std::uint64_t id = 1; id <= 8; ++id) b.receive(1024 * id, 512, id);
    a.send_numbers(b, 5);
    return b.take_until(5);
}

TEST(UverbsInjectedFaults, datagrams_vanish_come_twice_or_come_damaged) {
    using Numbers = std::vector<std::uint64_t>;
    EXPECT_EQ(received_of_five("drop nth=2 times=2"), (Numbers{1, 4, 5}));
    EXPECT_EQ(received_of_five("corrupt nth=4"), (Numbers{1, 2, 3, 5}));
    EXPECT_EQ(received_of_five("duplicate nth=3"), (Numbers{1, 2, 3, 3, 4, 5}));
    EXPECT_EQ(received_of_five("duplicate nth=1"), (Numbers{1, 1, 2, 3, 4, 5}));
    EXPECT_EQ(received_of_five("corrupt operations=send nth=2 payload=true"),
              (Numbers{1, 3, 3, 4, 5}));
}

}  // namespace
}  // namespace verbatim::interop
