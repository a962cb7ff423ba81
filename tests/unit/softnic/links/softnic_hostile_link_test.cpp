// Links with a peer that never stops talking: everything that waits for it has a deadline, and the
// control thread serves others meanwhile. And peers that may not have what they ask for.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <functional>
#include <thread>

#include "host/page_view.hpp"
#include "links/control_thread.hpp"
#include "links/identity.hpp"
#include "links/link.hpp"
#include "softnic_end.hpp"
#include "softnic_process.hpp"

namespace verbatim::softnic::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kDeadline{300};
constexpr uid_t kNobody = 65534;

QueuePairAddress address_of(const Identity& identity) {
    QueuePairAddress address;
    address.kind = kAddressKind;
    address.number = 77;
    address.nonce = identity.nonce;
    std::copy(identity.socket_name.begin(), identity.socket_name.end(),
              address.local_socket.begin());
    return address;
}

// A device by hand: welcomes all that come, and answers all else as the test says.
class FakeDevice {
  public:
    using Answer = std::function<void(int socket, const LinkMessage& request)>;
    explicit FakeDevice(Answer answer) : identity_(random_identity()), answer_(std::move(answer)) {
        if (::listen(identity_.listener.get(), 8) != 0) std::abort();
        thread_ = std::thread([this] { run(); });
    }
    ~FakeDevice() {
        stop_.store(true);
        thread_.join();
    }
    QueuePairAddress address() const { return address_of(identity_); }
    bool stopped() const { return stop_.load(); }

  private:
    void run() {
        Descriptor peer;
        while (!stop_.load()) {
            if (!peer) {
                peer = Descriptor(accept4(identity_.listener.get(), nullptr, nullptr,
                                          SOCK_CLOEXEC | SOCK_NONBLOCK));
                std::this_thread::yield();
                continue;
            }
            LinkMessage request;
            std::vector<Descriptor> files;
            const Received got = receive_message(peer.get(), request, files);
            if (got == Received::closed) return;
            if (got != Received::message) {
                std::this_thread::yield();
                continue;
            }
            if (request.op == LinkOp::hello) {
                welcome(peer.get(), request);
                continue;
            }
            answer_(peer.get(), request);
        }
    }
    void welcome(int socket, const LinkMessage& request) {
        LinkMessage welcome;
        welcome.op = LinkOp::welcome;
        welcome.sequence = request.sequence;
        welcome.from = identity_.nonce;
        welcome.to = request.from;
        const int file = keys_.view().file();
        send_message(socket, welcome, std::span(&file, 1));
    }

    Identity identity_;
    Answer answer_;
    KeyTable keys_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

// Late answers to questions that nobody asks any more, without end.
void talk_for_ever(const FakeDevice& device, int socket) {
    LinkMessage late;
    late.op = LinkOp::files;
    late.sequence = 0;
    while (!device.stopped()) {
        if (!send_message(socket, late) && errno != EAGAIN) return;
    }
}

// Connecting to such a peer fails with a timeout, soon after the deadline.
void expect_timeout(const QueuePairAddress& peer) {
    End end;
    const auto start = Clock::now();
    try {
        end.queue_pair->connect(peer, static_cast<int>(kDeadline.count()));
        ADD_FAILURE() << "it connected";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::timeout) << error.what();
    }
    EXPECT_LT(Clock::now() - start, kPatience / 2);
}

TEST(HostileLink, connect_keeps_its_deadline_beside_answers_to_other_questions) {
    FakeDevice* self = nullptr;
    FakeDevice device([&](int socket, const LinkMessage&) { talk_for_ever(*self, socket); });
    self = &device;
    expect_timeout(device.address());
}

TEST(HostileLink, connect_keeps_its_deadline_beside_a_list_of_files_without_end) {
    const SharedPages pages(4096);
    std::uint64_t number = 0;
    FakeDevice device([&](int socket, const LinkMessage& request) {
        LinkMessage answer;
        answer.op = LinkOp::files;
        answer.sequence = request.sequence;
        answer.count = kFilesPerMessage;
        const std::vector<int> files(kFilesPerMessage, pages.file());
        for (std::uint64_t& file : answer.files) file = ++number;
        send_message(socket, answer, files);
    });
    expect_timeout(device.address());
}

