// A receiver that is stopped within a transfer: the sender's deadline is kept, and both go on
// later, with all that was sent as it was.
#include <csignal>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core_fault.hpp"
#include "objects_pair.hpp"
#include "softnic_process.hpp"

namespace verbatim::stopped {

struct Sheet {
    std::pmr::vector<std::uint64_t> numbers;
};

}  // namespace verbatim::stopped

VERBATIM_COMPOSED(verbatim::stopped::Sheet);

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using softnic::test::Child;
using softnic::test::Wire;
using stopped::Sheet;
using Texts = std::vector<std::string>;
using Rows = std::vector<std::vector<std::uint64_t>>;

Deadline soon() { return Deadline::after(60s); }

Config patient_config() {
    Config config = test::small_config();
    config.objects.timeout = 120s;
    return config;
}

std::uint64_t sum_of(const Texts& texts) {
    std::uint64_t sum = texts.size();
    for (const std::string& text : texts)
        for (const char letter : text) sum = sum * 31 + static_cast<unsigned char>(letter);
    return sum;
}
std::uint64_t sum_of(std::span<const std::uint64_t> numbers) {
    std::uint64_t sum = numbers.size();
    for (const std::uint64_t number : numbers) sum = sum * 31 + number;
    return sum;
}
std::uint64_t sum_of(const Rows& rows) {
    std::uint64_t sum = rows.size();
    for (const auto& row : rows) sum = sum * 31 + sum_of(std::span(row));
    return sum;
}
std::uint64_t sum_of(const Sheet& sheet) { return sum_of(std::span(sheet.numbers)); }

// Receives graphs and tells their sums, until the connection ends.
template <class T>
int take_all(Wire& wire) {
    std::uint16_t port = 0;
    if (!wire.get(port)) return 90;
    Context context(patient_config());
    Connection connection = context.connect(test::local(port));
    try {
        while (wire.put(sum_of(*receive<T>(connection, {soon()})))) continue;
    } catch (const Error& error) {
        return error.code() == Errc::peer_lost ? 0 : 91;
    }
    return 92;
}

constexpr int kTooLate = 5;
// The first graph is a quarter of the others: the windows that the receiver may have given back
// before it is stopped hold a part of the next one, but not all.
constexpr std::uint64_t kFirst = 1;
constexpr std::size_t part_of(std::size_t count, std::uint64_t seed) {
    return seed == kFirst ? count / 4 : count;
}
constexpr std::size_t kNumbers = std::size_t{1} << 20;

// `sends(connection, seed, deadline)` sends a graph that differs with the seed, and returns its
// sum.
template <class T, class Send>
void expect_deadlines_kept(Send sends) {
    Child child(take_all<T>);
    Context context(patient_config());
    Listener listener = context.listen("127.0.0.1:0");
    ASSERT_TRUE(child.wire().put(listener.port()));
    std::optional<Connection> connection(listener.accept(soon()));
    const auto expect_received = [&](std::uint64_t seed) {
        const std::uint64_t sent = sends(*connection, seed, soon());
        // A send that was too late is in doubt: the receiver may have its graph.
        std::uint64_t got = 0;
        for (int i = 0; i <= kTooLate && got != sent; ++i) ASSERT_TRUE(child.wire().get(got));
        EXPECT_EQ(got, sent);
    };
    ASSERT_NO_FATAL_FAILURE(expect_received(kFirst));
    ASSERT_TRUE(child.stop());
    const Deadline in_time = soon();
    for (std::uint64_t seed = 2; seed < 2 + kTooLate; ++seed)
        EXPECT_EQ(test::error_of([&] { sends(*connection, seed, Deadline::after(100ms)); }).code(),
                  Errc::timeout);
    EXPECT_FALSE(in_time.passed()) << "objects.timeout was waited for";
    child.kill(SIGCONT);
    for (std::uint64_t seed = 10; seed < 13; ++seed) ASSERT_NO_FATAL_FAILURE(expect_received(seed));
    connection.reset();
    EXPECT_EQ(child.reap(), 0);
}

TEST(StoppedReceiver, of_copies_holds_up_its_sender_no_longer_than_the_deadline) {
    expect_deadlines_kept<Texts>([](Connection& connection, std::uint64_t seed, Deadline until) {
        const Texts texts(part_of(100'000, seed), std::string(100, static_cast<char>('a' + seed)));
        send(connection, texts, {until});
        return sum_of(texts);
    });
}

// Each row is too large to be staged.
TEST(StoppedReceiver, of_large_arrays_holds_up_its_sender_no_longer_than_the_deadline) {
    expect_deadlines_kept<Rows>([](Connection& connection, std::uint64_t seed, Deadline until) {
        Rows rows(part_of(16, seed), std::vector<std::uint64_t>(kNumbers / 16));
        for (auto& row : rows) std::iota(row.begin(), row.end(), seed++);
        send(connection, rows, {until});
        return sum_of(rows);
    });
}

// The first is as long as the others here: only then do sends need buffers that those before left.
TEST(StoppedReceiver, of_a_composed_message_holds_up_its_sender_no_longer_than_the_deadline) {
    expect_deadlines_kept<Sheet>([](Connection& connection, std::uint64_t seed, Deadline until) {
        auto message = compose<Sheet>(connection);
        message->numbers.resize(kNumbers);
        std::iota(message->numbers.begin(), message->numbers.end(), seed);
        send(connection, message, {until});
        return sum_of(*message);
    });
}

TEST(StoppedReceiverOfAPoller, costs_no_memory_once_its_connection_has_ended) {
    Child child(take_all<Texts>);
    Config config = patient_config();
    config.pollers.emplace_back();
    Context context(config);
    Lane lane = context.pollers().front()->lane();
    Listener listener = context.listen("127.0.0.1:0");
    ASSERT_TRUE(child.wire().put(listener.port()));
    const auto used = [&] { return context.arena().usage().allocated_bytes; };
    const std::size_t before = used();
    std::optional<Connection> connection;
    lane.call([&] { connection.emplace(listener.accept(lane, soon())); });
    lane.call([&] { send(*connection, Texts{"small"}, {soon()}); });
    std::uint64_t sum = 0;
    ASSERT_TRUE(child.wire().get(sum));
    ASSERT_TRUE(child.stop());
    const Texts texts(100'000, std::string(100, 'x'));
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(test::error_of([&] {
                      lane.call([&] { send(*connection, texts, {Deadline::after(100ms)}); });
                  }).code(),
                  Errc::timeout);
    lane.call([&] { connection.reset(); });
    child.kill(SIGCONT);
    for (const Deadline in_time = soon(); used() > before && !in_time.passed();)
        std::this_thread::yield();
    EXPECT_LE(used(), before);
    EXPECT_EQ(child.reap(), 0);
}

}  // namespace
}  // namespace verbatim
