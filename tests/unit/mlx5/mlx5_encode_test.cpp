// Requests become the bytes that rdma-core's own helpers would write; what no device takes is
// refused.
#include <verbatim/mlx5/encode.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

constexpr std::uint32_t kNumber = 0x00abcd;
constexpr std::uint16_t kIndex = 0x1234;
constexpr SendLimits kLimits{.max_inline_bytes = 700, .max_elements = 40};

std::vector<std::byte> encoded(Request& asked) {
    EXPECT_EQ(check(asked.get(), kLimits), Errc::ok);
    const WqeShape shape = shape_of(asked.get());
    std::vector<std::byte> bytes(std::size_t{shape.blocks()} * kBlockBytes, std::byte{0xee});
    UnitCursor to(bytes.data(), bytes.data(), bytes.data() + bytes.size());
    encode(asked.get(), shape, {kNumber, kIndex}, to);
    bytes.resize(std::size_t{shape.units} * kUnitBytes);
    return bytes;
}

// The same WQE by rdma-core's structures and setters.
class Expected {
  public:
    Expected(std::uint8_t opcode, std::uint8_t flags, std::uint32_t immediate) {
        mlx5_wqe_ctrl_seg control;
        std::memset(&control, 0, sizeof control);
        mlx5dv_set_ctrl_seg(&control, kIndex, opcode, 0, kNumber, flags, 0, 0, htobe32(immediate));
        add(control);
    }
    Expected& remote(std::uint64_t address, std::uint32_t key) {
        return add(mlx5_wqe_raddr_seg{htobe64(address), htobe32(key), 0});
    }
    Expected& atomic(std::uint64_t swap_add, std::uint64_t compare) {
        return add(mlx5_wqe_atomic_seg{htobe64(swap_add), htobe64(compare)});
    }
    Expected& address(const mlx5_wqe_av& av) { return add(av); }
    Expected& data(const Element& element) {
        mlx5_wqe_data_seg segment;
        mlx5dv_set_data_seg(&segment, element.bytes, element.local_key, element.address);
        return add(segment);
    }
    Expected& inline_data(const std::vector<std::byte>& payload) {
        add(htobe32(static_cast<std::uint32_t>(payload.size()) | MLX5_INLINE_SEG));
        bytes_.insert(bytes_.end(), payload.begin(), payload.end());
        while (bytes_.size() % 16 != 0) bytes_.push_back(std::byte{0});
        return *this;
    }
    std::vector<std::byte> bytes() {
        bytes_[7] = static_cast<std::byte>(bytes_.size() / 16);  // ds
        return bytes_;
    }

  private:
    template <typename Segment>
    Expected& add(const Segment& segment) {
        const auto* from = reinterpret_cast<const std::byte*>(&segment);
        for (std::size_t i = 0; i < sizeof segment; ++i) bytes_.push_back(from[i]);
        return *this;
    }
    std::vector<std::byte> bytes_;
};

TEST(Encode, nop) {
    Request asked = request(Opcode::nop);
    EXPECT_EQ(encoded(asked), Expected(MLX5_OPCODE_NOP, MLX5_WQE_CTRL_CQ_UPDATE, 0).bytes());
}

TEST(Encode, inline_writes_and_sends_of_every_size) {
    for (std::size_t bytes = 1; bytes <= kLimits.max_inline_bytes;
         bytes = bytes < 130 ? bytes + 1 : bytes + 57) {
        Request write = inline_request(Opcode::write, bytes);
        EXPECT_EQ(encoded(write), Expected(MLX5_OPCODE_RDMA_WRITE, MLX5_WQE_CTRL_CQ_UPDATE, 0)
                                      .remote(write.work.remote_address, write.work.remote_key)
                                      .inline_data(write.inline_payload)
                                      .bytes())
            << bytes;
        Request send = inline_request(Opcode::send_immediate, bytes);
        EXPECT_EQ(encoded(send),
                  Expected(MLX5_OPCODE_SEND_IMM, MLX5_WQE_CTRL_CQ_UPDATE, send.work.immediate)
                      .inline_data(send.inline_payload)
                      .bytes())
            << bytes;
    }
}

TEST(Encode, gathered_operations_of_every_length) {
    for (const Opcode opcode : {Opcode::write, Opcode::write_immediate, Opcode::read}) {
        for (std::size_t count = 0; count <= kLimits.max_elements; ++count) {
            Request asked = gather_request(opcode, count);
            Expected expected(static_cast<std::uint8_t>(opcode), MLX5_WQE_CTRL_CQ_UPDATE,
                              opcode == Opcode::write_immediate ? asked.work.immediate : 0);
            expected.remote(asked.work.remote_address, asked.work.remote_key);
            for (const Element& element : asked.elements) expected.data(element);
            EXPECT_EQ(encoded(asked), expected.bytes()) << count;
        }
    }
    Request send = gather_request(Opcode::send, 3);
    Expected expected(MLX5_OPCODE_SEND, MLX5_WQE_CTRL_CQ_UPDATE, 0);
    for (const Element& element : send.elements) expected.data(element);
    EXPECT_EQ(encoded(send), expected.bytes());
}

TEST(Encode, atomics) {
    for (const Opcode opcode : {Opcode::compare_swap, Opcode::fetch_add}) {
        Request asked = atomic_request(opcode);
        EXPECT_EQ(encoded(asked),
                  Expected(static_cast<std::uint8_t>(opcode), MLX5_WQE_CTRL_CQ_UPDATE, 0)
                      .remote(asked.work.remote_address, asked.work.remote_key)
                      .atomic(asked.work.swap_or_add,
                              opcode == Opcode::compare_swap ? asked.work.compare : 0)
                      .data(asked.elements[0])
                      .bytes());
    }
}

