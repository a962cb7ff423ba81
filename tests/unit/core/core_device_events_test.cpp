// Events of the device end the connections that they concern, and explain the end of others.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core_messages.hpp"
#include "core_scripted_device.hpp"

namespace verbatim::test {
namespace {

// A context on such a device with connections to another context.
class DeviceEvents : public testing::Test {
  protected:
    DeviceEvents() : listener_(other_.listen("127.0.0.1:0")) {}
    Connection connect(const Lane& lane) {
        std::thread accepting([this] { accepted_.push_back(listener_.accept(soon())); });
        Connection made = context_.connect("127.0.0.1:" + std::to_string(listener_.port()), lane);
        accepting.join();
        return made;
    }
    static Errc end_of(Connection& connection) {
        const Deadline deadline = soon();
        while (connection.progress() == Errc::ok && !deadline.passed()) {
        }
        return connection.state();
    }
    void expect_usable(Connection& connection, std::size_t accepted) {
        ASSERT_EQ(connection.try_send(1, bytes_of("hello")), Errc::ok);
        EXPECT_EQ(text_of(accepted_[accepted].receive_message(soon())), "hello");
    }
    static std::string why(const Connection& connection) {
        try {
            connection.check();
        } catch (const Error& error) {
            return error.what();
        }
        return {};
    }

    ScriptedDevice* device_ = new ScriptedDevice;  // the context's
    Context context_{small_config(), std::unique_ptr<Device>(device_)};
    Context other_{small_config()};
    Listener listener_;
    std::vector<Connection> accepted_;
};

TEST_F(DeviceEvents, of_a_queue_pair_end_its_connection_alone) {
    Connection first = connect(context_.lane());
    const std::uint32_t number = device_->last_queue_pair;
    Connection second = connect(context_.lane());
    device_->raise(DeviceEventKind::queue_pair_failed, number);
    EXPECT_EQ(end_of(first), Errc::device_error);
    EXPECT_NE(why(first).find("it happened"), std::string::npos) << why(first);
    expect_usable(second, 1);
}

TEST_F(DeviceEvents, that_the_device_failed_end_the_connections_of_all_lanes) {
    Lane lane = context_.make_lane();
    Connection first = connect(context_.lane()), second = connect(lane);
    device_->raise(DeviceEventKind::device_failed);
    EXPECT_EQ(end_of(first), Errc::device_error);
    EXPECT_EQ(end_of(second), Errc::device_error);
}

TEST_F(DeviceEvents, of_a_completion_queue_end_the_connections_of_its_lane) {
    Lane lane = context_.make_lane();
    const std::uint32_t number = device_->last_completion_queue;
    Connection first = connect(context_.lane()), second = connect(lane);
    device_->raise(DeviceEventKind::completion_queue_failed, number);
    EXPECT_EQ(end_of(second), Errc::device_error);
    expect_usable(first, 0);
}

TEST_F(DeviceEvents, that_a_port_went_down_end_nothing_but_explain_what_ends_then) {
    Connection connection = connect(context_.lane());
    device_->raise(DeviceEventKind::port_down);
    expect_usable(connection, 0);
    device_->raise(DeviceEventKind::queue_pair_failed, 0xabcdef);  // of none
    expect_usable(connection, 0);
}

// A connection whose stream the test can cut, so that it ends without a bye.
class DeviceEventsOfCutStreams : public DeviceEvents {
  protected:
    DeviceEventsOfCutStreams() {
        int ends[2] = {-1, -1};
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        copy_ = dup(ends[0]);
        std::thread accepting([&] {
            accepted_.push_back(other_.connect_over({ends[1], SocketSide::listener}));
        });
        connection_.emplace(context_.connect_over({ends[0], SocketSide::caller}));
        accepting.join();
    }
    ~DeviceEventsOfCutStreams() override { close(copy_); }
    // Why the connection has ended then.
    std::string cut() {
        EXPECT_EQ(shutdown(copy_, SHUT_RDWR), 0);
        EXPECT_EQ(end_of(*connection_), Errc::peer_lost);
        return why(*connection_);
    }
    void raise_and_take(DeviceEventKind kind) {
        device_->raise(kind);
        const Deadline deadline = soon();
        while (device_->has_events() && !deadline.passed()) (void)connection_->progress();
    }

    std::optional<Connection> connection_;
    int copy_ = -1;
};

TEST_F(DeviceEventsOfCutStreams, name_the_port_that_went_down_in_the_error) {
    raise_and_take(DeviceEventKind::port_down);
    const std::string cause = cut();
    EXPECT_NE(cause.find("test0 port 1: it happened"), std::string::npos) << cause;
}

TEST_F(DeviceEventsOfCutStreams, name_no_port_that_is_up_again) {
    raise_and_take(DeviceEventKind::port_down);
    raise_and_take(DeviceEventKind::port_up);
    const std::string cause = cut();
    EXPECT_EQ(cause.find("it happened"), std::string::npos) << cause;
}

TEST_F(DeviceEvents, wake_a_lane_that_sleeps) {
    Connection connection = connect(context_.lane());
    std::thread raiser([this] { device_->raise(DeviceEventKind::device_failed); });
    EXPECT_EQ(error_code_of([&] { (void)connection.receive_message(soon()); }), Errc::device_error);
    raiser.join();
}

TEST_F(DeviceEvents, call_the_handlers_of_the_end) {
    Connection connection = connect(context_.lane());
    bool told = false;
    connection.on_end([&told] { told = true; });
    device_->raise(DeviceEventKind::device_failed);
    const Deadline deadline = soon();
    while (!told && !deadline.passed())
        (void)context_.lane().wait(Deadline::after(std::chrono::milliseconds(50)));
    EXPECT_TRUE(told);
}

}  // namespace
}  // namespace verbatim::test
