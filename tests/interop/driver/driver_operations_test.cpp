// Every opcode from one queue pair to another, what it does to the memory of both, and how the
// account of the send queue comes out: on every backend.
#include <algorithm>
#include <random>

#include "backend.hpp"

namespace verbatim::test {
namespace {

using mlx5::Completion;
using mlx5::CompletionKind;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

using DriverOperations = DriverTest;

TEST_P(DriverOperations, inline_writes_arrive_at_every_place_of_the_ring) {
    for (const std::size_t bytes : {1u, 7u, 8u, 9u, 28u, 29u, 64u, 100u, 180u, 188u}) {
        for (int i = 0; i < 8; ++i) {
            const auto payload = pattern(bytes, static_cast<unsigned>(bytes) + unsigned(i));
            std::memset(b.at(4096), 0, 512);
            ASSERT_EQ(a.post_write(payload, 4096, bytes), Errc::ok);
            const Completion done = wait_one(a);
            ASSERT_EQ(done.status, Errc::ok);
            EXPECT_EQ(done.id, bytes);
            EXPECT_EQ(done.opcode, Opcode::write);
            EXPECT_EQ(done.queue_pair, a.send->number());
            EXPECT_TRUE(holds(b, 4096, payload)) << bytes;
            EXPECT_EQ(b.value<std::uint8_t>(4096 + bytes), 0) << "a byte too many";
        }
    }
}

TEST_P(DriverOperations, gathered_writes_join_their_elements_and_inline_payload_goes_first) {
    const auto bytes = pattern(70000);
    std::memcpy(a.at(0), bytes.data(), bytes.size());
    const Element elements[] = {a.element(20, 3), a.element(23, 60000), a.element(60023, 1),
                                a.element(60024, 9976)};
    WorkRequest write = a.request(Opcode::write, 100001);
    write.elements = elements;
    ASSERT_EQ(finish(write).status, Errc::ok);
    EXPECT_TRUE(holds(b, 100001, std::span(bytes).subspan(20)));
    // Mixed, and so often that the payload wraps with the ring.
    for (int i = 0; i < 70; ++i) {
        std::memset(b.at(100001), 0, 70000);
        write.inline_payload = std::span(bytes).first(20);
        ASSERT_EQ(finish(write).status, Errc::ok);
        ASSERT_TRUE(holds(b, 100001, bytes)) << i;
    }
}

TEST_P(DriverOperations, reads_scatter_the_peers_bytes) {
    const auto bytes = pattern(5000);
    std::memcpy(b.at(333), bytes.data(), bytes.size());
    const Element elements[] = {a.element(0, 10), a.element(2000, 4000), a.element(9000, 990)};
    WorkRequest read = a.request(Opcode::read, 333);
    read.elements = elements;
    const Completion done = finish(read);
    EXPECT_EQ(done.status, Errc::ok);
    EXPECT_EQ(done.opcode, Opcode::read);
    EXPECT_EQ(done.bytes, 5000u);
    EXPECT_TRUE(holds(a, 0, std::span(bytes).first(10)));
    EXPECT_TRUE(holds(a, 2000, std::span(bytes).subspan(10, 4000)));
    EXPECT_TRUE(holds(a, 9000, std::span(bytes).subspan(4010)));
}

TEST_P(DriverOperations, a_fenced_request_sees_what_the_read_before_it_brought) {
    const auto bytes = pattern(30000, 3);
    std::memcpy(b.at(0), bytes.data(), bytes.size());
    const Element here = a.element(0, bytes.size());
    WorkRequest read = a.request(Opcode::read);
    read.elements = std::span(&here, 1);
    read.signaled = false;
    WorkRequest write = a.request(Opcode::write, 100000);
    write.elements = std::span(&here, 1);
    write.fence = true;
    const WorkRequest both[] = {read, write};
    ASSERT_EQ(a.send->post(both), Errc::ok);
    ASSERT_EQ(wait_one(a).status, Errc::ok);
    EXPECT_TRUE(holds(b, 100000, bytes));
}

TEST_P(DriverOperations, sends_of_any_length_arrive_whole_and_in_order) {
    const std::size_t lengths[] = {0, 1, 15, 64, 4096, 4097, 65536, 200000};
    for (std::size_t i = 0; i < std::size(lengths); ++i) {
        const auto bytes = pattern(lengths[i], static_cast<unsigned>(i));
        std::copy(bytes.begin(), bytes.end(), a.at(0));
        ASSERT_EQ(b.post_receive(300000, 200000, i), Errc::ok);
        const Element from = a.element(0, lengths[i]);
        ASSERT_EQ(a.post_send({&from, lengths[i] == 0 ? 0U : 1U}, 100 + i), Errc::ok);
        const Completion sent = wait_one(a), received = wait_one(b);
        EXPECT_EQ(sent.status, Errc::ok);
        EXPECT_EQ(sent.id, 100 + i);
        EXPECT_EQ(sent.opcode, Opcode::send);
        EXPECT_EQ(received.status, Errc::ok);
        EXPECT_EQ(received.id, i);
        EXPECT_EQ(received.bytes, lengths[i]);
        EXPECT_EQ(received.kind, CompletionKind::receive);
        EXPECT_EQ(received.queue_pair, b.send->number());
        EXPECT_FALSE(received.has_immediate);
        EXPECT_TRUE(holds(b, 300000, bytes));
    }
}

TEST_P(DriverOperations, immediates_arrive_with_sends_and_writes) {
    ASSERT_EQ(b.post_receive(0, 100, 1), Errc::ok);
    ASSERT_EQ(b.receive->post(mlx5::ReceiveRequest{2, {}}), Errc::ok);
    const auto payload = pattern(24);
    WorkRequest message = a.request(Opcode::send_immediate);
    message.inline_payload = payload;
    message.immediate = 0xcafe0001;
    WorkRequest write = a.request(Opcode::write_immediate, 8192);
    write.inline_payload = payload;
    write.immediate = 0xcafe0002;
    const WorkRequest both[] = {message, write};
    ASSERT_EQ(a.send->post(both), Errc::ok);
    const auto got = wait(b, 2);
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].kind, CompletionKind::receive);
    EXPECT_TRUE(got[0].has_immediate);
    EXPECT_EQ(got[0].immediate, 0xcafe0001u);
    EXPECT_EQ(got[0].bytes, 24u);
    EXPECT_EQ(got[1].kind, CompletionKind::receive_immediate);
    EXPECT_EQ(got[1].immediate, 0xcafe0002u);
    EXPECT_EQ(got[1].id, 2u);
    EXPECT_TRUE(holds(b, 0, payload));
    EXPECT_TRUE(holds(b, 8192, payload));
    const auto sent = wait(a, 2);
    ASSERT_EQ(sent.size(), 2u);
    EXPECT_EQ(sent[0].opcode, Opcode::send_immediate);
    EXPECT_EQ(sent[1].opcode, Opcode::write_immediate);
}

