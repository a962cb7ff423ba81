// The software NIC between processes: arenas, private memory, death of a peer, fork, and a data
// path without system calls and allocations.
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <atomic>
#include <map>
#include <thread>

#include "counted_allocations.hpp"
#include "sanitized.hpp"
#include "softnic_meeting.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;
using verbatim::test::allocations_of_this_thread;
using verbatim::test::kSanitized;

bool wait_for(const End& end, std::size_t offset, std::uint64_t value) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (watch(end, offset) != value) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::yield();
    }
    return true;
}
bool write_value(End& end, std::size_t offset, std::uint64_t value) {
    if (end.post_write(std::as_bytes(std::span(&value, 1)), offset) != Errc::ok) return false;
    const auto seen = end.poll();
    return seen.size() == 1 && seen[0].status == Errc::ok;
}

int echo_writes(Wire& wire, const EndOptions& options, std::uint64_t rounds) {
    End end(options);
    if (!meet(end, wire)) return 1;
    for (std::uint64_t i = 1; i <= rounds; ++i) {
        if (!wait_for(end, 0, i)) return 2;
        if (!write_value(end, 0, i)) return 3;
    }
    return 0;
}

// Polls both kinds of completions until `wanted` came.
bool collect(End& end, std::size_t wanted, std::vector<Completion>& seen) {
    return poll_until({&end}, {&seen}, [&] { return seen.size() >= wanted; });
}

TEST(Processes, writes_are_seen_by_a_peer_that_only_looks_at_its_memory) {
    EndOptions options;
    Child child([&](Wire& wire) { return echo_writes(wire, options, 500); });
    End end(options);
    ASSERT_TRUE(meet(end, child.wire()));
    for (std::uint64_t i = 1; i <= 500; ++i) {
        ASSERT_TRUE(write_value(end, 0, i));
        ASSERT_TRUE(wait_for(end, 0, i));
    }
    EXPECT_EQ(child.reap(), 0);
}

TEST(Processes, messages_and_reads_and_atomics_cross) {
    Child child([](Wire& wire) {
        End end;
        if (!meet(end, wire)) return 1;
        std::vector<Completion> seen;
        for (std::uint64_t i = 0; i < 8; ++i)
            if (end.post_receive(i * 20000, 20000, i) != Errc::ok) return 2;
        if (!wire.signal() || !collect(end, 8, seen)) return 3;
        for (std::size_t i = 0; i < 8; ++i) {
            const auto expected = pattern(19000, static_cast<unsigned>(i));
            if (seen[i].status != Errc::ok || seen[i].bytes != 19000) return 4;
            if (std::memcmp(end.at(i * 20000), expected.data(), 19000) != 0) return 5;
        }
        // Only now may the parent's atomic change the first message.
        return wire.signal() && wire.wait() ? 0 : 6;
    });
    End end;
    ASSERT_TRUE(meet(end, child.wire()));
    ASSERT_TRUE(child.wire().wait());
    for (unsigned i = 0; i < 8; ++i) {
        const auto bytes = pattern(19000, i);
        std::memcpy(end.at(i * 20000), bytes.data(), bytes.size());
        const Element element = end.element(i * 20000, bytes.size());
        ASSERT_EQ(end.post_send(std::span(&element, 1), i), Errc::ok);
    }
    std::vector<Completion> seen;
    ASSERT_TRUE(collect(end, 8, seen));
    for (const Completion& completion : seen) EXPECT_EQ(completion.status, Errc::ok);
    ASSERT_TRUE(child.wire().wait());
    const Element element = end.element(500000, 19000);
    WorkRequest read = end.request(Opcode::read, 3 * 20000);
    read.elements = std::span(&element, 1);
    ASSERT_EQ(end.send->post(read), Errc::ok);
    EXPECT_EQ(std::memcmp(end.at(500000), pattern(19000, 3).data(), 19000), 0);
    const Element result = end.element(600000, 8);
    WorkRequest add = end.request(Opcode::fetch_add, 0);
    add.elements = std::span(&result, 1);
    add.swap_or_add = 1;
    ASSERT_EQ(end.send->post(add), Errc::ok);
    EXPECT_EQ(std::memcmp(end.at(600000), pattern(19000, 0).data(), 8), 0);
    EXPECT_EQ(end.poll().size(), 2u);
    child.wire().signal();
    EXPECT_EQ(child.reap(), 0);
}

