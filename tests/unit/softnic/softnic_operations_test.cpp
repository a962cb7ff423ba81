// Every operation of the software NIC end to end between two devices of this process, with and
// without strict doorbells, with 64- and 128-byte completions, and with a receive ring so small
// that messages must be cut.
#include <gtest/gtest.h>

#include <algorithm>

#include "softnic_end.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::CompletionKind;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

struct Variant {
    const char* name;
    bool strict;
    std::uint32_t entry_bytes;
    std::size_t ring_bytes;
};

class Operations : public testing::TestWithParam<Variant> {
  protected:
    static EndOptions options() {
        EndOptions options;
        options.device.strict_doorbells = GetParam().strict;
        options.device.completion_entry_bytes = GetParam().entry_bytes;
        options.device.ring_bytes = GetParam().ring_bytes;
        return options;
    }
    Pair pair{options()};
    End& a = pair.a;
    End& b = pair.b;
};

TEST_P(Operations, inline_write_lands_before_the_post_returns) {
    for (const std::size_t bytes : {1u, 2u, 3u, 7u, 8u, 9u, 28u, 29u, 63u, 64u, 100u, 188u}) {
        const auto payload = pattern(bytes, static_cast<unsigned>(bytes));
        ASSERT_EQ(a.post_write(payload, 4096 + bytes), Errc::ok) << bytes;
        EXPECT_EQ(std::memcmp(b.at(4096 + bytes), payload.data(), bytes), 0) << bytes;
        EXPECT_EQ(b.value<std::uint8_t>(4096 + 2 * bytes), 0) << "a byte too many, " << bytes;
        std::memset(b.at(4096), 0, 1024);
        ASSERT_EQ(a.poll().size(), 1u);
    }
}

TEST_P(Operations, inline_payload_wraps_with_the_ring) {
    const auto payload = pattern(180);  // 4 blocks
    for (int i = 0; i < 200; ++i) {
        // One single-block request now and then shifts where the wrap falls.
        if (i % 7 == 0) {
            ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
            ASSERT_EQ(a.poll().size(), 1u);
        }
        std::memset(b.at(512), 0, payload.size());
        ASSERT_EQ(a.post_write(payload, 512), Errc::ok);
        ASSERT_EQ(std::memcmp(b.at(512), payload.data(), payload.size()), 0) << i;
        const auto seen = a.poll();
        ASSERT_EQ(seen.size(), 1u);
        ASSERT_EQ(seen[0].status, Errc::ok);
    }
}

TEST_P(Operations, gathered_write_joins_its_elements) {
    const auto bytes = pattern(70000);
    std::memcpy(a.at(0), bytes.data(), bytes.size());
    const Element elements[] = {a.element(0, 3), a.element(3, 60000), a.element(60003, 1),
                                a.element(60004, 9996)};
    WorkRequest write = a.request(Opcode::write, 100001);
    write.elements = elements;
    write.id = 77;
    ASSERT_EQ(a.send->post(write), Errc::ok);
    EXPECT_EQ(std::memcmp(b.at(100001), bytes.data(), bytes.size()), 0);
    const auto seen = a.poll();
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].id, 77u);
    EXPECT_EQ(seen[0].opcode, Opcode::write);
    EXPECT_TRUE(b.poll().empty());
}

TEST_P(Operations, read_scatters_the_peers_bytes) {
    const auto bytes = pattern(5000);
    std::memcpy(b.at(333), bytes.data(), bytes.size());
    const Element elements[] = {a.element(0, 10), a.element(2000, 4000), a.element(9000, 990)};
    WorkRequest read = a.request(Opcode::read, 333);
    read.elements = elements;
    ASSERT_EQ(a.send->post(read), Errc::ok);
    EXPECT_EQ(std::memcmp(a.at(0), bytes.data(), 10), 0);
    EXPECT_EQ(std::memcmp(a.at(2000), bytes.data() + 10, 4000), 0);
    EXPECT_EQ(std::memcmp(a.at(9000), bytes.data() + 4010, 990), 0);
    const auto seen = a.poll();
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].bytes, 5000u);
}

