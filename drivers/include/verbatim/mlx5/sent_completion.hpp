// A sent completion is that of a request that succeeded and returned nothing. It is the commonest
// one, and is written in three stores. No state; any thread.
#pragma once

#include <emmintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::mlx5 {

// The constant part of such completions of one queue pair.
class SentCompletion {
  public:
    explicit SentCompletion(std::uint32_t queue_pair) noexcept
        : tail_(_mm_set_epi32(0, static_cast<int>(queue_pair), 0, 0)) {}

    [[gnu::always_inline]] void store(Completion* to, std::uint64_t id,
                                      std::uint32_t opcode) const noexcept {
        auto* const bytes = reinterpret_cast<std::byte*>(to);
        const std::uint64_t head = std::uint64_t{opcode} << kOpcodeShift;
        to->id = id;
        // Atomic only so that compilers do not collect both words in one register, which takes
        // longer than to store them.
        __atomic_store_n(reinterpret_cast<Word*>(bytes + sizeof id), head, __ATOMIC_RELAXED);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + sizeof id + sizeof head), tail_);
    }

  private:
    using Word [[gnu::may_alias]] = std::uint64_t;
    static constexpr unsigned kOpcodeShift =
        (offsetof(Completion, opcode) - sizeof(std::uint64_t)) * 8;
    static_assert(offsetof(Completion, id) == 0 && sizeof(Completion) == 32 &&
                  std::is_trivially_copyable_v<Completion>);
    static_assert(static_cast<int>(Errc::ok) == 0 &&
                      static_cast<int>(CompletionKind::send_side) == 0,
                  "all but id, opcode and number is 0");
    static_assert(offsetof(Completion, opcode) < 16 && offsetof(Completion, queue_pair) == 24);

    __m128i tail_;
};

}  // namespace verbatim::mlx5
