// Prepared operations: changes within the shape, lists, and an end of validity that no post
// survives. That each shape is what a fresh post is: mlx5_fixed_test.cpp.
#include <verbatim/mlx5/prepared.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include <verbatim/mlx5/prebuilt_queue.hpp>

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

SeenWqe only_of(TestDevice& device, SendQueue& queue) {
    const SeenWqe seen = device.fetch().at(0);
    EXPECT_TRUE(queue.retire(seen.index));
    return seen;
}

using Write21 = Prepared<Opcode::write_immediate, Inline<21>>;
using Read5 = Prepared<Opcode::read, Gather<5>>;
using Write2 = Prepared<Opcode::write, Elements<2>>;
using Large = Prepared<Opcode::write, Inline<100>>;

TEST(Prepared, has_the_flags_that_were_prepared) {
    TestDevice device;
    SendQueue queue(device.queue_pair());
    Request asked = inline_request(Opcode::write_immediate, 21);
    for (int bits = 0; bits < 8; ++bits) {
        asked.work.signaled = (bits & 1) != 0;
        asked.work.fence = (bits & 2) != 0;
        asked.work.solicited = (bits & 4) != 0;
        Write21 prepared(queue, asked.get());
        ASSERT_EQ(prepared.post(1, asked.work.remote_address, asked.inline_payload.data()),
                  Errc::ok);
        expect_sees(only_of(device, queue), asked);
    }
}

TEST(Prepared, changes_show_in_the_next_post) {
    TestDevice device({.send_blocks = 32});
    SendQueue queue(device.queue_pair());
    Request write = inline_request(Opcode::write_immediate, 21);
    Write21 prepared(queue, write.get());
    write.work.remote_address = 0x123456789abcdef0;
    prepared.set_remote_key(write.work.remote_key = 0x55);
    prepared.set_immediate(write.work.immediate = 0xdeadbeef);
    prepared.set_signaled(write.work.signaled = false);
    prepared.set_fence(write.work.fence = true);
    write.inline_payload = pattern(21, 99);
    ASSERT_EQ(prepared.post(1, write.work.remote_address, write.inline_payload.data()), Errc::ok);
    write.work.signaled = true;  // fetched together with the next
    prepared.set_signaled(true);
    ASSERT_EQ(prepared.post(2, write.work.remote_address, write.inline_payload.data()), Errc::ok);
    const auto seen = device.fetch();
    ASSERT_EQ(seen.size(), 2U);
    expect_sees(seen[1], write);
    write.work.signaled = false;
    expect_sees(seen[0], write);
}

TEST(Prepared, takes_a_key_of_its_own_with_each_address) {
    TestDevice device({.send_blocks = 32});
    SendQueue queue(device.queue_pair());
    Request write = inline_request(Opcode::write_immediate, 21);
    Write21 prepared(queue, write.get());
    const std::uint32_t prepared_key = write.work.remote_key;
    for (const std::uint32_t key : {7U, 0xffffffffU, prepared_key}) {
        write.work.remote_key = key;
        const RemoteMemory to{write.work.remote_address += 64, key};
        ASSERT_EQ(prepared.post(1, to, write.inline_payload.data()), Errc::ok);
        expect_sees(only_of(device, queue), write);
    }
    ASSERT_EQ(prepared.post(1, write.work.remote_address, write.inline_payload.data()), Errc::ok);
    expect_sees(only_of(device, queue), write);
}

