// Prepared operations: the same bytes as a fresh post, changes within the shape, and an end of
// validity that no post survives.
#include <verbatim/mlx5/prepared.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

// A region whose release moves an epoch, as every device's does.
class FakeRegion final : public MemoryRegion {
  public:
    FakeRegion(std::uint64_t& epoch, std::uint32_t key) : epoch_(epoch) {
        local_key_ = remote_key_ = key;
    }
    ~FakeRegion() override { release(); }
    void release() override {
        mark_released();
        __atomic_fetch_add(&epoch_, 1, __ATOMIC_RELEASE);
    }

  private:
    std::uint64_t& epoch_;
};

// What the device sees of one post, without its index.
SeenWqe seen_of(TestDevice& device, SendQueue& queue) {
    SeenWqe seen = device.fetch().at(0);
    EXPECT_TRUE(queue.retire(seen.index));
    seen.bytes[1] = seen.bytes[2] = std::byte{0};
    return seen;
}

void expect_equal(TestDevice& device, SendQueue& queue, Prepared& prepared, Request& fresh) {
    ASSERT_EQ(prepared.post(fresh.work.id), Errc::ok);
    const SeenWqe first = seen_of(device, queue);
    ASSERT_EQ(queue.post(fresh.get()), Errc::ok);
    const SeenWqe second = seen_of(device, queue);
    EXPECT_EQ(first.bytes, second.bytes);
    expect_sees(first, fresh);
}

TEST(Prepared, equals_a_fresh_post_byte_for_byte) {
    TestDevice device({.send_blocks = 32});
    SendQueue queue(device.queue_pair());
    std::vector<Request> matrix;
    for (const Opcode opcode :
         {Opcode::write, Opcode::write_immediate, Opcode::send, Opcode::send_immediate}) {
        for (const std::size_t bytes :
             std::initializer_list<std::size_t>{1, 8, 12, 13, 28, 29, 44, 45, 188, 700})
            matrix.push_back(inline_request(opcode, bytes));
    }
    for (const Opcode opcode : {Opcode::write, Opcode::write_immediate, Opcode::send,
                                Opcode::send_immediate, Opcode::read}) {
        for (const std::size_t elements : std::initializer_list<std::size_t>{0, 1, 2, 3, 7, 13, 40})
            matrix.push_back(gather_request(opcode, elements));
    }
    matrix.push_back(atomic_request(Opcode::compare_swap));
    matrix.push_back(atomic_request(Opcode::fetch_add));
    matrix.push_back(request(Opcode::nop));
    for (Request& asked : matrix) {
        for (int bits = 0; bits < 8; ++bits) {
            asked.work.signaled = (bits & 1) != 0;
            asked.work.fence = (bits & 2) != 0;
            asked.work.solicited = (bits & 4) != 0;
            Prepared prepared(queue, asked.get());
            expect_equal(device, queue, prepared, asked);
            expect_equal(device, queue, prepared,
                         asked);  // and again, at another place of the ring
        }
    }
}

