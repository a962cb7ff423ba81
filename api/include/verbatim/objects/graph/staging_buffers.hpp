// The buffers of a staging hold a segment each, in memory that the device reaches. Some are free,
// of others the writes have not retired. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <verbatim/core/arena.hpp>

namespace verbatim::objects {

class StagingBuffers {
  public:
    explicit StagingBuffers(std::shared_ptr<Arena> arena) noexcept;
    ~StagingBuffers();
    StagingBuffers(const StagingBuffers&) = delete;
    StagingBuffers& operator=(const StagingBuffers&) = delete;

    // Throws Error(out_of_memory).
    std::byte* take();
    // The next ones need no memory. False: there is none.
    bool reserve(std::size_t count) noexcept;
    // `is_written`: the device may read it until set_retired(). Else nothing of it was, or will be.
    void put(std::byte* buffer, bool is_written) {
        (is_written ? under_way_ : spare_).push_back(buffer);
    }
    void set_retired();
    std::size_t under_way() const noexcept { return under_way_.size(); }
    // Those that are under way there are so here from now on. Of the same arena.
    void take_over(StagingBuffers& from);
    // Gives memory back to the arena, but for a few buffers.
    static constexpr std::size_t kKept = 4;
    void shrink(std::size_t kept = kKept) noexcept;

  private:
    std::shared_ptr<Arena> arena_;
    std::vector<std::byte*> spare_, under_way_;
};

// Bytes of the image that are yet to be written.
struct Piece {
    const std::byte* from = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    bool is_staged = false;  // else it is the sender's object, anywhere
    std::uint64_t room = 0;  // if excerpts follow: of their whole array, which lies side by side
};

// Excerpts are copies of some elements of large arrays, made since the last announcement of a walk.
// Their references can be written until then. Threads: one at a time.
class Excerpts {
  public:
    // Arrays of this image leave in excerpts.
    bool any() const noexcept { return any_; }
    void set_any(bool any) noexcept { any_ = any; }
    // Copied since the last announcement.
    std::uint64_t bytes() const noexcept { return bytes_; }
    // Where the bytes at `offset` may still be changed; null if none of the last ones.
    std::byte* staged(std::uint64_t offset) const noexcept {
        const std::uint64_t delta = offset - last_.offset;
        return delta < last_.bytes ? const_cast<std::byte*>(last_.from) + delta : nullptr;
    }
    // At most a segment. Excerpts that follow each other, as those of one array do, are one piece.
    void add(const Piece& source, std::vector<Piece>& pieces, StagingBuffers& from);
    // They were announced, and written or dropped.
    void end(StagingBuffers& to, bool are_written);

  private:
    std::vector<std::byte*> buffers_;  // the last one is being filled
    std::uint64_t used_ = 0;           // of that
    std::uint64_t bytes_ = 0;
    Piece last_;
    bool any_ = false;
};

}  // namespace verbatim::objects
