// The records that a receiver was told and has not come to, in the order of their references.
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <verbatim/objects/column.hpp>
#include <verbatim/objects/graph/image.hpp>

namespace verbatim::objects {

class Records {
  public:
    static constexpr std::uint64_t kNever = ~std::uint64_t{0};

    void clear() noexcept {
        places_.clear();
        arrays_.clear();
        place_ = array_ = 0;
        count_ = 0;
        next_ = next_array_ = kNever;
    }
    void add(std::span<const PlaceRecord> places, std::span<const ArrayRecord> arrays) {
        drop_used(places_, place_);
        drop_used(arrays_, array_);
        append(places_, places);
        append(arrays_, arrays);
        count_ += places.size() + arrays.size();
        find_next();
    }
    // The first reference that has a record; kNever if none has.
    std::uint64_t next() const noexcept { return next_; }
    // A place that will be asked for soon, or any.
    std::uint64_t place_ahead() const noexcept {
        constexpr std::size_t kAhead = 4;
        return place_ + kAhead < places_.size() ? places_[place_ + kAhead].offset : 0;
    }
    // The record of that reference, which is used by that: one of both.
    [[gnu::always_inline]] const PlaceRecord* take_place() noexcept {
        if (place_ >= places_.size() || places_[place_].reference != next_) return nullptr;
        const PlaceRecord* const record = &places_[place_++];
        next_ = std::min(first_place(), next_array_);
        return record;
    }
    const ArrayRecord* take_array() noexcept {
        const ArrayRecord* const record = &arrays_[array_++];
        find_next();
        return record;
    }
    // All that were told.
    std::uint64_t count() const noexcept { return count_; }

  private:
    template <class T>
    static void drop_used(Column<T>& records, std::size_t& next) noexcept {
        if (next != records.size()) return;
        records.clear();
        next = 0;
    }
    template <class T>
    static void append(Column<T>& records, std::span<const T> more) {
        if (more.empty()) return;
        T* const end = records.room_for(more.size());
        std::memcpy(end, more.data(), more.size_bytes());
        records.commit(end + more.size());
    }
    std::uint64_t first_place() const noexcept {
        return place_ < places_.size() ? places_[place_].reference : kNever;
    }
    void find_next() noexcept {
        next_array_ = array_ < arrays_.size() ? arrays_[array_].reference : kNever;
        next_ = std::min(first_place(), next_array_);
    }

    Column<PlaceRecord> places_;
    Column<ArrayRecord> arrays_;
    std::size_t place_ = 0, array_ = 0;  // not used yet
    std::uint64_t count_ = 0;
    std::uint64_t next_ = kNever, next_array_ = kNever;
};

}  // namespace verbatim::objects
