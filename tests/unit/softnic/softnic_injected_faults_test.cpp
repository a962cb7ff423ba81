// What a program of the software NIC sees of a fault policy.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <cstring>

#include "softnic_end.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::Element;
using mlx5::Opcode;
using std::chrono::steady_clock;

EndOptions with(const char* faults) {
    EndOptions options;
    options.device.faults = parse_faults(faults, "test");
    return options;
}

// The first end has the policy.
struct FaultyPair : Pair {
    explicit FaultyPair(const char* faults) : Pair(with(faults), {}) {}

    std::uint64_t injected(FaultAction action) const {
        return faults_injected(*a.queue_pair, action);
    }
    void send(std::uint8_t value, std::uint64_t id = 0) {
        *a.at(0) = std::byte{value};
        *a.at(1) = std::byte{value};
        ASSERT_EQ(b.post_receive(64 * id, 64, id), Errc::ok);
        const Element element = a.element(0, 2);
        ASSERT_EQ(a.post_send({&element, 1}, id), Errc::ok);
    }
};

TEST(InjectedFaults, fail_is_an_error_completion_and_what_is_behind_it_is_flushed) {
    FaultyPair pair("fail nth=2 syndrome=remote_access");
    for (std::uint64_t id = 0; id < 3; ++id) pair.send(1, id);
    ASSERT_TRUE(pair.poll_for(3, 1));
    EXPECT_EQ(pair.seen_a[0].status, Errc::ok);
    EXPECT_EQ(pair.seen_a[1].status, Errc::remote_access);
    EXPECT_EQ(pair.seen_a[2].status, Errc::flushed);
    EXPECT_EQ(pair.seen_b[0].status, Errc::ok);
    EXPECT_EQ(pair.b.queue_pair->state(), QueuePairState::ready);  // nobody tells the peer
    EXPECT_EQ(pair.a.queue_pair->state(), QueuePairState::error);
    EXPECT_NE(failure_text(*pair.a.queue_pair).find("fault policy"), std::string::npos);
    EXPECT_EQ(pair.injected(FaultAction::fail), 1u);
}

TEST(InjectedFaults, delay_holds_up_a_request_and_those_behind_it) {
    FaultyPair pair("delay operations=send nth=1 delay_us=30000");
    const auto start = steady_clock::now();
    pair.send(5);
    const std::uint64_t behind = 77;
    ASSERT_EQ(pair.a.post_write(std::as_bytes(std::span(&behind, 1)), 4096), Errc::ok);
    EXPECT_EQ(pair.b.value<std::uint64_t>(4096), 0u);
    ASSERT_TRUE(pair.poll_for(2, 1));
    EXPECT_GE(steady_clock::now() - start, std::chrono::milliseconds(30));
    EXPECT_EQ(pair.seen_a[0].status, Errc::ok);
    EXPECT_EQ(pair.b.value<std::uint64_t>(4096), 77u);
    EXPECT_EQ(pair.b.value<std::uint8_t>(0), 5);
}

TEST(InjectedFaults, stall_holds_up_a_request_until_the_queue_pair_fails) {
    FaultyPair pair("stall operations=write nth=1");
    pair.send(5);
    const std::uint64_t word = 77;
    ASSERT_EQ(pair.a.post_write(std::as_bytes(std::span(&word, 1)), 4096, 1), Errc::ok);
    pair.send(6, 2);
    ASSERT_TRUE(pair.poll_for(1, 1));
    for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(pair.a.poll().empty());
        EXPECT_TRUE(pair.b.poll().empty());
    }
    pair.a.queue_pair->fail();
    ASSERT_TRUE(pair.poll_for(3, 1));
    EXPECT_EQ(pair.seen_a[1].status, Errc::flushed);
    EXPECT_EQ(pair.seen_a[2].status, Errc::flushed);
    EXPECT_EQ(pair.b.value<std::uint64_t>(4096), 0u);
    EXPECT_EQ(pair.injected(FaultAction::stall), 1u);
}

