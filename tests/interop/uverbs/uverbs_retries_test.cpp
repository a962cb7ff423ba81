// Timeout and retries of a queue pair whose requests go to a RoCE device by packets, through
// unmodified libibverbs. The peer is a socket that never answers, or a queue pair of the same
// device, which a packet reaches like any other.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "packet_address.hpp"
#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

// Packets arrive at it, and nothing else comes of them.
class SilentPeer {
  public:
    SilentPeer() : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
        sockaddr_in own{};
        own.sin_family = AF_INET;
        own.sin_port = htons(kRocePort);
        inet_pton(AF_INET, place_.c_str(), &own.sin_addr);
        if (bind(socket_, reinterpret_cast<sockaddr*>(&own), sizeof own) != 0)
            throw std::runtime_error("the port is taken");
    }
    ~SilentPeer() { close(socket_); }
    SilentPeer(const SilentPeer&) = delete;
    SilentPeer& operator=(const SilentPeer&) = delete;

    int packets() {
        for (char byte = 0; recv(socket_, &byte, 1, MSG_DONTWAIT) >= 0;) ++packets_;
        return packets_;
    }
    ibv_gid gid() const { return gid_of(place_); }

  private:
    const std::string place_ = address_of(getpid(), 100);
    const int socket_;
    int packets_ = 0;
};

struct Attributes {
    std::uint8_t timeout = 14, retries = 7, not_ready_retries = 7, not_ready_timer = 12;
};