TEST_P(DriverOperations, atomics_of_eight_bytes_return_the_old_value_and_change_the_new) {
    const std::uint64_t before = 0x0102030405060708;
    std::memcpy(b.at(64), &before, sizeof before);
    const Element result = a.element(8, 8);
    WorkRequest add = a.request(Opcode::fetch_add, 64);
    add.elements = std::span(&result, 1);
    add.swap_or_add = 0x1000;
    const Completion done = finish(add);
    EXPECT_EQ(done.status, Errc::ok);
    EXPECT_EQ(done.opcode, Opcode::fetch_add);
    EXPECT_EQ(done.bytes, 8u);
    EXPECT_EQ(a.value<std::uint64_t>(8), before);
    EXPECT_EQ(b.value<std::uint64_t>(64), before + 0x1000);

    WorkRequest swap = a.request(Opcode::compare_swap, 64);
    swap.elements = std::span(&result, 1);
    swap.compare = before;  // not the value that is there: nothing is swapped
    swap.swap_or_add = 5;
    EXPECT_EQ(finish(swap).status, Errc::ok);
    EXPECT_EQ(a.value<std::uint64_t>(8), before + 0x1000);
    EXPECT_EQ(b.value<std::uint64_t>(64), before + 0x1000);
    swap.compare = before + 0x1000;
    EXPECT_EQ(finish(swap).opcode, Opcode::compare_swap);
    EXPECT_EQ(b.value<std::uint64_t>(64), 5u);
}