TEST(HostileLink, a_list_of_files_that_begins_again_is_refused) {
    const SharedPages pages(4096);
    FakeDevice device([&](int socket, const LinkMessage& request) {
        LinkMessage answer;
        answer.op = LinkOp::files;
        answer.sequence = request.sequence;
        answer.count = kFilesPerMessage;
        const std::vector<int> files(kFilesPerMessage, pages.file());
        for (std::size_t i = 0; i < kFilesPerMessage; ++i) answer.files[i] = i + 1;
        send_message(socket, answer, files);
    });
    End end;
    try {
        end.queue_pair->connect(device.address(), 5000);
        ADD_FAILURE() << "it connected";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::protocol_error) << error.what();
    }
}

// What the data path asks for has a deadline of its own.
TEST(HostileLink, a_file_that_a_post_needs_is_waited_for_only_so_long) {
    FakeDevice* self = nullptr;
    std::atomic<int> questions{0};
    FakeDevice device([&](int socket, const LinkMessage& request) {
        if (questions.fetch_add(1) != 0) return talk_for_ever(*self, socket);
        LinkMessage none;
        none.op = LinkOp::files;
        none.sequence = request.sequence;
        send_message(socket, none);
    });
    self = &device;
    LinkOptions options;
    options.own_nonce = random_nonce();
    options.times = {std::chrono::milliseconds(1), kDeadline};
    const auto link = Link::open(device.address(), options, Clock::now() + kPatience);
    const auto start = Clock::now();
    Errc fetched = Errc::would_block;
    while (fetched == Errc::would_block) fetched = link->memory().fetch_file(5);
    EXPECT_EQ(fetched, Errc::timeout);
    EXPECT_LT(Clock::now() - start, kPatience / 2);
}

// Answers that come while nobody waits for them are kept, each for its question.
TEST(HostileLink, answers_of_questions_that_nobody_waits_in_come_later_and_together) {
    const SharedPages pages(4096);
    std::vector<LinkMessage> open;
    FakeDevice device([&](int socket, const LinkMessage& request) {
        if (request.op == LinkOp::get_file) open.push_back(request);
        LinkMessage answer;
        answer.op = LinkOp::files;
        answer.sequence = request.sequence;
        if (request.op != LinkOp::get_file) return (void)send_message(socket, answer);
        if (open.size() < 2) return;
        for (const LinkMessage& question : open) {
            answer.sequence = question.sequence;
            answer.count = 1;
            answer.files[0] = question.file;
            send_message(socket, answer, std::array{pages.file()});
        }
    });
    LinkOptions options;
    options.own_nonce = random_nonce();
    options.times = {std::chrono::milliseconds(1), kPatience};
    const auto link = Link::open(device.address(), options, Clock::now() + kPatience);
    EXPECT_EQ(link->memory().fetch_file(5), Errc::would_block);
    EXPECT_EQ(link->memory().fetch_file(5), Errc::would_block);
    for (const std::uint64_t number : {6u, 5u}) {
        Errc fetched = Errc::would_block;
        while (fetched == Errc::would_block) fetched = link->memory().fetch_file(number);
        EXPECT_EQ(fetched, Errc::ok) << number;
    }
    EXPECT_EQ(open.size(), 2u) << "the same was asked twice";
}

// A socket connected to a device, by hand.
Descriptor call(const QueuePairAddress& device) {
    Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name(device.local_socket.data());
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) return {};
    return socket;
}

// The next message; nothing if the other side hung up or stays silent.
std::optional<LinkMessage> hear(const Descriptor& socket, std::vector<Descriptor>& files) {
    LinkMessage message;
    if (!wait_readable(socket.get(), Clock::now() + kPatience)) return std::nullopt;
    if (receive_message(socket.get(), message, files) != Received::message) return std::nullopt;
    return message;
}

TEST(HostileLink, the_control_thread_serves_others_beside_peers_that_never_stop_asking) {
    EndOptions options;
    options.device.absent_poller = true;
    End end(options);
    const QueuePairAddress device = end.address().queue_pair;
    std::atomic<bool> stop{false};
    std::atomic<int> talking{0};
    std::vector<std::thread> talkers;
    for (int i = 0; i < 3; ++i)
        talkers.emplace_back([&] {
            const Descriptor socket = call(device);
            LinkMessage hello, wake, run;
            hello.op = LinkOp::hello;
            hello.from = random_nonce();
            hello.to = device.nonce;
            wake.op = LinkOp::wake;
            run.op = LinkOp::run;
            run.to_queue_pair = device.number;
            if (!send_message(socket.get(), hello)) return;
            talking.fetch_add(1);
            while (!stop.load())
                for (const LinkMessage& line : {wake, run})
                    static_cast<void>(send_message(socket.get(), line));
        });
    const auto deadline = Clock::now() + kPatience;
    while (talking.load() != 3 && Clock::now() < deadline) std::this_thread::yield();
    for (int i = 0; i < 5; ++i) {
        End other;
        EXPECT_NO_THROW(other.connect(end.address(), 10000));
        end.queue_pair->reset();
    }
    stop.store(true);
    for (std::thread& talker : talkers) talker.join();
}