TEST(Prepared, changes_show_in_the_next_post) {
    TestDevice device({.send_blocks = 32});
    SendQueue queue(device.queue_pair());
    Request write = inline_request(Opcode::write_immediate, 21);
    Prepared prepared(queue, write.get());
    write.work.remote_address = 0x123456789abcdef0;
    write.work.remote_key = 0x55;
    write.work.immediate = 0xdeadbeef;
    write.inline_payload = pattern(21, 99);
    write.work.signaled = false;
    write.work.fence = true;
    EXPECT_EQ(prepared.set_remote_address(write.work.remote_address), Errc::ok);
    EXPECT_EQ(prepared.set_remote_key(0x55), Errc::ok);
    EXPECT_EQ(prepared.set_immediate(0xdeadbeef), Errc::ok);
    EXPECT_EQ(prepared.set_inline_payload(write.inline_payload), Errc::ok);
    prepared.set_signaled(false);
    prepared.set_fence(true);
    expect_equal(device, queue, prepared, write);

    Request read = gather_request(Opcode::read, 5);
    Prepared reader(queue, read.get());
    read.elements[4].address = 0x4444000;
    read.elements[4].bytes = 1U << 31;
    read.elements[0].bytes = 17;
    for (std::size_t i = 1; i < 4; ++i) read.elements[i].bytes = 1;
    for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(reader.set_element(i, read.elements[i].address, read.elements[i].bytes),
                  Errc::ok);
    }
    ASSERT_EQ(reader.post(1), Errc::ok);
    expect_sees(seen_of(device, queue), read);

    Request swap = atomic_request(Opcode::compare_swap);
    Prepared swapper(queue, swap.get());
    swap.work.compare = 3;
    swap.work.swap_or_add = 4;
    EXPECT_EQ(swapper.set_operands(4, 3), Errc::ok);
    expect_equal(device, queue, swapper, swap);
}

TEST(Prepared, refuses_changes_that_need_another_shape) {
    TestDevice device({.send_blocks = 32});
    SendQueue queue(device.queue_pair());
    Request sent = inline_request(Opcode::send, 8);
    Prepared send(queue, sent.get());
    EXPECT_EQ(send.set_remote_address(1), Errc::invalid_argument);
    EXPECT_EQ(send.set_remote_key(1), Errc::invalid_argument);
    EXPECT_EQ(send.set_immediate(1), Errc::invalid_argument);
    EXPECT_EQ(send.set_operands(1, 1), Errc::invalid_argument);
    EXPECT_EQ(send.set_element(0, 0x1000, 8), Errc::invalid_argument);
    EXPECT_EQ(send.set_inline_payload(pattern(9)), Errc::invalid_argument);
    EXPECT_EQ(send.set_inline_payload(pattern(7)), Errc::invalid_argument);
    EXPECT_EQ(send.set_inline_payload({}), Errc::invalid_argument);
    expect_equal(device, queue, send, sent);

    Request written = gather_request(Opcode::write, 2);
    Prepared write(queue, written.get());
    EXPECT_EQ(write.set_element(2, 0x1000, 8), Errc::invalid_argument);
    EXPECT_EQ(write.set_element(0, 0x1000, 0), Errc::invalid_argument);
    EXPECT_EQ(write.set_element(0, 0x1000, (1U << 31) + 1), Errc::invalid_argument);
    EXPECT_EQ(write.set_inline_payload(pattern(8)), Errc::invalid_argument);
    expect_equal(device, queue, write, written);

    Request added = atomic_request(Opcode::fetch_add);
    Prepared add(queue, added.get());
    EXPECT_EQ(add.set_remote_address(0x1004), Errc::invalid_argument);
    EXPECT_EQ(add.set_element(0, 0x1000, 16), Errc::invalid_argument);
    expect_equal(device, queue, add, added);
}

TEST(Prepared, what_the_queue_can_never_take_is_refused_at_once) {
    TestDevice device({.send_blocks = 2});
    SendQueue queue(device.queue_pair());
    EXPECT_THROW(Prepared(queue, inline_request(Opcode::write, 200).get()), Error);
    EXPECT_THROW(Prepared(queue, inline_request(Opcode::write, 701).get()), Error);
    EXPECT_THROW(Prepared(queue, inline_request(Opcode::read, 8).get()), Error);
    std::vector<WorkRequest> three(3);
    EXPECT_THROW(PreparedList(queue, three), Error);
    TestDevice no_inline({.max_inline_bytes = 7});
    SendQueue small(no_inline.queue_pair());
    EXPECT_THROW(PreparedWrite8(small, {}), Error);
}