TEST_P(DriverOperations, masked_atomics_and_those_of_four_bytes_work_or_are_unsupported) {
    const std::uint32_t before = 0xfffffff0, neighbour = 0x5a5a5a5a;
    std::memcpy(b.at(64), &before, sizeof before);
    std::memcpy(b.at(68), &neighbour, sizeof neighbour);
    const Element four = a.element(8, 4), eight = a.element(16, 8);
    WorkRequest add = a.request(Opcode::fetch_add, 64);
    add.elements = std::span(&four, 1);
    add.swap_or_add = 0x20;
    WorkRequest swap = a.request(Opcode::masked_compare_swap, 72);
    swap.elements = std::span(&eight, 1);
    swap.compare = 0x00aa00, swap.compare_mask = 0x00ff00;
    swap.swap_or_add = 0x123456, swap.swap_mask = 0xff00ff;
    const std::uint64_t word = 0x99aa77;
    std::memcpy(b.at(72), &word, sizeof word);
    if (!a.device->info().masked_atomics) {
        EXPECT_EQ(a.send->post(add), Errc::unsupported);
        EXPECT_EQ(a.send->post(swap), Errc::unsupported);
        EXPECT_EQ(a.send->free_blocks(), a.send->blocks());
        return;
    }
    EXPECT_EQ(finish(add).bytes, 4u);
    EXPECT_EQ(a.value<std::uint32_t>(8), before);
    EXPECT_EQ(b.value<std::uint32_t>(64), 0x10u);
    EXPECT_EQ(b.value<std::uint32_t>(68), neighbour) << "no carry";
    EXPECT_EQ(finish(swap).status, Errc::ok);
    EXPECT_EQ(b.value<std::uint64_t>(72), 0x12aa56u);
}

TEST_P(DriverOperations, no_ops_and_empty_writes_complete_in_order) {
    WorkRequest nop = a.request(Opcode::nop);
    nop.id = 1;
    WorkRequest empty = a.request(Opcode::write);
    empty.remote_key = 0;  // of nothing
    empty.id = 2;
    const WorkRequest both[] = {nop, empty};
    ASSERT_EQ(a.send->post(both), Errc::ok);
    const auto seen = wait(a, 2);
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].id, 1u);
    EXPECT_EQ(seen[0].opcode, Opcode::nop);
    EXPECT_EQ(seen[1].id, 2u);
    EXPECT_EQ(seen[1].status, Errc::ok);
}

TEST_P(DriverOperations, unsignaled_requests_retire_with_the_next_signaled_one) {
    constexpr std::uint64_t kEvery = 8, kRounds = 20;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
        for (std::uint64_t i = 1; i <= kEvery; ++i)
            ASSERT_EQ(a.post_write(pattern(8, unsigned(i)), i * 8, round * kEvery + i, i == kEvery),
                      Errc::ok);
        EXPECT_EQ(wait_one(a).id, (round + 1) * kEvery);
        EXPECT_EQ(a.send->outstanding(), 0u);
    }
    for (std::uint64_t i = 1; i <= kEvery; ++i)
        EXPECT_TRUE(holds(b, i * 8, pattern(8, unsigned(i))));
    EXPECT_EQ(leftovers(), 0u);
}

TEST_P(DriverOperations, lists_go_under_one_doorbell_all_or_none) {
    std::vector<std::vector<std::byte>> payloads;
    std::vector<WorkRequest> list;
    for (std::size_t i = 0; i < 50; ++i) {
        payloads.push_back(pattern(8, static_cast<unsigned>(i)));
        list.push_back(a.request(Opcode::write, i * 8));
        list.back().inline_payload = payloads.back();
        list.back().signaled = i % 10 == 9;
        list.back().id = i;
    }
    ASSERT_EQ(a.send->post(list), Errc::ok);
    const auto seen = wait(a, 5);
    for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i].id, i * 10 + 9);
    for (std::size_t i = 0; i < 50; ++i) EXPECT_TRUE(holds(b, i * 8, payloads[i])) << i;
    list[49].opcode = Opcode::read;  // with inline payload
    EXPECT_EQ(a.send->post(list), Errc::invalid_argument);
    EXPECT_EQ(a.send->free_blocks(), a.send->blocks());
}

