// Memory of an unmodified program that its peers map, so that what they write there is a memcpy.
// Only where the program's user has asked for it (DeviceTree::kShareVariable): the pages lose what
// was asked of them besides madvise() (docs/softnic.md). While it is registered, its pages lie in a
// memory file of this process, each at the offset of its address; the program finds the same
// contents at the same addresses. Before and afterwards the pages are anonymous, as the program
// made them.
//
// Pages are exchanged only while nobody can be writing to them: no thread of the program runs but
// the calling one, the library's own stand still, and no key of any device leads there. Where that
// is not so, or the memory is not what malloc() or mmap() gave, everything stays as it is, and
// peers reach the memory by cross-memory attach: slower, nothing else.
//
// Whole pages are shared. What else lies on the first and the last one is in the file too; peers
// run as the same user, who may attach to the process anyway.
//
// A forked child gets copies of its own. Threads: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "../../softnic/host/descriptor.hpp"
#include "../../softnic/host/own_threads.hpp"
#include "memory_survey.hpp"

namespace verbatim::uverbs {

// Memory as long as a region of it is registered. The process knows all of them: pages are
// exchanged where there are none.
class RegisteredMemory {
  public:
    // `may_share`: false for memory that is not the program's own, or need not be there.
    RegisteredMemory(std::uint64_t start, std::uint64_t bytes, bool may_share);
    // Keys that lead here must be gone.
    ~RegisteredMemory();
    RegisteredMemory(const RegisteredMemory&) = delete;
    RegisteredMemory& operator=(const RegisteredMemory&) = delete;

    // The page file that the memory lies in; -1: it is private.
    int file() const noexcept { return file_; }
    PageRange pages() const noexcept { return pages_; }

  private:
    PageRange pages_;
    int file_ = -1;
    std::uint64_t generation_;
};

// What is behind them; one in a process.
class SharedPages {
  public:
    // Of memory that begins where a page does a page is enough: programs that measure latency have
    // such buffers, and nothing else lies there. Measured with 8 bytes on a busy machine: a write
    // takes 0.29 us instead of 1.26, a read 0.27 instead of 0.75. Else a region is to be worth the
    // pages that it does not fill. The largest ones would fill the machine's memory twice while
    // they move.
    static constexpr std::uint64_t kLeastAligned = 4 << 10, kLeastBytes = 32 << 10,
                                   kMostBytes = std::uint64_t{64} << 20;
    // A fork copies all of it, at about 0.4 GB/s on a busy machine of 2 cores.
    static constexpr std::uint64_t kMostInAll = std::uint64_t{256} << 20;
    // Looking at all mappings takes about a millisecond: programs that register memory for every
    // message do without, after these, and get one back in each kRefill.
    static constexpr unsigned kMoves = 128;
    static constexpr std::chrono::milliseconds kRefill{100};

    // The library's threads rest most of the time. One that was started just now waits for a core,
    // which takes a few microseconds, or on a busy machine longer.
    static constexpr std::chrono::milliseconds kPatience{500};

    // Of one mapping, for a forked child.
    struct Snapshot {
        PageRange range;
        int protection;
        void* copy;  // null: there was no memory for it
    };

    static SharedPages& instance() noexcept;

    // As RegisteredMemory. The file, or -1.
    int add(RegisteredMemory& memory, bool may_share);
    void remove(const RegisteredMemory& memory);

  private:
    struct Live {
        const RegisteredMemory* memory;
        PageRange pages;
        bool shared;
    };
    struct Fork {
        std::optional<softnic::Standstill> standstill;
        Survey found;
        std::vector<Snapshot> copies;
    };

    SharedPages();
    void begin_afresh() noexcept;
    bool open_file();
    bool may_try() noexcept;
    bool make_shared(const PageRange& pages);
    bool worth_sharing(const PageRange& pages, const Survey& found) const noexcept;
    bool move_in(const Survey& found) noexcept;
    void make_private(const PageRange& pages);
    void move_out(const Mapped& part) noexcept;
    void punch(const PageRange& pages) const noexcept;

    void take_snapshots();
    void drop_snapshots() noexcept;
    void use_snapshots() noexcept;

    std::mutex mutex_;  // guards all of it
    std::uint64_t generation_;
    std::list<Live> live_;
    softnic::Descriptor file_;
    std::uint64_t device_ = 0, inode_ = 0;
    unsigned moves_ = kMoves;
    std::chrono::steady_clock::time_point refilled_;
    std::optional<Fork> snapshots_;  // while the process is being forked
};

}  // namespace verbatim::uverbs
