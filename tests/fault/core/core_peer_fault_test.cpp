// Peers that are killed, stop, or send what does not fit: at known points, in other processes. The
// survivor gets an error for the connection that is gone, keeps no memory of what was under way,
// and its other connections carry messages and graphs as before.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>

#include "core_fault.hpp"
#include "objects_hand_made.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using softnic::test::Child;
using softnic::test::Wire;
using test::error_of;
using test::local;
using test::says;

struct Node {
    std::string name;
    Node* next;
    std::vector<std::uint64_t> numbers;
};
using Graph = std::vector<Node>;

Graph graph_of(std::size_t nodes, std::size_t numbers = 4) {
    Graph graph(nodes);
    for (std::size_t i = 0; i < nodes; ++i)
        graph[i] = {"node number " + std::to_string(i) + " of a graph", &graph[(i + 1) % nodes],
                    std::vector<std::uint64_t>(numbers, i)};
    return graph;
}

bool is_graph_of(const Graph& graph, std::size_t nodes) {
    if (graph.size() != nodes) return false;
    for (std::size_t i = 0; i < nodes; ++i)
        if (graph[i].name != "node number " + std::to_string(i) + " of a graph" ||
            graph[i].next != &graph[(i + 1) % nodes] || graph[i].numbers.front() != i)
            return false;
    return true;
}

Deadline soon() { return Deadline::after(20s); }

// A child that connects to the port it is told, runs `body` with the connection and then waits.
class ConnectedChild {
  public:
    template <class Body>
    explicit ConnectedChild(Body body)
        : child_([body](Wire& wire) {
              std::uint16_t port = 0;
              if (!wire.get(port)) return 90;
              Context context(test::small_config());
              Connection connection = context.connect(local(port));
              const int code = body(connection, wire);
              wire.wait();
              return code;
          }) {}
    void connect(Listener& listener) {
        ASSERT_TRUE(child_.wire().put(listener.port()));
        connection_.emplace(listener.accept(soon()));
    }
    Child& process() { return child_; }
    Connection& connection() { return *connection_; }
    void close() { connection_.reset(); }
    // Kills it without a word and waits until it is gone.
    void kill() {
        child_.kill(SIGKILL);
        EXPECT_EQ(child_.reap(), -SIGKILL);
    }

  private:
    Child child_;
    std::optional<Connection> connection_;
};

// The other connection of the survivor: a peer that answers each graph by its number of nodes.
int echo_sizes(Connection& connection, Wire&) {
    while (true) {
        try {
            const auto graph = receive<Graph>(connection, {soon()});
            const std::uint64_t size = graph->size();
            connection.send_message(1, std::as_bytes(std::span(&size, 1)), {}, soon());
        } catch (const Error& error) {
            return error.code() == Errc::peer_lost ? 0 : 1;
        }
    }
}

void expect_answers(Connection& connection, std::size_t nodes) {
    send(connection, graph_of(nodes), {soon()});
    const Message message = connection.receive_message(soon());
    std::uint64_t size = 0;
    ASSERT_EQ(message.payload().size(), sizeof size);
    std::memcpy(&size, message.payload().data(), sizeof size);
    EXPECT_EQ(size, nodes);
}

// The survivor with one peer that will be killed and one that lives on.
class PeerDies : public testing::Test {
  protected:
    // Children first: they are forked before this process has threads.
    template <class Body>
    void start(Body body) {
        victim_.emplace(body);
        bystander_.emplace(echo_sizes);
        context_.emplace(test::small_config());
        listener_.emplace(context_->listen("127.0.0.1:0"));
        victim_->connect(*listener_);
        bystander_->connect(*listener_);
        expect_answers(bystander_->connection(), 10);
        allocated_ = usage();
    }
    std::size_t usage() { return bystander_->connection().receive_arena().usage().allocated_bytes; }
    void expect_end(Connection& connection) {
        const Deadline deadline = soon();
        for (unsigned round = 0; connection.progress() == Errc::ok && !deadline.passed(); ++round)
            connection.pause(round, deadline);
        EXPECT_EQ(connection.state(), Errc::peer_lost);
        const Error error = error_of([&] { connection.check(); });
        says(error, connection.peer_name());
    }
    void expect_bystander_unharmed() {
        EXPECT_EQ(usage(), allocated_) << "memory of the unfinished graph was kept";
        expect_answers(bystander_->connection(), 1000);
        // A new peer can come, too.
        Context other(test::small_config());
        std::optional<Connection> accepted;
        std::thread accepting([&] { accepted.emplace(listener_->accept(soon())); });
        Connection fresh = other.connect(local(listener_->port()));
        accepting.join();
        test::expect_usable(fresh, *accepted);
    }

