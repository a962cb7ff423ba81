// The memory below an arena: a reservation of addresses, mapped from the front in segments of
// one sealed memory file per page size. Huge pages are populated by the segment, ordinary ones in
// parts of it. One file, sealed at its full (sparse) size, serves all
// segments, so that an arena costs one descriptor however far it grows, and no peer that maps it
// can ever meet a shrunk file (SIGBUS). Threads: the owner serialises all calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbatim/core/arena.hpp>
#include <verbatim/driver/descriptor.hpp>

namespace verbatim {

inline constexpr std::size_t kSmallPageBytes = 4096;
// Of one arena: it keeps region tables small.
inline constexpr std::size_t kMostSegments = std::size_t{1} << 20;

class ArenaMemory {
  public:
    // Pages are there when their segment is, or come when they are touched.
    enum class Pages : std::uint8_t { populated, on_touch };
    // Takes checked options, which live as long as this. Throws Error.
    explicit ArenaMemory(const ArenaOptions& options, Pages pages = Pages::populated);
    ~ArenaMemory();
    ArenaMemory(const ArenaMemory&) = delete;
    ArenaMemory& operator=(const ArenaMemory&) = delete;

    // Populates that many more bytes or somewhat more, or throws Error(out_of_memory |
    // permission_denied) and changes nothing.
    void grow(std::size_t bytes);

    std::byte* base() const noexcept { return base_; }
    std::size_t populated_bytes() const noexcept { return populated_; }
    // Of the segments that were begun, the last of which may be populated in part.
    std::size_t mapped_bytes() const noexcept { return mapped_; }
    std::size_t page_bytes() const noexcept;
    // The leading part that lies on huge pages.
    std::size_t huge_bytes() const noexcept { return huge_bytes_; }
    // It is the parent's: a forked child has none of it, and may have other memory there.
    bool is_inherited() const noexcept { return generation_ != fork_generation(); }
    int file_at(std::size_t offset) const noexcept {
        return offset < huge_bytes_ ? huge_file_ : base_file_;
    }

  private:
    void check_machine() const;
    void reserve();
    bool reserve_set_aside(std::size_t alignment) noexcept;
    bool choose_huge(std::uint64_t wanted_pages);
    void warn_of_small_pages(std::uint64_t wanted_pages) const;
    bool take_huge(std::size_t bytes);
    void take_small(std::size_t bytes);
    std::size_t small_end(std::size_t bytes) const;
    struct Piece {
        std::byte* at;
        std::size_t bytes;
        int file;
        bool huge;
    };
    void map(const Piece& piece);
    void populate(const Piece& piece);
    void empty(const Piece& piece) noexcept;
    void expect_memory(std::size_t bytes) const;
    int make_file(bool huge);
    void bind_to_node(void* at, std::size_t bytes) const;
    [[noreturn]] void fail(Errc code, const std::string& cause, const std::string& remedy) const;

    const ArenaOptions& options_;
    const Pages pages_;
    std::size_t huge_page_bytes_ = 0;  // 0: only ordinary pages
    std::byte* base_ = nullptr;
    std::size_t mapped_ = 0;
    std::size_t populated_ = 0;
    std::size_t huge_bytes_ = 0;  // the leading part that lies on huge pages
    int huge_file_ = -1, base_file_ = -1;
    const std::uint64_t generation_ = fork_generation();
};

}  // namespace verbatim