TEST(InjectedFaults, disconnect_loses_the_peer_for_what_it_has_not_answered_too) {
    FaultyPair pair("disconnect operations=write nth=1");
    pair.send(5);
    ASSERT_TRUE(pair.poll_for(1, 1));
    const Element element = pair.a.element(0, 2);
    ASSERT_EQ(pair.a.post_send({&element, 1}, 1), Errc::ok);  // finds no receive
    const std::uint64_t word = 77;
    ASSERT_EQ(pair.a.post_write(std::as_bytes(std::span(&word, 1)), 4096, 2), Errc::ok);
    ASSERT_EQ(pair.a.post_send({&element, 1}, 3), Errc::ok);
    ASSERT_TRUE(pair.poll_for(4, 1));
    EXPECT_EQ(pair.seen_a[1].status, Errc::retry_exceeded);
    EXPECT_EQ(pair.seen_a[2].status, Errc::flushed);
    EXPECT_EQ(pair.seen_a[3].status, Errc::flushed);
    EXPECT_EQ(pair.b.value<std::uint64_t>(4096), 0u);
    EXPECT_EQ(pair.injected(FaultAction::disconnect), 1u);
}

TEST(InjectedFaults, what_is_lost_or_damaged_on_the_way_is_sent_again) {
    for (const char* policy : {"drop nth=1 times=3", "corrupt nth=1 times=3"}) {
        FaultyPair pair(policy);
        const auto start = steady_clock::now();
        pair.send(9);
        ASSERT_TRUE(pair.poll_for(1, 1)) << policy;
        EXPECT_EQ(pair.seen_a[0].status, Errc::ok);
        EXPECT_EQ(pair.b.value<std::uint8_t>(0), 9);
        // Three times the time after which a request is sent again.
        EXPECT_GE(steady_clock::now() - start, std::chrono::milliseconds(3));
        EXPECT_EQ(pair.injected(FaultAction::drop) + pair.injected(FaultAction::corrupt), 3u);
    }
}

TEST(InjectedFaults, what_is_lost_each_time_is_retry_exceeded) {
    for (const char* policy : {"drop rate=1", "drop nth=1 times=8"}) {
        FaultyPair pair(policy);
        const std::uint64_t word = 1;
        ASSERT_EQ(pair.a.post_write(std::as_bytes(std::span(&word, 1)), 0), Errc::ok);
        ASSERT_TRUE(pair.poll_for(1, 0)) << policy;
        EXPECT_EQ(pair.seen_a[0].status, Errc::retry_exceeded);
        EXPECT_EQ(pair.b.value<std::uint64_t>(0), 0u);
        EXPECT_EQ(pair.injected(FaultAction::drop), 8u);
    }
}

TEST(InjectedFaults, reads_and_atomics_are_lost_and_repeated_like_others) {
    FaultyPair pair("drop operations=read,atomic nth=1 times=2");
    const std::uint64_t there = 40;
    std::memcpy(pair.b.at(0), &there, sizeof there);
    for (const Opcode opcode : {Opcode::fetch_add, Opcode::read}) {
        const Element element = pair.a.element(64, 8);
        mlx5::WorkRequest request = pair.a.request(opcode);
        request.elements = std::span(&element, 1);
        request.swap_or_add = 2;
        ASSERT_EQ(pair.a.send->post(request), Errc::ok);
    }
    ASSERT_TRUE(pair.poll_for(2, 0));
    EXPECT_EQ(pair.seen_a[1].status, Errc::ok);
    EXPECT_EQ(pair.b.value<std::uint64_t>(0), 42u);  // once
    EXPECT_EQ(pair.a.value<std::uint64_t>(64), 42u);
}

TEST(InjectedFaults, what_comes_twice_over_a_connection_is_taken_once) {
    FaultyPair pair("duplicate rate=1");
    for (std::uint64_t id = 0; id < 4; ++id) pair.send(static_cast<std::uint8_t>(id), id);
    ASSERT_EQ(pair.b.post_receive(1024, 64, 9), Errc::ok);
    ASSERT_TRUE(pair.poll_for(4, 4));
    EXPECT_TRUE(pair.b.poll().empty());
    for (std::size_t id = 0; id < 4; ++id) EXPECT_EQ(pair.seen_b[id].id, id);
    EXPECT_EQ(pair.injected(FaultAction::duplicate), 4u);
}

