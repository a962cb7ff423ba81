// Two processes of unmodified libibverbs that do not live in the same surroundings: another user,
// other namespaces, hardly any shared memory. They work, or it is said why not.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <functional>
#include <string>

#include "../uverbs/place.hpp"
#include "../uverbs/verbs_pair.hpp"
#include "child_process.hpp"

namespace verbatim::interop {
namespace {

constexpr std::size_t kBytes = 70000, kCopy = 100000, kWord = 200000;

// One of the two: both ends of its pipes belong to it alone, so that it hears when the other ends.
struct Wire {
    int in, out;
};

// Puts a process into its surroundings. False: not allowed here.
using Enter = std::function<bool()>;

bool as_before() { return true; }
bool other_user() {
    return setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0 &&
           prctl(PR_SET_DUMPABLE, 1) == 0;  // as after exec(): its /proc/self is its own
}
bool other_network() { return unshare(CLONE_NEWNET) == 0; }
bool other_user_namespace() {
    const std::string same = std::to_string(geteuid()) + " " + std::to_string(geteuid()) + " 1";
    if (unshare(CLONE_NEWUSER) != 0) return false;
    std::ofstream map("/proc/self/uid_map");
    map << same;
    return bool(map.flush());
}
bool hardly_any_shared_memory() {
    return unshare(CLONE_NEWNS) == 0 &&
           mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") == 0;
}

bool allowed(const Enter& enter) {
    return Child([&] { return enter() ? 0 : 1; }).wait() == 0;
}
// The next process that is forked is the first of its own namespace.
bool allowed_pid_namespace() {
    return allowed([] { return unshare(CLONE_NEWPID) == 0; });
}

Place meet(Side& side, const Wire& wire) {
    tell(wire.out, place_of(side));
    const auto peer = take<Place>(wire.in);
    connect(side.pair.get(), peer.number);
    side.receive(kCopy * 4, 64);
    side.fill(0, kBytes, int(side.pair->qp_num & 0xff));
    tell(wire.out, 'c');
    take<char>(wire.in);
    return peer;
}

void complete(Side& side, Request request, const Place& peer, std::size_t at) {
    auto* const there = reinterpret_cast<std::byte*>(peer.address) + at;
    if (request.work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        request.atomic(there, peer.key, 5);
    else
        request.to(there, peer.key);
    request.post(side.pair.get());
    if (const ibv_wc done = side.poll(); done.status != IBV_WC_SUCCESS)
        throw std::runtime_error(ibv_wc_status_str(done.status));
}

// Reads what the peer has, writes it back to another place there, and counts: the peer checks.
void use_memory(Side& side, const Place& peer) {
    complete(side, side.request(IBV_WR_RDMA_READ, kCopy * 3, kBytes), peer, 0);
    complete(side, side.request(IBV_WR_RDMA_WRITE, kCopy * 3, kBytes), peer, kCopy);
    for (int i = 0; i < 3; ++i)
        complete(side, side.request(IBV_WR_ATOMIC_FETCH_AND_ADD, kWord + 8, 8), peer, kWord);
    complete(side, side.request(IBV_WR_SEND, 0, 64), peer, 0);
}

void expect_use(Side& side) {
    if (side.poll().status != IBV_WC_SUCCESS) throw std::runtime_error("no message");
    if (std::memcmp(side.memory.data(), side.memory.data() + kCopy, kBytes) != 0)
        throw std::runtime_error("other data");
    if (side.word(kWord) != 15) throw std::runtime_error("atomics are missing");
}

// Both use each other's memory, one after the other.
int work(const Wire& wire, bool first) {
    const Context context = open_device();
    Side side(context.get());
    const Place peer = meet(side, wire);
    if (first) use_memory(side, peer);
    expect_use(side);
    if (!first) use_memory(side, peer);
    tell(wire.out, 'e');
    take<char>(wire.in);
    return 0;
}

struct Environment : testing::Test {
    Environment() { EXPECT_EQ(pipe2(one, O_CLOEXEC) | pipe2(other, O_CLOEXEC), 0); }
    ~Environment() override { close_all(); }
    void close_all() {
        for (int* const fd : {&one[0], &one[1], &other[0], &other[1]})
            if (*fd >= 0) close(std::exchange(*fd, -1));
    }
    Wire wire(bool first) {
        const Wire mine{first ? one[0] : other[0], first ? other[1] : one[1]};
        close(first ? one[1] : other[1]);
        close(first ? other[0] : one[0]);
        return mine;
    }
    auto side(const Enter& enter, bool first) {
        return [=, this] {
            const Wire mine = wire(first);
            return enter() ? work(mine, first) : 2;
        };
    }
    auto side_in_own_pid_namespace(bool first) {
        return [=, this] {
            if (unshare(CLONE_NEWPID) != 0) return 2;
            Child inner(side(as_before, first));
            close_all();
            return inner.wait(std::chrono::seconds(30));
        };
    }
    template <class One, class Other>
    void expect_both_work(One&& first, Other&& second) {
        Child a(first), b(second);
        close_all();
        EXPECT_EQ(a.wait(std::chrono::seconds(30)), 0);
        EXPECT_EQ(b.wait(std::chrono::seconds(30)), 0);
    }

    int one[2], other[2];
};

// What the asking side's log says when the peer is nowhere to be found, and the request has failed.
int ask_in_vain(const Wire& wire) {
    const Context context = open_device();
    Side side(context.get());
    const Place peer = meet(side, wire);
    side.request(IBV_WR_RDMA_WRITE, 0, 64)
        .to(reinterpret_cast<void*>(peer.address), peer.key)
        .post(side.pair.get());
    const ibv_wc_status status = side.poll().status;
    tell(wire.out, 'e');
    return status == IBV_WC_RETRY_EXC_ERR ? 0 : 3;
}
int never_hear(const Wire& wire) {
    const Context context = open_device();
    Side side(context.get());
    meet(side, wire);
    take<char>(wire.in);
    ibv_wc completion;
    return ibv_poll_cq(side.completions.get(), 1, &completion) == 0 ? 0 : 3;
}

struct Strangers : Environment {
    std::string ask(const Enter& enter) {
        testing::internal::CaptureStderr();
        {
            Child stranger([&] {
                const Wire mine = wire(false);
                return enter() ? never_hear(mine) : 2;
            });
            Child asking([&] { return ask_in_vain(wire(true)); });
            close_all();
            EXPECT_EQ(asking.wait(std::chrono::seconds(30)), 0);
            EXPECT_EQ(stranger.wait(std::chrono::seconds(30)), 0);
        }
        return testing::internal::GetCapturedStderr();
    }
};

TEST_F(Environment, processes_of_one_user_reach_each_others_memory) {
    expect_both_work(side(as_before, true), side(as_before, false));
}

TEST_F(Environment, a_process_in_a_pid_namespace_below_is_reached_and_reaches_out) {
    if (!allowed_pid_namespace())
        GTEST_SKIP() << "no pid namespaces may be made here: runs as root with CAP_SYS_ADMIN";
    expect_both_work(side(as_before, true), side_in_own_pid_namespace(false));
}

TEST_F(Environment, processes_in_pid_namespaces_of_their_own_reach_each_other) {
    if (!allowed_pid_namespace())
        GTEST_SKIP() << "no pid namespaces may be made here: runs as root with CAP_SYS_ADMIN";
    expect_both_work(side_in_own_pid_namespace(true), side_in_own_pid_namespace(false));
}

TEST_F(Environment, a_process_in_a_user_namespace_is_reached_and_reaches_out) {
    if (!allowed(other_user_namespace))
        GTEST_SKIP()
            << "no user namespaces may be made here: runs where the kernel lets users make them";
    expect_both_work(side(as_before, true), side(other_user_namespace, false));
}

TEST_F(Environment, two_processes_of_another_user_reach_each_other) {
    if (!allowed(other_user)) GTEST_SKIP() << "only root may become another user: runs as root";
    expect_both_work(side(other_user, true), side(other_user, false));
}

TEST_F(Environment, sixty_four_kibibytes_of_shared_memory_are_enough) {
    if (!allowed(hardly_any_shared_memory))
        GTEST_SKIP() << "nothing may be mounted here: runs as root with CAP_SYS_ADMIN";
    expect_both_work(side(hardly_any_shared_memory, true), side(hardly_any_shared_memory, false));
}

TEST_F(Strangers, a_process_of_another_user_is_not_found_and_the_log_says_who_it_is) {
    if (!allowed(other_user)) GTEST_SKIP() << "only root may become another user: runs as root";
    EXPECT_NE(ask(other_user)
                  .find("runs as uid 65534, this one as uid " + std::to_string(geteuid()) +
                        ": run both as the same user"),
              std::string::npos);
}

TEST_F(Strangers, a_process_in_another_network_namespace_is_not_found_and_the_log_says_so) {
    if (!allowed(other_network))
        GTEST_SKIP() << "no network namespaces may be made here: runs as root with CAP_SYS_ADMIN";
    EXPECT_NE(ask(other_network).find("another network namespace"), std::string::npos);
}

}  // namespace
}  // namespace verbatim::interop