TEST_P(Operations, atomics_return_the_old_value_and_change_the_new) {
    const std::uint64_t before = 0x0102030405060708;
    std::memcpy(b.at(64), &before, sizeof before);
    const Element result = a.element(8, 8);
    WorkRequest add = a.request(Opcode::fetch_add, 64);
    add.elements = std::span(&result, 1);
    add.swap_or_add = 0x1000;
    add.fence = true;
    ASSERT_EQ(a.send->post(add), Errc::ok);
    EXPECT_EQ(a.value<std::uint64_t>(8), before);
    EXPECT_EQ(b.value<std::uint64_t>(64), before + 0x1000);

    WorkRequest swap = a.request(Opcode::compare_swap, 64);
    swap.elements = std::span(&result, 1);
    swap.compare = before;  // not the current value: nothing is swapped
    swap.swap_or_add = 5;
    ASSERT_EQ(a.send->post(swap), Errc::ok);
    EXPECT_EQ(a.value<std::uint64_t>(8), before + 0x1000);
    EXPECT_EQ(b.value<std::uint64_t>(64), before + 0x1000);
    swap.compare = before + 0x1000;
    ASSERT_EQ(a.send->post(swap), Errc::ok);
    EXPECT_EQ(b.value<std::uint64_t>(64), 5u);
    EXPECT_EQ(a.poll().size(), 3u);
}

// One operation on the word at 64; what it returned.
template <class Value>
Value masked(Pair& pair, WorkRequest request) {
    const Element result = pair.a.element(8, sizeof(Value));
    request.elements = std::span(&result, 1);
    request.remote_address = pair.a.peer.address + 64;
    request.remote_key = pair.a.peer.key;
    EXPECT_EQ(pair.a.send->post(request), Errc::ok);
    const auto seen = pair.a.poll();
    EXPECT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen.at(0).status, Errc::ok);
    EXPECT_EQ(seen.at(0).bytes, sizeof(Value));
    return pair.a.value<Value>(8);
}

template <class Value>
void expect_masked_operations(Pair& pair) {
    const auto set = [&](Value value) { std::memcpy(pair.b.at(64), &value, sizeof value); };
    const auto now = [&] { return pair.b.value<Value>(64); };
    constexpr auto kTop = static_cast<Value>(Value{1} << (8 * sizeof(Value) - 1));
    WorkRequest swap;
    swap.opcode = Opcode::masked_compare_swap;
    swap.compare = 0x00aa00;
    swap.compare_mask = 0x00ff00;
    swap.swap_or_add = kTop | 0x123456;
    swap.swap_mask = kTop | 0xff00ff;
    set(0x99aa77);
    EXPECT_EQ(masked<Value>(pair, swap), 0x99aa77u);
    EXPECT_EQ(now(), kTop | 0x12aa56u) << "only what is under the mask";
    set(0x99ab77);
    EXPECT_EQ(masked<Value>(pair, swap), 0x99ab77u);
    EXPECT_EQ(now(), 0x99ab77u) << "differs where it is compared";

    WorkRequest add;
    add.opcode = Opcode::masked_fetch_add;
    add.swap_or_add = 0x010181;
    set(kTop | 0x80ff80);
    EXPECT_EQ(masked<Value>(pair, add), kTop | 0x80ff80u);
    EXPECT_EQ(now(), kTop | 0x820101u) << "one field: carries run through";
    add.field_ends = 0x8080;  // two fields of 8 bits, the rest is a third
    set(0x80ff80);
    masked<Value>(pair, add);
    EXPECT_EQ(now(), 0x810001u);
    add.field_ends = kTop;
    set(static_cast<Value>(~Value{0}));
    masked<Value>(pair, add);
    EXPECT_EQ(now(), 0x010180u);
}

