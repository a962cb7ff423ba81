// Links: who may come in, who answers too late, and peers that talk nonsense to the control thread.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "host/link_message.hpp"
#include "links/link.hpp"
#include "softnic_end.hpp"
#include "softnic_process.hpp"

namespace verbatim::softnic::test {
namespace {

constexpr uid_t kNobody = 65534;

std::size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// A socket connected to a device's control thread, by hand.
class RawClient {
  public:
    explicit RawClient(const QueuePairAddress& device) : fd_(::socket(AF_UNIX, SOCK_SEQPACKET, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string name(device.local_socket.data());
        std::copy(name.begin(), name.end(), address.sun_path + 1);
        const auto bytes =
            static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), bytes) == 0;
    }
    ~RawClient() { ::close(fd_); }
    bool connected() const { return connected_; }
    bool send(const void* data, std::size_t bytes) const {
        return ::send(fd_, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
    }
    bool send(const LinkMessage& message) const { return send(&message, sizeof message); }
    // The next answer; nothing if the other side hung up or stays silent.
    std::optional<LinkMessage> answer() {
        LinkMessage message;
        std::vector<Descriptor> files;
        if (!wait_readable(fd_, std::chrono::steady_clock::now() + kPatience)) return std::nullopt;
        if (receive_message(fd_, message, files) != Received::message) return std::nullopt;
        return message;
    }

  private:
    int fd_;
    bool connected_ = false;
};

LinkMessage hello_for(const QueuePairAddress& device) {
    LinkMessage hello;
    hello.op = LinkOp::hello;
    hello.sequence = 1;
    hello.from = random_nonce();
    hello.to = device.nonce;
    return hello;
}

Errc connect_error(End& end, const EndAddress& to, std::string& text, int timeout_ms = 5000) {
    try {
        end.connect(to, timeout_ms);
    } catch (const Error& error) {
        text = error.what();
        return error.code();
    }
    return Errc::ok;
}

// Connects two fresh ends, to show that the device still serves.
void expect_service(End& served) {
    End other;
    std::string text;
    EXPECT_EQ(connect_error(other, served.address(), text), Errc::ok) << text;
}

TEST(Link, nobody_at_the_address_means_a_peer_that_has_ended) {
    End end;
    EndAddress absent = end.address();
    absent.queue_pair.local_socket[20] ^= 1;
    End other;
    std::string text;
    EXPECT_EQ(connect_error(other, absent, text), Errc::peer_lost);
    EXPECT_NE(text.find("has ended"), std::string::npos) << text;
}

TEST(Link, another_identity_at_the_address_is_refused) {
    End end;
    EndAddress wrong = end.address();
    wrong.queue_pair.nonce[0] ^= 1;
    End other;
    std::string text;
    EXPECT_EQ(connect_error(other, wrong, text), Errc::protocol_error);
    EXPECT_NE(text.find("another device"), std::string::npos) << text;
}

TEST(Link, other_version_is_refused_with_both_versions) {
    End end;
    RawClient client(end.address().queue_pair);
    ASSERT_TRUE(client.connected());
    LinkMessage hello = hello_for(end.address().queue_pair);
    hello.version = kLinkVersion + 7;
    // Only the first 16 bytes are common to all versions.
    ASSERT_TRUE(client.send(&hello, 64));
    const auto answer = client.answer();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(static_cast<Errc>(answer->status), Errc::version_mismatch);
    EXPECT_NE(answer->sentence().find(fmt::format("version {}", kLinkVersion)), std::string::npos)
        << answer->sentence();
    expect_service(end);
}

TEST(Link, nonsense_and_requests_before_hello_are_cut_off) {
    End end;
    const QueuePairAddress address = end.address().queue_pair;
    RawClient garbage(address), early(address), unknown(address), half(address);
    ASSERT_TRUE(garbage.send("hello", 5));
    EXPECT_FALSE(garbage.answer().has_value());
    LinkMessage request = hello_for(address);
    request.op = LinkOp::list_files;
    ASSERT_TRUE(early.send(request));
    EXPECT_FALSE(early.answer().has_value());
    ASSERT_TRUE(half.send(&request, sizeof request - 1));
    EXPECT_FALSE(half.answer().has_value());
    ASSERT_TRUE(unknown.send(hello_for(address)));
    ASSERT_EQ(unknown.answer()->op, LinkOp::welcome);
    request.op = static_cast<LinkOp>(99);
    ASSERT_TRUE(unknown.send(request));
    EXPECT_EQ(unknown.answer()->op, LinkOp::refusal);
    expect_service(end);
}

TEST(Link, silent_clients_do_not_hold_up_others) {
    End end;
    std::vector<std::unique_ptr<RawClient>> silent;
    for (int i = 0; i < 50; ++i)
        silent.push_back(std::make_unique<RawClient>(end.address().queue_pair));
    expect_service(end);
}

// Floods requests without reading answers: cut off when its socket is full.
TEST(Link, client_that_does_not_read_is_cut_off) {
    End end;
    RawClient client(end.address().queue_pair);
    ASSERT_TRUE(client.send(hello_for(end.address().queue_pair)));
    LinkMessage request;
    request.op = LinkOp::list_files;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (client.send(request)) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    expect_service(end);
}

TEST(Link, stopped_peer_is_a_timeout_and_works_once_continued) {
    Child child([](Wire& wire) {
        End end;
        wire.put(end.address());
        EndAddress peer;
        if (!wire.get(peer)) return 1;
        end.connect(peer);
        wire.signal();
        return wire.wait() ? 0 : 2;
    });
    EndAddress peer;
    ASSERT_TRUE(child.wire().get(peer));
    End end;
    child.kill(SIGSTOP);
    siginfo_t stopped{};  // all of its threads are, once this is reported
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &stopped, WSTOPPED), 0);
    std::string text;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(connect_error(end, peer, text, 200), Errc::timeout);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    EXPECT_NE(text.find("stopped"), std::string::npos) << text;
    child.kill(SIGCONT);
    EXPECT_EQ(connect_error(end, peer, text), Errc::ok) << text;
    ASSERT_TRUE(child.wire().put(end.address()));
    ASSERT_TRUE(child.wire().wait());
    ASSERT_EQ(end.post_write(pattern(8), 0), Errc::ok);
    EXPECT_EQ(end.poll().at(0).status, Errc::ok);
    child.wire().signal();
    EXPECT_EQ(child.reap(), 0);
}

