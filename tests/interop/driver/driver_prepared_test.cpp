// Prepared operations of every kind: on every backend.
#include <numeric>

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
    mlx5::Prepared prepared(*a.send, write);
    for (std::size_t i = 0; i < 100; ++i) {
        ASSERT_EQ(prepared.set_remote_address(a.peer.address + i * 64), Errc::ok);
        ASSERT_EQ(prepared.set_element(0, a.peer_address_of(i * 7), 40), Errc::ok);
        ASSERT_EQ(prepared.post(i), Errc::ok);
        ASSERT_EQ(wait_one(a).id, i);
        EXPECT_TRUE(holds(b, i * 64, std::span(bytes).subspan(i * 7, 40))) << i;
    }
}

TEST_P(DriverPrepared, lists_go_in_order) {
    const auto bytes = pattern(4096);
    std::memcpy(b.at(0), bytes.data(), bytes.size());
    std::vector<Element> elements;
    std::vector<WorkRequest> reads;
    for (std::size_t i = 0; i < 10; ++i) elements.push_back(a.element(i * 100, 64));
    for (std::size_t i = 0; i < 10; ++i) {
        reads.push_back(a.request(Opcode::read, i * 64));
        reads.back().elements = std::span(&elements[i], 1);
        reads.back().signaled = i % 2 == 1;
    }
    mlx5::PreparedList list(*a.send, reads);
    std::vector<std::uint64_t> ids(10);
    for (std::uint64_t round = 0; round < 10; ++round) {
        std::memset(a.at(0), 0, 1000);
        std::iota(ids.begin(), ids.end(), round * 10);
        ASSERT_EQ(list.post(ids), Errc::ok);
        const auto seen = wait(a, 5);
        for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i].id, round * 10 + 2 * i + 1);
        for (std::size_t i = 0; i < 10; ++i)
            EXPECT_TRUE(holds(a, i * 100, std::span(bytes).subspan(i * 64, 64))) << i;
    }
}

TEST_P(DriverPrepared, writes_of_eight_bytes_go_alone_and_in_lists) {
    mlx5::PreparedWrite8 write(*a.send, {a.peer.address, a.peer.key});
    for (std::uint64_t i = 0; i < 200; ++i) {
        ASSERT_EQ(write.post(i, a.peer.address + i % 16 * 8, i), Errc::ok);
        ASSERT_EQ(wait_one(a).id, i);
        EXPECT_EQ(b.value<std::uint64_t>(i % 16 * 8), i);
    }
    for (std::uint64_t round = 0; round < 10; ++round) {
        ASSERT_EQ(
            write.post_list(
                round * 32, 32,
                [&](std::uint32_t i) {
                    return mlx5::PreparedWrite8::Write{a.peer.address + i * 8, round * 1000 + i};
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
    mlx5::PreparedFixed<Opcode::write, mlx5::Inline<64>> write(*a.send, request);
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
    using Reads = mlx5::PrebuiltSendQueue<Opcode::read, mlx5::Gather<10>>;
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
    mlx5::Prepared of_region(*a.send, write, std::span(&named, 1));
    mlx5::PreparedWrite8 of_queue(*a.send, {a.peer.address, a.peer.key});
    ASSERT_EQ(of_region.post(1), Errc::ok);
    EXPECT_EQ(wait_one(a).id, 1u);
    region->release();
    EXPECT_EQ(of_region.post(2), Errc::invalid_prepared);
    EXPECT_FALSE(of_region.valid());
    ASSERT_EQ(of_queue.post(3), Errc::ok);
    EXPECT_EQ(wait_one(a).id, 3u);
    a.queue_pair->reset();
    a.completions->discard(a.send->number());
    a.send->reset();
    EXPECT_EQ(of_queue.post(4), Errc::invalid_prepared);
    EXPECT_EQ(leftovers(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverPrepared, testing::ValuesIn(backends()), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DriverPrepared);

}  // namespace
}  // namespace verbatim::test