TEST_P(Operations, masked_atomics_change_what_is_under_the_mask) {
    std::memset(b.at(56), 0x5a, 24);
    expect_masked_operations<std::uint64_t>(pair);
    std::memset(b.at(68), 0x5a, 4);
    expect_masked_operations<std::uint32_t>(pair);
    EXPECT_EQ(b.value<std::uint32_t>(68), 0x5a5a5a5au) << "a neighbour";
    EXPECT_EQ(b.value<std::uint64_t>(56), 0x5a5a5a5a5a5a5a5au);
}

TEST_P(Operations, atomics_of_four_bytes_do_what_those_of_eight_do) {
    const std::uint32_t before = 0xfffffff0;
    std::memcpy(b.at(64), &before, sizeof before);
    WorkRequest add;
    add.opcode = Opcode::fetch_add;
    add.swap_or_add = 0x20;
    add.compare = 5;  // says nothing
    EXPECT_EQ(masked<std::uint32_t>(pair, add), before);
    EXPECT_EQ(b.value<std::uint64_t>(64), 0x10u) << "no carry into the next word";
    WorkRequest swap;
    swap.opcode = Opcode::compare_swap;
    swap.compare = 0x11;
    swap.swap_or_add = 7;
    EXPECT_EQ(masked<std::uint32_t>(pair, swap), 0x10u);
    EXPECT_EQ(b.value<std::uint32_t>(64), 0x10u);
    swap.compare = 0x10;
    masked<std::uint32_t>(pair, swap);
    EXPECT_EQ(b.value<std::uint64_t>(64), 7u);
}

// Before the driver's poll turns it round: by this thread where the memory is mapped, else by the
// peer, whose engine this thread drives too.
TEST(AtomicResults, of_four_bytes_are_left_big_endian_and_of_eight_as_the_device_is_told) {
    for (const std::uint32_t big_endian : {4u, 12u})
        for (const bool private_memory : {false, true}) {
            EndOptions options;
            options.device.big_endian_results = big_endian;
            options.private_memory = private_memory;
            Pair pair(options);
            const std::uint64_t before = 0x0102030405060708;
            for (const std::uint32_t bytes : {4u, 8u}) {
                std::memcpy(pair.b.at(64), &before, sizeof before);
                std::memset(pair.a.at(8), 0, 8);
                const Element result = pair.a.element(8, bytes);
                WorkRequest add = pair.a.request(Opcode::fetch_add, 64);
                add.elements = std::span(&result, 1);
                ASSERT_EQ(pair.a.send->post(add), Errc::ok);
                const auto deadline = std::chrono::steady_clock::now() + kPatience;
                while (pair.a.value<std::uint64_t>(8) == 0) {
                    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
                    execute(*pair.b.queue_pair), execute(*pair.a.queue_pair);
                }
                const bool turned = (big_endian & bytes) != 0;
                const std::uint64_t left = pair.a.value<std::uint64_t>(8);
                if (bytes == 4)
                    EXPECT_EQ(left, 0x08070605u);
                else
                    EXPECT_EQ(left, turned ? 0x0807060504030201u : before);
                ASSERT_TRUE(pair.poll_for(bytes / 4, 0));
                EXPECT_EQ(pair.a.value<std::uint64_t>(8),
                          bytes == 4 ? before & 0xffffffff : before);
            }
        }
}

TEST_P(Operations, messages_of_any_length_arrive_whole_and_in_order) {
    const std::vector<std::size_t> lengths{0,    1,    15,   16,    17,    4080,
                                           4096, 4097, 8192, 65520, 65536, 200000};
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        const auto bytes = pattern(lengths[i], static_cast<unsigned>(i));
        std::copy(bytes.begin(), bytes.end(), a.at(0));
        ASSERT_EQ(b.post_receive(300000, 200000, i), Errc::ok);
        const Element element = a.element(0, lengths[i]);
        const std::span<const Element> elements(&element, lengths[i] == 0 ? 0 : 1);
        ASSERT_EQ(a.post_send(elements, 100 + i), Errc::ok);
        ASSERT_TRUE(pair.poll_for(i + 1, i + 1)) << lengths[i];
        EXPECT_EQ(pair.seen_a[i].id, 100 + i);
        EXPECT_EQ(pair.seen_a[i].status, Errc::ok);
        EXPECT_EQ(pair.seen_b[i].id, i);
        EXPECT_EQ(pair.seen_b[i].bytes, lengths[i]);
        EXPECT_EQ(pair.seen_b[i].kind, CompletionKind::receive);
        EXPECT_FALSE(pair.seen_b[i].has_immediate);
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), b.at(300000))) << lengths[i];
    }
}