    std::optional<ConnectedChild> victim_, bystander_;
    std::optional<Context> context_;
    std::optional<Listener> listener_;
    std::size_t allocated_ = 0;
};

TEST_F(PeerDies, in_conversation) {
    start([](Connection& connection, Wire& wire) {
        connection.send_message(1, {}, {}, soon());
        const Message message = connection.receive_message(soon());
        const bool right = message.payload().size() == 3;
        return right && wire.signal() && wire.wait() ? 0 : 1;
    });
    Connection& connection = victim_->connection();
    connection.receive_message(soon());
    const std::string text = "you?";
    connection.send_message(1, std::as_bytes(std::span(text)).first(3), {}, soon());
    ASSERT_TRUE(victim_->process().wire().wait());
    victim_->kill();
    const Error error = error_of([&] { connection.receive_message(soon()); });
    EXPECT_EQ(error.code(), Errc::peer_lost);
    expect_end(connection);
    // What is asked for now is refused, not accepted and lost.
    EXPECT_EQ(connection.try_send(1, {}), Errc::peer_lost);
    std::size_t written = 1;
    EXPECT_NE(connection.try_write(connection.arena().base(), 8, 4096, 1, written), Errc::ok);
    EXPECT_EQ(written, 0u);
    expect_bystander_unharmed();
}

// The messages that a peer had sent before it died can still be received.
TEST_F(PeerDies, before_a_loop_of_nothing_but_try_receive) {
    start([](Connection&, Wire& wire) { return wire.signal() && wire.wait() ? 0 : 1; });
    ASSERT_TRUE(victim_->process().wire().wait());
    victim_->kill();
    Message message;
    Errc error = Errc::would_block;
    for (const Deadline deadline = soon(); error == Errc::would_block && !deadline.passed();)
        error = victim_->connection().try_receive(message);
    EXPECT_EQ(error, Errc::peer_lost);
    expect_bystander_unharmed();
}

TEST_F(PeerDies, after_it_sent_messages_that_were_not_yet_received) {
    start([](Connection& connection, Wire& wire) {
        for (std::uint8_t kind = 0; kind < 8; ++kind) connection.send_message(kind, {}, {}, soon());
        return wire.signal() && wire.wait() ? 0 : 1;
    });
    ASSERT_TRUE(victim_->process().wire().wait());
    victim_->kill();
    Connection& connection = victim_->connection();
    for (std::uint8_t kind = 0; kind < 8; ++kind) {
        EXPECT_EQ(connection.receive_message(soon()).channel(), kind);
    }
    EXPECT_EQ(error_of([&] { connection.receive_message(soon()); }).code(), Errc::peer_lost);
    expect_bystander_unharmed();
}

namespace wire = objects::wire;

// Waits for a message of that kind.
bool await(Connection& connection, std::uint8_t kind, Message& message) {
    const Deadline deadline = soon();
    for (unsigned round = 0; !deadline.passed(); ++round) {
        if (connection.try_receive(message) != Errc::ok)
            connection.pause(round, deadline);
        else if (message.kind() == kind)
            return true;
    }
    return false;
}

// A sender made by hand: announces a Graph, writes half of what it was lent, and stops there.
int send_half(Connection& connection, Wire& steps) {
    test::HandMadeSender peer(connection);
    if (peer.layout<Graph>() != Errc::ok || peer.begin<Graph>(1) != Errc::ok ||
        peer.need(1, 4) != Errc::ok)
        return 2;
    Message lent;
    if (!await(connection, wire::kLend, lent)) return 3;
    std::span<const std::byte> payload = lent.payload();
    wire::Lend head;
    RemoteExtent extent;
    if (!wire::parse(payload, head) || !wire::parse(payload, extent)) return 3;
    auto* bytes = static_cast<std::byte*>(connection.arena().allocate(extent.bytes / 2, 16));
    std::size_t written = 0;
    if (connection.try_write(bytes, extent.bytes / 2, extent.address, extent.remote_key, written) !=
        Errc::ok)
        return 4;
    wire::Fragment fragment{};
    fragment.id = 1;
    fragment.bindings = 1;
    if (peer.fragment(fragment, wire::bytes_of(wire::Binding{0, head.window, 0, 2})) != Errc::ok)
        return 5;
    return steps.signal() && steps.wait() ? 0 : 6;
}