TEST(Prepared, elements_change_their_address_or_all_of_it) {
    TestDevice device({.send_blocks = 32});
    SendQueue queue(device.queue_pair());
    Request read = gather_request(Opcode::read, 5);
    Read5 reader(queue, read.get());
    const auto changed = [&](std::uint32_t i) {
        return Element{0x4444000 + i, i == 4 ? 1U << 31 : i + 1, 0x99 + i};
    };
    const std::vector<Element> as_prepared = read.elements;
    for (std::uint32_t i = 0; i < 5; ++i) read.elements[i] = changed(i);
    for (std::uint32_t i = 0; i < 4; ++i) read.elements[i].bytes = i + 1;
    ASSERT_EQ(reader.post(1, read.work.remote_address, changed), Errc::ok);
    expect_sees(only_of(device, queue), read);
    // A post does not change what was prepared.
    read.elements = as_prepared;
    for (Element& element : read.elements) element.address = 0x777000;
    ASSERT_EQ(reader.post(1, read.work.remote_address,
                          [](std::uint32_t) { return std::uint64_t{0x777000}; }),
              Errc::ok);
    expect_sees(only_of(device, queue), read);
}

TEST(Prepared, set_element_stays_within_the_shape) {
    TestDevice device({.send_blocks = 32});
    SendQueue queue(device.queue_pair());
    Request asked = gather_request(Opcode::write, 2);
    Write2 write(queue, asked.get());
    EXPECT_EQ(write.set_element(2, 0x1000, 8), Errc::invalid_argument);
    EXPECT_EQ(write.set_element(0, 0x1000, 0), Errc::invalid_argument);
    EXPECT_EQ(write.set_element(0, 0x1000, (1U << 31) + 1), Errc::invalid_argument);
    asked.elements[1].address = 0x9000;
    asked.elements[1].bytes = 17;
    EXPECT_EQ(write.set_element(1, 0x9000, 17), Errc::ok);
    ASSERT_EQ(write.post(1, asked.work.remote_address, kUnchanged), Errc::ok);
    expect_sees(only_of(device, queue), asked);

    Request added = atomic_request(Opcode::fetch_add);
    Prepared<Opcode::fetch_add, Addend> add(queue, added.get());
    EXPECT_EQ(add.set_element(0, 0x1000, 16), Errc::invalid_argument);
    EXPECT_EQ(add.set_element(0, added.elements[0].address = 0x1000, 8), Errc::ok);
    added.work.swap_or_add = 77;
    ASSERT_EQ(add.post(1, added.work.remote_address, std::uint64_t{77}), Errc::ok);
    expect_sees(only_of(device, queue), added);
}

TEST(Prepared, what_the_queue_can_never_take_is_refused_at_once) {
    TestDevice device({.send_blocks = 2});
    SendQueue queue(device.queue_pair());
    const WorkRequest write{.opcode = Opcode::write}, read{.opcode = Opcode::read};
    EXPECT_THROW((Prepared<Opcode::write, Inline<200>>(queue, write)), Error);
    EXPECT_THROW((Prepared<Opcode::write, Inline<701>>(queue, write)), Error);
    EXPECT_THROW((Prepared<Opcode::write, Inline<200>>(queue, read)), Error) << "another opcode";
    EXPECT_THROW(Write2(queue, gather_request(Opcode::write, 3).get()), Error);
    Request odd = atomic_request(Opcode::fetch_add);
    odd.work.remote_address += 4;
    EXPECT_THROW((Prepared<Opcode::fetch_add, Addend>(queue, odd.get())), Error);
    odd = atomic_request(Opcode::fetch_add);
    odd.elements[0].bytes = 4;
    EXPECT_THROW((Prepared<Opcode::fetch_add, Addend>(queue, odd.get())), Error);
    TestDevice no_inline({.max_inline_bytes = 7});
    SendQueue small(no_inline.queue_pair());
    EXPECT_THROW(PreparedWrite8(small, write), Error);
}

