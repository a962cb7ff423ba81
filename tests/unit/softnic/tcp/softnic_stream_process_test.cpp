// The tcp port between two processes: every operation, death and standstill of the peer with
// requests outstanding, the choice of the port, fork.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "softnic_frames.hpp"
#include "softnic_meeting.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

constexpr std::size_t kBytes = 300000, kInbox = 500000;

bool collect(End& end, std::size_t wanted, std::vector<Completion>& seen) {
    return poll_until({&end}, {&seen}, [&] { return seen.size() >= wanted; });
}

// Receives one message, then lets the other process do what it wants.
int be_a_peer(Wire& wire) {
    End end(wire_options());
    if (!meet(end, wire)) return 1;
    if (end.post_receive(kInbox, kBytes, 1) != Errc::ok || !wire.signal()) return 2;
    std::vector<Completion> seen;
    if (!collect(end, 1, seen) || seen[0].status != Errc::ok) return 3;
    const auto expected = pattern(kBytes, 9);
    if (!std::equal(expected.begin(), expected.end(), end.at(kInbox))) return 4;
    while (!wire.readable(0)) end.poll();
    return wire.wait() ? 0 : 5;
}

TEST(StreamProcesses, all_operations_cross) {
    Child child(be_a_peer);
    End end(wire_options());
    ASSERT_TRUE(meet(end, child.wire()));
    ASSERT_TRUE(child.wire().wait());
    const auto payload = pattern(kBytes, 9);
    std::copy(payload.begin(), payload.end(), end.at(0));
    const Element from = end.element(0, kBytes), back = end.element(kInbox, kBytes);
    const Element word = end.element(900000, 8);
    WorkRequest write = end.request(Opcode::write, 1), read = end.request(Opcode::read, 1);
    write.elements = std::span(&from, 1);
    read.elements = std::span(&back, 1);
    WorkRequest add = end.request(Opcode::fetch_add, 400000);
    add.elements = std::span(&word, 1);
    add.swap_or_add = 7;
    ASSERT_EQ(end.send->post(write), Errc::ok);
    ASSERT_EQ(end.send->post(read), Errc::ok);
    ASSERT_EQ(end.post_send(std::span(&from, 1)), Errc::ok);
    ASSERT_EQ(end.send->post(add), Errc::ok);
    ASSERT_EQ(end.send->post(add), Errc::ok);
    std::vector<Completion> seen;
    ASSERT_TRUE(collect(end, 5, seen));
    for (const Completion& completion : seen) EXPECT_EQ(completion.status, Errc::ok);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), end.at(kInbox)));
    EXPECT_EQ(end.value<std::uint64_t>(900000), 7u);
    child.wire().signal();
    EXPECT_EQ(child.reap(), 0);
}

// Reads, writes, messages and atomics in every stage, when the peer dies.
TEST(StreamProcesses, every_request_ends_once_when_the_peer_is_killed) {
    for (int round = 0; round < 8; ++round) {
        Child child([](Wire& wire) {
            End end(wire_options());
            if (!meet(end, wire)) return 1;
            for (;;) end.poll();
        });
        End end(wire_options());
        ASSERT_TRUE(meet(end, child.wire()));
        const Element some = end.element(0, 40000), word = end.element(900000, 8);
        std::size_t posted = 0;
        std::vector<Completion> seen;
        for (; posted < 24; ++posted) {
            WorkRequest request = end.request(
                std::array{Opcode::write, Opcode::read, Opcode::fetch_add}[posted % 3], 64);
            request.elements = std::span(posted % 3 == 2 ? &word : &some, 1);
            request.id = posted;
            ASSERT_EQ(end.send->post(request), Errc::ok);
            if (posted == static_cast<std::size_t>(3 * round)) child.kill(SIGKILL);
            for (const auto& completion : end.poll()) seen.push_back(completion);
        }
        // Nobody receives this one.
        ASSERT_EQ(end.post_send(std::span(&word, 1), posted++), Errc::ok);
        ASSERT_TRUE(collect(end, posted, seen)) << seen.size();
        std::set<std::uint64_t> ids;
        for (const Completion& completion : seen) ids.insert(completion.id);
        EXPECT_EQ(ids.size(), posted);
        EXPECT_NE(seen.back().status, Errc::ok);
        EXPECT_TRUE(end.queue_pair->peer_lost());
        EXPECT_TRUE(end.poll().empty());
    }
}

