// Datagrams between processes, through unmodified libibverbs: none is lost on its way to a queue
// pair that receives, nobody waits for one that does not, and nothing is kept of senders that went.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "../processes/child_process.hpp"
#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

constexpr std::uint32_t kQueueKey = 0x1234;
constexpr std::size_t kHeader = 40;

struct Pipe {
    Pipe() { good(pipe(ends.data()), "pipe"); }
    ~Pipe() { close(ends[0]), close(ends[1]); }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    void put(std::uint32_t value) const {
        good(write(ends[1], &value, sizeof value) == sizeof value ? 0 : EPIPE, "write");
    }
    std::uint32_t get() const {
        std::uint32_t value = 0;
        good(read(ends[0], &value, sizeof value) == sizeof value ? 0 : EPIPE, "read");
        return value;
    }
    std::array<int, 2> ends{};
};

// A datagram queue pair.
struct Post : Side {
    explicit Post(ibv_context* context, ibv_qp_state up_to = IBV_QPS_RTS) : Side(context) {
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
        if (up_to == IBV_QPS_RTS) be_ready();
        ibv_ah_attr where{};
        where.is_global = 1;
        where.port_num = 1;
        where.grh.hop_limit = 1;
        good(ibv_query_gid(context, 1, 0, &where.grh.dgid), "ibv_query_gid");
        address.reset(good(ibv_create_ah(domain.get(), &where), "ibv_create_ah"));
    }
    void be_ready() {
        ibv_qp_attr to = state(IBV_QPS_RTR);
        good(ibv_modify_qp(pair.get(), &to, IBV_QP_STATE), "to RTR");
        to = state(IBV_QPS_RTS);
        good(ibv_modify_qp(pair.get(), &to, IBV_QP_STATE | IBV_QP_SQ_PSN), "to RTS");
    }
    void start_sending(std::uint32_t to, std::uint64_t number, std::uint32_t bytes = 8) {
        word(0) = number;
        Request request = this->request(IBV_WR_SEND, 0, bytes);
        request.work.wr.ud = {address.get(), to, kQueueKey};
        request.post(pair.get(), number);
    }
    // And waits until it is on its way.
    void send(std::uint32_t to, std::uint64_t number, std::uint32_t bytes = 8) {
        start_sending(to, number, bytes);
        if (poll().status != IBV_WC_SUCCESS) throw std::runtime_error("a datagram failed");
    }
    std::uint64_t take() {
        if (poll().status != IBV_WC_SUCCESS) throw std::runtime_error("a receive failed");
        return word(kHeader);
    }
    std::unique_ptr<ibv_ah, Destroyer<ibv_destroy_ah>> address;
};

// A card takes a datagram into the posted receive, whatever the program does just then.
TEST(Datagrams, to_a_process_that_is_stopped_arrive) {
    const Pipe numbers, ready;
    Child receiver([&] {
        const Context context = open_device();
        Post post(context.get());
        post.receive(0, 512);
        numbers.put(post.pair->qp_num);
        return post.take() == 7 ? 0 : 1;
    });
    const Context context = open_device();
    Post post(context.get());
    const std::uint32_t number = numbers.get();
    receiver.stop();
    const auto start = std::chrono::steady_clock::now();
    post.start_sending(number, 7);
    // Longer than any attempt to reach it.
    while (std::chrono::steady_clock::now() < start + std::chrono::milliseconds(1500)) usleep(1000);
    receiver.send(SIGCONT);
    EXPECT_EQ(receiver.wait(), 0);
    EXPECT_EQ(post.poll().status, IBV_WC_SUCCESS);
}

TEST(Datagrams, to_nobody_hold_up_none_to_others) {
    const Context context = open_device(), other = open_device();
    Post post(context.get()), receiver(other.get());
    constexpr std::uint32_t kAbsent = 0xffff00;
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < 20; ++i) {
        receiver.receive(0, 512);
        post.send(kAbsent - static_cast<std::uint32_t>(i), i);
        post.send(receiver.pair->qp_num, i);
        EXPECT_EQ(receiver.take(), i);
    }
    // It was a fifth of a second for each.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
}

