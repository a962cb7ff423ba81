// A remote span is an array of T in memory that the peer of a connection has lent. The lender makes
// it of a grant's extent and sends it in a message; it travels as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include <verbatim/core/grant.hpp>

namespace verbatim {

// T: trivially copyable, and of the same layout on both sides. The size is an extent's: what
// crosses a segment of the arena is lent as several extents, a span each.
template <class T>
class RemoteSpan {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
                  "the peer's bytes are used as T: T must be trivially copyable, and no pointer");

  public:
    RemoteSpan() noexcept = default;
    // The elements that lie whole in the extent.
    explicit RemoteSpan(const RemoteExtent& extent) noexcept
        : extent_{extent.address, extent.bytes - extent.bytes % sizeof(T), extent.remote_key, 0} {}
    // Out of a message. Nothing where these are no span of T: of another length, not aligned, or
    // not a whole number of elements.
    static std::optional<RemoteSpan> parse(std::span<const std::byte> bytes) noexcept {
        RemoteSpan span;
        if (bytes.size() != sizeof span) return std::nullopt;
        std::memcpy(&span, bytes.data(), sizeof span);
        const RemoteExtent& of = span.extent_;
        if (of.address % alignof(T) != 0 || of.bytes % sizeof(T) != 0 || of.reserved != 0)
            return std::nullopt;
        return span;
    }

    std::size_t size() const noexcept { return extent_.bytes / sizeof(T); }
    bool empty() const noexcept { return extent_.bytes == 0; }
    // `count` elements from `first` on; empty where they do not all lie in this span.
    RemoteSpan subspan(std::size_t first, std::size_t count) const noexcept {
        if (first > size() || count > size() - first) return {};
        return RemoteSpan(
            {extent_.address + first * sizeof(T), count * sizeof(T), extent_.remote_key, 0});
    }
    RemoteSpan operator[](std::size_t index) const noexcept { return subspan(index, 1); }
    const RemoteExtent& extent() const noexcept { return extent_; }
    // For a message.
    std::span<const std::byte> bytes() const noexcept {
        return std::as_bytes(std::span(&extent_, 1));
    }

  private:
    RemoteExtent extent_;
};

// One read of a list. `into`: local memory of `from.bytes`, at most 1 GiB, in one segment of an
// arena.
struct RemoteRead {
    RemoteExtent from;
    std::byte* into = nullptr;
};

}  // namespace verbatim
