// A local span is memory of this process for a one-sided operation. It lies in an arena of the
// context, or under a lease of a registration cache.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>

namespace verbatim {

class MemoryRegion;

template <class T>
class LocalSpan {
  public:
    LocalSpan() noexcept = default;
    // In an arena of the context; other memory is refused by the operation.
    template <class Range>
    requires std::convertible_to<Range, std::span<T>> LocalSpan(Range&& elements)
    noexcept : elements_(std::forward<Range>(elements)) {}
    // In this region, which the caller has looked up (Registered::local).
    LocalSpan(std::span<T> elements, const MemoryRegion* region) noexcept
        : elements_(elements), region_(region) {}
    template <class Other>
    requires std::convertible_to<std::span<Other>, std::span<T>> LocalSpan(
        const LocalSpan<Other>& other)
    noexcept : elements_(other.elements()), region_(other.region()) {}

    std::span<T> elements() const noexcept { return elements_; }
    const MemoryRegion* region() const noexcept { return region_; }  // null: in an arena

  private:
    std::span<T> elements_;
    const MemoryRegion* region_ = nullptr;
};

}  // namespace verbatim
