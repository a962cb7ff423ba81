// A peer's page file as it is seen here. In such a file every page of the peer's memory that it
// shares lies at the offset of its address there, so the file is as long as an address space, and
// only windows onto it are mapped. Pages come and go behind them. Threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "descriptor.hpp"

namespace verbatim::softnic {

// How long a page file is: what user space has of addresses.
inline constexpr std::uint64_t kPageFileBytes = std::uint64_t{1} << 47;
// Of one registration of such memory.
inline constexpr std::uint64_t kMostPagesBytes = std::uint64_t{64} << 20;

class PageView {
  public:
    // Throws Error(protocol_error) if the file can shrink or is too short.
    PageView(Descriptor file, const std::string& what);
    ~PageView();
    PageView(const PageView&) = delete;
    PageView& operator=(const PageView&) = delete;

    // Where a range lies in this process, as long as this object lives. Null: it cannot be mapped.
    // A system call if no window covers it yet.
    std::byte* place(std::uint64_t offset, std::uint64_t bytes) noexcept;
    // Makes the pages of a range that place() found present, so that no later access can find the
    // machine out of memory. False: it is out of memory now.
    static bool populate(std::byte* data, std::uint64_t bytes) noexcept;

  private:
    struct Window {
        std::uint64_t offset;
        std::byte* data;
        const Window* next;
    };

    const Window* find(std::uint64_t offset) const noexcept;
    const Window* open(std::uint64_t offset) noexcept;

    Descriptor file_;
    std::uint64_t generation_ = fork_generation();
    std::mutex mutex_;  // guards additions
    std::atomic<const Window*> windows_{nullptr};
};

}  // namespace verbatim::softnic