// Arenas are long sparse files: only what is registered may be touched.
TEST(Processes, region_registered_later_is_mapped_on_first_use_and_nothing_around_it) {
    constexpr std::size_t kFileBytes = std::size_t{1} << 32, kOffset = std::size_t{3} << 30,
                          kBytes = 1 << 16;
    Child child([](Wire& wire) {
        End end;
        if (!meet(end, wire)) return 1;
        const int file = memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (ftruncate(file, kFileBytes) != 0 || fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
            return 2;
        auto* const data = static_cast<std::byte*>(
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, kOffset));
        const auto region = end.device->register_memory(data, kBytes, kAllAccess, {file, kOffset});
        EndAddress address = end.address();
        address.address = reinterpret_cast<std::uint64_t>(data);
        address.key = region->remote_key();
        if (!wire.put(address) || !wire.wait()) return 3;
        if (std::memcmp(data + kBytes - 8, pattern(8).data(), 8) != 0) return 4;
        struct stat status {};
        fstat(file, &status);
        return status.st_blocks * 512 <= static_cast<long>(kBytes) ? 0 : 5;
    });
    End end;
    ASSERT_TRUE(meet(end, child.wire()));
    ASSERT_TRUE(child.wire().get(end.peer));
    ASSERT_EQ(end.post_write(pattern(8), kBytes - 8), Errc::ok);
    EXPECT_EQ(end.poll().at(0).status, Errc::ok);
    child.wire().signal();
    EXPECT_EQ(child.reap(), 0);
}

TEST(Processes, private_memory_is_reached_and_its_owner_executes_atomics_on_it) {
    EndOptions options;
    options.private_memory = true;
    Child child([&](Wire& wire) {
        End end(options);
        const auto bytes = pattern(50000, 9);
        std::memcpy(end.at(0), bytes.data(), bytes.size());
        if (!meet(end, wire)) return 1;
        auto* const counter = reinterpret_cast<std::uint64_t*>(end.at(400000));
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) != 0x5'0000'0107)
            if (execute(*end.queue_pair); std::chrono::steady_clock::now() > deadline) return 3;
        if (!wire.wait()) return 1;
        return std::memcmp(end.at(200001), bytes.data(), bytes.size()) == 0 ? 0 : 2;
    });
    End end(options);
    ASSERT_TRUE(meet(end, child.wire()));
    const Element elements[] = {end.element(0, 20000), end.element(30000, 30000)};
    WorkRequest read = end.request(Opcode::read, 0);
    read.elements = elements;
    ASSERT_EQ(end.send->post(read), Errc::ok);
    WorkRequest write = end.request(Opcode::write, 200001);
    write.elements = elements;
    ASSERT_EQ(end.send->post(write), Errc::ok);
    for (const Completion& completion : end.poll()) EXPECT_EQ(completion.status, Errc::ok);
    const auto atomic = [&](WorkRequest request, std::uint32_t bytes) {
        std::memset(end.at(0), 0xee, 8);
        const Element result = end.element(0, bytes);
        request.elements = std::span(&result, 1);
        EXPECT_EQ(end.send->post(request), Errc::ok);
        std::vector<Completion> seen;
        EXPECT_TRUE(collect(end, 1, seen));
        EXPECT_EQ(seen.at(0).status, Errc::ok);
        EXPECT_EQ(seen.at(0).bytes, bytes);
        std::uint64_t before = 0;
        std::memcpy(&before, end.at(0), bytes);
        return before;
    };
    WorkRequest add = end.request(Opcode::fetch_add, 400000);
    add.swap_or_add = 7;
    EXPECT_EQ(atomic(add, 8), 0u);
    WorkRequest swap = end.request(Opcode::masked_compare_swap, 400000);
    swap.compare = 0xff07, swap.compare_mask = 0xff;
    swap.swap_or_add = 0xf1ff, swap.swap_mask = 0xf00;
    EXPECT_EQ(atomic(swap, 8), 7u);
    EXPECT_EQ(atomic(swap, 8), 0x107u);
    WorkRequest fields = end.request(Opcode::masked_fetch_add, 400004);
    fields.swap_or_add = 0xff05, fields.field_ends = 0x8080;
    EXPECT_EQ(atomic(fields, 4), 0u);
    fields.swap_or_add = 0x0100;
    EXPECT_EQ(atomic(fields, 4), 0xff05u);
    child.wire().signal();
    EXPECT_EQ(child.reap(), 0);
}

