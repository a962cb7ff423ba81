// Connecting to what is no receiver, and listening to what is no sender.
#include <filesystem>
#include <fstream>
#include <list>

#include "bootstrap/hello.hpp"
#include "connection/welcomes.hpp"
#include "core_fault.hpp"
#include "core_hand_made_peer.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::local;
using test::RawSocket;
using test::says;
using test::Stranger;

Config config_with(std::chrono::milliseconds timeout) {
    Config config = test::small_config();
    config.connect.timeout = timeout;
    return config;
}

// A frame of another protocol version: 16 bits after the magic and the byte order (docs/wire.md).
std::vector<std::byte> hello_of_version(std::uint8_t version) {
    auto frame = encode_frame(FrameType::hello, encode_hello(Hello{}));
    const std::size_t low = frame[12] == std::byte{0} ? 13 : 12;
    EXPECT_EQ(frame[low], std::byte{kProtocolVersion});
    frame[low] = std::byte{version};
    return frame;
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Connecting, to_nobody_says_what_to_start) {
    std::uint16_t unused = 0;
    {
        Stranger gone([](const RawSocket&) {});
        unused = gone.port();
    }
    Context context(config_with(10s));
    const Error error = error_of([&] { context.connect(local(unused)); });
    EXPECT_EQ(error.code(), Errc::connection_refused);
    says(error, local(unused));
    says(error, "start the receiver first");
}