TEST_P(DriverOperations, a_full_queue_says_so_at_every_position_and_goes_on) {
    std::uint64_t next = 1, heard = 1;
    for (std::uint32_t start = 0; start < a.send->blocks(); start += 7) {
        Errc last = Errc::ok;
        while ((last = a.post_write(pattern(8), 0, next)) == Errc::ok) ++next;
        ASSERT_EQ(last, Errc::would_block);
        EXPECT_EQ(a.send->free_blocks(), 0u);
        for (const Completion& done : wait(a, a.send->blocks())) EXPECT_EQ(done.id, heard++);
        EXPECT_EQ(heard, next);
        for (std::uint32_t i = 0; i < 7; ++i) {
            ASSERT_EQ(a.post_write(pattern(8), 0, next++), Errc::ok);
            EXPECT_EQ(wait_one(a).id, heard++);
        }
    }
    EXPECT_EQ(leftovers(), 0u);
}

TEST_P(DriverOperations, a_message_waits_for_a_receive_and_holds_back_later_completions) {
    const auto bytes = pattern(100);
    std::memcpy(a.at(0), bytes.data(), bytes.size());
    const Element from = a.element(0, 100);
    ASSERT_EQ(a.post_send(std::span(&from, 1), 1), Errc::ok);
    ASSERT_EQ(a.post_write(pattern(8), 4096, 2), Errc::ok);
    EXPECT_EQ(leftovers(), 0u);
    ASSERT_EQ(b.post_receive(0, 100), Errc::ok);
    const auto seen = wait(a, 2);
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].id, 1u);
    EXPECT_EQ(seen[1].id, 2u);
    EXPECT_EQ(wait_one(b).status, Errc::ok);
    EXPECT_TRUE(holds(b, 0, bytes));
}

// Writes, reads and atomics of random sizes and forms over both memories, against a model.
TEST_P(DriverOperations, random_requests_do_what_a_model_does) {
    constexpr std::size_t kArea = 4096, kCount = 1500;
    std::mt19937 random(20261121);
    const auto below = [&](std::size_t limit) { return random() % limit; };
    std::vector<std::byte> mine = pattern(kArea, 5), theirs = pattern(kArea, 6);
    std::memcpy(a.at(0), mine.data(), kArea);
    std::memcpy(b.at(0), theirs.data(), kArea);
    for (std::size_t i = 0; i < kCount; ++i) {
        const std::size_t bytes = 1 + below(300), to = below(kArea - 300),
                          from = below(kArea - 300);
        WorkRequest request = a.request(Opcode::write, to);
        Element element = a.element(from, bytes);
        request.fence = true;
        request.id = i;
        switch (below(4)) {
            case 0:
                request.inline_payload =
                    std::span(mine).subspan(from, std::min<std::size_t>(bytes, 188));
                std::copy_n(mine.begin() + std::ptrdiff_t(from), request.inline_payload.size(),
                            theirs.begin() + std::ptrdiff_t(to));
                break;
            case 1:
                request.elements = std::span(&element, 1);
                std::copy_n(mine.begin() + std::ptrdiff_t(from), bytes,
                            theirs.begin() + std::ptrdiff_t(to));
                break;
            case 2:
                request.opcode = Opcode::read;
                request.elements = std::span(&element, 1);
                std::copy_n(theirs.begin() + std::ptrdiff_t(to), bytes,
                            mine.begin() + std::ptrdiff_t(from));
                break;
            default: {
                request.opcode = Opcode::fetch_add;
                request.remote_address &= ~std::uint64_t{7};
                const std::size_t at = to & ~std::size_t{7};
                element.bytes = 8;
                request.elements = std::span(&element, 1);
                request.swap_or_add = random();
                std::uint64_t value;
                std::memcpy(&value, &theirs[at], sizeof value);
                std::memcpy(&mine[from], &value, sizeof value);
                value += request.swap_or_add;
                std::memcpy(&theirs[at], &value, sizeof value);
            }
        }
        // What is read by later requests must be there; most wait for theirs together.
        ASSERT_EQ(finish(request).id, i);
    }
    EXPECT_TRUE(holds(a, 0, mine));
    EXPECT_TRUE(holds(b, 0, theirs));
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverOperations, testing::ValuesIn(backends()), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DriverOperations);

}  // namespace
}  // namespace verbatim::test