EndOptions private_end(std::size_t ring_bytes) {
    EndOptions options;
    options.private_memory = true;
    options.device.ring_bytes = ring_bytes;
    return options;
}

// Executes what the peer asks for until its message comes; the exit status is `body`'s.
template <class Body>
int serve(Wire& wire, const EndOptions& options, Body&& body) {
    forbid_attach();
    End end(options);
    for (std::uint64_t i = 0; i < 4; ++i)
        if (end.post_receive(900000, 8, i) != Errc::ok) return 8;
    if (!meet(end, wire)) return 9;
    std::vector<Completion> seen;
    if (!collect(end, 1, seen)) return 10;
    const int status = body(end);
    return wire.wait() ? status : 11;
}

struct Unattachable : testing::TestWithParam<std::size_t> {};

// Small rings, so that requests wait for room in them again and again.
INSTANTIATE_TEST_SUITE_P(Rings, Unattachable, testing::Values(64, 256, 8192, 65536));

TEST_P(Unattachable, memory_is_written_and_read_by_its_owner) {
    const EndOptions options = private_end(GetParam());
    // Each lap of a small ring waits for the other process to have a core.
    const std::size_t bytes = GetParam() < 1024 ? 1003 : 100003, first = bytes / 3;
    Child target([&](Wire& wire) {
        return serve(wire, options, [&](End& end) {
            const auto expected = pattern(bytes, 5);
            return std::memcmp(end.at(200001), expected.data(), bytes) == 0 ? 0 : 2;
        });
    });
    Child writer([&](Wire& wire) {
        forbid_attach();
        End end(options);
        if (!meet(end, wire)) return 1;
        const auto data = pattern(bytes, 5);
        std::memcpy(end.at(0), data.data(), bytes);
        const Element elements[] = {end.element(0, first), end.element(first, bytes - first)};
        WorkRequest write = end.request(Opcode::write, 200001);
        write.elements = elements;
        if (end.send->post(write) != Errc::ok) return 2;
        // Reads what was written just before, and says so in a message.
        const Element back[] = {end.element(400000, 2 * first),
                                end.element(600000, bytes - 2 * first)};
        WorkRequest read = end.request(Opcode::read, 200001);
        read.elements = back;
        if (end.send->post(read) != Errc::ok) return 3;
        WorkRequest notice = end.request(Opcode::write_immediate, 1000000);
        const Element one[] = {end.element(8, 8)};
        notice.elements = one;
        if (end.send->post(notice) != Errc::ok) return 4;
        std::vector<Completion> seen;
        if (!collect(end, 3, seen)) return 5;
        for (const Completion& completion : seen)
            if (completion.status != Errc::ok) return 6;
        if (seen[1].bytes != bytes) return 7;
        if (std::memcmp(end.at(400000), data.data(), 2 * first) != 0) return 8;
        return std::memcmp(end.at(600000), data.data() + 2 * first, bytes - 2 * first) == 0 ? 0 : 9;
    });
    introduce(target, writer);
    EXPECT_EQ(writer.reap(), 0);
    target.wire().signal();
    EXPECT_EQ(target.reap(), 0);
}

TEST_P(Unattachable, memory_without_its_key_is_not_touched) {
    const EndOptions options = private_end(GetParam());
    for (const Opcode opcode : {Opcode::read, Opcode::write}) {
        Child target([&](Wire& wire) {
            forbid_attach();
            End end(options);
            // Between the peer's look at the key and its own.
            if (!meet(end, wire) || !wire.wait()) return 1;
            end.region.reset();
            const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            while (end.queue_pair->state() != QueuePairState::error)
                if (execute(*end.queue_pair); std::chrono::steady_clock::now() > deadline) return 3;
            if (!wire.wait()) return 4;
            return end.value<std::uint64_t>(0) == 0 ? 0 : 5;
        });
        Child writer([&](Wire& wire) {
            forbid_attach();
            End end(options);
            if (!meet(end, wire)) return 1;
            const Element element = end.element(0, 8);
            std::memset(end.at(0), 0xee, 8);
            WorkRequest request = end.request(opcode, 0);
            request.elements = std::span(&element, 1);
            if (end.send->post(request) != Errc::ok || !wire.signal()) return 2;
            std::vector<Completion> seen;
            if (!collect(end, 1, seen)) return 3;
            return seen[0].status == Errc::remote_access ? 0 : 4;
        });
        introduce(target, writer);
        ASSERT_TRUE(writer.wire().wait());
        target.wire().signal();
        EXPECT_EQ(writer.reap(), 0);
        target.wire().signal();
        EXPECT_EQ(target.reap(), 0);
    }
}

