// Two processes, connected through the connection manager, one of which dies. The test itself never
// uses librdmacm: what it opened could not be used in a forked child.
#include "core_fault.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using softnic::test::Child;
using softnic::test::Wire;
using test::small_config;

Deadline soon() { return Deadline::after(20s); }

// 0: it has noticed the end of its peer.
int hear_until_the_end(Connection& connection) {
    const Deadline deadline = soon();
    while (connection.progress() == Errc::ok && !deadline.passed()) connection.pause(0, deadline);
    return connection.state() == Errc::peer_lost && !connection.peer_closed() ? 0 : 2;
}

int listen_and_hear(Wire& wire) {
    Context context(small_config());
    Listener listener = context.listen("rdma://127.0.0.1:0");
    wire.put(listener.port());
    Connection connection = listener.accept(soon());
    if (connection.receive_message(soon()).channel() != 5) return 1;
    connection.send_message(6, {}, {}, soon());
    wire.signal();
    return hear_until_the_end(connection);
}

int call_and_hear(Wire& wire) {
    std::uint16_t port = 0;
    if (!wire.get(port)) return 3;
    Context context(small_config());
    Connection connection = context.connect("rdma://127.0.0.1:" + std::to_string(port));
    connection.send_message(5, {}, {}, soon());
    if (connection.receive_message(soon()).channel() != 6) return 1;
    wire.signal();
    return hear_until_the_end(connection);
}

struct ManagerProcesses : testing::Test {
    Child listener{listen_and_hear}, caller{call_and_hear};
    void SetUp() override {
        std::uint16_t port = 0;
        ASSERT_TRUE(listener.wire().get(port));
        ASSERT_TRUE(caller.wire().put(port));
        ASSERT_TRUE(listener.wire().wait());
        ASSERT_TRUE(caller.wire().wait());
    }
    static void expect_notices(Child& child) {
        int code = 0;
        ASSERT_TRUE(child.reap_in_time(code));
        EXPECT_EQ(code, 0);
    }
};

TEST_F(ManagerProcesses, the_listener_notices_that_its_caller_was_killed) {
    caller.kill(SIGKILL);
    expect_notices(listener);
}

TEST_F(ManagerProcesses, the_caller_notices_that_its_listener_was_killed) {
    listener.kill(SIGKILL);
    expect_notices(caller);
}

}  // namespace
}  // namespace verbatim