TEST(StreamProcesses, a_peer_that_stands_still_is_waited_for) {
    Child child(be_a_peer);
    End end(wire_options());
    ASSERT_TRUE(meet(end, child.wire()));
    ASSERT_TRUE(child.wire().wait());
    child.kill(SIGSTOP);
    siginfo_t stopped{};  // all of its threads are, once this is reported
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &stopped, WSTOPPED), 0);
    const auto payload = pattern(kBytes, 9);
    std::copy(payload.begin(), payload.end(), end.at(0));
    const Element from = end.element(0, kBytes);
    ASSERT_EQ(end.post_send(std::span(&from, 1)), Errc::ok);
    for (int i = 0; i < 200; ++i) {
        ASSERT_TRUE(end.poll().empty());
        usleep(500);
    }
    child.kill(SIGCONT);
    std::vector<Completion> seen;
    ASSERT_TRUE(collect(end, 1, seen));
    EXPECT_EQ(seen[0].status, Errc::ok);
    child.wire().signal();
    EXPECT_EQ(child.reap(), 0);
}

TEST(StreamProcesses, a_fault_policy_kills_at_its_operation) {
    Child child([](Wire& wire) {
        EndOptions options = wire_options();
        options.device.faults = parse_faults("kill nth=3", "test");
        End end(options);
        if (!meet(end, wire)) return 1;
        std::vector<Completion> seen;
        for (std::size_t i = 0; i < 3; ++i) {
            if (end.post_write(pattern(8), 64 * i) != Errc::ok) return 2;
            if (i < 2 && !collect(end, i + 1, seen)) return 3;
        }
        return 4;
    });
    End end(wire_options());
    ASSERT_TRUE(meet(end, child.wire()));
    ASSERT_EQ(end.post_receive(0, 8, 1), Errc::ok);
    std::vector<Completion> seen;
    ASSERT_TRUE(collect(end, 1, seen));
    EXPECT_EQ(seen[0].status, Errc::flushed);
    EXPECT_EQ(child.reap(), -SIGKILL);
    EXPECT_NE(watch(end, 64), 0u);
    EXPECT_EQ(watch(end, 128), 0u);
}

// A UDP port where nobody answers, as behind a firewall.
std::uint16_t silent_port() {
    static const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof name;
    if (bind(socket, reinterpret_cast<sockaddr*>(&name), bytes) != 0) return 0;
    getsockname(socket, reinterpret_cast<sockaddr*>(&name), &bytes);
    return ntohs(name.sin_port);
}

EndOptions automatic_options() {
    EndOptions options;
    options.device.port = PortKind::automatic;
    return options;
}

// Both sides choose by themselves: no shared memory between user namespaces, or users. `mute`: the
// port to which the packets of both go instead.
void cross_automatically(std::uint16_t mute, std::string_view expected_port) {
    const auto meet_by = [mute](End& end, Wire& wire) {
        EndAddress peer;
        if (!wire.put(end.address()) || !wire.get(peer)) return false;
        if (mute != 0) peer.queue_pair.packet_port = mute;
        end.connect(peer);
        return wire.signal() && wire.wait();
    };
    Child child([meet_by](Wire& wire) {
        const bool other_namespace = unshare(CLONE_NEWUSER) == 0;
        if (!other_namespace && setresuid(65534, 65534, 65534) != 0) return wire.put('s') ? 0 : 1;
        End end(automatic_options());
        if (!wire.put('g') || !meet_by(end, wire)) return 2;
        if (end.post_write(pattern(8), 64) != Errc::ok) return 3;
        std::vector<Completion> seen;
        if (!collect(end, 1, seen) || seen[0].status != Errc::ok) return 4;
        return wire.wait() ? 0 : 5;
    });
    char may = 0;
    ASSERT_TRUE(child.wire().get(may));
    if (may == 's') GTEST_SKIP() << "may not become another user";
    End end(automatic_options());
    ASSERT_TRUE(meet_by(end, child.wire()));
    EXPECT_EQ(end.queue_pair->transport(), expected_port);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (watch(end, 64) == 0) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        end.poll();
    }
    const auto expected = pattern(8);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), end.at(64)));
    child.wire().signal();
    EXPECT_EQ(child.reap(), 0);
}

TEST(StreamProcesses, automatic_ports_are_udp_where_memory_is_not_shared) {
    cross_automatically(0, "udp");
}

TEST(StreamProcesses, automatic_ports_are_tcp_where_no_packet_is_answered) {
    cross_automatically(silent_port(), "tcp");
}

TEST(StreamProcesses, a_forked_child_disturbs_no_stream) {
    Pair pair(wire_options());
    const pid_t child = fork();
    if (child == 0) {
        // Its copies are dead: what it posts is flushed.
        (void)pair.a.post_write(pattern(8), 0, 5);
        const auto seen = pair.a.poll();
        pair.a.queue_pair.reset();
        _exit(seen.size() == 1 && seen[0].status == Errc::flushed ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    ASSERT_EQ(pair.a.post_write(pattern(8), 64, 6), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 0));
    EXPECT_EQ(pair.seen_a[0].status, Errc::ok);
    EXPECT_EQ(pair.b.value<std::uint64_t>(0), 0u);
}

}  // namespace
}  // namespace verbatim::softnic::test
