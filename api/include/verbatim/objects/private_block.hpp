// A private block is a range of memory that belongs to this process alone: no device and no peer
// reaches it. Graphs lie there that are kept, or come from a file. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace verbatim::objects {

class PrivateBlock {
  public:
    PrivateBlock() = default;
    // Addresses without memory, from `base` on if that is not zero. Throws Error(out_of_memory);
    // with a base, is_empty() if something is there.
    static PrivateBlock reserve(std::uint64_t most_bytes, std::uint64_t base = 0);
    // Bytes of a file from an offset on that is a multiple of a page; stores stay in this process.
    // Throws Error(out_of_memory); with a base, is_empty() if something is there.
    struct FilePart {
        int file = -1;
        std::uint64_t offset = 0;
        std::uint64_t bytes = 0;
    };
    static PrivateBlock map(const FilePart& part, bool writable, std::uint64_t base = 0);

    PrivateBlock(PrivateBlock&& other) noexcept { swap(other); }
    PrivateBlock& operator=(PrivateBlock&& other) noexcept {
        PrivateBlock moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~PrivateBlock();

    // The first `bytes` become memory, zeros if new. Throws Error(out_of_memory).
    void grow_to(std::uint64_t bytes);
    // Gives back the addresses from there on.
    void trim_to(std::uint64_t bytes) noexcept;
    // Stores into it are faults from now on.
    void make_read_only() noexcept;

    bool is_empty() const noexcept { return data_ == nullptr; }
    std::byte* data() const noexcept { return data_; }

  private:
    PrivateBlock(std::byte* data, std::uint64_t reserved, std::uint64_t usable) noexcept
        : data_(data), reserved_(reserved), usable_(usable) {}
    void swap(PrivateBlock& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(reserved_, other.reserved_);
        std::swap(usable_, other.usable_);
    }

    std::byte* data_ = nullptr;
    std::uint64_t reserved_ = 0;  // whole pages
    std::uint64_t usable_ = 0;
};

}  // namespace verbatim::objects