TEST_P(Operations, received_bytes_are_scattered_over_the_posted_elements) {
    const auto bytes = pattern(9000);
    std::memcpy(a.at(0), bytes.data(), bytes.size());
    const Element into[] = {b.element(0, 5), b.element(1000, 6000), b.element(20000, 6000)};
    ASSERT_EQ(b.receive->post(mlx5::ReceiveRequest{1, into}), Errc::ok);
    const Element from = a.element(0, 9000);
    ASSERT_EQ(a.post_send(std::span(&from, 1)), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 1));
    EXPECT_EQ(std::memcmp(b.at(0), bytes.data(), 5), 0);
    EXPECT_EQ(std::memcmp(b.at(1000), bytes.data() + 5, 6000), 0);
    EXPECT_EQ(std::memcmp(b.at(20000), bytes.data() + 6005, 2995), 0);
}

TEST_P(Operations, immediates_arrive_with_sends_and_writes) {
    ASSERT_EQ(b.post_receive(0, 100, 1), Errc::ok);
    ASSERT_EQ(b.receive->post(mlx5::ReceiveRequest{2, {}}), Errc::ok);
    const auto payload = pattern(24);
    WorkRequest message = a.request(Opcode::send_immediate);
    message.inline_payload = payload;
    message.immediate = 0xcafe0001;
    WorkRequest write = a.request(Opcode::write_immediate, 8192);
    write.inline_payload = payload;
    write.immediate = 0xcafe0002;
    write.solicited = true;
    const WorkRequest chain[] = {message, write};
    ASSERT_EQ(a.send->post(chain), Errc::ok);
    ASSERT_TRUE(pair.poll_for(2, 2));
    EXPECT_EQ(std::memcmp(b.at(8192), payload.data(), 24), 0);
    EXPECT_EQ(pair.seen_b[0].kind, CompletionKind::receive);
    EXPECT_EQ(pair.seen_b[0].immediate, 0xcafe0001u);
    EXPECT_EQ(pair.seen_b[0].bytes, 24u);
    EXPECT_EQ(pair.seen_b[1].kind, CompletionKind::receive_immediate);
    EXPECT_EQ(pair.seen_b[1].immediate, 0xcafe0002u);
    EXPECT_EQ(pair.seen_b[1].bytes, 24u);
    EXPECT_EQ(pair.seen_b[1].id, 2u);
}

TEST_P(Operations, nop_and_empty_write_complete) {
    WorkRequest nop = a.request(Opcode::nop);
    nop.id = 1;
    WorkRequest empty = a.request(Opcode::write);
    empty.remote_key = 0;  // of nothing
    empty.id = 2;
    ASSERT_EQ(a.send->post(nop), Errc::ok);
    ASSERT_EQ(a.send->post(empty), Errc::ok);
    const auto seen = a.poll();
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].id, 1u);
    EXPECT_EQ(seen[1].status, Errc::ok);
}

TEST_P(Operations, unsignaled_requests_leave_no_completion) {
    for (int i = 0; i < 10; ++i) ASSERT_EQ(a.post_write(pattern(8), 0, 0, false), Errc::ok);
    EXPECT_TRUE(a.poll().empty());
    ASSERT_EQ(a.post_write(pattern(8), 0, 42), Errc::ok);
    const auto seen = a.poll();
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].id, 42u);
    EXPECT_EQ(a.send->outstanding(), 0u);
}