TEST(Prepared, would_block_like_any_post) {
    TestDevice device({.send_blocks = 4});
    SendQueue queue(device.queue_pair());
    Prepared<Opcode::write, Inline<60>> two(queue, {.opcode = Opcode::write});
    PreparedWrite8 one(queue, {.opcode = Opcode::write});
    const auto bytes = pattern(60);
    ASSERT_EQ(two.post(1, 0x1000, bytes.data()), Errc::ok);
    ASSERT_EQ(one.post(2, 0x1000, std::uint64_t{2}), Errc::ok);
    EXPECT_EQ(two.post(3, 0x1000, bytes.data()), Errc::would_block);
    ASSERT_EQ(one.post(4, 0x1000, std::uint64_t{4}), Errc::ok);
    ASSERT_EQ(one.post(5, 0x1000, std::uint64_t{5}), Errc::would_block);
    EXPECT_EQ(queue.outstanding(), 3U);
    EXPECT_EQ(queue.retire(0), 1U);
    EXPECT_EQ(queue.retire(2), 2U);
    EXPECT_EQ(queue.retire(3), 4U);
    EXPECT_TRUE(one.valid() && two.valid());
}

TEST(PreparedWrite8, is_an_inline_write_of_eight_bytes) {
    TestDevice device({.send_blocks = 4});
    SendQueue queue(device.queue_pair());
    Request fresh = inline_request(Opcode::write, 8, 3);
    PreparedWrite8 write(queue, fresh.get());
    for (std::uint32_t i = 0; i < 0x10010; ++i) {
        const std::uint64_t payload = 0x0102030405060708U * (i + 1);
        std::memcpy(fresh.inline_payload.data(), &payload, 8);
        fresh.work.remote_address += 8;
        fresh.work.signaled = i % 3 == 0;
        write.set_signaled(fresh.work.signaled);
        if (i % 2 == 0) write.set_remote_key(fresh.work.remote_key = i);
        ASSERT_EQ(write.post(i, fresh.work.remote_address, payload), Errc::ok);
        const auto seen = device.fetch();
        ASSERT_EQ(seen.size(), 1U);
        expect_sees(seen[0], fresh);
        ASSERT_EQ(seen[0].bytes.size(), 48U);
        ASSERT_EQ(std::memcmp(device.register_half(static_cast<int>(i % 2)),
                              device.ring() + i % 4 * 64, 48),
                  0);
        ASSERT_EQ(queue.retire(seen[0].index), i);
    }
}

// As many reads as a multi-get asks for, each from memory of its own, the last one signaled.
TEST(PreparedList, of_reads_names_an_address_and_a_key_for_each) {
    TestDevice device({.send_blocks = 1024});
    int rings = 0;
    device.doorbell_hook = {
        [](void* context, const volatile void*) noexcept { ++*static_cast<int*>(context); },
        &rings};
    SendQueue queue(device.queue_pair());
    Request asked = gather_request(Opcode::read, 1);
    Prepared<Opcode::read, Gather<1>> read(queue, asked.get());
    const auto nth = [](std::uint32_t i) {
        return Listed{RemoteMemory{0x1000 + std::uint64_t{i} * 0x10001, 3 * i + 1},
                      [i](std::uint32_t) { return 0x560000000000 + std::uint64_t{i} * 64; }};
    };
    std::uint64_t id = 0;
    for (const std::uint32_t count : {1U, 2U, 10U, 255U, 256U, 257U, 1000U, 1024U}) {
        ASSERT_EQ(read.post_list(id, count, nth), Errc::ok);
        const auto seen = device.fetch();
        ASSERT_EQ(seen.size(), count);
        for (std::uint32_t i = 0; i < count && !HasFailure(); ++i) {
            asked.work.signaled = i + 1 == count;
            asked.work.remote_address = nth(i).remote.address;
            asked.work.remote_key = nth(i).remote.key;
            asked.elements[0].address = nth(i).payload(0);
            expect_sees(seen[i], asked);
        }
        id += count;
        ASSERT_EQ(queue.retire(seen.back().index), id - 1);
    }
    EXPECT_EQ(rings, 8);
    EXPECT_EQ(read.post_list(id, 1025, nth), Errc::message_too_large);
    EXPECT_TRUE(device.fetch().empty());
}