class UverbsRetries : public testing::Test {
  protected:
    static void receive_from(ibv_qp* pair, std::uint32_t number, const ibv_gid& peer,
                             const Attributes& wanted) {
        ibv_qp_attr to = state(IBV_QPS_RTR);
        to.path_mtu = IBV_MTU_1024;
        to.dest_qp_num = number;
        to.max_dest_rd_atomic = 4;
        to.min_rnr_timer = wanted.not_ready_timer;
        to.ah_attr.is_global = 1;
        to.ah_attr.port_num = 1;
        to.ah_attr.grh.hop_limit = 1;
        to.ah_attr.grh.sgid_index = kOwnGid;
        to.ah_attr.grh.dgid = peer;
        good(ibv_modify_qp(pair, &to,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
             "to RTR");
    }
    static void send_to(ibv_qp* pair, const Attributes& wanted) {
        ibv_qp_attr to = state(IBV_QPS_RTS);
        to.timeout = wanted.timeout;
        to.retry_cnt = wanted.retries;
        to.rnr_retry = wanted.not_ready_retries;
        to.max_rd_atomic = 4;
        good(ibv_modify_qp(pair, &to,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
             "to RTS");
    }
    static void connect(ibv_qp* pair, std::uint32_t number, const ibv_gid& peer,
                        const Attributes& wanted) {
        to_init(pair);
        receive_from(pair, number, peer, wanted);
        send_to(pair, wanted);
    }
    void connect_both(const Attributes& wanted) {
        connect(other.pair.get(), one.pair->qp_num, own, wanted);
        connect(one.pair.get(), other.pair->qp_num, own, wanted);
    }
    void post_send(std::uint64_t id) { one.request(IBV_WR_SEND, 0, 8).post(one.pair.get(), id); }
    void post_write(std::uint64_t id) {
        one.request(IBV_WR_RDMA_WRITE, 0, 8)
            .to(other.memory.data(), other.region->rkey)
            .post(one.pair.get(), id);
    }
    void expect_completion(std::uint64_t id, ibv_wc_status status) {
        const ibv_wc completion = one.poll();
        EXPECT_EQ(completion.wr_id, id);
        EXPECT_EQ(completion.status, status) << ibv_wc_status_str(completion.status);
    }
    void expect_no_completion_for(std::chrono::milliseconds time) {
        ibv_wc stray{};
        for (const auto begun = steady_clock::now(); steady_clock::now() < begun + time;)
            ASSERT_EQ(ibv_poll_cq(one.completions.get(), 1, &stray), 0);
    }
    void expect_no_more() {
        ibv_wc stray{};
        EXPECT_EQ(ibv_poll_cq(one.completions.get(), 1, &stray), 0);
        EXPECT_EQ(state_of(one.pair.get()), IBV_QPS_ERR);
    }

    Context context = open_device();
    Side one{context.get()}, other{context.get()};
    const ibv_gid own = gid_of(std::getenv(kAddressVariable));
};

TEST_F(UverbsRetries, end_with_the_oldest_request_of_a_silent_peer) {
    constexpr std::chrono::nanoseconds kOnce{4096 << 16};  // 4.096 us * 2^16
    constexpr std::uint8_t kRetries = 4;
    SilentPeer peer;
    connect(one.pair.get(), 77, peer.gid(), {.timeout = 16, .retries = kRetries});
    const auto begun = steady_clock::now();
    for (std::uint64_t id = 0; id < 3; ++id) post_write(id);
    expect_completion(0, IBV_WC_RETRY_EXC_ERR);
    EXPECT_GE(steady_clock::now() - begun, (kRetries + 1) * kOnce);
    expect_completion(1, IBV_WC_WR_FLUSH_ERR);
    expect_completion(2, IBV_WC_WR_FLUSH_ERR);
    expect_no_more();
    EXPECT_GE(peer.packets(), 3 + kRetries);
}

TEST_F(UverbsRetries, have_no_end_without_a_timeout_until_there_is_one) {
    SilentPeer peer;
    connect(one.pair.get(), 77, peer.gid(), {.timeout = 0, .retries = 0});
    post_write(5);
    ibv_wc stray{};
    const auto deadline = steady_clock::now() + 10s;
    while (peer.packets() < 8 && steady_clock::now() < deadline)
        ASSERT_EQ(ibv_poll_cq(one.completions.get(), 1, &stray), 0);
    EXPECT_GE(peer.packets(), 8);
    ibv_qp_attr to = state(IBV_QPS_SQD);
    good(ibv_modify_qp(one.pair.get(), &to, IBV_QP_STATE), "to SQD");
    to.timeout = 1;
    to.retry_cnt = 1;
    good(ibv_modify_qp(one.pair.get(), &to, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT),
         "in SQD");
    expect_completion(5, IBV_WC_RETRY_EXC_ERR);
    expect_no_more();
}

// Nothing that is sent meanwhile arrives.
TEST_F(UverbsRetries, do_not_show_where_the_peer_is_there_before_they_end) {
    connect(one.pair.get(), other.pair->qp_num, own, {.timeout = 18});
    one.word(0) = 42;
    post_write(1);
    ASSERT_NO_FATAL_FAILURE(expect_no_completion_for(300ms));
    connect(other.pair.get(), one.pair->qp_num, own, {});
    expect_completion(1, IBV_WC_SUCCESS);
    EXPECT_EQ(other.word(0), 42u);
}

TEST_F(UverbsRetries, of_a_peer_without_a_receive_end_with_the_message) {
    connect_both({.not_ready_retries = 2, .not_ready_timer = 1});
    post_send(0);
    post_write(1);
    expect_completion(0, IBV_WC_RNR_RETRY_EXC_ERR);
    expect_completion(1, IBV_WC_WR_FLUSH_ERR);
    expect_no_more();
    EXPECT_EQ(other.word(0), 0u);
}

// The longest time but one, 491.52 ms: the receive is there before the second try.
TEST_F(UverbsRetries, of_a_peer_without_a_receive_begin_when_it_says) {
    connect_both({.not_ready_retries = 1, .not_ready_timer = 31});
    post_send(3);
    ASSERT_NO_FATAL_FAILURE(expect_no_completion_for(100ms));
    other.receive(512, 64);
    expect_completion(3, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbatim::interop

int main(int argc, char** argv) {
    using namespace verbatim::interop;
    if (std::getenv(kAddressVariable) == nullptr) return run_at_address(argv);
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
