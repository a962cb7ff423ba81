// Composed messages: made where they are sent from, verified where they came.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "core_fault.hpp"
#include "objects_pair.hpp"
#include "sanitized.hpp"

namespace verbatim::composed {

constexpr const char* kLong = "a text that is too long to lie in its string";

struct Leaf {
    int value = 7;
    std::pmr::string text;
};
struct Cabinet {
    std::pmr::string name, note;
    std::pmr::vector<Leaf> leaves;
    std::pmr::vector<bool> flags;
    std::pmr::list<std::pmr::string> list;
    std::pmr::forward_list<int> chain;
    std::pmr::deque<std::uint32_t> deque;
    std::pmr::deque<std::pmr::string> words;
    std::pmr::map<std::pmr::string, std::pmr::vector<int>> map;
    std::pmr::multiset<int> set;
    std::pmr::unordered_map<std::uint32_t, std::pmr::string> table;
    std::pmr::unordered_map<int, int> single;
    std::pmr::unordered_set<std::pmr::string> names;
    std::variant<int, std::pmr::string> one;
    std::optional<std::pmr::string> maybe;
    std::array<std::pmr::string, 2> pair;
    std::shared_ptr<Leaf> shared;
    std::unique_ptr<Leaf> owned;
    // To others of these.
    Leaf* leaf = nullptr;
    Leaf* apart = nullptr;
    std::pmr::string* word = nullptr;
    std::string_view view;
    std::span<const std::uint32_t> numbers;
    std::pmr::vector<std::uint32_t> array;
    Cabinet* next = nullptr;
};
struct Chain {
    std::pmr::vector<std::uint64_t> numbers;
    Chain* next = nullptr;
};

}  // namespace verbatim::composed

VERBATIM_COMPOSED(verbatim::composed::Cabinet);
VERBATIM_COMPOSED(verbatim::composed::Chain);
VERBATIM_COMPOSED(std::pmr::vector<std::pmr::string>);

