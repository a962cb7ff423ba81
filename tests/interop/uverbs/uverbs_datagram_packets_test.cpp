// Datagrams to and from any RoCE device by packets, through unmodified libibverbs. The device is
// one that the test plays, or the queue pair's own one, which a packet reaches like any other.
#include <poll.h>

#include <numeric>

#include "roce_device.hpp"
#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

constexpr std::uint32_t kQueueKey = 0x1234, kFirstSequence = 0xffffff;  // wraps
constexpr std::uint32_t kHeader = 40;

const std::string& own_place() {
    static const std::string place = std::getenv(kAddressVariable);
    return place;
}
ibv_gid own_gid(ibv_context* context, int index = kOwnGid) {
    ibv_gid gid{};
    good(ibv_query_gid(context, 1, index, &gid), "ibv_query_gid");
    return gid;
}

Bytes numbers(std::size_t count) {
    Bytes bytes(count);
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{1});
    return bytes;
}

using Address = std::unique_ptr<ibv_ah, Destroyer<ibv_destroy_ah>>;

// A datagram queue pair.
struct Post : Side {
    explicit Post(ibv_context* context, const SideOptions& options = {}) : Side(context, options) {
        ibv_qp_init_attr wanted{};
        wanted.send_cq = wanted.recv_cq = completions.get();
        wanted.cap = {32, 128, 4, 4, 64};
        wanted.qp_type = IBV_QPT_UD;
        pair.reset(good(ibv_create_qp(domain.get(), &wanted), "ibv_create_qp"));
        initialize();
    }
    void initialize() {
        ibv_qp_attr to = state(IBV_QPS_INIT);
        to.qkey = kQueueKey;
        good(ibv_modify_qp(pair.get(), &to,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
             "to INIT");
    }
    int try_to_receive() {
        ibv_qp_attr to = state(IBV_QPS_RTR);
        return ibv_modify_qp(pair.get(), &to, IBV_QP_STATE);
    }
    void be_ready() {
        good(try_to_receive(), "to RTR");
        ibv_qp_attr to = state(IBV_QPS_RTS);
        to.sq_psn = kFirstSequence;
        good(ibv_modify_qp(pair.get(), &to, IBV_QP_STATE | IBV_QP_SQ_PSN), "to RTS");
    }
    Address address_of(const ibv_gid& gid, std::uint8_t index = kOwnGid) {
        ibv_ah_attr where{};
        where.is_global = 1;
        where.port_num = 1;
        where.grh.hop_limit = 64;
        where.grh.sgid_index = index;
        where.grh.dgid = gid;
        return Address(good(ibv_create_ah(domain.get(), &where), "ibv_create_ah"));
    }
    void start_sending(const Address& to, std::uint32_t number, Request request) {
        request.work.wr.ud = {to.get(), number, kQueueKey};
        request.post(pair.get());
    }
    void fill(const Bytes& payload) {
        if (!payload.empty()) std::memcpy(memory.data(), payload.data(), payload.size());
    }
    // And waits until it is on its way.
    void send(const Address& to, std::uint32_t number, const Bytes& payload) {
        fill(payload);
        start_sending(to, number,
                      request(IBV_WR_SEND, 0, static_cast<std::uint32_t>(payload.size())));
        expect_success();
    }
    ibv_wc expect_success() {
        const ibv_wc completion = poll();
        EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
        return completion;
    }
    Bytes received(std::size_t at, std::size_t count) const {
        const auto* const from = reinterpret_cast<const std::uint8_t*>(memory.data()) + at;
        return Bytes(from, from + count);
    }
    std::uint32_t number() const { return pair->qp_num; }
};

class DatagramPackets : public testing::Test {
  protected:
    Datagram to_post(Bytes payload) const {
        Datagram datagram;
        datagram.queue_pair = post.number();
        datagram.queue_key = kQueueKey;
        datagram.source = 0x765432;
        datagram.payload = std::move(payload);
        return datagram;
    }
    // All that was sent before was looked at: a message behind it arrives in the next receive.
    void expect_only(const Bytes& payload) {
        device.send(to_post(payload));
        const ibv_wc completion = post.expect_success();
        EXPECT_EQ(completion.byte_len, kHeader + payload.size());
        EXPECT_EQ(post.received(kHeader, payload.size()), payload);
        ibv_wc stray{};
        EXPECT_EQ(ibv_poll_cq(post.completions.get(), 1, &stray), 0);
    }