TEST(Link, peer_of_another_user_is_refused_by_both_sides) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
    for (const bool open_here : {false, true}) {
        EndOptions options;
        options.device.port = PortKind::shm;
        options.device.same_user_only = !open_here;
        // Forked first: thread sanitizers want no threads at a fork.
        Child child([&](Wire& wire) {
            if (setresuid(kNobody, kNobody, kNobody) != 0) return 1;
            EndOptions other;
            other.device.port = PortKind::shm;
            other.device.same_user_only = open_here;
            End stranger(other);
            EndAddress peer;
            if (!wire.get(peer)) return 2;
            std::string text;
            const Errc code = connect_error(stranger, peer, text);
            if (code != Errc::permission_denied) return 3;
            // Both uids are named.
            return text.find("65534") != std::string::npos &&
                           text.find("uid 0") != std::string::npos
                       ? 0
                       : 4;
        });
        End end(options);
        ASSERT_TRUE(child.wire().put(end.address()));
        EXPECT_EQ(child.reap(), 0) << (open_here ? "the asking side" : "the answering side");
        expect_service(end);
    }
}

TEST(Link, peers_of_different_users_connect_when_both_allow_it) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
    EndOptions options;
    options.device.same_user_only = false;
    Child child([&](Wire& wire) {
        if (setresuid(kNobody, kNobody, kNobody) != 0) return 1;
        End stranger(options);
        EndAddress peer;
        if (!wire.get(peer)) return 2;
        stranger.connect(peer);
        if (stranger.post_write(pattern(8), 0) != Errc::ok) return 3;
        return stranger.poll().at(0).status == Errc::ok ? 0 : 4;
    });
    End end(options);
    ASSERT_TRUE(child.wire().put(end.address()));
    EXPECT_EQ(child.reap(), 0);
    EXPECT_EQ(std::memcmp(end.at(0), pattern(8).data(), 8), 0);
}

TEST(Link, connections_leave_no_descriptors_behind) {
    { Pair warm_up; }
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 10; ++i) Pair pair;
    EXPECT_EQ(open_descriptors(), before);
    // Within living devices too: one link, however many queue pairs come and go.
    End served;
    std::size_t with_one = 0;
    {
        End keeper;
        QueuePairOptions wanted{.send_completions = keeper.completion_queue.get(),
                                .receive_completions = keeper.completion_queue.get()};
        for (int i = 0; i < 20; ++i) {
            auto left = keeper.device->create_queue_pair(wanted);
            wanted.send_completions = wanted.receive_completions = served.completion_queue.get();
            auto right = served.device->create_queue_pair(wanted);
            wanted.send_completions = wanted.receive_completions = keeper.completion_queue.get();
            left->connect(right->address(), 5000);
            if (i == 0) with_one = open_descriptors();
        }
        // The last link and session may still be closing.
        EXPECT_LE(open_descriptors(), with_one + 1);
    }
}

// Else the peer would be blamed for a message that the kernel has cut.
TEST(Link, descriptors_that_find_no_number_here_are_told_apart_from_a_malformed_message) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    const Descriptor ours(ends[0]), theirs(ends[1]);
    const LinkMessage message;
    const std::array<int, 3> files{ours.get(), theirs.get(), ours.get()};
    ASSERT_TRUE(send_message(theirs.get(), message, files));
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = ::dup(ours.get());
    ::close(next);
    const rlimit one_more{static_cast<rlim_t>(next) + 1, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &one_more), 0);
    LinkMessage got;
    std::vector<Descriptor> taken;
    const Received received = receive_message(ours.get(), got, taken);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(received, Received::no_descriptors);
    EXPECT_LT(taken.size(), files.size());
}

TEST(Link, foreign_file_without_seals_is_not_mapped) {
    SharedPages shrinkable(4096, 0), sealed(4096);
    try {
        SharedMemory::map(shrinkable.file(), 1, Mapping::arena, "peer's file");
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::protocol_error);
        EXPECT_NE(std::string(error.what()).find("F_SEAL_SHRINK"), std::string::npos)
            << error.what();
    }
    EXPECT_THROW(SharedMemory::map(sealed.file(), 4097, Mapping::arena, "peer's file"), Error);
    EXPECT_THROW(SharedMemory::map(-1, 1, Mapping::arena, "peer's file"), Error);
    EXPECT_EQ(SharedMemory::map(sealed.file(), 4096, Mapping::arena, "peer's file")->bytes(),
              4096u);
}

}  // namespace
}  // namespace verbatim::softnic::test