TEST(Datagrams, arrive_as_soon_as_the_receiver_is_ready_whoever_sent_too_early) {
    const Context context = open_device(), other = open_device();
    Post post(context.get()), receiver(other.get(), IBV_QPS_INIT);
    receiver.receive(0, 512), receiver.receive(0, 512);
    post.send(receiver.pair->qp_num, 1);
    // It is dropped when the receiver has been asked; on a busy machine that may be after this.
    usleep(50000);
    receiver.be_ready();
    post.send(receiver.pair->qp_num, 2);
    while (receiver.take() != 2) continue;
}

std::size_t rings() {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const auto target = std::filesystem::read_symlink(entry.path(), gone);
        if (!gone && target.string().find("verbatim-ring") != std::string::npos) ++count;
    }
    return count;
}

TEST(Datagrams, of_senders_that_ended_leave_no_ring_behind) {
    const Context context = open_device();
    Post receiver(context.get());
    const std::size_t before = rings();
    const auto send_and_end = [&](std::uint64_t value) {
        receiver.receive(0, 512);
        Child sender([&] {
            const Context own = open_device();
            Post post(own.get());
            post.send(receiver.pair->qp_num, value);
        });
        EXPECT_EQ(receiver.take(), value);
        EXPECT_EQ(sender.wait(), 0);
    };
    for (std::uint64_t i = 0; i < 5; ++i) send_and_end(i);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    // What is read at the moment that the last sender ends stays until another one comes or goes.
    while (rings() > before + 1 && std::chrono::steady_clock::now() < deadline) usleep(1000);
    EXPECT_LE(rings(), before + 1);
}

// Fewer files than the queue pairs would need that sent one after the other.
TEST(Datagrams, of_queue_pairs_that_were_destroyed_leave_few_rings_behind) {
    const Context context = open_device(), other = open_device();
    Post receiver(context.get());
    const std::size_t before = rings();
    std::size_t with_one = 0;
    for (std::uint64_t i = 0; i < 200; ++i) {
        Post post(other.get());
        receiver.receive(0, 512);
        post.send(receiver.pair->qp_num, i);
        EXPECT_EQ(receiver.take(), i);
        if (with_one == 0) with_one = rings();
        EXPECT_LE(rings(), with_one);
    }
    EXPECT_GT(with_one, before);
}

// A device whose port has this MTU.
Context open_with_mtu(const char* bytes) {
    setenv("VERBATIM_SOFTNIC_MTU", bytes, 1);
    Context context = open_device();
    unsetenv("VERBATIM_SOFTNIC_MTU");
    return context;
}

ibv_mtu active_mtu(const Context& context) {
    ibv_port_attr port{};
    good(ibv_query_port(context.get(), 1, &port), "ibv_query_port");
    EXPECT_EQ(port.max_mtu, IBV_MTU_4096);
    return port.active_mtu;
}

void expect_longest(const Context& context, std::uint32_t bytes) {
    const Context other = open_device();
    Post post(context.get()), receiver(other.get());
    receiver.receive(0, 8192);
    post.send(receiver.pair->qp_num, 3, bytes);
    EXPECT_EQ(receiver.take(), 3u);
    post.start_sending(receiver.pair->qp_num, 4, bytes + 1);
    EXPECT_EQ(post.poll().status, IBV_WC_LOC_LEN_ERR);
}

TEST(Datagrams, are_as_long_as_the_ports_mtu_at_most) {
    const Context plain = open_device();
    EXPECT_EQ(active_mtu(plain), IBV_MTU_4096);
    expect_longest(plain, 4096);
    const Context small = open_with_mtu("1024");
    EXPECT_EQ(active_mtu(small), IBV_MTU_1024);
    expect_longest(small, 1024);
}

TEST(Datagrams, have_no_mtu_that_infiniband_does_not_know) {
    setenv("VERBATIM_SOFTNIC_MTU", "1500", 1);
    ibv_device** const list = good(ibv_get_device_list(nullptr), "ibv_get_device_list");
    EXPECT_EQ(ibv_open_device(list[0]), nullptr);
    unsetenv("VERBATIM_SOFTNIC_MTU");
    ibv_free_device_list(list);
}

}  // namespace
}  // namespace verbatim::interop
