// Prepared operations of every kind: on every backend.
#include <verbatim/mlx5/prebuilt_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>

#include "backend.hpp"

namespace verbatim::test {
namespace {

using mlx5::Completion;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

using DriverPrepared = DriverTest;

TEST_P(DriverPrepared, what_is_patched_is_what_goes) {
    const auto bytes = pattern(4096);
    std::memcpy(a.at(0), bytes.data(), bytes.size());
    const Element element = a.element(0, 64);
    WorkRequest write = a.request(Opcode::write);
    write.elements = std::span(&element, 1);
    mlx5::Prepared<Opcode::write, mlx5::Elements<1>> prepared(*a.send, write);
    for (std::size_t i = 0; i < 100; ++i) {
        ASSERT_EQ(prepared.set_element(0, a.peer_address_of(i * 7), 40), Errc::ok);
        ASSERT_EQ(prepared.post(i, a.peer.address + i * 64, mlx5::kUnchanged), Errc::ok);
        ASSERT_EQ(wait_one(a).id, i);
        EXPECT_TRUE(holds(b, i * 64, std::span(bytes).subspan(i * 7, 40))) << i;
    }
}

// Each read from an address of its own, under a key of its own.
TEST_P(DriverPrepared, lists_of_reads_go_in_order) {
    const auto bytes = pattern(4096);
    std::memcpy(b.at(0), bytes.data(), bytes.size());
    const Element element = a.element(0, 64);
    WorkRequest request = a.request(Opcode::read);
    request.remote_key = 0;
    request.elements = std::span(&element, 1);
    mlx5::Prepared<Opcode::read, mlx5::Gather<1>> read(*a.send, request);
    for (std::uint64_t round = 0; round < 10; ++round) {
        std::memset(a.at(0), 0, 1000);
        const auto nth = [&](std::uint32_t i) {
            return mlx5::Listed{mlx5::RemoteMemory{a.peer.address + i * 64, a.peer.key},
                                [&, i](std::uint32_t) { return a.peer_address_of(i * 100); }};
        };
        ASSERT_EQ(read.post_list(round * 10, 10, nth), Errc::ok);
        EXPECT_EQ(wait_one(a).id, round * 10 + 9);
        for (std::size_t i = 0; i < 10; ++i)
            EXPECT_TRUE(holds(a, i * 100, std::span(bytes).subspan(i * 64, 64))) << i;
    }
}

TEST_P(DriverPrepared, atomics_take_their_operands_with_each_post) {
    const Element element = a.element(0, 8);
    WorkRequest add = a.request(Opcode::fetch_add), swap = a.request(Opcode::compare_swap);
    add.elements = swap.elements = std::span(&element, 1);
    mlx5::Prepared<Opcode::fetch_add, mlx5::Addend> adds(*a.send, add);
    mlx5::Prepared<Opcode::compare_swap, mlx5::Exchange> swaps(*a.send, swap);
    std::uint64_t expected = b.value<std::uint64_t>(64);
    for (std::uint64_t i = 1; i < 50; ++i) {
        ASSERT_EQ(adds.post(i, a.peer.address + 64, i), Errc::ok);
        ASSERT_EQ(wait_one(a).id, i);
        EXPECT_EQ(a.value<std::uint64_t>(0), expected);
        expected += i;
        const mlx5::Exchange::Values values{i % 2 == 0 ? expected : ~expected, i * 1000};
        ASSERT_EQ(swaps.post(i, a.peer.address + 64, values), Errc::ok);
        ASSERT_EQ(wait_one(a).id, i);
        EXPECT_EQ(a.value<std::uint64_t>(0), expected);
        if (i % 2 == 0) expected = i * 1000;
        EXPECT_EQ(b.value<std::uint64_t>(64), expected);
    }
}

TEST_P(DriverPrepared, writes_of_eight_bytes_go_alone_and_in_lists) {
    mlx5::PreparedWrite8 write(*a.send, {.opcode = Opcode::write, .remote_key = a.peer.key});
    for (std::uint64_t i = 0; i < 200; ++i) {
        ASSERT_EQ(write.post(i, a.peer.address + i % 16 * 8, i), Errc::ok);
        ASSERT_EQ(wait_one(a).id, i);
        EXPECT_EQ(b.value<std::uint64_t>(i % 16 * 8), i);
    }
    for (std::uint64_t round = 0; round < 10; ++round) {
        ASSERT_EQ(write.post_list(round * 32, 32,
                                  [&](std::uint32_t i) {
                                      return mlx5::Listed{a.peer.address + i * 8, round * 1000 + i};
                                  }),
                  Errc::ok);
        EXPECT_EQ(wait_one(a).id, round * 32 + 31);
        for (std::uint64_t i = 0; i < 32; ++i)
            EXPECT_EQ(b.value<std::uint64_t>(i * 8), round * 1000 + i);
    }
    EXPECT_EQ(leftovers(), 0u);
}

TEST_P(DriverPrepared, shapes_known_at_compile_time_are_copied) {
    const auto bytes = pattern(64);
    WorkRequest request = a.request(Opcode::write);
    request.inline_payload = bytes;
    mlx5::Prepared<Opcode::write, mlx5::Inline<64>> write(*a.send, request);
    for (std::size_t i = 0; i < 100; ++i) {
        const auto payload = pattern(64, static_cast<unsigned>(i));
        ASSERT_EQ(write.post(i, a.peer.address + i * 64, payload.data()), Errc::ok);
        ASSERT_EQ(wait_one(a).id, i);
        EXPECT_TRUE(holds(b, i * 64, payload)) << i;
    }
}

// In slots with a no-op before the request, of which nobody ever hears.
TEST_P(DriverPrepared, whole_queues_are_prebuilt_and_patched_in_place) {
    const auto bytes = pattern(8192);
    std::memcpy(b.at(0), bytes.data(), bytes.size());
    std::vector<Element> elements;
    for (std::size_t i = 0; i < 10; ++i) elements.push_back(a.element(i * 100, 50));
    WorkRequest read = a.request(Opcode::read);
    read.elements = elements;
    using Reads = mlx5::PrebuiltQueue<Opcode::read, mlx5::Gather<10>>;
    Reads reads(a.queue_pair->view(), read);
    a.completions->attach(&reads, nullptr);
    for (std::size_t i = 0; i < 100; ++i) {
        std::memset(a.at(0), 0, 4096);
        ASSERT_EQ(reads.post(i, a.peer.address + i,
                             [&](std::uint32_t k) { return a.peer_address_of(k * 200); }),
                  Errc::ok);
        ASSERT_EQ(wait_one(a).id, i);
        for (std::size_t k = 0; k < 10; ++k)
            ASSERT_TRUE(holds(a, k * 200, std::span(bytes).subspan(i + k * 50, 50))) << i;
    }
    a.queue_pair->fail();
    ASSERT_EQ(reads.post(100, a.peer.address, [&](std::uint32_t) { return a.peer_address_of(0); }),
              Errc::ok);
    const Completion flushed = wait_one(a);
    EXPECT_EQ(flushed.id, 100u);
    EXPECT_EQ(flushed.status, Errc::flushed);
    EXPECT_EQ(leftovers(), 0u);
    a.completions->attach(a.send.get(), nullptr);
}

TEST_P(DriverPrepared, operations_end_with_a_region_they_name_and_with_a_reset_of_their_queue) {
    const auto region = a.device->register_memory(a.at(0), 4096, kAllAccess, {a.memory.file(), 0});
    const Element element{a.peer_address_of(0), 64, region->local_key()};
    WorkRequest write = a.request(Opcode::write);
    write.elements = std::span(&element, 1);
    const MemoryRegion* named = region.get();
    mlx5::Prepared<Opcode::write, mlx5::Elements<1>> of_region(*a.send, write,
                                                               std::span(&named, 1));
    mlx5::PreparedWrite8 of_queue(*a.send, {.opcode = Opcode::write, .remote_key = a.peer.key});
    const std::uint64_t to = a.peer.address, payload = 1;
    ASSERT_EQ(of_region.post(1, to, mlx5::kUnchanged), Errc::ok);
    EXPECT_EQ(wait_one(a).id, 1u);
    region->release();
    EXPECT_EQ(of_region.post(2, to, mlx5::kUnchanged), Errc::invalid_prepared);
    EXPECT_FALSE(of_region.valid());
    ASSERT_EQ(of_queue.post(3, to, payload), Errc::ok);
    EXPECT_EQ(wait_one(a).id, 3u);
    a.queue_pair->reset();
    a.completions->discard(a.send->number());
    a.send->reset();
    EXPECT_EQ(of_queue.post(4, to, payload), Errc::invalid_prepared);
    EXPECT_EQ(leftovers(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverPrepared, testing::ValuesIn(backends()), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DriverPrepared);

}  // namespace
}  // namespace verbatim::test