TEST(Prepared, would_block_like_any_post) {
    TestDevice device({.send_blocks = 4});
    SendQueue queue(device.queue_pair());
    Prepared one(queue, inline_request(Opcode::write, 8).get());
    Prepared two(queue, inline_request(Opcode::write, 60).get());
    PreparedWrite8 eight(queue, {0x1000, 1});
    ASSERT_EQ(two.post(1), Errc::ok);
    ASSERT_EQ(one.post(2), Errc::ok);
    EXPECT_EQ(two.post(3), Errc::would_block);
    ASSERT_EQ(eight.post(4), Errc::ok);
    ASSERT_EQ(one.post(5), Errc::would_block);
    ASSERT_EQ(eight.post(6), Errc::would_block);
    EXPECT_EQ(queue.outstanding(), 3U);
    EXPECT_EQ(queue.retire(0), 1U);
    EXPECT_EQ(queue.retire(2), 2U);
    EXPECT_EQ(queue.retire(3), 4U);
    EXPECT_TRUE(one.valid() && two.valid() && eight.valid());
}

TEST(PreparedWrite8, is_an_inline_write_of_eight_bytes) {
    TestDevice device({.send_blocks = 4});
    SendQueue queue(device.queue_pair());
    Request fresh = inline_request(Opcode::write, 8, 3);
    PreparedWrite8 write(queue, {fresh.work.remote_address, fresh.work.remote_key});
    for (std::uint32_t i = 0; i < 0x10010; ++i) {
        const std::uint64_t payload = 0x0102030405060708U * (i + 1);
        std::memcpy(fresh.inline_payload.data(), &payload, 8);
        fresh.work.remote_address += 8;
        fresh.work.signaled = i % 3 == 0;
        write.set_signaled(fresh.work.signaled);
        if (i % 2 == 0) {
            ASSERT_EQ(write.post(i, fresh.work.remote_address, payload), Errc::ok);
        } else {
            write.set_remote_address(fresh.work.remote_address);
            write.set_remote_key(fresh.work.remote_key = i);
            write.set_payload(payload);
            ASSERT_EQ(write.post(i), Errc::ok);
        }
        const auto seen = device.fetch();
        ASSERT_EQ(seen.size(), 1U);
        expect_sees(seen[0], fresh);
        ASSERT_EQ(seen[0].bytes.size(), 48U);
        ASSERT_EQ(std::memcmp(device.register_half(static_cast<int>(i % 2)),
                              device.ring() + i % 4 * 64, 64),
                  0);
        ASSERT_EQ(queue.retire(seen[0].index), i);
    }
}

TEST(PreparedList, is_posted_in_order_under_one_doorbell) {
    TestDevice device({.send_blocks = 16});
    int rings = 0;
    device.doorbell_hook = {
        [](void* context, const volatile void*) noexcept { ++*static_cast<int*>(context); },
        &rings};
    SendQueue queue(device.queue_pair());
    std::vector<Request> asked{inline_request(Opcode::write, 100), gather_request(Opcode::read, 3),
                               request(Opcode::send_immediate)};  // 3 + 2 + 1 blocks
    std::vector<WorkRequest> work;
    for (Request& one : asked) work.push_back(one.get());
    PreparedList list(queue, work);
    ASSERT_EQ(list.size(), 3U);
    const std::array<std::uint64_t, 3> ids{7, 8, 9};
    for (int round = 0; round < 20; ++round) {
        asked[2].work.immediate = static_cast<std::uint32_t>(round);
        ASSERT_EQ(list[2].set_immediate(asked[2].work.immediate), Errc::ok);
        ASSERT_EQ(list.post(ids), Errc::ok);
        EXPECT_EQ(rings, round + 1);
        const auto seen = device.fetch();
        ASSERT_EQ(seen.size(), 3U);
        for (std::size_t i = 0; i < 3; ++i) expect_sees(seen[i], asked[i]);
        // The register names the last WQE of the list.
        EXPECT_EQ(std::memcmp(device.register_half(round % 2), seen[2].bytes.data(), 8), 0);
        for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(queue.retire(seen[i].index), ids[i]);
    }
    EXPECT_EQ(list.post(std::span(ids).first(2)), Errc::invalid_argument);
}

