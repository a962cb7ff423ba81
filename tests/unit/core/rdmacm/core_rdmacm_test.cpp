// Connections whose side channel is a queue pair of the connection manager (addresses rdma://):
// what goes over them, and strangers that connect by the manager and say something else.
#include <filesystem>
#include <list>

#include <verbatim/rdma/cm_streams.hpp>

#include "../../../interop/rdmacm/cm_ids.hpp"
#include "../remote/core_lent.hpp"
#include "bootstrap/address.hpp"
#include "bootstrap/hello.hpp"
#include "core_fault.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::RawSocket;
using test::says;
using test::small_config;

Deadline soon() { return Deadline::after(30s); }
std::string by_manager(std::uint16_t port) { return "rdma://127.0.0.1:" + std::to_string(port); }

// A thread whose error fails the test, in place of ending the process; joined at the latest at its
// end.
class Aside {
  public:
    template <class Body>
    explicit Aside(Body body)
        : thread_([body]() mutable {
              try {
                  body();
              } catch (const std::exception& error) {
                  ADD_FAILURE() << error.what();
              }
          }) {}
    Aside(Aside&&) = default;
    ~Aside() {
        if (thread_.joinable()) thread_.join();
    }
    void join() { thread_.join(); }

  private:
    std::thread thread_;
};

struct Met {
    explicit Met(const Config& calling = small_config(), const Config& listening = small_config())
        : caller_context(calling), listener_context(listening) {
        Aside accepting([&] { accepted.emplace(listener.accept(soon())); });
        caller.emplace(caller_context.connect(by_manager(listener.port())));
        accepting.join();
    }
    Context caller_context, listener_context;
    Listener listener = listener_context.listen("rdma://127.0.0.1:0");
    std::optional<Connection> caller, accepted;
};

void expect_end(Connection& connection) {
    const Deadline deadline = soon();
    while (connection.progress() == Errc::ok && !deadline.passed()) connection.pause(0, deadline);
    EXPECT_EQ(connection.state(), Errc::peer_lost);
}

TEST(ManagerAddress, has_a_host_and_a_port) {
    const Address address = parse_address("rdma://[::1]:7471");
    ASSERT_TRUE(std::holds_alternative<ManagerPort>(address));
    EXPECT_EQ(std::get<ManagerPort>(address).text(), "rdma://[::1]:7471");
    EXPECT_EQ(error_of([] { parse_address("rdma://host"); }).code(), Errc::invalid_argument);
}

TEST(ConnectionManager, carries_the_hello_for_messages_and_graphs_both_ways) {
    Met met;
    EXPECT_NE(met.caller->peer_name().find("(rdma_cm)"), std::string::npos);
    test::expect_usable(*met.caller, *met.accepted);
    test::expect_usable(*met.accepted, *met.caller);
}

TEST(ConnectionManager, makes_connections_that_lend_memory) {
    Met met;
    const test::Local<std::uint64_t> there(met.accepted->arena(), 4);
    const test::Local<std::uint64_t> here(met.caller_context.arena(), 4);
    there[2] = 42;
    const Grant grant(*met.accepted, std::as_writable_bytes(*there), test::kAll);
    const RemoteSpan<std::uint64_t> remote(grant.extents()[0]);
    met.accepted->send_message(1, remote.bytes(), {}, soon());  // its key works behind that
    (void)met.caller->receive_message(soon());
    Aside lending([&] { (void)met.accepted->receive_message(soon()); });
    OneSided(*met.caller).read(remote, *here, soon());
    EXPECT_EQ(here[2], 42u);
    met.caller->send_message(1, {}, {}, soon());
    lending.join();
}

TEST(ConnectionManager, carries_moves_to_other_lanes) {
    Met met;
    std::atomic<bool> stop{false};
    Aside polling([&] {
        while (!stop) (void)met.accepted->progress();
    });
    const Lane other = met.caller_context.make_lane();
    met.caller->move_to(other);
    EXPECT_EQ(met.caller->lane().impl(), other.impl());
    met.caller->move_to(met.caller_context.lane());
    stop = true;
    polling.join();
    test::expect_usable(*met.caller, *met.accepted);
}

TEST(ConnectionManager, tells_of_a_close) {
    Met met;
    met.caller.reset();
    expect_end(*met.accepted);
    EXPECT_TRUE(met.accepted->peer_closed());
}