TEST(InjectedFaults, damage_of_the_payload_arrives_unnoticed_and_spares_the_sender) {
    FaultyPair pair("corrupt operations=send,write nth=1 times=3 payload=true");
    pair.send(8);
    const std::uint64_t word = 0x10;
    ASSERT_EQ(pair.a.post_write(std::as_bytes(std::span(&word, 1)), 4096), Errc::ok);  // inline
    const Element element = pair.a.element(0, 1);  // nothing but the first byte
    mlx5::WorkRequest write = pair.a.request(Opcode::write, 8192);
    write.elements = std::span(&element, 1);
    ASSERT_EQ(pair.a.send->post(write), Errc::ok);
    ASSERT_TRUE(pair.poll_for(3, 1));
    for (const Completion& completion : pair.seen_a) EXPECT_EQ(completion.status, Errc::ok);
    EXPECT_EQ(pair.b.value<std::uint8_t>(0), 9);
    EXPECT_EQ(pair.b.value<std::uint8_t>(1), 8);
    EXPECT_EQ(pair.b.value<std::uint64_t>(4096), 0x11u);
    EXPECT_EQ(pair.b.value<std::uint8_t>(8192), 9);
    EXPECT_EQ(pair.a.value<std::uint8_t>(0), 8);
    pair.send(8, 1);
    ASSERT_TRUE(pair.poll_for(4, 2));
    EXPECT_EQ(pair.b.value<std::uint8_t>(64), 8);  // the rule is over
}

TEST(InjectedFaults, same_seed_same_completions) {
    const auto failed_at = [](const char* policy) {
        FaultyPair pair(policy);
        std::size_t id = 0;
        for (; id < 1000 && pair.a.queue_pair->state() == QueuePairState::ready; ++id) {
            const std::uint64_t word = id;
            EXPECT_EQ(pair.a.post_write(std::as_bytes(std::span(&word, 1)), 0), Errc::ok);
            EXPECT_EQ(pair.a.poll().size(), 1u);
        }
        return id;
    };
    const std::size_t once = failed_at("fail rate=0.02 seed=3");
    EXPECT_EQ(failed_at("fail rate=0.02 seed=3"), once);
    EXPECT_NE(failed_at("fail rate=0.02 seed=4"), once);
    EXPECT_LT(once, 1000u);
}

TEST(InjectedFaults, reset_goes_on_counting) {
    FaultyPair pair("fail nth=1");
    const std::uint64_t word = 1;
    ASSERT_EQ(pair.a.post_write(std::as_bytes(std::span(&word, 1)), 0), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 0));
    for (End* end : {&pair.a, &pair.b}) {
        end->queue_pair->reset();
        end->send = std::make_unique<mlx5::SendQueue>(end->queue_pair->view(),
                                                      end->device->invalidation_epoch());
    }
    pair.a.connect(pair.b.address());
    pair.a.completions->attach(pair.a.send.get(), pair.a.receive.get());
    ASSERT_EQ(pair.a.post_write(std::as_bytes(std::span(&word, 1)), 0), Errc::ok);
    ASSERT_TRUE(pair.poll_for(2, 0));
    EXPECT_EQ(pair.seen_a[1].status, Errc::ok);
}

TEST(InjectedFaults, kill_ends_the_process_at_its_operation) {
    const pid_t child = fork();
    if (child == 0) {
        FaultyPair pair("kill nth=3");
        const std::uint64_t word = 1;
        for (int i = 0; i < 2; ++i) (void)pair.a.post_write(std::as_bytes(std::span(&word, 1)), 0);
        if (pair.b.value<std::uint64_t>(0) != 1) _exit(1);
        (void)pair.a.post_write(std::as_bytes(std::span(&word, 1)), 0);
        _exit(2);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(InjectedFaults, a_bad_policy_is_refused_when_the_device_is_opened) {
    Options options;
    options.faults.rules.emplace_back();
    EXPECT_THROW((void)open_device(options), Error);
}

}  // namespace
}  // namespace verbatim::softnic::test
