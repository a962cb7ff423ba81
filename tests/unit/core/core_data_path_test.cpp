// The data path of a connection allocates nothing, throws nothing and makes no system call: counted
// allocations, and a thread that may only read, write and end.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include <verbatim/core/prepared.hpp>

#include "core_confined.hpp"
#include "pair/connected_pair.hpp"
#include "sanitized.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using softnic::test::Child;
using softnic::test::Wire;
using test::confined;
using test::kAllocated;
using test::kClean;
using test::kSanitized;

// A flush polls the completion queue alone; a lane's polls look at its side channels, too.
bool await(const OneSided& one_sided, Connection& connection, const Operation& operation) {
    while (connection.try_flush() == Errc::would_block) {
    }
    return one_sided.result(operation) == Errc::ok;
}

constexpr std::size_t kReadsOfList = 20;

// Reads, writes, lists and atomics of typed memory.
bool exercise_one_sided(test::ConnectedPair& pair, const RemoteExtent& extent, std::byte* local) {
    OneSided one_sided(*pair.sender);
    const RemoteSpan<std::uint64_t> remote(extent);
    const std::span words(reinterpret_cast<std::uint64_t*>(local), remote.size());
    std::array<RemoteRead, kReadsOfList> reads;
    for (std::size_t i = 0; i < reads.size(); ++i) reads[i] = {remote[i].extent(), local + 8 * i};
    for (std::size_t i = 0; i < 300; ++i) {
        Operation read, write, all, add;
        const auto some = words.first(1 + i);
        if (one_sided.try_read(remote.subspan(0, 1 + i), some, read) != Errc::ok ||
            one_sided.try_write(std::span<const std::uint64_t>(some), remote.subspan(0, 1 + i),
                                write) != Errc::ok ||
            !await(one_sided, *pair.sender, write) || one_sided.result(read) != Errc::ok)
            return false;
        if (one_sided.try_read_all(reads, all) != Errc::ok ||
            one_sided.try_fetch_add(remote[i], 1, &words[i], add) != Errc::ok ||
            !await(one_sided, *pair.sender, add) || one_sided.result(all) != Errc::ok)
            return false;
    }
    return true;
}

// The same, prepared before.
struct PreparedAll {
    PreparedAll(test::ConnectedPair& pair, const RemoteExtent& extent, std::byte* local)
        : connection(*pair.sender),
          one_sided(connection),
          words(reinterpret_cast<std::uint64_t*>(local), 64),
          read(one_sided, RemoteSpan<std::uint64_t>(extent), words),
          write(one_sided, words, RemoteSpan<std::uint64_t>(extent)),
          add(one_sided, RemoteSpan<std::uint64_t>(extent), &words[0]),
          list(one_sided, reads_of(extent, local)),
          list_from(extent) {}
    static std::vector<RemoteRead> reads_of(const RemoteExtent& extent, std::byte* local) {
        const RemoteSpan<std::uint64_t> remote(extent);
        std::vector<RemoteRead> reads;
        for (std::size_t i = 0; i < kReadsOfList; ++i)
            reads.push_back({remote[i].extent(), local + 8 * i});
        return reads;
    }
    bool exercise() {
        for (std::size_t i = 0; i < 300; ++i) {
            const RemoteRead one{list_from[i % 2].extent(),
                                 reinterpret_cast<std::byte*>(&words[9])};
            if (read.execute(i) != Errc::ok || write.execute(i) != Errc::ok ||
                add.execute(i, i) != Errc::ok || list.set(9, one) != Errc::ok ||
                list.execute() != Errc::ok || !await(one_sided, connection, list.last()) ||
                list.result() != Errc::ok || read.result() != Errc::ok || !read.valid())
                return false;
        }
        return true;
    }
    Connection& connection;
    OneSided one_sided;
    std::span<std::uint64_t> words;
    PreparedRead<std::uint64_t> read;
    PreparedWrite<std::uint64_t> write;
    PreparedFetchAdd add;
    PreparedReads list;
    RemoteSpan<std::uint64_t> list_from;
};