TEST_P(Unattachable, peer_that_dies_meanwhile_is_told) {
    const EndOptions options = private_end(GetParam());
    Child target([&](Wire& wire) {
        forbid_attach();
        End end(options);
        return meet(end, wire) && wire.wait() ? 0 : 1;
    });
    Child reader([&](Wire& wire) {
        forbid_attach();
        End end(options);
        if (!meet(end, wire)) return 1;
        const Element element = end.element(0, 100000);
        WorkRequest read = end.request(Opcode::read, 0);
        read.elements = std::span(&element, 1);
        if (end.send->post(read) != Errc::ok || !wire.signal()) return 2;
        std::vector<Completion> seen;
        if (!collect(end, 1, seen)) return 3;
        return seen[0].status == Errc::retry_exceeded ? 0 : 4;
    });
    introduce(target, reader);
    ASSERT_TRUE(reader.wire().wait());
    target.kill(SIGKILL);
    EXPECT_EQ(reader.reap(), 0);
}

TEST(Processes, killed_peer_retires_everything_once_and_others_go_on) {
    const auto body = [](Wire& wire) {
        End end;
        return meet(end, wire) && wire.wait() ? 0 : 1;
    };
    Child victim(body);
    End end;
    ASSERT_TRUE(meet(end, victim.wire()));
    Pair other;
    std::map<std::uint64_t, std::vector<Errc>> retired;
    const Element element = end.element(0, 100);
    for (std::uint64_t id = 0; id < 5; ++id)
        ASSERT_EQ(end.post_send(std::span(&element, 1), id), Errc::ok);
    ASSERT_EQ(end.post_write(pattern(8), 0, 5), Errc::ok);
    for (std::uint64_t id = 10; id < 13; ++id) ASSERT_EQ(end.post_receive(0, 100, id), Errc::ok);
    EXPECT_TRUE(end.poll().empty());
    victim.kill(SIGKILL);
    EXPECT_EQ(victim.reap(), -SIGKILL);
    std::vector<Completion> seen;
    ASSERT_TRUE(collect(end, 9, seen));
    ASSERT_EQ(end.post_write(pattern(8), 0, 6), Errc::ok);
    ASSERT_EQ(end.post_receive(0, 100, 13), Errc::ok);
    ASSERT_TRUE(collect(end, 11, seen));
    EXPECT_TRUE(end.poll().empty());
    for (const Completion& completion : seen) retired[completion.id].push_back(completion.status);
    EXPECT_EQ(retired.size(), 11u);
    for (const auto& [id, status] : retired) {
        ASSERT_EQ(status.size(), 1u) << id;
        EXPECT_EQ(status[0], id == 0 ? Errc::retry_exceeded : Errc::flushed) << id;
    }
    EXPECT_TRUE(end.queue_pair->peer_lost());
    EXPECT_EQ(end.queue_pair->state(), QueuePairState::error);
    ASSERT_EQ(other.a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_EQ(other.a.poll().at(0).status, Errc::ok);
}

TEST(Processes, request_after_a_silent_loss_gets_the_reason) {
    Child victim([](Wire& wire) {
        End end;
        return meet(end, wire) && wire.wait() ? 0 : 1;
    });
    End end;
    ASSERT_TRUE(meet(end, victim.wire()));
    victim.kill(SIGKILL);
    victim.reap();
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!end.queue_pair->peer_lost()) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    for (std::uint64_t id = 0; id < 2; ++id) ASSERT_EQ(end.post_write(pattern(8), 0, id), Errc::ok);
    const auto seen = end.poll();
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].status, Errc::retry_exceeded);
    EXPECT_EQ(seen[1].status, Errc::flushed);
}

