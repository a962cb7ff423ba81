// A ring of bytes at positions that count from 0 and never wrap. Positions, their order between
// threads and what is in use are the owner's business.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

namespace verbatim::softnic {

class ByteRing {
  public:
    // Power of two. Memory that is never written costs none. Throws std::bad_alloc.
    explicit ByteRing(std::size_t bytes)
        : bytes_(bytes), data_(std::make_unique_for_overwrite<std::byte[]>(bytes)) {}

    std::size_t bytes() const noexcept { return bytes_; }
    void put(std::uint64_t at, const void* from, std::size_t count) noexcept {
        const auto* next = static_cast<const std::byte*>(from);
        for_each_run(at, count, [&](std::byte* to, std::size_t run) {
            std::memcpy(to, next, run);
            next += run;
        });
    }
    void get(std::uint64_t at, void* to, std::size_t count) const noexcept {
        auto* next = static_cast<std::byte*>(to);
        for_each_run(at, count, [&](const std::byte* from, std::size_t run) {
            std::memcpy(next, from, run);
            next += run;
        });
    }
    // Calls function(data, bytes) for each contiguous run: one, or two.
    template <class Function>
    void for_each_run(std::uint64_t at, std::size_t count, Function&& function) const noexcept {
        while (count != 0) {
            const std::size_t offset = at & (bytes_ - 1);
            const std::size_t run = std::min(count, bytes_ - offset);
            function(data_.get() + offset, run);
            at += run, count -= run;
        }
    }

  private:
    const std::size_t bytes_;
    const std::unique_ptr<std::byte[]> data_;
};

// Runs of bytes for one sendmsg().
struct Gathered {
    iovec runs[4];
    int count = 0;
    std::size_t bytes = 0;

    void add(const ByteRing& ring, std::uint64_t at, std::size_t more) noexcept {
        ring.for_each_run(at, more, [this](std::byte* data, std::size_t run) {
            runs[count++] = {data, run};
            bytes += run;
        });
    }
};

}  // namespace verbatim::softnic
