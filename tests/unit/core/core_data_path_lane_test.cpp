// The data path of a lane: polls and senders allocate nothing. A sender makes no system call while
// the lane polls; a poll has one, epoll_wait, which does not wait.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "core_confined.hpp"
#include "pair/connected_pair.hpp"
#include "sanitized.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using softnic::test::Child;
using softnic::test::Wire;
using test::confined;
using test::Confinement;
using test::kClean;
using test::kSanitized;

// Connections of one lane that become hot, noted and armed by turns: one may be hot.
struct Many {
    static constexpr std::size_t kCount = 5;
    static Config config() {
        Config config = test::small_config();
        config.lane.hot = 1;
        return config;
    }
    Many() : calling(config()), serving(config()) {
        Listener listener = serving.listen("127.0.0.1:0");
        const Deadline soon = Deadline::after(std::chrono::seconds(30));
        for (std::size_t i = 0; i < kCount; ++i) {
            std::thread accepting([&] { accepted.push_back(listener.accept(soon)); });
            called.push_back(calling.connect("127.0.0.1:" + std::to_string(listener.port())));
            accepting.join();
        }
        for (Connection& connection : accepted) connection.on(1, [this](Message&) { ++received; });
    }
    bool exercise() {
        Lane here = calling.lane(), there = serving.lane();
        for (std::size_t i = 0; i < 5000; ++i) {
            const std::uint64_t before = received;
            // Some one after the other, then one many times.
            const std::size_t which = i % 500 < 300 ? i % kCount : i / 500 % kCount;
            if (called[which].try_send(1, {}) != Errc::ok) return false;
            for (int polls = 0; received == before && polls < 100'000; ++polls)
                here.poll(), there.poll();
            if (received != before + 1) return false;
        }
        return true;
    }
    Context calling, serving;
    std::vector<Connection> called, accepted;
    std::uint64_t received = 0;
};

TEST(DataPath, of_many_connections_allocates_nothing_and_only_looks_for_events) {
    if (kSanitized)
        GTEST_SKIP() << "sanitizers allocate and call the system; runs in every other build";
    Child child([](Wire&) -> int {
        Many many;
        if (!many.exercise()) return 90;
        std::_Exit(confined([&] { return many.exercise(); }, Confinement::may_look));
    });
    EXPECT_EQ(child.reap(), kClean);
}

// A sender in one thread, both lanes in another.
struct Sending {
    static constexpr std::size_t kMessages = 20'000;
    bool send() {
        for (std::size_t i = 0; i < kMessages; ++i) {
            Errc error = Errc::would_block;
            while (error == Errc::would_block)
                error = sender.try_send(1, std::span(payload).first(i % payload.size()));
            if (error != Errc::ok) return false;
        }
        return true;
    }
    bool drive() {
        Lane lane = pair.sender->lane();
        Message message;
        for (std::size_t i = 0; i < kMessages;) {
            lane.poll();
            if (pair.receiver->try_receive(message) != Errc::ok) continue;
            if (message.payload().size() != i++ % payload.size()) return false;
        }
        return true;
    }
    test::ConnectedPair pair;
    Sender sender = pair.sender->sender();
    std::array<std::byte, 300> payload{};
};

TEST(DataPath, of_senders_allocates_nothing_and_makes_no_system_call) {
    if (kSanitized)
        GTEST_SKIP() << "sanitizers allocate and call the system; runs in every other build";
    Child child([](Wire&) -> int {
        alarm(60);  // one side may be killed alone
        Sending both;
        std::thread first([&] { (void)both.send(); });  // the first use maps the peer's memory
        const bool driven = both.drive();
        first.join();
        if (!driven) return 90;
        int sent = 0;
        std::thread sending([&] { sent = confined([&] { return both.send(); }); });
        const int drove = confined([&] { return both.drive(); }, Confinement::may_look);
        sending.join();
        std::_Exit(std::max(sent, drove));
    });
    EXPECT_EQ(child.reap(), kClean);
}

TEST(DataPath, lookers_are_killed_at_other_system_calls) {
    if (kSanitized)
        GTEST_SKIP() << "sanitizers allocate and call the system; runs in every other build";
    Child child([](Wire&) -> int {
        std::_Exit(confined([] { return syscall(SYS_getppid) > 0; }, Confinement::may_look));
    });
    EXPECT_EQ(child.reap(), -SIGSYS);
}

}  // namespace
}  // namespace verbatim