TEST_F(PeerDies, in_the_middle_of_sending_a_graph) {
    start(send_half);
    Connection& connection = victim_->connection();
    std::optional<ReceiveOperation<Graph>> receiving(connection);
    std::thread killer([this] {
        EXPECT_TRUE(victim_->process().wire().wait());  // half of the graph is in the arena
        victim_->kill();
    });
    const Error error = error_of([&] {
        const Deadline deadline = soon();
        while (!deadline.passed())
            if (receiving->step()) ADD_FAILURE() << "half a graph was handed out";
    });
    killer.join();
    EXPECT_EQ(error.code(), Errc::peer_lost);
    says(error, connection.peer_name());
    expect_end(connection);
    receiving.reset();
    victim_->close();
    expect_bystander_unharmed();
}

// A receiver made by hand: lends less than the sender needs, and stops there.
int lend_half(Connection& connection, Wire& steps) {
    Message need;
    if (!await(connection, wire::kNeed, need)) return 2;
    need.release();
    auto* bytes =
        static_cast<std::byte*>(connection.receive_arena().allocate(wire::kSlotBytes, 4096));
    const Grant grant(connection, {bytes, wire::kSlotBytes}, Access::remote_write);
    const wire::Lend head{0, 1, static_cast<std::uint32_t>(grant.extents().size()), 1};
    if (LayerChannel::try_send(connection, wire::kChannel, wire::bytes_of(head),
                               std::as_bytes(grant.extents()), wire::kLend) != Errc::ok)
        return 3;
    Message next;
    if (!await(connection, wire::kNeed, next)) return 4;  // the first segment is written
    return steps.signal() && steps.wait() ? 0 : 5;
}

