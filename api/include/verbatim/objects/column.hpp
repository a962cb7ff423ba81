// A column is an array that only grows, for the tables of a walk. An append is a store and a
// compare. clear() keeps the memory, because touching fresh pages costs more than filling them.
// Threads: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <type_traits>
#include <utility>

namespace verbatim::objects {

// Memory for a table, to be freed with std::free(). Large ones get large pages where the system has
// them. `old`, which is freed, may be null. Throws std::bad_alloc.
void* grow_table(void* old, std::size_t used_bytes, std::size_t bytes);

template <class T>
class Column {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    Column() = default;
    Column(Column&& other) noexcept { swap(other); }
    Column& operator=(Column&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Column() { std::free(first_); }

    // `value` is no element. Always inline: handed over in memory, its members would be stored one
    // by one and loaded in pairs, which stalls.
    [[gnu::always_inline]] void push_back(const T& value) {
        if (end_ == limit_) grow();
        *end_++ = value;
    }
    // Room for `count` more elements from end() on, of which commit() makes as many as were filled.
    T* room_for(std::size_t count) {
        if (static_cast<std::size_t>(limit_ - end_) < count) grow(count);
        return end_;
    }
    void commit(T* end) noexcept { end_ = end; }
    void pop_back() noexcept { --end_; }
    // Before the element at `index`, mostly the last one.
    [[gnu::always_inline]] void insert_at(std::size_t index, const T& value) {
        if (end_ == limit_) grow();
        T* const at = first_ + index;
        if (at + 1 == end_) {
            *end_ = *at;
        } else {
            std::copy_backward(at, end_, end_ + 1);
        }
        ++end_;
        *at = value;
    }
    void clear() noexcept { end_ = first_; }

    std::size_t size() const noexcept { return static_cast<std::size_t>(end_ - first_); }
    bool empty() const noexcept { return end_ == first_; }
    T& operator[](std::size_t index) noexcept { return first_[index]; }
    const T& operator[](std::size_t index) const noexcept { return first_[index]; }
    T& back() noexcept { return end_[-1]; }
    const T& back() const noexcept { return end_[-1]; }
    T* begin() noexcept { return first_; }
    T* end() noexcept { return end_; }
    const T* begin() const noexcept { return first_; }
    const T* end() const noexcept { return end_; }
    std::span<const T> span() const noexcept { return {first_, size()}; }

  private:
    void swap(Column& other) noexcept {
        std::swap(first_, other.first_);
        std::swap(end_, other.end_);
        std::swap(limit_, other.limit_);
    }
    [[gnu::noinline]] void grow(std::size_t by = kFirstCapacity) {
        const std::size_t used = size(), capacity = used + std::max(used, by);
        first_ = static_cast<T*>(grow_table(first_, used * sizeof(T), capacity * sizeof(T)));
        end_ = first_ + used;
        limit_ = first_ + capacity;
    }
    static constexpr std::size_t kFirstCapacity = 64;

    T* first_ = nullptr;
    T* end_ = nullptr;
    T* limit_ = nullptr;
};

}  // namespace verbatim::objects
