// A segment is the file in shared memory in which a context keeps its counts, and its slots. The
// file is sparse: a slot takes memory once it is used. Threads: any; a slot has one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <verbatim/core/config.hpp>
#include <verbatim/driver/descriptor.hpp>

#include "segment_format.hpp"

namespace verbatim::telemetry {

class Segment;

// A slot of a segment, until it ends. Empty: there was none.
class Slot {
  public:
    Slot() = default;
    Slot(Slot&& other) noexcept { swap(other); }
    Slot& operator=(Slot&& other) noexcept {
        Slot moved(std::move(other));
        swap(moved);
        return *this;
    }
    // Says that it is unused, and gives it back.
    ~Slot();

    explicit operator bool() const noexcept { return segment_ != nullptr; }
    // Writes the counts; no effect on an empty one. No allocation, lock or system call.
    template <class Counts>
    void publish(const Counts& counts) noexcept {
        static_assert(sizeof counts % sizeof(std::uint64_t) == 0);
        if (segment_ != nullptr)
            write(std::span(reinterpret_cast<const std::uint64_t*>(&counts), sizeof counts / 8));
    }

  private:
    friend class Segment;
    void write(std::span<const std::uint64_t> words) noexcept;
    void swap(Slot& other) noexcept;

    std::shared_ptr<Segment> segment_;
    Section section_{};
    std::uint32_t index_ = 0;
    std::uint64_t sequence_ = 0;
    std::byte* at_ = nullptr;
};

class Segment : public std::enable_shared_from_this<Segment> {
  public:
    // Null where [telemetry] is off, or the file cannot be made, which is logged.
    static std::shared_ptr<Segment> open(const Config::TelemetrySection& config) noexcept;
    // Removes the file, but not in a forked child.
    ~Segment();
    Segment(const Segment&) = delete;
    Segment& operator=(const Segment&) = delete;

    // Empty: all are taken, or there is no memory for it.
    Slot take(Section section) noexcept;
    // A running number of this context, from 1.
    std::uint64_t next_id(Section section) noexcept;
    const Config::TelemetrySection& config() const noexcept { return config_; }
    const std::string& path() const noexcept { return path_; }

  private:
    explicit Segment(const Config::TelemetrySection& config);
    friend class Slot;
    void make_file();
    void give_back(Section section, std::uint32_t index) noexcept;
    Header& header() const noexcept { return *reinterpret_cast<Header*>(memory_); }
    bool has_memory(std::size_t offset, std::size_t bytes) noexcept;

    const Config::TelemetrySection config_;
    const std::uint64_t generation_ = fork_generation();
    std::string path_;
    Descriptor file_;  // locked while the segment is there
    std::byte* memory_ = nullptr;
    std::mutex mutex_;
    struct Slots {
        std::uint64_t used = 0, ids = 0;
        std::vector<std::uint32_t> free;
    };
    std::array<Slots, kSections> slots_;
};

}  // namespace verbatim::telemetry