TEST(ConnectionManager, carries_many_callers_at_once) {
    Context listening(small_config());
    Listener listener = listening.listen("rdma://127.0.0.1:0");
    constexpr int kCallers = 8;
    std::list<Connection> accepted;
    std::vector<Aside> callers;
    for (int i = 0; i < kCallers; ++i)
        callers.emplace_back([&] {
            Context calling(small_config());
            Connection connection = calling.connect(by_manager(listener.port()));
            connection.send_message(7, {}, {}, soon());
            expect_end(connection);
        });
    for (int i = 0; i < kCallers; ++i) accepted.push_back(listener.accept(soon()));
    for (Connection& connection : accepted)
        EXPECT_EQ(connection.receive_message(soon()).channel(), 7);
    accepted.clear();
    for (Aside& caller : callers) caller.join();
}

TEST(ConnectionManager, carries_proofs_of_a_key) {
    const std::filesystem::path file =
        std::filesystem::temp_directory_path() / ("verbatim_cm_key." + std::to_string(getpid()));
    {
        std::ofstream out(file);
        for (int i = 0; i < 32; ++i) out.put(static_cast<char>(i * 7 + 1));
    }
    std::filesystem::permissions(file, std::filesystem::perms::owner_read);
    Config with_key = small_config();
    with_key.connect.key_file = file;
    {
        Met met(with_key, with_key);
        test::expect_usable(*met.caller, *met.accepted);
    }
    Context listening(with_key), calling(small_config());
    Listener listener = listening.listen("rdma://127.0.0.1:0");
    Aside accepting([&] { (void)error_of([&] { listener.accept(Deadline::after(2s)); }); });
    const Error error = error_of([&] { calling.connect(by_manager(listener.port())); });
    EXPECT_EQ(error.code(), Errc::permission_denied) << error.what();
    accepting.join();
    std::filesystem::remove(file);
}

TEST(ConnectionManager, says_that_nobody_listens) {
    Context context(small_config());
    std::uint16_t port = 0;
    { port = context.listen("rdma://127.0.0.1:0").port(); }
    const Error error = error_of([&] { context.connect(by_manager(port)); });
    EXPECT_EQ(error.code(), Errc::connection_refused) << error.what();
    says(error, "rdma://");
}

TEST(ConnectionManager, says_that_a_port_is_taken) {
    Context context(small_config());
    const Listener first = context.listen("rdma://127.0.0.1:0");
    const Error error = error_of([&] { context.listen(by_manager(first.port())); });
    EXPECT_EQ(error.code(), Errc::device_error);
    says(error, "choose another port");
}

TEST(ConnectionManager, is_not_of_the_software_nic) {
    Config config = small_config();
    config.device.kind = "softnic";
    config.device.data_path = "auto";
    Context context(config);
    for (const auto& error : {error_of([&] { context.listen("rdma://127.0.0.1:0"); }),
                              error_of([&] { context.connect("rdma://127.0.0.1:9"); })}) {
        EXPECT_EQ(error.code(), Errc::unsupported);
        says(error, "kind = \"rdma\"");
    }
}

TEST(ConnectionManager, listens_where_loopback_only_allows_it) {
    Context context(small_config());
    EXPECT_EQ(error_of([&] { context.listen("rdma://0.0.0.0:0"); }).code(),
              Errc::permission_denied);
}

// Strangers connect by the manager, and have the stream below the frames.
class Strangers : public testing::Test {
  protected:
    explicit Strangers(std::chrono::milliseconds timeout = 10s) : listening_(config_of(timeout)) {}
    static Config config_of(std::chrono::milliseconds timeout) {
        Config config = small_config();
        config.connect.timeout = timeout;
        return config;
    }
    // Throws Error: turned down.
    RawSocket stranger() {
        const sockaddr_in to = RawSocket::address(listener_.port());
        rdma::CmPending pending =
            streams_.call(reinterpret_cast<const sockaddr&>(to), std::chrono::seconds(20));
        pollfd entry{pending.file(), POLLIN, 0};
        EXPECT_EQ(poll(&entry, 1, 20000), 1);
        return RawSocket(dup(pending.take()->socket.get()));
    }
    // The listener still takes an honest caller.
    void expect_honest_caller() {
        Aside calling([&] {
            Context context(small_config());
            Connection connection = context.connect(by_manager(listener_.port()));
            connection.send_message(3, {}, {}, soon());
            expect_end(connection);
        });
        {
            Connection connection = listener_.accept(soon());
            EXPECT_EQ(connection.receive_message(soon()).channel(), 3);
        }
        calling.join();
    }
    Context listening_;
    Listener listener_ = listening_.listen("rdma://127.0.0.1:0");
    rdma::CmStreams streams_{listening_.device().info().name};
};