TEST(Prepared, a_reset_queue_ends_it_for_good) {
    TestDevice device;
    SendQueue queue(device.queue_pair());
    Large large(queue, {.opcode = Opcode::write});
    PreparedWrite8 eight(queue, {.opcode = Opcode::write});
    EXPECT_TRUE(large.valid() && eight.valid());
    queue.reset();
    EXPECT_FALSE(large.valid() || eight.valid());
    const auto bytes = pattern(100);
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(large.post(1, 0x1000, bytes.data()), Errc::invalid_prepared);
        EXPECT_EQ(eight.post(1, 0x1000, std::uint64_t{1}), Errc::invalid_prepared);
    }
    EXPECT_EQ(queue.outstanding(), 0U);
    EXPECT_EQ(device.raw_send_record(), 0U);
    PreparedWrite8 again(queue, {.opcode = Opcode::write});
    EXPECT_EQ(again.post(1, 0x1000, std::uint64_t{1}), Errc::ok);
    EXPECT_EQ(eight.post(1, 0x1000, std::uint64_t{1}), Errc::invalid_prepared);
}

TEST(Prepared, the_first_post_after_a_reset_has_index_zero) {
    TestDevice device;
    SendQueue queue(device.queue_pair());
    for (int i = 0; i < 3; ++i) ASSERT_EQ(queue.post(request(Opcode::nop).get()), Errc::ok);
    queue.reset();
    device.reset();
    Request asked = inline_request(Opcode::write, 8);
    PreparedWrite8 prepared(queue, asked.get());
    std::uint64_t payload = 0;
    std::memcpy(&payload, asked.inline_payload.data(), sizeof payload);
    ASSERT_EQ(prepared.post(1, asked.work.remote_address, payload), Errc::ok);
    const auto seen = device.fetch();
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].index, 0);
    expect_sees(seen[0], asked);
}

TEST(Prepared, outlives_its_queue_as_an_error_value) {
    TestDevice device;
    std::optional<SendQueue> queue(std::in_place, device.queue_pair());
    PreparedWrite8 eight(*queue, {.opcode = Opcode::write});
    queue.reset();
    EXPECT_FALSE(eight.valid());
    EXPECT_EQ(eight.post(1, 0x1000, std::uint64_t{1}), Errc::invalid_prepared);
    eight.set_remote_key(8);  // harmless
}

TEST(Prepared, is_released_before_its_end) {
    TestDevice device, other;
    SendQueue queue(device.queue_pair());
    PreparedWrite8 first(queue, {.opcode = Opcode::write}), second = {queue, {Opcode::write}};
    PrebuiltQueue<Opcode::write, Inline<8>> prebuilt(other.queue_pair(), {Opcode::write});
    ASSERT_EQ(first.post(1, 0x1000, std::uint64_t{1}), Errc::ok);
    ASSERT_EQ(prebuilt.post(1, 0x1000, std::uint64_t{1}), Errc::ok);
    first.release();
    prebuilt.release();
    EXPECT_FALSE(first.valid() || prebuilt.valid());
    const auto nth = [](std::uint32_t) { return Listed{0x1000U, std::uint64_t{0}}; };
    EXPECT_EQ(first.post(2, 0x1000, std::uint64_t{2}), Errc::invalid_prepared);
    EXPECT_EQ(first.post_list(2, 2, nth), Errc::invalid_prepared);
    EXPECT_EQ(prebuilt.post(2, 0x1000, std::uint64_t{2}), Errc::invalid_prepared);
    EXPECT_EQ(prebuilt.post_list(2, 2, nth), Errc::invalid_prepared);
    EXPECT_EQ(second.post(2, 0x1000, std::uint64_t{2}), Errc::ok);
    EXPECT_EQ(queue.outstanding(), 2U);
    EXPECT_EQ(prebuilt.outstanding(), 1U) << "what was posted before";
    EXPECT_EQ(prebuilt.retire(0), 1U);
}