TEST(Connecting, to_a_server_of_another_protocol_says_so) {
    Stranger web([](const RawSocket& caller) {
        caller.put("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        caller.get(1 << 16);
    });
    Context context(config_with(10s));
    const Error error = error_of([&] { context.connect(local(web.port())); });
    EXPECT_EQ(error.code(), Errc::protocol_error);
    says(error, "not Verbatim");
    says(error, "check host and port");
}

void expect_not_verbatim(std::uint16_t port) {
    Context context(config_with(10s));
    const Error error = error_of([&] { context.connect(local(port)); });
    EXPECT_EQ(error.code(), Errc::protocol_error);
    says(error, local(port));
    says(error, "not Verbatim");
    says(error, "check host and port");
}

TEST(Connecting, to_a_server_that_closes_at_once_says_so) {
    Stranger rude([](const RawSocket&) {});
    expect_not_verbatim(rude.port());
}

// The caller's own hello may be what fails then, before it could read anything.
TEST(Connecting, to_a_server_that_hangs_up_hard_says_the_same) {
    Stranger ruder([](const RawSocket& caller) {
        const linger reset{1, 0};  // closing resets the stream
        setsockopt(caller.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    });
    expect_not_verbatim(ruder.port());
}

TEST(Connecting, to_a_server_that_never_answers_ends_at_the_deadline) {
    Stranger silent([](const RawSocket& caller) { caller.get(1 << 16); });
    Context context(config_with(300ms));
    const auto begun = Clock::now();
    const Error error = error_of([&] { context.connect(local(silent.port())); });
    EXPECT_EQ(error.code(), Errc::timeout);
    EXPECT_GE(Clock::now() - begun, 300ms);
    EXPECT_LT(Clock::now() - begun, 10s);
    says(error, "no hello came in time");
    says(error, "timeout of [connect]");
}

TEST(Connecting, to_a_listener_that_accepts_nobody_ends_at_the_deadline) {
    Context receiving(config_with(10s)), sending(config_with(300ms));
    const Listener listener = receiving.listen("127.0.0.1:0");
    const Error error = error_of([&] { sending.connect(local(listener.port())); });
    EXPECT_EQ(error.code(), Errc::timeout);
    says(error, "check that a Verbatim receiver accepts there");
}

const std::string kBothVersions = "protocol version " + std::to_string(kProtocolVersion + 6) +
                                  ", this side " + std::to_string(kProtocolVersion);

TEST(Connecting, to_another_version_names_both_to_both_sides) {
    std::string told;
    {
        Stranger newer([&told](const RawSocket& caller) {
            caller.put(hello_of_version(kProtocolVersion + 6));
            told = text_of(caller.get(1 << 16));
        });
        Context context(config_with(10s));
        const Error error = error_of([&] { context.connect(local(newer.port())); });
        EXPECT_EQ(error.code(), Errc::version_mismatch);
        says(error, local(newer.port()));
        says(error, kBothVersions);
        says(error, "run the same version of Verbatim on both sides");
    }
    EXPECT_NE(told.find(kBothVersions), std::string::npos) << told;
}

// A listener in a thread that wants one good connection.
class Accepting {
  public:
    explicit Accepting(std::chrono::milliseconds timeout)
        : context_(config_with(timeout)), listener_(context_.listen("127.0.0.1:0")) {
        thread_ = std::thread([this] {
            try {
                connection_.emplace(listener_.accept(Deadline::after(60s)));
            } catch (const Error& error) {
                ADD_FAILURE() << error.what();
            }
        });
    }
    ~Accepting() {
        if (thread_.joinable()) thread_.join();
    }
    std::uint16_t port() const { return listener_.port(); }
    Connection& connection() {
        thread_.join();
        return *connection_;
    }

  private:
    Context context_;
    Listener listener_;
    std::optional<Connection> connection_;
    std::thread thread_;
};

TEST(Listening, tells_a_caller_of_another_version_and_goes_on) {
    test::CapturedLog log;
    Context sending(config_with(20s));
    Accepting accepting(20s);
    const RawSocket older = RawSocket::connected(accepting.port());
    ASSERT_TRUE(older.put(hello_of_version(kProtocolVersion + 6)));
    const std::string told = text_of(older.get(1 << 16));
    EXPECT_NE(told.find(kBothVersions), std::string::npos) << told;
    Connection good = sending.connect(local(accepting.port()));
    test::expect_usable(good, accepting.connection());
    const std::string logged = log.text();
    EXPECT_NE(logged.find(kBothVersions), std::string::npos) << logged;
}

// Says a hello that is good in every respect, of a queue pair that waits for its peer, and then
// nothing more until it is told to.
class FallsSilent {
  public:
    FallsSilent(const Config& config, std::uint16_t port)
        : own_(config), socket_(RawSocket::connected(port)) {
        EXPECT_TRUE(
            socket_.put(encode_frame(FrameType::hello, encode_hello(own_.endpoint.hello()))));
    }
    // The listener has taken it up.
    void expect_answer() const {
        EXPECT_EQ(socket_.get(FrameHeader::kBytes).size(), FrameHeader::kBytes);
    }
    // Goes on with the handshake, which the listener may have begun by now, to its end.
    void finish() {
        own_.endpoint.connect(parse_hello(test::hear(socket_)), Deadline::after(20s));
        EXPECT_TRUE(socket_.put(encode_frame(FrameType::ready, {})));
        test::hear(socket_);
    }

  private:
    test::LoneEndpoint own_;
    RawSocket socket_;
};

TEST(Listening, strangers_keep_no_good_caller_waiting) {
    test::CapturedLog log;
    Hello of_nobody;
    of_nobody.queue_pair.kind = 1;  // the software NIC
    of_nobody.ring_bytes = 4096;
    of_nobody.ring_address = of_nobody.credit_address = 4096;
    const auto whole = encode_frame(FrameType::hello, encode_hello(of_nobody));
    Context sending(config_with(20s));
    Accepting accepting(20s);
    const RawSocket silent = RawSocket::connected(accepting.port());
    const RawSocket garbage = RawSocket::connected(accepting.port());
    ASSERT_TRUE(garbage.put("\x01\x02 what is this\r\n\r\n"));
    const RawSocket half = RawSocket::connected(accepting.port());
    ASSERT_TRUE(half.put(std::span(whole).first(whole.size() / 2)));
    const RawSocket early_end = RawSocket::connected(accepting.port());
    ASSERT_TRUE(early_end.put(std::span(whole).first(3)));
    shutdown(early_end.fd(), SHUT_WR);
    // A hello that names a queue pair nobody has, and one that names a real one; then silence.
    const RawSocket nobody = RawSocket::connected(accepting.port());
    ASSERT_TRUE(nobody.put(whole));
    ASSERT_EQ(nobody.get(FrameHeader::kBytes).size(), FrameHeader::kBytes);
    const FallsSilent falls_silent(config_with(20s), accepting.port());
    falls_silent.expect_answer();

    const auto begun = Clock::now();
    Connection good = sending.connect(local(accepting.port()));
    test::expect_usable(good, accepting.connection());
    EXPECT_LT(Clock::now() - begun, 10s) << "a stranger's 20 s were waited for";
    const std::string logged = log.text();
    EXPECT_NE(logged.find("not Verbatim (it began with \"?? what is this"), std::string::npos)
        << logged;
    EXPECT_NE(logged.find("the peer closed"), std::string::npos) << logged;
}

// What a child logs that listens at each of these addresses; it has warned of nothing yet.
std::string logged_by_listening(const Config& config, const std::vector<std::string>& addresses) {
    test::CapturedLog log;
    softnic::test::Child child([&](softnic::test::Wire&) {
        Context context(config);
        for (const std::string& address : addresses) (void)context.listen(address);
        return 0;
    });
    int code = -1;
    EXPECT_TRUE(child.reap_in_time(code));
    const std::string logged = log.text();
    EXPECT_EQ(code, 0) << logged;
    return logged;
}

TEST(Listening, beyond_the_loopback_without_a_key_warns_once_in_a_process) {
    Config config = config_with(20s);
    config.connect.loopback_only = false;
    const std::string logged = logged_by_listening(config, {"0.0.0.0:0", "0.0.0.0:0"});
    EXPECT_EQ(test::count_of(logged, "[connect] key_file"), 1u) << logged;
    EXPECT_EQ(test::count_of(logged, "listener 0.0.0.0:"), 1u) << logged;
}

TEST(Listening, on_the_loopback_or_a_file_or_with_a_key_warns_of_nothing) {
    Config config = config_with(20s);
    config.connect.loopback_only = false;
    const auto folder =
        std::filesystem::temp_directory_path() / ("verbatim-listening-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder);
    const std::string file = (folder / "socket").string(), key = (folder / "key").string();
    const std::string near = logged_by_listening(config, {"127.0.0.1:0", "unix:" + file});
    EXPECT_EQ(test::count_of(near, "key_file"), 0u) << near;
    for (int i = 0; i < 4; ++i) std::ofstream(key, std::ios::app) << "0123456789abcdef";
    std::filesystem::permissions(key, std::filesystem::perms::owner_read);
    config.connect.key_file = key;
    const std::string proven = logged_by_listening(config, {"0.0.0.0:0"});
    EXPECT_EQ(test::count_of(proven, "key_file"), 0u) << proven;
    std::filesystem::remove_all(folder);
}

// The most memory that this process had resident since the last call, in bytes.
std::size_t take_peak_bytes() {
    std::ifstream status("/proc/self/status");
    std::size_t peak = 0;
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("VmHWM:")) peak = std::stoul(line.substr(6)) << 10;
    std::ofstream("/proc/self/clear_refs") << 5;
    return peak;
}

TEST(Listening, spends_no_memory_of_the_size_a_caller_names_before_its_user_is_known) {
    test::CapturedLog log;
    Hello large;
    large.queue_pair.kind = 1;  // the software NIC
    large.ring_bytes = std::size_t{64} << 20;
    large.ring_address = large.credit_address = 4096;
    Context sending(config_with(20s));
    Accepting accepting(20s);
    take_peak_bytes();
    const std::size_t before = take_peak_bytes();
    const RawSocket nobody = RawSocket::connected(accepting.port());
    ASSERT_TRUE(nobody.put(encode_frame(FrameType::hello, encode_hello(large))));
    const std::string told = text_of(nobody.get(1 << 16));  // to the end: it is refused
    EXPECT_LT(take_peak_bytes(), before + (std::size_t{32} << 20)) << told;
    Connection good = sending.connect(local(accepting.port()));
    test::expect_usable(good, accepting.connection());
    EXPECT_NE(log.text().find("refused"), std::string::npos);
}

// Sockets of this process that a listener on this port has taken.
std::size_t taken_sockets(std::uint16_t port) {
    std::size_t taken = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        const int file = std::stoi(entry.path().filename());
        sockaddr_in own{}, peer{};
        socklen_t bytes = sizeof own, peer_bytes = sizeof peer;
        if (getsockname(file, reinterpret_cast<sockaddr*>(&own), &bytes) != 0) continue;
        taken += own.sin_family == AF_INET && ntohs(own.sin_port) == port &&
                         getpeername(file, reinterpret_cast<sockaddr*>(&peer), &peer_bytes) == 0
                     ? 1u
                     : 0u;
    }
    return taken;
}

TEST(Listening, takes_64_callers_without_a_hello_and_leaves_more_to_the_kernel) {
    test::CapturedLog log;
    Context context(config_with(60s)), sending(config_with(60s));
    Listener listener = context.listen("127.0.0.1:0");
    std::vector<RawSocket> silent;
    for (int i = 0; i < 70; ++i) silent.push_back(RawSocket::connected(listener.port()));
    for (int i = 0; i < 2; ++i) {
        error_of([&] { (void)listener.accept(Deadline::after(20ms)); });
        EXPECT_EQ(taken_sockets(listener.port()), 64u);
    }
    silent.clear();  // which makes room
    std::thread calling([&] {
        Connection good = sending.connect(local(listener.port()));
        good.send_message(1, {}, {}, Deadline::after(20s));
    });
    Connection accepted = listener.accept(Deadline::after(60s));
    (void)accepted.receive_message(Deadline::after(60s));
    calling.join();
    (void)log.text();
}

TEST(Listening, a_flood_of_silent_callers_is_outlived) {
    test::CapturedLog log;
    Context sending(config_with(20s));
    Accepting accepting(500ms);
    std::vector<RawSocket> flood;
    for (int i = 0; i < 100; ++i) flood.push_back(RawSocket::connected(accepting.port()));
    Connection good = sending.connect(local(accepting.port()));
    test::expect_usable(good, accepting.connection());
    const std::string logged = log.text();
    EXPECT_NE(logged.find("it said no complete hello in time"), std::string::npos) << logged;
}

// Twice as many as there are handshakes at a time.
TEST(Listening, a_flood_of_callers_who_fall_silent_after_their_hello_is_outlived) {
    test::CapturedLog log;
    Context sending(config_with(20s));
    Accepting accepting(300ms);
    std::list<FallsSilent> flood;
    for (std::size_t i = 0; i < 2 * Welcomes::kMost; ++i)
        flood.emplace_back(config_with(20s), accepting.port());
    Connection good = sending.connect(local(accepting.port()));
    test::expect_usable(good, accepting.connection());
    const std::string logged = log.text();
    EXPECT_NE(logged.find("stopped in the middle of connecting"), std::string::npos) << logged;
}

TEST(Listening, for_two_lanes_meets_callers_who_came_together_on_one_each) {
    Context context(config_with(20s));
    Listener listener = context.listen("127.0.0.1:0");
    FallsSilent first(config_with(20s), listener.port()), second(config_with(20s), listener.port());
    const std::jthread finishing([&] { first.finish(); }), too([&] { second.finish(); });
    for (const Lane& lane : {context.make_lane(), context.make_lane()}) {
        const Connection accepted = listener.accept(lane, Deadline::after(20s));
        EXPECT_EQ(accepted.lane().impl(), lane.impl());
    }
}

TEST(Listening, for_a_lane_leaves_a_caller_to_the_lane_on_which_it_was_taken_up) {
    Context context(config_with(20s)), sending(config_with(20s));
    Listener listener = context.listen("127.0.0.1:0");
    const Lane early = context.make_lane(), late = context.make_lane();
    FallsSilent slow(config_with(20s), listener.port());
    EXPECT_EQ(error_of([&] { listener.accept(early, Deadline::after(100ms)); }).code(),
              Errc::timeout);
    slow.finish();
    std::optional<Connection> good;
    std::jthread calling([&] { good.emplace(sending.connect(local(listener.port()))); });
    Connection second = listener.accept(late, Deadline::after(20s));
    calling.join();
    EXPECT_EQ(second.lane().impl(), late.impl());
    test::expect_usable(*good, second);
    EXPECT_EQ(listener.accept(early, Deadline::after(20s)).lane().impl(), early.impl());
}

TEST(Listening, ends_at_its_deadline_when_nobody_comes) {
    Context context(config_with(10s));
    Listener listener = context.listen("127.0.0.1:0");
    const Error error = error_of([&] { listener.accept(Deadline::after(100ms)); });
    EXPECT_EQ(error.code(), Errc::timeout);
    says(error, "port " + std::to_string(listener.port()));
}

TEST(Listening, on_a_port_in_use_says_so) {
    Context context(config_with(10s));
    const Listener first = context.listen("127.0.0.1:0");
    const Error error = error_of([&] { context.listen(local(first.port())); });
    says(error, local(first.port()));
    says(error, "choose another port");
}

}  // namespace
}  // namespace verbatim