TEST_P(Operations, message_waits_for_a_receive_and_holds_back_later_requests) {
    const Element from = a.element(0, 100);
    ASSERT_EQ(a.post_send(std::span(&from, 1), 1), Errc::ok);
    ASSERT_EQ(a.post_write(pattern(8), 4096, 2), Errc::ok);
    for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(b.poll().empty());
        EXPECT_TRUE(a.poll().empty());
    }
    EXPECT_EQ(b.value<std::uint64_t>(4096), 0u);
    EXPECT_EQ(receiver_not_ready_count(*a.queue_pair), 1u);
    ASSERT_EQ(b.post_receive(0, 100), Errc::ok);
    ASSERT_TRUE(pair.poll_for(2, 1));
    EXPECT_EQ(pair.seen_a[0].id, 1u);
    EXPECT_EQ(pair.seen_a[1].id, 2u);
    EXPECT_EQ(std::memcmp(b.at(4096), pattern(8).data(), 8), 0);
}

TEST_P(Operations, full_queue_of_messages_flows_in_both_directions) {
    constexpr std::size_t kMessages = 300, kBytes = 3000;
    std::size_t posted_a = 0, posted_b = 0, receives_a = 0, receives_b = 0;
    std::size_t done_a = 0, done_b = 0, got_a = 0, got_b = 0;
    const auto drive = [](End& end, std::size_t& posted, std::size_t& receives, std::size_t& done,
                          std::size_t& got) {
        while (receives < kMessages &&
               end.post_receive(200000 + receives % 16 * kBytes, kBytes) == Errc::ok)
            ++receives;
        const Element from = end.element(0, kBytes);
        while (posted < kMessages && end.post_send(std::span(&from, 1)) == Errc::ok) ++posted;
        for (const Completion& completion : end.poll()) {
            ASSERT_EQ(completion.status, Errc::ok);
            (completion.kind == CompletionKind::send_side ? done : got) += 1;
        }
    };
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (done_a + done_b + got_a + got_b < 4 * kMessages) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        ASSERT_NO_FATAL_FAILURE(drive(a, posted_a, receives_a, done_a, got_a));
        ASSERT_NO_FATAL_FAILURE(drive(b, posted_b, receives_b, done_b, got_b));
    }
    EXPECT_EQ(got_a, kMessages);
    EXPECT_EQ(got_b, kMessages);
}

INSTANTIATE_TEST_SUITE_P(SoftNic, Operations,
                         testing::Values(Variant{"plain", false, 64, 64 << 10},
                                         Variant{"strict", true, 64, 64 << 10},
                                         Variant{"cqe128", true, 128, 64 << 10},
                                         Variant{"small_ring", false, 64, 256}),
                         [](const auto& variant) { return variant.param.name; });

TEST(SoftNic, parked_device_does_nothing_until_executed) {
    EndOptions options;
    options.device.parked = true;
    Pair pair(options);
    ASSERT_EQ(pair.a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_TRUE(pair.a.poll().empty());
    EXPECT_EQ(pair.b.value<std::uint64_t>(0), 0u);
    execute(*pair.a.queue_pair);
    EXPECT_NE(pair.b.value<std::uint64_t>(0), 0u);
    EXPECT_EQ(pair.a.poll().size(), 1u);
}

TEST(SoftNic, requests_posted_before_connect_run_when_connected) {
    EndOptions options;
    options.device.strict_doorbells = false;  // a strict device wants a doorbell once it is ready
    End a(options), b(options);
    a.peer = b.address();
    ASSERT_EQ(a.post_write(pattern(8), 0), Errc::ok);
    EXPECT_TRUE(a.poll().empty());
    a.connect(b.address());
    EXPECT_EQ(a.poll().size(), 1u);
    EXPECT_EQ(std::memcmp(b.at(0), pattern(8).data(), 8), 0);
}

}  // namespace
}  // namespace verbatim::softnic::test