namespace verbatim::composed {
namespace {

using test::Pair;

void fill(ComposedMessage<Cabinet>& message, Cabinet& cabinet) {
    cabinet.name = "short";
    cabinet.note = kLong;
    cabinet.note = "short again";  // its memory stays outside of the string
    for (int i = 0; i < 20; ++i) {
        Leaf& leaf = cabinet.leaves.emplace_back(
            Leaf{i, std::pmr::string(i % 2 == 0 ? "even" : kLong, message.resource())});
        leaf.value = i;
        cabinet.flags.push_back(i % 3 == 0);
        cabinet.list.emplace_back(i % 2 == 0 ? "even" : kLong);
        cabinet.chain.push_front(i);
        cabinet.map[std::pmr::string(std::to_string(i))].assign(static_cast<std::size_t>(i), i);
        cabinet.set.insert(i % 5);
        cabinet.table[static_cast<std::uint32_t>(i * 77)] = kLong;
        cabinet.names.emplace(std::to_string(i) + kLong);
    }
    for (std::uint32_t i = 0; i < 1000; ++i) cabinet.deque.push_back(i);
    for (std::uint32_t i = 0; i < 300; ++i) cabinet.deque.pop_front();
    for (int i = 0; i < 50; ++i) cabinet.words.emplace_front(kLong);
    cabinet.one = std::pmr::string(kLong, message.resource());
    cabinet.maybe.emplace(kLong, message.resource());
    cabinet.pair[1] = kLong;
    cabinet.owned.reset(message.make<Leaf>());
    cabinet.leaf = &cabinet.leaves[3];
    cabinet.apart = message.make<Leaf>();
    cabinet.apart->text = kLong;
    cabinet.shared =
        std::allocate_shared<Leaf>(std::pmr::polymorphic_allocator<Leaf>(message.resource()));
    cabinet.shared->text = std::pmr::string("shared", message.resource());
    cabinet.word = &cabinet.list.back();
    cabinet.view = std::string_view(cabinet.leaves[1].text).substr(2, 9);
    cabinet.array.assign(100, 5);
    cabinet.numbers = std::span(cabinet.array).subspan(10, 20);
}

void expect_inner(const Cabinet& got) {
    EXPECT_EQ(got.leaf, &got.leaves[3]);
    EXPECT_EQ(got.apart->text, kLong);
    EXPECT_EQ(got.apart->value, 7);
    EXPECT_EQ(got.owned->value, 7);
    EXPECT_EQ(got.shared->text, "shared");
    EXPECT_EQ(got.word, &got.list.back());
    EXPECT_EQ(got.view.data(), got.leaves[1].text.data() + 2);
    EXPECT_EQ(got.numbers.data(), got.array.data() + 10);
    EXPECT_EQ(std::get<1>(got.one), kLong);
    EXPECT_EQ(*got.maybe, kLong);
    EXPECT_EQ(got.pair[1], kLong);
}
void expect_filled(const Cabinet& got) {
    EXPECT_EQ(got.name, "short");
    EXPECT_EQ(got.note, "short again");
    ASSERT_EQ(got.leaves.size(), 20u);
    EXPECT_EQ(got.leaves[19].value, 19);
    EXPECT_EQ(got.leaves[19].text, kLong);
    EXPECT_EQ(std::count(got.flags.begin(), got.flags.end(), true), 7);
    EXPECT_EQ(got.list.size(),
              static_cast<std::size_t>(std::distance(got.list.rbegin(), got.list.rend())));
    EXPECT_EQ(std::distance(got.chain.begin(), got.chain.end()), 20);
    EXPECT_EQ(got.chain.front(), 19);
    EXPECT_EQ(got.deque.size(), 700u);
    for (std::uint32_t i = 0; i < 700; ++i) ASSERT_EQ(got.deque[i], i + 300);
    EXPECT_EQ(std::count(got.words.begin(), got.words.end(), kLong), 50);
    EXPECT_EQ(got.map.at("17").size(), 17u);
    EXPECT_EQ(got.map.size(),
              static_cast<std::size_t>(std::distance(got.map.begin(), got.map.end())));
    EXPECT_EQ(got.set.count(4), 4u);
    EXPECT_EQ(got.table.at(77 * 19), kLong);
    EXPECT_EQ(got.table.size(), 20u);
    EXPECT_EQ(got.single.size(), got.single.empty() ? 0u : got.single.count(5));
    EXPECT_EQ(got.names.count(std::pmr::string("7") + kLong), 1u);
    expect_inner(got);
}

// Drives both ends from this thread.
template <class T>
std::pair<Received<T>, SendReport> pass_on(Pair& pair, const ComposedMessage<T>& message) {
    ComposedSendOperation<T> sending(*pair.sender, message);
    ReceiveOperation<T> receiving(*pair.receiver);
    bool sent = false, received = false;
    for (const Deadline deadline = Deadline::after(std::chrono::seconds(20)); !sent || !received;) {
        sent = sent || sending.step();
        received = received || receiving.step();
        if (deadline.passed()) throw Error(Errc::timeout, "test transfer", "it does not end");
    }
    return {receiving.take(), sending.report()};
}

TEST(Composed, objects_of_every_kind_arrive_in_one_message) {
    Pair pair;
    auto message = compose<Cabinet>(*pair.sender);
    fill(message, *message);
    message->single.emplace(5, 6);
    message->next = message.make<Cabinet>();
    fill(message, *message->next);
    message->next->next = &*message;
    const auto [got, report] = pass_on(pair, message);
    EXPECT_TRUE(report.composed);
    EXPECT_EQ(report.objects, got.report().objects);
    expect_filled(*got);
    expect_filled(*got->next);
    EXPECT_EQ(got->next->next, got.get());
    EXPECT_EQ(got->name.get_allocator().resource(), std::pmr::null_memory_resource());
    expect_filled(*message);  // still the program's
}

TEST(Composed, small_ones_go_in_one_message_of_the_ring) {
    Pair pair;
    auto message = compose<Chain>(*pair.sender);
    message->numbers = {1, 2, 3};
    message->next = &*message;
    for (int i = 0; i < 3; ++i) {
        const auto [got, report] = pass_on(pair, message);
        EXPECT_TRUE(report.composed);
        EXPECT_EQ(got->numbers.back(), static_cast<std::uint64_t>(3 + i));
        EXPECT_EQ(got->next, got.get());
        message->numbers.push_back(static_cast<std::uint64_t>(4 + i));
    }
}

// Its first buffers may lie right behind the last one, which is full: texts within strings take no
// room between them.
TEST(Composed, deques_that_grew_at_their_front_end_where_they_ended) {
    Pair pair;
    for (int size = 0; size < 100; ++size) {
        auto message = compose<Cabinet>(*pair.sender);
        for (int i = 0; i < size; ++i) message->words.emplace_front(std::to_string(i));
        const auto [got, report] = pass_on(pair, message);
        EXPECT_TRUE(report.composed);
        // One by one: an end that is met too early would end a comparison of ranges, too.
        int left = size;
        for (const auto& word : got->words)
            ASSERT_EQ(std::string(word), std::to_string(--left)) << size;
        ASSERT_EQ(left, 0) << size;
        for (auto at = got->words.rbegin(); at != got->words.rend(); ++at) ++left;
        ASSERT_EQ(left, size);
    }
}

TEST(Composed, messages_can_be_put_in_another_order) {
    Pair pair;
    std::vector<ComposedMessage<Chain>> messages;
    for (std::uint64_t i = 0; i < 4; ++i) {
        messages.push_back(compose<Chain>(*pair.sender));
        messages.back()->numbers.assign(100, i);
    }
    std::swap(messages[0], messages[3]);
    messages.erase(messages.begin() + 1);
    for (const std::uint64_t number : {3u, 2u, 0u}) {
        const auto [got, report] = pass_on(pair, messages.front());
        EXPECT_TRUE(report.composed);
        EXPECT_EQ(got->numbers.back(), number);
        messages.erase(messages.begin());
    }
}

TEST(Composed, what_lies_outside_goes_the_ordinary_way) {
    Pair pair;
    auto message = compose<Cabinet>(*pair.sender);
    fill(message, *message);
    Leaf outside;
    outside.text = kLong;
    message->apart = &outside;
    const auto [got, report] = pass_on(pair, message);
    EXPECT_FALSE(report.composed);
    expect_filled(*got);

    auto large = compose<Chain>(*pair.sender, {.most_bytes = 4096});
    large->numbers.assign(10000, 3);
    const auto [whole, how] = pass_on(pair, large);
    EXPECT_FALSE(how.composed);
    EXPECT_EQ(whole->numbers.size(), 10000u);
}

// An aggregate has no allocator that its vector could hand on.
TEST(Composed, an_element_whose_string_lies_elsewhere_is_found_and_seat_takes_it_in) {
    Pair pair;
    auto message = compose<Cabinet>(*pair.sender);
    fill(message, *message);
    message->leaves.push_back(Leaf{20, kLong});
    Leaf& leaf = message->leaves.back();
    for (const bool is_seated : {false, true}) {
        if (is_seated) message.seat(leaf);
        const auto [got, report] = pass_on(pair, message);
        EXPECT_EQ(report.composed, is_seated);
        ASSERT_EQ(got->leaves.size(), 21u);
        EXPECT_EQ(got->leaves.back().value, 20);
        EXPECT_EQ(got->leaves.back().text, kLong);
        EXPECT_EQ(got->leaf, &got->leaves[3]);
    }
    EXPECT_EQ(leaf.text.get_allocator().resource(), message.resource());
}

TEST(Composed, a_hostile_receiver_gets_the_same_graph) {
    Config careful = test::small_config();
    careful.objects.hostile = true;
    Pair pair(test::small_config(), careful);
    for (int i = 0; i < 2; ++i) {
        auto message = compose<Cabinet>(*pair.sender);
        fill(message, *message);
        const auto [got, report] = pass_on(pair, message);
        EXPECT_TRUE(report.composed);
        expect_filled(*got);
    }
}

Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

ComposedMessage<Chain> make_chain(Connection& connection, std::uint64_t number) {
    auto message = compose<Chain>(connection);
    message->numbers.assign(50'000, number);
    message->next = &*message;
    return message;
}
void expect_chain(const Chain& got, std::uint64_t number) {
    ASSERT_EQ(got.numbers.size(), 50'000u);
    EXPECT_EQ(got.numbers.back(), number);
    EXPECT_EQ(got.next, &got);
}

// In memory of its own: nothing of it lies where its sender can write.
TEST(Composed, a_hostile_receiver_copies_a_message_of_several_segments_before_it_looks) {
    Config careful = test::small_config();
    careful.objects.hostile = true;
    Pair pair(test::small_config(), careful);
    const Arena& lent = pair.receiver->receive_arena();
    for (std::uint64_t number = 1; number < 4; ++number) {
        const auto [got, report] = pass_on(pair, make_chain(*pair.sender, number));
        EXPECT_TRUE(report.composed);
        expect_chain(*got, number);
        EXPECT_FALSE(lent.contains(got.get()));
        EXPECT_FALSE(lent.contains(got->numbers.data()));
    }
}

// A process that receives, by a connection that this one accepts. It ends when it is told to: over
// some ports a sender awaits that the receiver's engine acknowledges its writes.
class ReceivingProcess {
  public:
    static constexpr int kKilled = -1;
    // `receive` returns the status of the process, or how it ends.
    explicit ReceivingProcess(int (*receive)(Connection&)) {
        EXPECT_EQ(pipe(ports_), 0);
        child_ = fork();
        if (child_ == 0) run(receive);
    }
    ~ReceivingProcess() {
        close(ports_[0]);
        close(ports_[1]);
    }
    Connection accept(Context& context) {
        Listener listener = context.listen("127.0.0.1:0");
        const std::uint16_t port = listener.port();
        EXPECT_EQ(write(ports_[1], &port, sizeof port),
                  std::ssize(std::as_bytes(std::span(&port, 1))));
        return listener.accept(soon());
    }
    int end() {
        EXPECT_EQ(write(ports_[1], "", 1), 1);
        int status = 0;
        EXPECT_EQ(waitpid(child_, &status, 0), child_);
        return status;
    }

  private:
    [[noreturn]] void run(int (*receive)(Connection&)) {
        try {
            close(ports_[1]);
            std::uint16_t port = 0;
            if (read(ports_[0], &port, sizeof port) != sizeof port) _exit(2);
            Context context(test::small_config());
            Connection connection = context.connect(test::local(port));
            const int status = receive(connection);
            char last = 0;
            if (read(ports_[0], &last, 1) != 1) _exit(4);
            if (status == kKilled) raise(SIGKILL);
            _exit(status);
        } catch (const Error& error) {
            std::fprintf(stderr, "receiver: %s\n", error.what());
        }
        _exit(3);
    }

    int ports_[2];
    pid_t child_ = -1;
};

// Each message has its sender's address of the root as a number. The first one tells the receiver
// of the wish for room.
TEST(Composed, objects_lie_at_the_receiver_where_they_were_composed) {
    ReceivingProcess receiver([](Connection& connection) {
        int in_place = 0;
        for (int i = 0; i < 4; ++i) {
            const auto got = receive<Chain>(connection, {soon()});
            if (got->numbers.size() != 50'000 || got->next != got.get()) return 9;
            in_place += got->numbers[0] == reinterpret_cast<std::uint64_t>(got.get());
            send(connection, in_place, {soon()});
        }
        return in_place;
    });
    Context context(test::small_config());
    Connection connection = receiver.accept(context);
    for (int i = 0; i < 4; ++i) {
        auto message = make_chain(connection, 1);
        message->numbers[0] = reinterpret_cast<std::uint64_t>(&*message);
        EXPECT_TRUE(send(connection, message, {soon()}).composed);
        // Behind the room for the next one.
        (void)receive<int>(connection, {soon()});
    }
    const int status = receiver.end();
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_LE(WEXITSTATUS(status), 4);
    // The thread sanitizer has other uses for those addresses.
    if (!test::kSanitized) {
        EXPECT_GE(WEXITSTATUS(status), 1);
    }
}

TEST(Composed, a_message_whose_receiver_dies_goes_to_another_one) {
    ReceivingProcess receiver([](Connection& connection) {
        expect_chain(*receive<Chain>(connection, {soon()}), 1);
        return ReceivingProcess::kKilled;
    });
    Pair pair;
    Context context(test::small_config());
    Connection connection = receiver.accept(context);
    auto message = make_chain(connection, 1);
    send(connection, message, {soon()});
    auto next = make_chain(connection, 2);
    const int status = receiver.end();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (auto* const lost : {&message, &next}) {
        const Error error = test::error_of([&] {
            while (true) send(connection, *lost, {soon()});
        });
        EXPECT_NE(error.code(), Errc::timeout);
    }
    const auto [got, report] = pass_on(pair, next);
    EXPECT_TRUE(report.composed);
    expect_chain(*got, 2);
}

// True if it lies at the addresses that it will have at the receiver.
bool is_in_place(const ComposedMessage<Chain>& message) {
    const std::uint64_t place = message.place().address();
    const auto root = reinterpret_cast<std::uint64_t>(&message.root());
    return place != 0 && root > place && root - place < 4096;
}
// The child changes pages of its own.
void change_in_a_child(ComposedMessage<Chain>& message) {
    const pid_t child = fork();
    if (child == 0) {
        message->numbers[49'999] = 77;
        _exit(message->next == &*message ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

// The first message is apart, others lie where they will at the receiver: a process of its own, as
// its addresses are taken here otherwise.
TEST(Composed, a_fork_between_composing_and_sending_changes_nothing) {
    ReceivingProcess receiver([](Connection& connection) {
        for (std::uint64_t number = 1; number < 5; ++number) {
            const auto got = receive<Chain>(connection, {soon()});
            if (got->numbers != std::pmr::vector<std::uint64_t>(50'000, number)) return 8;
            if (got->next != got.get()) return 9;
            send(connection, 0, {soon()});
        }
        return 0;
    });
    Context context(test::small_config());
    Connection connection = receiver.accept(context);
    int in_place = 0;
    for (std::uint64_t number = 1; number < 5; ++number) {
        auto message = make_chain(connection, number);
        in_place += is_in_place(message);
        change_in_a_child(message);
        EXPECT_TRUE(send(connection, message, {soon()}).composed);
        // Behind the room for the next one.
        (void)receive<int>(connection, {soon()});
    }
    const int status = receiver.end();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    if (SetAside::kIsUsable) {
        EXPECT_GE(in_place, 1);
    }
}

// By contexts of its own: those of its parent refuse there.
int send_a_copy(ComposedMessage<Chain>& message) {
    Pair own;
    message->numbers[0] = 77;
    for (int i = 0; i < 2; ++i) {
        const auto [got, report] = pass_on(own, message);
        if (!report.composed || got->numbers.size() != 50'000 || got->next != got.get()) return 1;
        if (got->numbers[0] != 77 || got->numbers[49'999] != 5) return 2;
    }
    return 0;
}

// The second message of its parent has slots at the receiver, which the copy leaves alone.
TEST(Composed, a_forked_child_sends_its_copy_on_a_connection_of_its_own) {
    ReceivingProcess receiver([](Connection& connection) {
        for (int i = 0; i < 2; ++i) {
            const auto got = receive<Chain>(connection, {soon()});
            if (got->numbers.size() != 50'000 || got->numbers[0] != 5) return 9;
            send(connection, i, {soon()});
        }
        return 0;
    });
    Context context(test::small_config());
    Connection connection = receiver.accept(context);
    for (int i = 0; i < 2; ++i) {
        auto message = make_chain(connection, 5);
        const pid_t child = fork();
        if (child == 0) _exit(send_a_copy(message));
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
        EXPECT_TRUE(send(connection, message, {soon()}).composed);
        (void)receive<int>(connection, {soon()});  // behind the room for the next one
    }
    const int status = receiver.end();
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

// Slots of messages that are never sent are free when they end, and their connection may be gone.
TEST(Composed, messages_that_are_never_sent_hold_nothing) {
    Pair pair;
    std::optional<ComposedMessage<Chain>> last;
    for (std::uint64_t number = 1; number < 50; ++number) {
        last.emplace(make_chain(*pair.sender, number));
        const auto message = make_chain(*pair.sender, number);
        expect_chain(*pass_on(pair, message).first, number);
    }
    const std::uint64_t used = pair.receiver->receive_arena().usage().allocated_bytes;
    EXPECT_LE(used, std::uint64_t{16} << 20);
    pair.sender.reset();
    pair.receiver.reset();
    expect_chain(**last, 49);
    Pair other;
    expect_chain(*pass_on(other, *last).first, 49);
}

// Offsets of what a message is made of, for changing it as a peer might.
TEST(Composed, bytes_that_are_wrong_are_refused_and_the_connection_goes_on) {
    Pair pair;
    for (const int part : {0, 1, 2, 3}) {
        auto message = compose<Chain>(*pair.sender);
        message->numbers.assign(100, 5);
        message->next = message.make<Chain>();
        const auto bytes = message.finish(objects::composed_tables(*pair.sender));
        ASSERT_TRUE(bytes.has_value());
        auto* const words = reinterpret_cast<std::uint64_t*>(bytes->memory.bytes);
        const auto root =
            static_cast<std::size_t>(reinterpret_cast<std::uint64_t*>(&*message) - words);
        if (part == 0) words[0] += 8;            // it was composed elsewhere
        if (part == 1) words[1] += 8;            // the root is elsewhere
        if (part == 2) words[root + 1] += 4096;  // the vector begins behind its end
        if (part == 3) words[root + 4] += 8;     // a pointer between objects
        objects::ComposedOutbound sending(*pair.sender, message.place(), *bytes,
                                          objects::root_type<Chain>(), 0);
        while (!sending.outbound().step()) {
        }
        EXPECT_EQ(test::error_of([&] { (void)receive<Chain>(*pair.receiver, {soon()}); }).code(),
                  Errc::corrupt_message)
            << part;
    }
    expect_chain(*pass_on(pair, make_chain(*pair.sender, 3)).first, 3);
}

}  // namespace
}  // namespace verbatim::composed
