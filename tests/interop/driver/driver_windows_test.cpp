// Memory windows and what closes them: on every backend.
#include "backend.hpp"

namespace verbatim::test {
namespace {

using mlx5::Completion;
using mlx5::CompletionKind;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

class DriverWindows : public DriverTest {
  protected:
    // Opens (or, of type 1, with no bytes closes) b's window; the key that it has then.
    std::uint32_t open(std::uint32_t key, std::size_t offset, std::uint32_t bytes,
                       bool of_queue_pair = true) {
        mlx5::WindowBinding binding;
        binding.window_key = key;
        binding.new_key = mlx5::next_window_key(key);
        binding.local_key = b.region->local_key();
        binding.address = b.peer_address_of(offset);
        binding.bytes = bytes;
        binding.remote_read = binding.remote_write = true;
        binding.of_queue_pair = of_queue_pair;
        WorkRequest bind;
        bind.opcode = Opcode::bind_window;
        bind.window = &binding;
        bind.id = 77;
        EXPECT_EQ(b.send->post(bind), Errc::ok);
        const Completion done = wait_one(b);
        EXPECT_EQ(done.status, Errc::ok);
        EXPECT_EQ(done.opcode, Opcode::bind_window);
        EXPECT_EQ(done.id, 77u);
        return binding.new_key;
    }
    Errc write_through(std::uint32_t key, std::size_t offset) {
        a.peer.key = key;
        EXPECT_EQ(a.post_write(pattern(8), offset), Errc::ok);
        return wait_one(a).status;
    }
};

TEST_P(DriverWindows, open_a_part_of_a_region_and_local_invalidation_closes_it) {
    const auto window = b.device->create_memory_window(WindowType::queue_pair);
    std::uint32_t key = window->key();
    for (std::size_t i = 0; i < 5; ++i) {
        key = open(key, i * 4096, 64);
        EXPECT_EQ(write_through(key, i * 4096 + 56), Errc::ok);
        EXPECT_TRUE(holds(b, i * 4096 + 56, pattern(8)));
        WorkRequest invalidate;
        invalidate.opcode = Opcode::local_invalidate;
        invalidate.invalidated_key = key;
        ASSERT_EQ(b.send->post(invalidate), Errc::ok);
        const Completion done = wait_one(b);
        EXPECT_EQ(done.status, Errc::ok);
        EXPECT_EQ(done.opcode, Opcode::local_invalidate);
    }
    EXPECT_EQ(write_through(key, 4 * 4096), Errc::remote_access);
}

TEST_P(DriverWindows, do_not_lead_beyond_what_they_were_opened_onto) {
    const auto window = b.device->create_memory_window(WindowType::queue_pair);
    const std::uint32_t key = open(window->key(), 4096, 64);
    EXPECT_EQ(write_through(key, 4096 + 57), Errc::remote_access);
}

TEST_P(DriverWindows, a_send_with_invalidate_closes_the_receivers_window_and_names_it) {
    const auto window = b.device->create_memory_window(WindowType::queue_pair);
    const std::uint32_t key = open(window->key(), 0, 64);
    ASSERT_EQ(write_through(key, 0), Errc::ok);
    ASSERT_EQ(b.post_receive(100000, 200, 5), Errc::ok);
    const Element from = a.element(0, 100);
    WorkRequest message = a.request(Opcode::send_invalidate);
    message.elements = std::span(&from, 1);
    message.invalidated_key = key;
    EXPECT_EQ(finish(message).opcode, Opcode::send_invalidate);
    const Completion got = wait_one(b);
    EXPECT_EQ(got.kind, CompletionKind::receive);
    EXPECT_TRUE(got.invalidated);
    EXPECT_FALSE(got.has_immediate);
    EXPECT_EQ(got.immediate, key);
    EXPECT_EQ(got.bytes, 100u);
    EXPECT_EQ(write_through(key, 0), Errc::remote_access);
}

TEST_P(DriverWindows, of_type_one_are_opened_again_and_closed_by_their_owner) {
    const auto window = b.device->create_memory_window(WindowType::domain);
    std::uint32_t key = open(window->key(), 0, 64, false);
    EXPECT_EQ(write_through(key, 0), Errc::ok);
    key = open(key, 4096, 64, false);
    EXPECT_EQ(write_through(key, 4096), Errc::ok);
    key = open(key, 0, 0, false);  // nothing: closed
    EXPECT_EQ(write_through(key, 4096), Errc::remote_access);
}

TEST_P(DriverWindows, a_region_with_an_open_window_refuses_to_be_released) {
    const auto window = b.device->create_memory_window(WindowType::queue_pair);
    const std::uint32_t key = open(window->key(), 0, 64);
    EXPECT_THROW(b.region->release(), Error);
    EXPECT_TRUE(b.region->alive()->load());
    EXPECT_EQ(write_through(key, 0), Errc::ok);
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverWindows, testing::ValuesIn(backends()), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DriverWindows);

}  // namespace
}  // namespace verbatim::test