TEST(PreparedList, is_posted_whole_or_not_at_all) {
    TestDevice device({.send_blocks = 16});
    SendQueue queue(device.queue_pair());
    std::vector<WorkRequest> work(3);
    PreparedList list(queue, work);
    const std::array<std::uint64_t, 3> ids{1, 2, 3};
    for (int i = 0; i < 5; ++i) ASSERT_EQ(list.post(ids), Errc::ok);
    EXPECT_EQ(device.fetch().size(), 15U);
    EXPECT_EQ(list.post(ids), Errc::would_block);
    EXPECT_TRUE(device.fetch().empty());
    EXPECT_EQ(queue.outstanding(), 15U);
    ASSERT_TRUE(queue.retire(1));
    EXPECT_EQ(list.post(ids), Errc::ok);
    EXPECT_EQ(queue.free_blocks(), 0U);
}

TEST(Prepared, a_reset_queue_ends_it_for_good) {
    TestDevice device;
    SendQueue queue(device.queue_pair());
    Prepared prepared(queue, inline_request(Opcode::write, 8).get());
    Prepared large(queue, inline_request(Opcode::write, 100).get());
    PreparedWrite8 eight(queue, {});
    std::vector<WorkRequest> work(2);
    PreparedList list(queue, work);
    EXPECT_TRUE(prepared.valid() && large.valid() && eight.valid() && list.valid());
    queue.reset();
    EXPECT_FALSE(prepared.valid() || large.valid() || eight.valid() || list.valid());
    const std::array<std::uint64_t, 2> ids{};
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(prepared.post(1), Errc::invalid_prepared);
        EXPECT_EQ(large.post(1), Errc::invalid_prepared);
        EXPECT_EQ(eight.post(1), Errc::invalid_prepared);
        EXPECT_EQ(list.post(ids), Errc::invalid_prepared);
    }
    EXPECT_EQ(queue.outstanding(), 0U);
    EXPECT_EQ(device.raw_send_record(), 0U);
    Prepared again(queue, inline_request(Opcode::write, 8).get());
    EXPECT_EQ(again.post(1), Errc::ok);
    EXPECT_EQ(prepared.post(1), Errc::invalid_prepared);
}

TEST(Prepared, the_first_post_after_a_reset_has_index_zero) {
    TestDevice device;
    SendQueue queue(device.queue_pair());
    for (int i = 0; i < 3; ++i) ASSERT_EQ(queue.post(request(Opcode::nop).get()), Errc::ok);
    queue.reset();
    device.reset();
    Request asked = inline_request(Opcode::write, 8);
    Prepared prepared(queue, asked.get());
    ASSERT_EQ(prepared.post(1), Errc::ok);
    const auto seen = device.fetch();
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].index, 0);
    expect_sees(seen[0], asked);
}

TEST(Prepared, outlives_its_queue_as_an_error_value) {
    TestDevice device;
    auto queue = std::make_unique<SendQueue>(device.queue_pair());
    Prepared prepared(*queue, inline_request(Opcode::write, 8).get());
    PreparedWrite8 eight(*queue, {});
    queue.reset();
    EXPECT_FALSE(prepared.valid());
    EXPECT_EQ(prepared.post(1), Errc::invalid_prepared);
    EXPECT_EQ(eight.post(1), Errc::invalid_prepared);
    EXPECT_EQ(prepared.set_remote_address(8), Errc::ok);  // harmless
}