class SlowStrangers : public Strangers {
  protected:
    SlowStrangers() : Strangers(200ms) {}
};

TEST_F(Strangers, that_say_something_else_are_refused_and_hold_up_nobody) {
    const RawSocket stranger = this->stranger();
    ASSERT_TRUE(stranger.put("GET / HTTP/1.1\r\n\r\n"));
    expect_honest_caller();
    const auto answer = stranger.get(1 << 16);  // until the listener hangs up
    const auto header = std::span(answer).first(FrameHeader::kBytes);
    EXPECT_EQ(parse_frame_header(header, "test").type, FrameType::refused);
}

TEST_F(Strangers, of_another_version_are_told) {
    const RawSocket stranger = this->stranger();
    std::vector<std::byte> frame = encode_frame(FrameType::hello, {});
    frame[12] = std::byte{0x7f};
    ASSERT_TRUE(stranger.put(frame));
    expect_honest_caller();
    const auto answer = stranger.get(1 << 16);
    ASSERT_GT(answer.size(), FrameHeader::kBytes);
    EXPECT_EQ(parse_refusal(std::span(answer).subspan(FrameHeader::kBytes)).code,
              Errc::version_mismatch);
}

// More than the socket and all receives have room for, to a listener that does not accept.
TEST_F(Strangers, that_flood_are_held_up_and_then_turned_down) {
    const RawSocket stranger = this->stranger();
    const std::vector<std::byte> flood(1 << 16, std::byte{'x'});
    std::size_t taken = 0;
    pollfd entry{stranger.fd(), POLLOUT, 0};
    while (poll(&entry, 1, 300) == 1 && taken < (std::size_t{64} << 20)) {
        const ssize_t count =
            ::send(stranger.fd(), flood.data(), flood.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count > 0) taken += static_cast<std::size_t>(count);
        if (count < 0) break;
    }
    EXPECT_LT(taken, std::size_t{4} << 20);
    expect_honest_caller();
}

// Nobody accepts: what waits is bounded. Those who hang up make room.
TEST_F(Strangers, beyond_those_that_may_wait_are_rejected) {
    std::list<RawSocket> waiting;
    for (int i = 0; i < 64; ++i) waiting.push_back(stranger());
    const Error error = error_of([&] { stranger(); });
    EXPECT_EQ(error.code(), Errc::connection_refused) << error.what();
    says(error, "too many callers");
    waiting.clear();
    (void)error_of([&] { listener_.accept(Deadline::after(0s)); });  // takes those that waited
    expect_honest_caller();
}

// The manager's part of a connection that its caller leaves half made.
TEST_F(SlowStrangers, that_do_not_complete_the_managers_connection_go) {
    const interop::EventChannel channel = interop::open_channel();
    const interop::Id id = interop::make_id(channel);
    interop::resolve(channel, id, listener_.port());
    rdma_conn_param wanted = interop::parameters();
    wanted.qp_num = 77;  // without a queue pair librdmacm leaves the last step to the program
    interop::done(rdma_connect(id.get(), &wanted), "rdma_connect");
    interop::take_event(channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
    // Long before the manager itself gives up.
    ASSERT_TRUE(interop::has_event(channel, 5000));
    interop::take_event(channel, RDMA_CM_EVENT_REJECTED);
}

TEST_F(SlowStrangers, are_turned_down_after_the_timeout) {
    const RawSocket silent = stranger();
    (void)error_of([&] { listener_.accept(Deadline::after(1s)); });
    const auto answer = silent.get(1 << 16);
    ASSERT_GT(answer.size(), FrameHeader::kBytes);
    EXPECT_EQ(parse_refusal(std::span(answer).subspan(FrameHeader::kBytes)).code, Errc::timeout);
}

}  // namespace
}  // namespace verbatim