TEST(Fork, inherited_device_is_dead_in_the_child_which_opens_its_own) {
    Pair pair;
    const Element element = pair.a.element(0, 100);
    ASSERT_EQ(pair.a.post_send(std::span(&element, 1), 1), Errc::ok);
    const pid_t child = fork();
    if (child == 0) {
        int code = 0;
        // What was inherited fails its requests instead of touching the parent's connection.
        if (pair.a.post_write(pattern(8), 4096, 2) != Errc::ok) code = 1;
        const auto seen = pair.a.poll();
        if (code == 0 && (seen.size() != 2 || seen[1].status != Errc::flushed)) code = 2;
        try {
            pair.a.queue_pair->connect(pair.b.queue_pair->address(), 100);
            code = 3;
        } catch (const Error&) {
        }
        Pair own;
        if (code == 0 && own.a.post_write(pattern(8), 0) != Errc::ok) code = 4;
        if (code == 0 && own.a.poll().at(0).status != Errc::ok) code = 5;
        pair.a.queue_pair.reset();  // destructors of inherited objects return
        pair.b.queue_pair.reset();
        pair.a.region.reset();
        pair.a.device.reset();
        _exit(code);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(pair.b.value<std::uint64_t>(4096), 0u)
        << "the child wrote through the parent's connection";
    ASSERT_EQ(pair.b.post_receive(0, 100), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 1));
    EXPECT_EQ(pair.seen_b[0].status, Errc::ok);
    EXPECT_FALSE(pair.a.queue_pair->peer_lost());
}

// exit() in the child runs the destructors of the parent's objects with static storage.
TEST(Fork, child_that_exits_with_an_inherited_device_does_not_hang) {
    Child parent([](Wire&) {
        static std::unique_ptr<Pair> forever = std::make_unique<Pair>();
        const pid_t child = fork();
        if (child == 0) std::exit(7);
        int status = 0;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
            return 1;
        if (forever->a.post_write(pattern(8), 0) != Errc::ok) return 2;
        return forever->a.poll().at(0).status == Errc::ok ? 0 : 3;
    });
    int code = -1;
    ASSERT_TRUE(parent.reap_in_time(code));
    EXPECT_EQ(code, 0);
}

TEST(Fork, death_of_the_parent_is_seen_although_its_child_lives_on) {
    Child parent([](Wire& wire) {
        End end;
        if (!meet(end, wire)) return 1;
        const pid_t child = fork();
        if (child == 0) {
            wire.wait();  // until the test ends
            _exit(0);
        }
        wire.signal();
        pause();
        return 2;
    });
    End end;
    ASSERT_TRUE(meet(end, parent.wire()));
    ASSERT_TRUE(parent.wire().wait());
    EXPECT_FALSE(end.queue_pair->peer_lost());
    parent.kill(SIGKILL);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!end.queue_pair->peer_lost()) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    parent.wire().signal();
}

// Runs in a thread of its own that may only read(), write() and end: any other system call kills
// it.
int data_path_only(End& end, std::atomic<int>& result) {
    const Element element = end.element(0, 6000);
    WorkRequest read = end.request(Opcode::read, 0);
    read.elements = std::span(&element, 1);
    std::array<Completion, 32> found;
    const auto payload = pattern(64);
    std::thread worker([&] {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        const std::uint64_t before = allocations_of_this_thread;
        std::uint64_t good = 0;
        for (int i = 0; i < 1000; ++i) {
            bool posted = end.post_write(payload, static_cast<std::size_t>(i) * 8, 1) == Errc::ok;
            posted &= end.send->post(read) == Errc::ok;
            posted &= end.post_receive(8192, 6000, 2) == Errc::ok;
            posted &= end.post_send(std::span(&element, 1), 3) == Errc::ok;
            // The peer is this process too: its receives are what our sends fill.
            for (std::size_t got = 0; posted && got < 4;) {
                const std::size_t count = end.completions->poll(found);
                for (std::size_t c = 0; c < count; ++c) good += found[c].status == Errc::ok;
                got += count;
            }
        }
        const bool clean = good == 4000 && allocations_of_this_thread == before;
        result.store(clean ? 1 : 2);
        syscall(SYS_exit, 0);
    });
    worker.join();
    return result.load() == 1 ? 0 : 3;
}

TEST(DataPath, makes_no_system_call_and_no_allocation) {
    if (kSanitized) GTEST_SKIP() << "sanitizers make system calls of their own";
    // A queue pair connected to itself: one thread then drives both directions.
    Child child([](Wire&) {
        End end;
        end.connect(end.address());
        std::atomic<int> result{0};
        return data_path_only(end, result);
    });
    EXPECT_EQ(child.reap(), 0);
}

}  // namespace
}  // namespace verbatim::softnic::test