TEST(HostileLink, other_users_are_turned_away_at_the_door) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
    Child child([](Wire& wire) {
        QueuePairAddress device;
        if (!wire.get(device)) return 1;
        if (setresuid(kNobody, kNobody, kNobody) != 0) return 2;
        // They say nothing, and are told all the same.
        for (int i = 0; i < 100; ++i) {
            const Descriptor socket = call(device);
            std::vector<Descriptor> files;
            const auto told = hear(socket, files);
            if (!told || static_cast<Errc>(told->status) != Errc::permission_denied) return 3;
            if (hear(socket, files)) return 4;
        }
        return 0;
    });
    End end;
    child.wire().put(end.address().queue_pair);
    EXPECT_EQ(child.reap(), 0);
}

// A device's answering side alone, with one page file.
class Answering final : public ControlService {
  public:
    Answering() : identity_(random_identity()), address_(address_of(identity_)) {
        number_ = files_.acquire(pages_.file(), 4096, kPageFile);
        control_.emplace(*this, keys_, files_, ControlOptions{identity_.nonce, true, {}},
                         std::move(identity_.listener));
    }
    ChannelPlace open_channel(const LinkPeer&, std::uint32_t, std::uint32_t) override {
        throw Error(Errc::peer_lost, "answering", "there are no queue pairs");
    }
    void end_session(std::uint64_t) override {}
    void wake(std::uint32_t, WakeFor) override {}
    void wake_all() override {}
    std::string describe() override { return {}; }
    const QueuePairAddress& address() const { return address_; }
    std::uint64_t number() const { return number_; }

  private:
    Identity identity_;
    QueuePairAddress address_;
    const SharedPages pages_{4096};
    KeyTable keys_;
    FileTable files_;
    std::uint64_t number_ = 0;
    std::optional<ControlThread> control_;
};

// How many files the device gives out of those asked for.
std::size_t ask_for_file(const Descriptor& socket, std::uint64_t number) {
    LinkMessage get;
    get.op = LinkOp::get_file;
    get.sequence = 9;
    get.file = number;
    std::vector<Descriptor> files;
    if (!send_message(socket.get(), get) || !hear(socket, files)) return 99;
    return files.size();
}

LinkOp prove(const Descriptor& socket, const Nonce& secret) {
    LinkMessage message;
    message.op = LinkOp::prove;
    message.sequence = 8;
    message.secret = secret;
    std::vector<Descriptor> files;
    if (!send_message(socket.get(), message)) return LinkOp::hello;
    const auto answer = hear(socket, files);
    return answer ? answer->op : LinkOp::hello;
}

TEST(HostileLink, page_files_are_for_those_who_may_attach) {
    const Answering device;
    const Descriptor socket = call(device.address());
    LinkMessage hello;
    hello.op = LinkOp::hello;
    hello.sequence = 1;
    hello.from = random_nonce();
    hello.to = device.address().nonce;
    ASSERT_TRUE(send_message(socket.get(), hello));
    std::vector<Descriptor> files;
    const auto welcome = hear(socket, files);
    ASSERT_TRUE(welcome && welcome->op == LinkOp::welcome);
    EXPECT_EQ(ask_for_file(socket, device.number()), 0u);
    EXPECT_EQ(prove(socket, random_nonce()), LinkOp::refusal);
    EXPECT_EQ(ask_for_file(socket, device.number()), 0u);
    // A process that may attach reads it where the welcome says; here that is this process.
    Nonce secret;
    std::memcpy(secret.data(), reinterpret_cast<const void*>(welcome->secret_at), secret.size());
    EXPECT_EQ(prove(socket, secret), LinkOp::proven);
    EXPECT_EQ(ask_for_file(socket, device.number()), 1u);
}

}  // namespace
}  // namespace verbatim::softnic::test
