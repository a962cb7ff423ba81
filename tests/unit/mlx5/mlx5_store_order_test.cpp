// The order in which the queues store what a device reads, and the fences between: what the result
// of a post cannot show on x86 with ordinary memory, and what real hardware punishes now and then.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include <mlx5_store_trace.hpp>
#include <mlx5_test_shared_receives.hpp>
#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

constexpr const char* kDoorbell = "ring record fence register fence";

// A send queue whose every post is traced. Without a hook, as on hardware: a strict device's writes
// to the register would be taken for the driver's.
class Posts : public testing::Test {
  protected:
    explicit Posts(DeviceOptions options = {.send_blocks = 8, .strict_doorbells = false})
        : device(options) {
        fill_registers();
    }

    void fill_registers() {
        std::memset(const_cast<std::byte*>(view.doorbell_register),
                    static_cast<int>(StrictRegister::kUnwritten), kRegisterBytes);
    }
    // Traces a post, and retires what it posted.
    template <class Post>
    void expect_doorbell_order(Post post) {
        fill_registers();
        Errc result = Errc::device_error;
        trace.run([&] { result = post(); });
        ASSERT_EQ(result, Errc::ok);
        EXPECT_EQ(trace.order(), kDoorbell);
        for (const SeenWqe& seen : device.fetch()) EXPECT_TRUE(queue.retire(seen.index));
    }

    static constexpr std::size_t kRegisterBytes = 512;
    TestDevice device;
    QueuePairView view = device.queue_pair();
    SendQueue queue{view};
    StoreTrace trace{{{"ring", view.send_buffer, device.ring_bytes()},
                      {"record", view.doorbell_record + MLX5_SND_DBR, sizeof(std::uint32_t)},
                      {"register", view.doorbell_register, kRegisterBytes}}};
};

TEST_F(Posts, of_every_size_fence_on_both_sides_of_the_register) {
    for (const std::size_t bytes :
         {8U, 100U, 160U, 8U, 200U, 300U}) {  // some wrap, the last is no copy
        Request asked = inline_request(Opcode::write, bytes);
        asked.get();
        expect_doorbell_order([&] { return queue.post(asked.work); });
    }
}

TEST_F(Posts, of_a_list_fence_on_both_sides_of_the_register) {
    std::vector<Request> asked{inline_request(Opcode::write, 100), gather_request(Opcode::read, 1)};
    const std::array<WorkRequest, 2> work{asked[0].get(), asked[1].get()};
    for (int i = 0; i < 4; ++i) {
        expect_doorbell_order([&] { return queue.post(std::span<const WorkRequest>(work)); });
    }
}

TEST_F(Posts, of_prepared_operations_fence_on_both_sides_of_the_register) {
    Prepared<Opcode::write, Inline<100>> image(queue, {.opcode = Opcode::write});
    PreparedWrite8 eight(queue, {.opcode = Opcode::write, .remote_key = 1});
    const auto bytes = pattern(100);
    for (std::uint64_t i = 0; i < 8; ++i) {
        const auto nth = [i](std::uint32_t k) { return Listed{i * 8, i + k}; };
        expect_doorbell_order([&] { return image.post(i, i * 8, bytes.data()); });
        expect_doorbell_order([&] { return eight.post(i, i * 8, i); });
        expect_doorbell_order([&] { return eight.post_list(i, 2, nth); });
    }
}

// Should the write-combining buffer be evicted half-way, the device must have seen the first 8
// bytes, which say what the others are, first.
TEST_F(Posts, fill_the_register_from_its_first_byte_upwards) {
    Request asked = inline_request(Opcode::write, 150);
    asked.get();
    for (int i = 0; i < 4; ++i) {
        expect_doorbell_order([&] { return queue.post(asked.work); });
        std::size_t end = 0;
        for (const StoreTrace::Event& event : trace.events()) {
            if (event.area != 2) continue;
            EXPECT_GE(event.offset % 256, end);
            end = event.offset % 256;
        }
        EXPECT_GE(end, 128U);
    }
}

struct PostsWithoutBlueFlame : Posts {
    PostsWithoutBlueFlame()
        : Posts({.send_blocks = 8, .blueflame_bytes = 0, .strict_doorbells = false}) {}
};

