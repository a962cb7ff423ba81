// Large arrays are objects of a sender's walk that take segments of their own. They leave from
// where they lie, or in excerpts (docs/graphs.md, "Image"). Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbatim/objects/graph/closure.hpp>
#include <verbatim/objects/graph/packing.hpp>
#include <verbatim/objects/graph/staging.hpp>

namespace verbatim::objects {

template <class Packer>
struct LargeArrays {
    template <class E>
    static constexpr bool kInExcerpts = !Packer::Types::kIsOpen && kLeavesInExcerpts<E>;

    // Of more bytes than a segment has. Returns their offset.
    template <class E>
    static std::uint64_t take_in(Packer& packer, const E* first, std::uint64_t count) {
        PackTables& tables = packer.tables_;
        const auto* const from = reinterpret_cast<const std::byte*>(first);
        constexpr auto kLeaves = kInExcerpts<E> ? Leaves::in_excerpts : Leaves::whole;
        const std::uint64_t offset = tables.staging.place_large(from, count * sizeof(E), kLeaves);
        if constexpr (kInExcerpts<E>)
            tables.stack.push_back({&Packer::template step<E, true>, from, offset, count});
        else
            packer.push(first, offset, count);
        packer.check_size();
        return offset;
    }
    // Elements of an array whose references are followed now.
    static void excerpt(Packer& packer, const PackFrame& frame, std::uint64_t bytes) {
        Staging& staging = packer.tables_.staging;
        staging.excerpt(frame.source, frame.offset, bytes);
        if (staging.excerpts().bytes() >= packer.options_.flush_bytes) packer.flush_at_ = 0;
    }
};

}  // namespace verbatim::objects