TEST(Encode, flags) {
    for (int bits = 0; bits < 8; ++bits) {
        Request asked = request(Opcode::send);
        asked.work.signaled = (bits & 1) != 0;
        asked.work.fence = (bits & 2) != 0;
        asked.work.solicited = (bits & 4) != 0;
        const int flags = (bits & 1 ? MLX5_WQE_CTRL_CQ_UPDATE : 0) |
                          (bits & 2 ? MLX5_WQE_CTRL_FENCE : 0) |
                          (bits & 4 ? MLX5_WQE_CTRL_SOLICITED : 0);
        EXPECT_EQ(encoded(asked),
                  Expected(MLX5_OPCODE_SEND, static_cast<std::uint8_t>(flags), 0).bytes());
    }
}

TEST(Encode, an_element_of_two_gigabytes_is_written_as_zero) {
    Request asked = gather_request(Opcode::write, 1);
    asked.elements[0].bytes = 1U << 31;
    const auto bytes = encoded(asked);
    EXPECT_EQ(std::vector<std::byte>(bytes.begin() + 32, bytes.begin() + 36),
              std::vector<std::byte>(4));
}

TEST(Check, refuses_what_contradicts_itself) {
    const auto result = [](Request asked) { return check(asked.get(), kLimits); };
    EXPECT_EQ(result(inline_request(Opcode::read, 8)), Errc::invalid_argument);
    EXPECT_EQ(result(inline_request(Opcode::fetch_add, 8)), Errc::invalid_argument);
    EXPECT_EQ(result(inline_request(Opcode::nop, 8)), Errc::invalid_argument);
    EXPECT_EQ(result(gather_request(Opcode::nop, 1)), Errc::invalid_argument);
    EXPECT_EQ(result(request(static_cast<Opcode>(0x2f))), Errc::invalid_argument);
    EXPECT_EQ(result(inline_request(Opcode::local_invalidate, 8)), Errc::invalid_argument);
    EXPECT_EQ(result(gather_request(Opcode::local_invalidate, 1)), Errc::invalid_argument);
    EXPECT_EQ(result(request(Opcode::bind_window)), Errc::invalid_argument) << "no window";
    Request empty = gather_request(Opcode::write, 2);
    empty.elements[1].bytes = 0;
    EXPECT_EQ(result(empty), Errc::invalid_argument);
}

// Both limits kept, and yet more than the six bits of ds can say.
TEST(Check, refuses_inline_payload_and_elements_that_do_not_fit_one_wqe) {
    constexpr SendLimits kLarge{.max_inline_bytes = 900, .max_elements = 60};
    const auto result = [&](std::size_t bytes, std::size_t elements) {
        Request asked = inline_request(Opcode::write, bytes);
        asked.elements = gather_request(Opcode::write, elements).elements;
        return check(asked.get(), kLarge);
    };
    // 2 units of control and address, 57 of payload behind its header.
    EXPECT_EQ(result(900, 4), Errc::ok);
    EXPECT_EQ(result(900, 5), Errc::message_too_large);
    EXPECT_EQ(result(12, 60), Errc::ok);
    EXPECT_EQ(result(13, 60), Errc::message_too_large);
}

TEST(Check, refuses_windows_that_cannot_be) {
    const auto result = [](const WindowBinding& window) {
        Request asked = request(Opcode::bind_window);
        asked.work.window = &window;
        return check(asked.get(), kLimits);
    };
    WindowBinding window{.window_key = 0x1234, .new_key = 0x12ff, .local_key = 7, .bytes = 64};
    EXPECT_EQ(result(window), Errc::ok);
    window.bytes = 0;
    EXPECT_EQ(result(window), Errc::invalid_argument) << "type 2 is closed by invalidation";
    window.of_queue_pair = false;
    EXPECT_EQ(result(window), Errc::ok);
    window.bytes = (1U << 31) + 1;
    EXPECT_EQ(result(window), Errc::message_too_large);
    window.bytes = 1U << 31;
    EXPECT_EQ(result(window), Errc::ok);
    window.new_key = 0x22ff;
    EXPECT_EQ(result(window), Errc::invalid_argument) << "another key, not another variant";
}

TEST(Check, refuses_what_exceeds_the_limits) {
    const auto result = [](Request asked) { return check(asked.get(), kLimits); };
    EXPECT_EQ(result(inline_request(Opcode::write, kLimits.max_inline_bytes)), Errc::ok);
    EXPECT_EQ(result(inline_request(Opcode::write, kLimits.max_inline_bytes + 1)),
              Errc::message_too_large);
    EXPECT_EQ(result(gather_request(Opcode::write, kLimits.max_elements + 1)),
              Errc::invalid_argument);
    Request large = gather_request(Opcode::write, 2);
    large.elements[0].bytes = 1U << 31;
    EXPECT_EQ(result(large), Errc::message_too_large);
    large.elements.resize(1);
    EXPECT_EQ(result(large), Errc::ok);
    large.elements[0].bytes = (1U << 31) + 1;
    EXPECT_EQ(result(large), Errc::message_too_large);
}

TEST(Check, atomics_work_on_eight_aligned_bytes) {
    const auto result = [](Request asked) { return check(asked.get(), kLimits); };
    Request atomic = atomic_request(Opcode::fetch_add);
    EXPECT_EQ(result(atomic), Errc::ok);
    atomic.work.remote_address += 4;
    EXPECT_EQ(result(atomic), Errc::invalid_argument);
    atomic = atomic_request(Opcode::compare_swap);
    atomic.elements[0].bytes = 2;
    EXPECT_EQ(result(atomic), Errc::invalid_argument);
    atomic.elements.clear();
    EXPECT_EQ(result(atomic), Errc::invalid_argument);
}

}  // namespace
}  // namespace verbatim::mlx5