// Messages of every way of sending (prepared, inline, from the mirror), pads, credits, one-sided
// writes, flushes, and looks at an empty ring.
bool exercise(test::ConnectedPair& pair, const RemoteExtent& extent, const std::byte* source) {
    Connection &a = *pair.sender, &b = *pair.receiver;
    static constexpr std::array<std::byte, 3000> payload{};
    constexpr std::size_t kLengths[] = {0, 1, 8, 9, 32, 100, 200, 700, 3000};
    for (int i = 0; i < 3000; ++i) {
        Connection &from = i % 3 == 0 ? b : a, &to = i % 3 == 0 ? a : b;
        const auto text = std::span(payload).first(kLengths[static_cast<std::size_t>(i) % 9]);
        if (from.try_send(1, text.first(text.size() / 2), text.subspan(text.size() / 2)) !=
            Errc::ok)
            return false;
        Message message;
        if (to.try_receive(message) != Errc::ok || message.payload().size() != text.size())
            return false;
        if (from.try_batch(1, text) != Errc::ok || from.try_batch(1, text.first(0)) != Errc::ok ||
            from.try_send(1, {}) != Errc::ok)  // which posts the batch
            return false;
        for (const std::size_t bytes : {text.size(), std::size_t{0}, std::size_t{0}})
            if (to.try_receive(message) != Errc::ok || message.payload().size() != bytes)
                return false;
        if (to.try_receive(message) != Errc::would_block) return false;
        std::size_t written = 0;
        if (a.try_write(source, 8 + static_cast<std::size_t>(i), extent.address, extent.remote_key,
                        written) != Errc::ok)
            return false;
        if (i % 5 == 0)
            while (a.try_flush() == Errc::would_block) {
            }
    }
    return true;
}

// The next message has that many bytes.
bool receives(Connection& connection, std::size_t bytes) {
    Message message;
    return connection.try_receive(message) == Errc::ok && message.payload().size() == bytes;
}

// Claims that are closed out of order, in part, and not at all.
bool exercise_claims(test::ConnectedPair& pair) {
    constexpr std::size_t kLengths[] = {0, 1, 8, 9, 32, 100, 200, 700, 3000};
    for (std::size_t i = 0; i < 1000; ++i) {
        Connection &from = i % 3 == 0 ? *pair.receiver : *pair.sender,
                   &to = i % 3 == 0 ? *pair.sender : *pair.receiver;
        const std::size_t bytes = kLengths[i % 9];
        Claim first, dropped, last;
        if (from.try_claim(1, bytes + 40, first) != Errc::ok ||
            from.try_claim(1, 100, dropped) != Errc::ok ||
            from.try_claim(1, bytes, last) != Errc::ok)
            return false;
        std::ranges::fill(first.bytes(), std::byte(i));
        dropped = Claim();
        if (last.commit(bytes) != Errc::ok || first.commit(bytes + 1) != Errc::ok) return false;
        if (!receives(to, bytes + 1) || !receives(to, bytes)) return false;
    }
    return true;
}

TEST(DataPath, of_connections_allocates_nothing_and_makes_no_system_call) {
    if (kSanitized)
        GTEST_SKIP() << "sanitizers allocate and call the system; runs in every other build";
    Child child([](Wire&) -> int {
        test::ConnectedPair pair;
        auto* source = static_cast<std::byte*>(pair.sender->arena().allocate(8192, 64));
        auto* target = static_cast<std::byte*>(pair.receiver->receive_arena().allocate(8192, 64));
        const Grant grant(*pair.receiver, {target, 8192},
                          Access::remote_write | Access::remote_read | Access::remote_atomic);
        const RemoteExtent extent = grant.extents()[0];
        PreparedAll prepared(pair, extent, source);
        const auto all = [&] {
            return exercise(pair, extent, source) && exercise_claims(pair) &&
                   exercise_one_sided(pair, extent, source) && prepared.exercise();
        };
        all();  // the first use maps the peer's memory
        const int result = confined(all);
        std::_Exit(result);  // closing is not data path
    });
    EXPECT_EQ(child.reap(), kClean);
}

TEST(DataPath, counters_see_an_allocation) {
    if (kSanitized)
        GTEST_SKIP() << "sanitizers allocate and call the system; runs in every other build";
    Child child([](Wire&) -> int {
        std::_Exit(confined([] {
            int* volatile number = new int(7);
            const bool right = *number == 7;
            delete number;
            return right;
        }));
    });
    EXPECT_EQ(child.reap(), kAllocated);
}

TEST(DataPath, confinement_kills_at_a_system_call) {
    if (kSanitized)
        GTEST_SKIP() << "sanitizers allocate and call the system; runs in every other build";
    Child child(
        [](Wire&) -> int { std::_Exit(confined([] { return syscall(SYS_getppid) > 0; })); });
    // The kernel kills the thread; the process ends with it or without a result.
    EXPECT_NE(child.reap(), kClean);
}

}  // namespace
}  // namespace verbatim