TEST(Prepared, moves_with_its_place_in_the_queue) {
    TestDevice device;
    SendQueue queue(device.queue_pair());
    std::vector<PreparedWrite8> many;
    for (std::uint32_t i = 0; i < 20; ++i)
        many.push_back(PreparedWrite8(queue, {0x1000, i}));  // moves as it grows
    std::optional<Prepared> one(std::in_place, queue, inline_request(Opcode::write, 8).get());
    Prepared moved(std::move(*one));
    EXPECT_EQ(one->post(1), Errc::invalid_prepared);
    one.reset();
    EXPECT_EQ(moved.post(1), Errc::ok);
    for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(many[i].post(i), Errc::ok);
    many.erase(many.begin(), many.begin() + 5);
    moved = Prepared(queue, request(Opcode::nop).get());
    EXPECT_EQ(moved.post(2), Errc::ok);
    queue.reset();
    for (PreparedWrite8& each : many) EXPECT_EQ(each.post(1), Errc::invalid_prepared);
    EXPECT_EQ(moved.post(1), Errc::invalid_prepared);
}

struct Regions : testing::Test {
    std::uint64_t epoch = 5;
    TestDevice device;
    SendQueue queue{device.queue_pair(), &epoch};
    std::optional<FakeRegion> first{std::in_place, epoch, 0x100000},
        second{std::in_place, epoch, 0x100001}, other{std::in_place, epoch, 0x100002};
    Request asked = gather_request(Opcode::write, 2);  // its keys are those of first and second
};

TEST_F(Regions, a_released_region_ends_what_names_it_and_nothing_else) {
    const std::array<const MemoryRegion*, 2> named{&*first, &*second};
    Prepared prepared(queue, asked.get(), named);
    Prepared bystander(queue, inline_request(Opcode::write, 8).get());
    ASSERT_EQ(prepared.post(1), Errc::ok);
    other.reset();
    EXPECT_EQ(epoch, 6U);
    EXPECT_TRUE(prepared.valid());
    EXPECT_EQ(prepared.post(2), Errc::ok);
    second.reset();
    EXPECT_FALSE(prepared.valid());
    EXPECT_EQ(prepared.post(3), Errc::invalid_prepared);
    EXPECT_EQ(prepared.post(3), Errc::invalid_prepared);
    EXPECT_EQ(bystander.post(4), Errc::ok);
    EXPECT_EQ(queue.outstanding(), 3U);
}

TEST_F(Regions, an_element_can_move_to_another_region) {
    const std::array<const MemoryRegion*, 2> named{&*first, &*second};
    Prepared prepared(queue, asked.get(), named);
    asked.elements[1] = {0x9000, 32, other->local_key()};
    EXPECT_EQ(prepared.set_element(1, asked.elements[1], *first),
              Errc::invalid_argument);  // another key
    EXPECT_EQ(prepared.set_element(2, asked.elements[1], *other), Errc::invalid_argument);
    ASSERT_EQ(prepared.set_element(1, asked.elements[1], *other), Errc::ok);
    second.reset();  // no longer named
    ASSERT_EQ(prepared.post(1), Errc::ok);
    expect_sees(device.fetch().at(0), asked);
    other.reset();
    EXPECT_EQ(prepared.post(2), Errc::invalid_prepared);
}

TEST_F(Regions, a_list_watches_the_regions_of_all_its_requests) {
    Request more = gather_request(Opcode::read, 1);
    more.elements[0].local_key = other->local_key();
    const std::array<WorkRequest, 2> work{asked.get(), more.get()};
    const std::array<const MemoryRegion*, 3> named{&*first, &*second, &*other};
    PreparedList list(queue, work, named);
    const std::array<std::uint64_t, 2> ids{1, 2};
    EXPECT_EQ(list.post(ids), Errc::ok);
    other.reset();
    EXPECT_FALSE(list.valid());
    EXPECT_EQ(list.post(ids), Errc::invalid_prepared);
}

TEST_F(Regions, a_queue_that_cannot_watch_regions_refuses_to_name_them) {
    SendQueue blind(device.queue_pair());
    const std::array<const MemoryRegion*, 2> named{&*first, &*second};
    EXPECT_THROW(Prepared(blind, asked.get(), named), Error);
}

}  // namespace
}  // namespace verbatim::mlx5
