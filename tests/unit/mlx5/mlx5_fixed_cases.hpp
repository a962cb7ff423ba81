// The shapes that tests of fixed operations go through, and the posting of one by either copy
// strategy.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include <verbatim/mlx5/prebuilt_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5::test {

inline constexpr std::uint32_t kLaps = 5;

inline Request of_shape(Opcode opcode, const ShapeFacts& facts) {
    Request made =
        is_atomic(opcode) ? atomic_request(opcode) : gather_request(opcode, facts.elements);
    made.inline_payload = pattern(facts.inline_bytes);
    return made;
}

// Changes what posts of the shape may change, and posts that.
template <class Payload>
struct Change;
template <std::uint32_t kBytes>
struct Change<Inline<kBytes>> {
    static auto apply(Request& fresh, std::uint32_t i) {
        fresh.inline_payload = pattern(kBytes, static_cast<std::uint8_t>(i));
        if constexpr (kBytes == 8) {
            std::uint64_t payload;
            std::memcpy(&payload, fresh.inline_payload.data(), sizeof payload);
            return payload;
        } else {
            return static_cast<const std::byte*>(fresh.inline_payload.data());
        }
    }
};
template <std::uint32_t kCount>
struct Change<Gather<kCount>> {
    static auto apply(Request& fresh, std::uint32_t i) {
        for (Element& element : fresh.elements) element.address += 0x100000001U * (i + 1);
        return [&fresh](std::size_t k) { return fresh.elements[k].address; };
    }
};
template <std::uint32_t kCount>
struct Change<Elements<kCount>> {
    static Unchanged apply(Request&, std::uint32_t) { return {}; }
};

template <>
struct Change<Addend> {
    static std::uint64_t apply(Request& fresh, std::uint32_t i) {
        return fresh.work.swap_or_add = 0x1000000000000001U * (i + 1);
    }
};
template <>
struct Change<Exchange> {
    static Exchange::Values apply(Request& fresh, std::uint32_t i) {
        fresh.work.compare = 0x0102030405060708U * (i + 1);
        fresh.work.swap_or_add = ~fresh.work.compare;
        return {fresh.work.compare, fresh.work.swap_or_add};
    }
};

template <Opcode kOpcode, class PayloadOf>
struct Of {
    static constexpr Opcode opcode = kOpcode;
    using Payload = PayloadOf;
    using Shape = FixedShape<kOpcode, Payload>;
    using Copied = Prepared<kOpcode, Payload>;
    using InPlace = PrebuiltQueue<kOpcode, Payload>;

    static Request request() {
        return of_shape(kOpcode, {kOpcode, Payload::kInlineBytes, Payload::kElements});
    }
    template <class Poster>
    static Errc post(Poster& poster, Request& fresh, std::uint32_t i) {
        fresh.work.remote_address += 24;
        fresh.work.id = i;
        fresh.work.signaled = i % 3 != 0;
        poster.set_signaled(fresh.work.signaled);
        const auto payload = Change<Payload>::apply(fresh, i);
        if constexpr (Shape::kNamesRemoteMemory)
            return poster.post(i, fresh.work.remote_address, payload);
        else
            return poster.post(i, payload);
    }
};

template <class Case>
class Fixed : public testing::Test {};
using Cases = testing::Types<
    Of<Opcode::write, Inline<8>>, Of<Opcode::write, Inline<16>>, Of<Opcode::write, Inline<28>>,
    Of<Opcode::write, Inline<64>>, Of<Opcode::write, Inline<200>>, Of<Opcode::write, Inline<333>>,
    Of<Opcode::write_immediate, Inline<17>>, Of<Opcode::send, Inline<8>>,
    Of<Opcode::send, Inline<63>>, Of<Opcode::send_immediate, Inline<100>>,
    Of<Opcode::write, Gather<1>>, Of<Opcode::send, Gather<2>>, Of<Opcode::read, Gather<10>>,
    Of<Opcode::read, Elements<10>>, Of<Opcode::send_immediate, Elements<3>>,
    Of<Opcode::fetch_add, Addend>, Of<Opcode::compare_swap, Exchange>>;
// The WQEs that are not no-ops.
inline std::vector<SeenWqe> all_requests(TestDevice& device) {
    std::vector<SeenWqe> seen = device.fetch();
    std::erase_if(seen, [](const SeenWqe& wqe) { return wqe.opcode == MLX5_OPCODE_NOP; });
    return seen;
}
inline SeenWqe only_request(TestDevice& device) {
    const std::vector<SeenWqe> seen = all_requests(device);
    EXPECT_EQ(seen.size(), 1U);
    return seen.empty() ? SeenWqe{} : seen[0];
}

}  // namespace verbatim::mlx5::test
