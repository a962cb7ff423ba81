// Lists of many nodes, in threads with little stack: neither side calls itself for a node.
// VERBATIM_LONG takes ten million.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdlib>
#include <functional>
#include <list>
#include <thread>
#include <vector>

#include "objects_pair.hpp"
#include "sanitized.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;

struct Link {
    std::uint64_t value = 0;
    Link* next = nullptr;
};

std::size_t most_nodes() {
    if (std::getenv("VERBATIM_LONG") != nullptr) return 10'000'000;
    return test::kSanitized ? 100'000 : 1'000'000;
}

// A thread whose stack would not do for a call for each node.
class SmallStack {
  public:
    explicit SmallStack(std::function<void()> body) : body_(std::move(body)) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, std::size_t{256} << 10);
        EXPECT_EQ(pthread_create(
                      &thread_, &attributes,
                      [](void* self) -> void* {
                          static_cast<SmallStack*>(self)->run();
                          return nullptr;
                      },
                      this),
                  0);
        pthread_attr_destroy(&attributes);
    }
    ~SmallStack() { pthread_join(thread_, nullptr); }
    SmallStack(const SmallStack&) = delete;
    SmallStack& operator=(const SmallStack&) = delete;

  private:
    void run() try { body_(); } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
    }
    std::function<void()> body_;
    pthread_t thread_{};
};

Config large_config() {
    Config config = test::small_config();
    config.receive_arena.max_bytes = std::size_t{1} << 30;
    config.objects.max_graph_bytes = std::size_t{1} << 29;
    config.objects.window_budget = std::size_t{1} << 30;
    config.objects.timeout = 60s;
    return config;
}

template <class T>
void send_and_check(const T& root, bool acyclic, const std::function<void(const T&)>& check) {
    test::Pair pair(large_config(), large_config());
    const Deadline deadline = Deadline::after(300s);
    const SmallStack sending(
        [&] { send(*pair.sender, root, {.deadline = deadline, .acyclic = acyclic}); });
    const SmallStack receiving([&] {
        const auto graph = receive<T>(*pair.receiver, {deadline});
        check(*graph);
    });
}

TEST(LongLists, of_the_standard_library_need_no_recursion) {
    std::list<std::uint64_t> list;
    for (std::size_t i = 0; i < most_nodes(); ++i) list.push_back(i);
    send_and_check<std::list<std::uint64_t>>(list, false,
                                             [&](const auto& got) { EXPECT_TRUE(got == list); });
}

TEST(LongLists, linked_by_hand_need_no_recursion) {
    for (const bool acyclic : {false, true}) {
        std::vector<Link> links(most_nodes());
        // Each node is an object of its own: the next one does not lie behind it.
        for (std::size_t i = 0; i < links.size(); ++i) {
            const std::size_t next = (i + 7919) % links.size();
            links[i] = {i, next == 0 ? nullptr : &links[next]};
        }
        send_and_check<Link>(links[0], acyclic, [&](const Link& first) {
            std::size_t count = 0, expected = 0;
            for (const Link* at = &first; at != nullptr; at = at->next, ++count) {
                ASSERT_EQ(at->value, expected);
                expected = (expected + 7919) % links.size();
            }
            EXPECT_EQ(count, links.size());
        });
    }
}

}  // namespace
}  // namespace verbatim