TEST_F(PeerDies, in_the_middle_of_receiving_a_graph) {
    start(lend_half);
    Connection& connection = victim_->connection();
    std::thread killer([this] {
        EXPECT_TRUE(victim_->process().wire().wait());
        victim_->kill();
    });
    const Graph graph = graph_of(20'000);
    const Error error = error_of([&] { send(connection, graph, {soon()}); });
    killer.join();
    EXPECT_EQ(error.code(), Errc::peer_lost);
    expect_end(connection);
    EXPECT_TRUE(is_graph_of(graph, 20'000)) << "the sender's objects were touched";
    expect_bystander_unharmed();
}

// Sends and receives without end, and says so once some have arrived.
int keep_busy(Connection& connection, Wire& steps) {
    const Graph small = graph_of(3), large = graph_of(20'000);
    for (int i = 0; true; ++i) {
        std::deque<Sending<Graph>> sending;
        std::deque<Receiving<Graph>> receiving;
        for (int one = 0; one < 20; ++one) {
            sending.emplace_back(connection, one % 7 == 0 ? large : small);
            receiving.emplace_back(connection);
        }
        for (auto& one : receiving) one.wait();
        if (i == 1 && !steps.signal()) return 3;
    }
}

TEST_F(PeerDies, with_hundreds_of_operations_under_way_each_of_which_ends_once) {
    start(keep_busy);
    Connection& connection = victim_->connection();
    const Graph small = graph_of(3), large = graph_of(20'000);
    {
        std::vector<int> told(800);
        std::atomic<int> received = 0;
        struct Tell {
            int& told;
            std::atomic<int>* count;
            void operator()(objects::DrivenOperation&) const {
                ++told;
                if (count != nullptr) ++*count;
            }
        };
        std::deque<WhenSent<Graph, Tell>> sending;
        std::deque<WhenReceived<Graph, Tell>> receiving;
        for (std::size_t i = 0; i < 400; ++i) {
            const SendOptions options{.until = i % 2 == 0 ? Until::reusable : Until::delivered};
            sending.emplace_back(connection, i % 50 == 0 ? large : small, options,
                                 Tell{told[i], nullptr});
            receiving.emplace_back(connection, ReceiveOptions{}, Tell{told[400 + i], &received});
        }
        std::thread killer([&] {
            EXPECT_TRUE(victim_->process().wire().wait());
            for (const Deadline limit = soon(); received == 0 && !limit.passed();) sched_yield();
            victim_->kill();
        });
        const auto are_told = [&] { return std::ranges::count(told, 0) == 0; };
        for (const Deadline deadline = soon(); !are_told() && !deadline.passed();)
            (void)connection.lane().wait(Deadline::after(100ms));
        killer.join();
        EXPECT_EQ(told, std::vector<int>(800, 1));
        int failed = 0;
        for (auto& one : receiving) {
            if (one.error() == nullptr) continue;
            ++failed;
            // On a slow machine the arena may have had no room for one until its wait was over.
            EXPECT_TRUE(one.error()->code() == Errc::peer_lost ||
                        one.error()->code() == Errc::graph_too_large)
                << one.error()->what();
        }
        EXPECT_GT(failed, 0);
        EXPECT_LT(failed, 400);
    }
    expect_end(connection);
    victim_->close();
    expect_bystander_unharmed();
}

// ---- what a living peer refuses, in two processes; both go on ----

// The child receives with small arenas: each message tells it what to expect.
TEST(Refusals, across_processes_leave_both_sides_usable) {
    struct OtherNode {
        std::string name;
        std::uint32_t number;
    };
    Child child([](Wire& steps) {
        std::uint16_t port = 0;
        if (!steps.get(port)) return 90;
        Config config = test::small_config();
        config.receive_arena.max_bytes = config.receive_arena.segment_bytes;  // 2 MiB
        Context context(config);
        Connection connection = context.connect(local(port));
        const Error large = error_of([&] { receive<Graph>(connection, {soon()}); });
        if (large.code() != Errc::graph_too_large) return 1;
        const Error other = error_of([&] { receive<Graph>(connection, {soon()}); });
        if (other.code() != Errc::type_mismatch) return 2;
        const auto good = receive<Graph>(connection, {soon()});
        if (!is_graph_of(*good, 100)) return 3;
        return steps.signal() && steps.wait() ? 0 : 4;
    });
    Context context(test::small_config());
    Listener listener = context.listen("127.0.0.1:0");
    ASSERT_TRUE(child.wire().put(listener.port()));
    Connection connection = listener.accept(soon());
    const Graph large = graph_of(2000, 1000);  // 16 MB
    const Error too_large = error_of([&] { send(connection, large, {soon()}); });
    EXPECT_EQ(too_large.code(), Errc::graph_too_large);
    says(too_large, "receive_arena");
    const std::vector<OtherNode> other{{"a", 1}, {"b", 2}};
    send(connection, other, {soon()});  // it is small: the receiver alone is told
    // Refused before anything is sent: the peer never hears of them.
    Graph* const freed = connection.arena().make<Graph>();
    connection.arena().destroy(freed);
    struct Holder {
        Graph* graph;
    };
    EXPECT_EQ(error_of([&] { send(connection, Holder{freed}, {soon()}); }).code(),
              Errc::bad_pointer);
    auto* const misaligned = reinterpret_cast<Graph*>(connection.arena().base() + 3);
    EXPECT_EQ(error_of([&] { send(connection, Holder{misaligned}, {soon()}); }).code(),
              Errc::bad_pointer);
    send(connection, graph_of(100), {soon()});
    EXPECT_TRUE(child.wire().wait());
    child.wire().signal();
    EXPECT_EQ(child.reap(), 0);
}

// A peer that lives but stands still is not waited for longer than objects.timeout says.
TEST(Stopped, peer_in_mid_transfer_is_given_up_after_the_configured_time) {
    Child child([](Wire& steps) {
        std::uint16_t port = 0;
        if (!steps.get(port)) return 90;
        Context context(test::small_config());
        Connection connection = context.connect(local(port));
        return send_half(connection, steps);
    });
    Config config = test::small_config();
    config.objects.timeout = 300ms;
    Context context(config);
    Listener listener = context.listen("127.0.0.1:0");
    ASSERT_TRUE(child.wire().put(listener.port()));
    Connection connection = listener.accept(soon());
    const Error error = error_of([&] { receive<Graph>(connection); });
    EXPECT_EQ(error.code(), Errc::timeout);
    says(error, "stopped in mid-transfer");
    says(error, "objects.timeout");
    child.kill(SIGKILL);
    child.reap();
}

}  // namespace
}  // namespace verbatim