    Context context = open_device();
    Post post{context.get(), {.events = true}};
    RoceDevice device{own_place()};
};

TEST_F(DatagramPackets, have_the_form_that_every_device_reads) {
    post.be_ready();
    const Address there = post.address_of(device.gid());
    post.send(there, 0x123456, numbers(5));
    const Datagram plain = device.receive();
    EXPECT_EQ(plain.opcode, 0x64);
    EXPECT_FALSE(plain.solicited);
    EXPECT_EQ(plain.partition, 0xffff);
    EXPECT_EQ(plain.queue_pair, 0x123456u);
    EXPECT_EQ(plain.sequence, kFirstSequence);
    EXPECT_EQ(plain.queue_key, kQueueKey);
    EXPECT_EQ(plain.source, post.number());
    EXPECT_EQ(plain.payload, numbers(5));

    Request request = post.request(IBV_WR_SEND_WITH_IMM, 0, 4);
    request.work.imm_data = htonl(0xcafe0001);
    request.flags(IBV_SEND_SOLICITED);
    post.start_sending(there, 7, request);
    post.expect_success();
    const Datagram noted = device.receive();
    EXPECT_EQ(noted.opcode, 0x65);
    EXPECT_TRUE(noted.solicited);
    EXPECT_EQ(noted.sequence, 0u);
    EXPECT_EQ(noted.immediate, 0xcafe0001u);
    EXPECT_EQ(noted.payload, numbers(4));
}

TEST_F(DatagramPackets, carry_nothing_or_as_much_as_the_path_does_and_no_more) {
    post.be_ready();
    const Address there = post.address_of(device.gid());
    for (const std::size_t bytes : {0u, 4096u}) {
        post.send(there, 7, numbers(bytes));
        EXPECT_EQ(device.receive().payload, numbers(bytes));
    }
    post.start_sending(there, 7, post.request(IBV_WR_SEND, 0, 4097));
    EXPECT_EQ(post.poll().status, IBV_WC_LOC_LEN_ERR);
}

TEST_F(DatagramPackets, arrive_behind_their_own_network_header_by_which_an_answer_goes_back) {
    constexpr int kHops = 17, kClass = 0x68;
    post.receive(0, 512);
    post.be_ready();
    device.set(IP_TTL, kHops);
    device.set(IP_TOS, kClass);
    Datagram datagram = to_post(numbers(7));
    datagram.opcode = 0x65;
    datagram.immediate = 0xcafe0002;
    device.send(datagram);
    ibv_wc completion = post.expect_success();
    EXPECT_EQ(completion.byte_len, kHeader + 7);
    EXPECT_EQ(completion.src_qp, datagram.source);
    EXPECT_EQ(completion.wc_flags, unsigned{IBV_WC_GRH | IBV_WC_WITH_IMM});
    EXPECT_EQ(ntohl(completion.imm_data), 0xcafe0002u);
    EXPECT_EQ(post.received(kHeader, 7), numbers(7));

    const Bytes header = post.received(20, 20);
    EXPECT_EQ(get(header, 0, 1), 0x45u);
    EXPECT_EQ(get(header, 1, 1), unsigned{kClass});
    EXPECT_EQ(get(header, 2, 2), 20u + 8 + 12 + 8 + 4 + 7 + 1 + 4);
    EXPECT_EQ(get(header, 4, 4), 0x4000u);
    EXPECT_EQ(get(header, 8, 2), unsigned{kHops << 8 | IPPROTO_UDP});
    EXPECT_EQ(get(header, 12, 4), ntohl(inet_addr(device.place().c_str())));
    EXPECT_EQ(get(header, 16, 4), ntohl(inet_addr(own_place().c_str())));
    std::uint32_t sum = 0;
    for (std::size_t at = 0; at != header.size(); at += 2) sum += get(header, at, 2);
    EXPECT_EQ((sum & 0xffff) + (sum >> 16), 0xffffu);

    const Address back(ibv_create_ah_from_wc(post.domain.get(), &completion,
                                             reinterpret_cast<ibv_grh*>(post.memory.data()), 1));
    ASSERT_NE(back, nullptr);
    post.send(back, completion.src_qp, numbers(3));
    const Datagram answer = device.receive();
    EXPECT_EQ(answer.queue_pair, datagram.source);
    EXPECT_EQ(answer.payload, numbers(3));
}

TEST_F(DatagramPackets, that_are_wrong_are_dropped_and_take_no_receive) {
    post.receive(0, kHeader + 64);
    post.be_ready();
    const Datagram right = to_post(numbers(8));
    const auto send_changed = [&](auto change) {
        Datagram datagram = right;
        change(datagram);
        device.send(datagram);
    };
    send_changed([](Datagram& datagram) { datagram.queue_key = kQueueKey + 1; });
    send_changed([](Datagram& datagram) { datagram.partition = 0x7fff; });
    send_changed([](Datagram& datagram) { datagram.payload = numbers(65); });  // longer than it
    for (const std::uint8_t opcode : Bytes{0x04, 0x0a, 0x11, 0x24, 0x63, 0x66, 0x81, 0xc0, 0xff})
        send_changed([opcode](Datagram& datagram) { datagram.opcode = opcode; });
    send_changed([](Datagram& datagram) { datagram.opcode = 0x65, datagram.payload = {}; });
    Bytes unaligned = right.packet();
    unaligned.pop_back();
    device.send_packet(unaligned);
    Bytes version = right.packet();
    version[1] |= 1;
    device.send_packet(version);
    Bytes head = right.packet();
    head.resize(16);
    device.send_packet(head);
    Bytes unchecked = right.packet();
    unchecked.resize(unchecked.size() + 4);
    device.send_raw(unchecked);
    device.send_raw(Bytes(3));
    expect_only(numbers(9));
}

TEST_F(DatagramPackets, without_a_receive_are_dropped_however_many_come) {
    post.be_ready();
    for (int i = 0; i != 500; ++i) device.send(to_post(numbers(2000)));
    // What is not dropped yet may still find this receive: those behind it cannot.
    post.receive(0, 4096);
    for (ibv_wc completion{}; ibv_poll_cq(post.completions.get(), 1, &completion) == 0;)
        device.send(to_post(numbers(1)));
    ibv_wc stray{};
    EXPECT_EQ(ibv_poll_cq(post.completions.get(), 1, &stray), 0);
    EXPECT_EQ(state_of(post.pair.get()), IBV_QPS_RTS);
}

TEST_F(DatagramPackets, wake_a_program_that_sleeps) {
    post.be_ready();
    for (int i = 0; i != 20; ++i) {
        post.receive(0, 512);
        good(ibv_req_notify_cq(post.completions.get(), 0), "ibv_req_notify_cq");
        if (i % 5 == 0) usleep(400000);  // nobody looks any more
        device.send(to_post(numbers(8)));
        pollfd event{post.channel->fd, POLLIN, 0};
        ASSERT_EQ(::poll(&event, 1, 10000), 1);
        ibv_cq* queue = nullptr;
        void* its = nullptr;
        good(ibv_get_cq_event(post.channel.get(), &queue, &its), "ibv_get_cq_event");
        ibv_ack_cq_events(queue, 1);
        post.expect_success();
    }
}

TEST_F(DatagramPackets, reach_other_queue_pairs_of_the_same_device_and_oneself) {
    Post other(context.get());
    const Address here = post.address_of(own_gid(context.get()));
    for (Post* const to : {&other, &post}) {
        to->receive(4096, 512);
        if (to == &other) other.be_ready(), post.be_ready();
        post.fill(numbers(8));
        post.start_sending(here, to->number(), post.request(IBV_WR_SEND, 0, 8));
        post.expect_success();
        EXPECT_EQ(to->expect_success().byte_len, kHeader + 8);
        EXPECT_EQ(to->received(4096 + kHeader, 8), numbers(8));
    }
}

// Programs that use the address of the link itself stay in shared memory, beside others.
TEST_F(DatagramPackets, do_not_carry_what_goes_to_an_address_of_the_link) {
    Post other(context.get());
    other.receive(0, 512), other.receive(512, 512);
    other.be_ready(), post.be_ready();
    const Address link = post.address_of(own_gid(context.get(), 0), 0);
    const Address packets = post.address_of(own_gid(context.get()));
    post.send(link, other.number(), numbers(8));
    EXPECT_EQ(other.expect_success().src_qp, post.number());
    post.send(packets, other.number(), numbers(9));
    EXPECT_EQ(other.expect_success().src_qp, post.number());
    EXPECT_EQ(other.received(kHeader, 8), numbers(8));
    EXPECT_EQ(other.received(512 + kHeader, 9), numbers(9));
}

TEST_F(DatagramPackets, to_nobody_are_lost_and_hold_up_none_to_others) {
    post.be_ready();
    const Address nobody = post.address_of(gid_of(address_of(getpid(), 150)));
    const Address there = post.address_of(device.gid());
    for (std::uint8_t i = 1; i != 30; ++i) {
        post.send(nobody, 5, numbers(8));
        post.send(there, 5, numbers(i));
        ASSERT_EQ(device.receive().payload, numbers(i));
    }
}

TEST_F(DatagramPackets, of_another_version_of_ip_are_dropped) {
    post.be_ready();
    ibv_gid other{};
    other.raw[0] = 0x20, other.raw[1] = 0x01, other.raw[15] = 1;
    post.send(post.address_of(other), 5, numbers(8));
    post.send(post.address_of(device.gid()), 5, numbers(9));
    EXPECT_EQ(device.receive().payload, numbers(9));
}

TEST_F(DatagramPackets, do_not_arrive_at_a_queue_pair_that_was_reset_until_it_receives_again) {
    post.receive(0, 512);
    post.be_ready();
    expect_only(numbers(4));
    for (int i = 0; i != 3; ++i) {
        ibv_qp_attr to = state(IBV_QPS_RESET);
        good(ibv_modify_qp(post.pair.get(), &to, IBV_QP_STATE), "to RESET");
        device.send(to_post(numbers(5)));
        post.initialize();
        device.send(to_post(numbers(6)));
        post.receive(0, 512);
        post.be_ready();
        expect_only(numbers(7));
        post.send(post.address_of(device.gid()), 5, numbers(8));
        EXPECT_EQ(device.receive().sequence, kFirstSequence);
    }
}

// It stays as it was, and receives once the port is free.
TEST_F(DatagramPackets, need_the_port_of_the_address) {
    const int other = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(kRocePort);
    inet_pton(AF_INET, own_place().c_str(), &place.sin_addr);
    ASSERT_EQ(bind(other, reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
    post.receive(0, 512);
    EXPECT_EQ(post.try_to_receive(), EADDRINUSE);
    EXPECT_EQ(state_of(post.pair.get()), IBV_QPS_INIT);
    close(other);
    post.be_ready();
    expect_only(numbers(8));
}

// A program's own child closes what it has inherited.
TEST_F(DatagramPackets, go_on_beside_a_forked_child) {
    post.receive(0, 512);
    post.be_ready();
    for (int i = 0; i != 5; ++i) {
        const pid_t child = fork();
        if (child == 0) _exit(0);
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    expect_only(numbers(8));
}

// In a process of its own, at the only address of the loopback that there is.
class DatagramPacketsOfIpv6 : public testing::Test {};

TEST_F(DatagramPacketsOfIpv6, arrive_behind_their_own_network_header) {
    const Context context = open_device();
    Post post(context.get());
    post.receive(4096, 512);
    if (post.try_to_receive() != 0) GTEST_SKIP() << "there is no IPv6 here, or no free port";
    ibv_qp_attr to = state(IBV_QPS_RTS);
    good(ibv_modify_qp(post.pair.get(), &to, IBV_QP_STATE | IBV_QP_SQ_PSN), "to RTS");
    const Address here = post.address_of(own_gid(context.get()));
    post.fill(numbers(6));
    post.start_sending(here, post.number(), post.request(IBV_WR_SEND, 0, 6));
    post.expect_success();
    const ibv_wc completion = post.expect_success();
    EXPECT_EQ(completion.byte_len, kHeader + 6);
    EXPECT_EQ(completion.wc_flags, unsigned{IBV_WC_GRH});
    EXPECT_EQ(post.received(4096 + kHeader, 6), numbers(6));
    const Bytes header = post.received(4096, kHeader);
    EXPECT_EQ(get(header, 0, 1) >> 4, 6u);
    EXPECT_EQ(get(header, 4, 2), 8u + 12 + 8 + 6 + 2 + 4);
    EXPECT_EQ(get(header, 6, 1), unsigned{IPPROTO_UDP});
    EXPECT_NE(get(header, 7, 1), 0u);
    Bytes one(16);
    one[15] = 1;
    EXPECT_EQ(Bytes(header.begin() + 8, header.begin() + 24), one);
    EXPECT_EQ(Bytes(header.begin() + 24, header.end()), one);
}

}  // namespace
}  // namespace verbatim::interop

int main(int argc, char** argv) {
    using namespace verbatim::interop;
    testing::InitGoogleTest(&argc, argv);
    const char* const address = std::getenv(kAddressVariable);
    if (address == nullptr) {
        const int mapped = run_at_address(argv);
        return mapped != 0 ? mapped : run_at_address(argv, "::1");
    }
    const bool is_ipv6 = std::string(address).find(':') != std::string::npos;
    std::string& filter = testing::GTEST_FLAG(filter);
    if (filter == "*") filter = is_ipv6 ? "*Ipv6.*" : "-*Ipv6.*";
    return RUN_ALL_TESTS();
}