TEST_F(PostsWithoutBlueFlame, fence_on_both_sides_of_the_register) {
    Request asked = inline_request(Opcode::write, 8);
    asked.get();
    PreparedWrite8 eight(queue, {.opcode = Opcode::write, .remote_key = 1});
    for (std::uint64_t i = 0; i < 4; ++i) {
        expect_doorbell_order([&] { return queue.post(asked.work); });
        expect_doorbell_order([&] { return eight.post(i, i * 8, i); });
    }
}

TEST(Receives, are_in_the_ring_before_the_record_counts_them) {
    TestDevice device({.receive_entries = 4});
    const QueuePairView view = device.queue_pair();
    ReceiveQueue queue(view);
    StoreTrace trace{{{"ring", view.receive_buffer, std::size_t{4} << view.receive_stride_log2},
                      {"record", view.doorbell_record + MLX5_RCV_DBR, sizeof(std::uint32_t)}}};
    std::array<Element, 2> elements{{{0x1000, 64, 7}, {0x2000, 64, 7}}};
    std::array<ReceiveRequest, 2> requests{{{1, elements}, {2, std::span(elements).first(1)}}};
    Errc result = Errc::device_error;
    for (int lap = 0; lap < 4; ++lap) {
        for (Element& element : elements) element.address += 0x100;
        trace.run([&] { result = queue.post(std::span<const ReceiveRequest>(requests)); });
        ASSERT_EQ(result, Errc::ok);
        EXPECT_EQ(trace.order(), "ring record");
        trace.run([&] { result = queue.post(requests[1]); });
        ASSERT_EQ(result, Errc::ok);
        EXPECT_EQ(trace.order(), "ring record");
        while (queue.retire()) {
        }
    }
}

TEST(SharedReceives, are_in_the_ring_before_the_record_counts_them) {
    TestSharedReceives device({.entries = 4, .stride_log2 = 6});
    const SharedReceiveQueueView view = device.view();
    SharedReceiveQueue queue(view);
    StoreTrace trace{{{"ring", view.buffer, std::size_t{4} << view.stride_log2},
                      {"record", view.doorbell_record, sizeof(std::uint32_t)}}};
    std::array<Element, 2> elements{{{0x1000, 64, 7}, {0x2000, 64, 7}}};
    const std::array<ReceiveRequest, 2> requests{{{1, elements}, {2, elements}}};
    Errc result = Errc::device_error;
    for (int lap = 0; lap < 4; ++lap) {
        for (Element& element : elements) element.address += 0x100;
        trace.run([&] { result = queue.post(std::span<const ReceiveRequest>(requests)); });
        ASSERT_EQ(result, Errc::ok);
        EXPECT_EQ(trace.order(), "ring record");
        while (const auto index = device.take()) ASSERT_TRUE(queue.retire(*index));
    }
}

// A device that fills an entry again the moment it is given back.
TEST(Completions, are_read_before_the_record_gives_them_back) {
    TestDevice device({.completion_entries = 4});
    const CompletionQueueView view = device.completion_queue();
    CompletionQueue completions(view);
    SendQueue queue(device.queue_pair());
    completions.attach(&queue, nullptr);
    for (std::uint64_t id = 1; id <= 3; ++id) {
        ASSERT_EQ(queue.post(inline_request(Opcode::write, 8, id).get()), Errc::ok);
    }
    for (const SeenWqe& seen : device.fetch()) device.complete(seen);
    StoreTrace trace{{{"record", view.doorbell_record, sizeof(std::uint32_t)}}};
    trace.context = view.buffer;
    trace.after_store = [](void* entries, std::size_t) noexcept {
        std::memset(entries, 0xff, 4 * sizeof(mlx5_cqe64));
    };
    std::array<Completion, 4> polled;
    std::size_t count = 0;
    trace.run([&] { count = completions.poll(std::span(polled).first(3)); });
    EXPECT_EQ(trace.order(), "record");
    ASSERT_EQ(count, 3U);
    for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(polled[i].id, i + 1);
        EXPECT_EQ(polled[i].status, Errc::ok);
    }
}

}  // namespace
}  // namespace verbatim::mlx5
