// A static table has an entry for each static type of pointers to polymorphic objects, by its
// number. Threads: one at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace verbatim::objects {

template <class Entry>
class StaticTable {
  public:
    [[gnu::always_inline]] Entry& at(std::uint16_t static_type) {
        if (static_type >= size_) [[unlikely]]
            grow(static_type);
        return first_[static_type];
    }
    Entry* begin() noexcept { return first_; }
    Entry* end() noexcept { return first_ + size_; }

  private:
    [[gnu::noinline]] void grow(std::uint16_t static_type) {
        entries_.resize(static_type + 1u);
        first_ = entries_.data();
        size_ = entries_.size();
    }

    Entry* first_ = nullptr;
    std::uint64_t size_ = 0;
    std::vector<Entry> entries_;
};

}  // namespace verbatim::objects