TEST(Prepared, moves_with_its_place_in_the_queue) {
    TestDevice device;
    SendQueue queue(device.queue_pair());
    const std::uint64_t payload = 1;
    std::vector<PreparedWrite8> many;
    for (std::uint32_t i = 0; i < 20; ++i)  // moves as it grows
        many.push_back(PreparedWrite8(queue, {.opcode = Opcode::write, .remote_key = i}));
    std::optional<PreparedWrite8> one(std::in_place, queue, WorkRequest{Opcode::write});
    PreparedWrite8 moved(std::move(*one));
    EXPECT_EQ(one->post(1, 0x1000, payload), Errc::invalid_prepared);
    one.reset();
    EXPECT_EQ(moved.post(1, 0x1000, payload), Errc::ok);
    for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(many[i].post(i, 0x1000, payload), Errc::ok);
    many.erase(many.begin(), many.begin() + 5);
    moved = PreparedWrite8(queue, {.opcode = Opcode::write});
    EXPECT_EQ(moved.post(2, 0x1000, payload), Errc::ok);
    queue.reset();
    for (PreparedWrite8& each : many)
        EXPECT_EQ(each.post(1, 0x1000, payload), Errc::invalid_prepared);
    EXPECT_EQ(moved.post(1, 0x1000, payload), Errc::invalid_prepared);
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
    Write2 prepared(queue, asked.get(), named);
    PreparedWrite8 bystander(queue, {.opcode = Opcode::write});
    ASSERT_EQ(prepared.post(1, 0x1000, kUnchanged), Errc::ok);
    other.reset();
    EXPECT_EQ(epoch, 6U);
    EXPECT_TRUE(prepared.valid());
    EXPECT_EQ(prepared.post(2, 0x1000, kUnchanged), Errc::ok);
    second.reset();
    EXPECT_FALSE(prepared.valid());
    EXPECT_EQ(prepared.post(3, 0x1000, kUnchanged), Errc::invalid_prepared);
    const auto nth = [](std::uint32_t) { return Listed{0x1000U, kUnchanged}; };
    EXPECT_EQ(prepared.post_list(3, 2, nth), Errc::invalid_prepared);
    EXPECT_EQ(bystander.post(4, 0x1000, std::uint64_t{4}), Errc::ok);
    EXPECT_EQ(queue.outstanding(), 3U);
}

TEST_F(Regions, an_element_can_move_to_another_region) {
    const std::array<const MemoryRegion*, 2> named{&*first, &*second};
    Write2 prepared(queue, asked.get(), named);
    asked.elements[1] = {0x9000, 32, other->local_key()};
    EXPECT_EQ(prepared.set_element(1, asked.elements[1], *first),
              Errc::invalid_argument);  // another key
    EXPECT_EQ(prepared.set_element(2, asked.elements[1], *other), Errc::invalid_argument);
    ASSERT_EQ(prepared.set_element(1, asked.elements[1], *other), Errc::ok);
    second.reset();  // no longer named
    ASSERT_EQ(prepared.post(1, asked.work.remote_address, kUnchanged), Errc::ok);
    expect_sees(device.fetch().at(0), asked);
    other.reset();
    EXPECT_EQ(prepared.post(2, 0x1000, kUnchanged), Errc::invalid_prepared);
}

TEST_F(Regions, one_that_is_gone_already_makes_an_operation_that_is_not_valid) {
    const std::array<const MemoryRegion*, 2> named{&*first, &*second};
    second->release();
    Write2 prepared(queue, asked.get(), named);
    EXPECT_FALSE(prepared.valid());
    EXPECT_EQ(prepared.post(1, 0x1000, kUnchanged), Errc::invalid_prepared);
}

TEST_F(Regions, a_queue_that_cannot_watch_regions_refuses_to_name_them) {
    SendQueue blind(device.queue_pair());
    const std::array<const MemoryRegion*, 2> named{&*first, &*second};
    EXPECT_THROW(Write2(blind, asked.get(), named), Error);
}

}  // namespace
}  // namespace verbatim::mlx5
