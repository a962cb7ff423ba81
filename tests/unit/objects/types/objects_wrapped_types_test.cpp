// Types of the standard library that wrap another one: adaptors of containers, atomics, references.
// And the calendar, which wraps numbers.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <stack>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <verbatim/driver/error.hpp>

#include "objects_loopback.hpp"
#include "objects_pair.hpp"
#include "objects_tampering.hpp"

namespace verbatim::objects {
namespace {

using namespace std::chrono_literals;
using test::error_code_of;

constexpr const char* kLong = "a text that is too long to lie in its string";

struct Job {
    std::string name;
    int number = 0;
};
struct Work {
    std::stack<int> numbers;
    std::stack<std::string, std::vector<std::string>> texts;
    std::queue<std::unique_ptr<Job>> jobs;
    std::stack<Job*> current;  // one of the jobs
};

TEST(Adaptors, arrive_with_their_elements_in_order) {
    Work work;
    for (int i = 0; i < 1000; ++i) work.numbers.push(i);
    for (const char* text : {"short", kLong}) work.texts.push(text);
    for (int i = 0; i < 5; ++i) work.jobs.push(std::make_unique<Job>(Job{kLong, i}));
    work.current.push(work.jobs.front().get());
    Loopback<Work> loopback;
    const Work& got = loopback.send(work);
    EXPECT_EQ(got.numbers, work.numbers);
    EXPECT_EQ(got.texts, work.texts);
    ASSERT_EQ(got.jobs.size(), 5u);
    EXPECT_EQ(got.jobs.back()->number, 4);
    EXPECT_EQ(got.jobs.back()->name, kLong);
    EXPECT_EQ(got.current.top(), got.jobs.front().get());
}

using Ranked = std::priority_queue<std::pair<int, std::string>,
                                   std::vector<std::pair<int, std::string>>, std::greater<>>;

TEST(Adaptors, give_out_what_comes_first) {
    Ranked ranked;
    for (const int rank : {5, 1, 4, 2, 3}) ranked.push({rank, kLong + std::to_string(rank)});
    Loopback<Ranked> loopback;
    Ranked got = loopback.send(ranked);  // a copy: the received one cannot shrink
    for (int rank = 1; rank <= 5; ++rank, got.pop()) {
        ASSERT_FALSE(got.empty());
        EXPECT_EQ(got.top().first, rank);
        EXPECT_EQ(got.top().second, kLong + std::to_string(rank));
    }
    EXPECT_TRUE(got.empty());
}

// Elements of four bytes lie at the end of the image.
TEST(Adaptors, whose_elements_are_no_heap_are_refused) {
    const std::vector<int> numbers{9, 5, 7};
    const std::priority_queue<int> heap({}, numbers);
    const auto send_with = [&](std::uint64_t which, int value) {
        Loopback<std::priority_queue<int>> loopback;
        loopback.send(heap);
        const std::uint64_t at = loopback.image_bytes - (3 - which) * sizeof(int);
        write_at_start(loopback, at, value);
        return error_code_of([&] { loopback.send(heap); });
    };
    EXPECT_EQ(send_with(1, 10), Errc::corrupt_message);
    EXPECT_EQ(send_with(2, 10), Errc::corrupt_message);
    EXPECT_EQ(send_with(0, 6), Errc::corrupt_message);
    EXPECT_EQ(send_with(0, 8), Errc::ok);
    EXPECT_EQ(send_with(1, 9), Errc::ok);
}

TEST(Adaptors, of_one_container_are_different_types) {
    const auto fingerprint = []<class T>(std::type_identity<T>) {
        return layout_of(type_info<T>()).fingerprint;
    };
    EXPECT_NE(fingerprint(std::type_identity<std::stack<int>>()),
              fingerprint(std::type_identity<std::queue<int>>()));
    using Down = std::priority_queue<int, std::vector<int>, std::greater<int>>;
    EXPECT_NE(fingerprint(std::type_identity<std::priority_queue<int>>()),
              fingerprint(std::type_identity<Down>()));
}

struct Clonable {
    std::stack<std::string> texts;
    std::queue<std::unique_ptr<Job>> jobs;
    std::priority_queue<int> heap;
    std::atomic<int> count = 0;
    std::chrono::year_month_day day{};
};
}  // namespace
VERBATIM_DESCRIBE(Clonable, texts, jobs, heap, count, day)
namespace {

TEST(Adaptors, of_a_clone_can_grow) {
    Clonable sent;
    sent.texts.push(kLong);
    sent.jobs.push(std::make_unique<Job>(Job{kLong, 7}));
    for (const int number : {4, 8}) sent.heap.push(number);
    sent.count = 5;
    sent.day = 2026y / 11 / 29;
    test::Pair pair;
    const auto clone = pair.transfer(sent).clone();
    EXPECT_EQ(clone->texts.top(), kLong);
    clone->texts.push("more");
    EXPECT_EQ(clone->texts.size(), 2u);
    EXPECT_EQ(clone->jobs.front()->number, 7);
    clone->jobs.push(nullptr);
    clone->heap.push(100);
    EXPECT_EQ(clone->heap.top(), 100);
    clone->heap.pop();
    EXPECT_EQ(clone->heap.top(), 8);
    EXPECT_EQ(clone->count.load(), 5);
    EXPECT_EQ(clone->day, sent.day);
}

struct Shared {
    std::atomic<std::uint64_t> count = 0;
    std::atomic<bool> is_set = false;
    std::atomic<Shared*> next = nullptr;
    std::atomic<int>* inner = nullptr;  // of another one
    std::atomic<int> number = 0;
};
}  // namespace
VERBATIM_DESCRIBE(Shared, count, is_set, next, inner, number)
namespace {

TEST(Atomics, have_the_value_that_they_had) {
    Shared one, two;
    one.count = std::uint64_t{1} << 63;
    one.is_set = true;
    one.next = &two;
    one.inner = &two.number;
    two.next = &one;
    two.number = -3;
    Loopback<Shared> loopback;
    const Shared& got = loopback.send(one);
    EXPECT_EQ(got.count.load(), std::uint64_t{1} << 63);
    EXPECT_TRUE(got.is_set.load());
    EXPECT_EQ(got.next.load()->next.load(), &got);
    EXPECT_EQ(got.inner, &got.next.load()->number);
    EXPECT_EQ(got.inner->load(), -3);
}

TEST(Atomics, are_checked_as_their_values_are) {
    Shared one;
    one.is_set = true;
    Loopback<Shared> loopback;
    write_at_start(loopback, offsetof(Shared, is_set), std::byte{2});
    EXPECT_EQ(error_code_of([&] { loopback.send(one); }), Errc::corrupt_message);
}

struct Seats {
    std::vector<std::string> names;
    std::vector<std::reference_wrapper<std::string>> taken;  // of the names
    std::optional<std::reference_wrapper<const std::string>> first;
};

TEST(References, lead_to_the_received_objects) {
    Seats seats;
    for (int i = 0; i < 100; ++i) seats.names.push_back(kLong + std::to_string(i));
    for (const std::size_t i : {7u, 99u, 7u}) seats.taken.push_back(seats.names[i]);
    seats.first = seats.names[0];
    Loopback<Seats> loopback;
    const Seats& got = loopback.send(seats);
    ASSERT_EQ(got.taken.size(), 3u);
    EXPECT_EQ(&got.taken[0].get(), &got.names[7]);
    EXPECT_EQ(&got.taken[1].get(), &got.names[99]);
    EXPECT_EQ(&got.taken[2].get(), &got.names[7]);
    EXPECT_EQ(&got.first->get(), &got.names[0]);
}

// A sender whose counts fit its lie: it has a pointer there.
TEST(References, that_lead_nowhere_are_refused) {
    const std::vector<int> numbers(3);
    using Sent = std::pair<const int*, int>;
    Loopback<Sent, std::pair<std::reference_wrapper<const int>, int>> loopback;
    EXPECT_EQ(error_code_of([&] { loopback.send(Sent(nullptr, 0)); }), Errc::corrupt_message);
    EXPECT_EQ(error_code_of([&] { loopback.send(Sent(&numbers[1], 0)); }), Errc::ok);
}

TEST(Calendar, days_are_values_and_keys) {
    using Diary = std::map<std::chrono::year_month_day, std::vector<std::chrono::weekday>>;
    const Diary diary{{2026y / 11 / 29, {std::chrono::Sunday, std::chrono::Monday}},
                      {1999y / 12 / 31, {}}};
    Loopback<Diary> loopback;
    EXPECT_EQ(loopback.send(diary), diary);
}

}  // namespace
}  // namespace verbatim::objects
