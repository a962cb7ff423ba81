// The file of a segment, and who has which slot.
#include "segment.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/log.hpp>

#include "directory.hpp"

namespace verbatim::telemetry {
namespace {

std::uint64_t since_epoch_ns() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::system_clock::now().time_since_epoch())
                                          .count());
}

// Distinguishes the contexts of a process; its number and its birth distinguish processes.
std::string new_name() {
    static std::atomic<unsigned> contexts{0};
    return fmt::format("{}-{:x}-{}", getpid(), since_epoch_ns(), contexts++);
}

[[noreturn]] void refuse(const std::string& path, const char* cause) {
    throw Error(Errc::device_error, path, fmt::format("{}: {}", cause, errno_text(errno)),
                "set directory in [telemetry], or enabled = false");
}

}  // namespace

Slot::~Slot() {
    if (segment_ == nullptr) return;
    const std::uint64_t none = 0;  // an id that no object has
    write(std::span(&none, 1));
    segment_->give_back(section_, index_);
}

void Slot::swap(Slot& other) noexcept {
    segment_.swap(other.segment_);
    std::swap(section_, other.section_);
    std::swap(index_, other.index_);
    std::swap(sequence_, other.sequence_);
    std::swap(at_, other.at_);
}

// Readers are other processes, and threads of this one with a mapping of their own.
void Slot::write(std::span<const std::uint64_t> words) noexcept {
    // A forked child has no such memory, and the segment is its parent's.
    if (segment_->generation_ != fork_generation()) return;
    const std::size_t copy_bytes = plan_of(section_).copy_bytes();
    auto* const sequence = reinterpret_cast<std::uint64_t*>(at_);
    auto* const copy =
        reinterpret_cast<std::uint64_t*>(at_ + 64 + (sequence_ + 1) % 2 * copy_bytes);
    // The copy's old bytes belong to a sequence that must not be read any more.
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i < words.size(); ++i)
        __atomic_store_n(copy + i, words[i], __ATOMIC_RELAXED);
    __atomic_store_n(sequence, ++sequence_, __ATOMIC_RELEASE);
}

std::shared_ptr<Segment> Segment::open(const Config::TelemetrySection& config) noexcept try {
    if (!config.enabled) return nullptr;
    return std::shared_ptr<Segment>(new Segment(config));
} catch (const std::exception& error) {
    // Nobody asked for the default one.
    config.directory.empty() ? log::info("no telemetry: {}", error.what())
                             : log::warn("no telemetry: {}", error.what());
    return nullptr;
}

Segment::Segment(const Config::TelemetrySection& config) : config_(config) {
    const std::string directory = config.directory.empty() ? default_directory() : config.directory;
    make_directory(directory);
    (void)segments(directory);  // which removes what others have left
    path_ = directory + "/" + new_name();
    make_file();
}

// The file gets a segment's name last: a process that is killed before leaves none that is listed.
void Segment::make_file() {
    const std::string unready = path_ + std::string(kUnready);
    file_ = Descriptor(
        ::open(unready.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file_) refuse(path_, "it cannot be made");
    const bool is_ready = flock(file_.get(), LOCK_EX) == 0 &&
                          ftruncate(file_.get(), kSegmentBytes) == 0 &&
                          posix_fallocate(file_.get(), 0, kHeaderBytes) == 0;
    void* const memory = !is_ready ? MAP_FAILED
                                   : mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE,
                                          MAP_SHARED, file_.get(), 0);
    if (memory == MAP_FAILED) {
        unlink(unready.c_str());
        refuse(path_, "no room for it");
    }
    (void)madvise(memory, kSegmentBytes, MADV_DONTFORK);
    memory_ = static_cast<std::byte*>(memory);
    header().version = kVersion;
    header().bytes = kSegmentBytes;
    header().pid = static_cast<std::uint64_t>(getpid());
    header().created_ns = since_epoch_ns();
    header().interval_ns = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(config_.interval).count());
    std::strncpy(header().program.data(), program_invocation_short_name,
                 header().program.size() - 1);
    __atomic_store_n(&header().magic, kMagic, __ATOMIC_RELEASE);
    if (rename(unready.c_str(), path_.c_str()) == 0) return;
    unlink(unready.c_str());
    munmap(memory_, kSegmentBytes);
    refuse(path_, "it cannot be named");
}

Segment::~Segment() {
    if (generation_ != fork_generation()) return;
    if (memory_ == nullptr) return;
    unlink(path_.c_str());
    munmap(memory_, kSegmentBytes);
}

// Else the first store to a page that the file system cannot give would end the program.
bool Segment::has_memory(std::size_t offset, std::size_t bytes) noexcept {
    return posix_fallocate(file_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0;
}

Slot Segment::take(Section section) noexcept try {
    if (generation_ != fork_generation()) return {};
    const std::lock_guard lock(mutex_);
    Slots& slots = slots_[static_cast<std::size_t>(section)];
    const SectionPlan& plan = plan_of(section);
    Slot slot;
    if (!slots.free.empty()) {
        slot.index_ = slots.free.back();
        slots.free.pop_back();
    } else {
        const std::size_t at = offset_of(section) + slots.used * plan.slot_bytes();
        if (slots.used == plan.slots || !has_memory(at, plan.slot_bytes())) return {};
        slots.free.reserve(slots.used + 1);
        slot.index_ = static_cast<std::uint32_t>(slots.used++);
        __atomic_store_n(&header().used[static_cast<std::size_t>(section)], slots.used,
                         __ATOMIC_RELEASE);
    }
    slot.section_ = section;
    slot.at_ = memory_ + offset_of(section) + slot.index_ * plan.slot_bytes();
    slot.sequence_ =
        __atomic_load_n(reinterpret_cast<const std::uint64_t*>(slot.at_), __ATOMIC_RELAXED);
    slot.segment_ = shared_from_this();
    return slot;
} catch (const std::bad_alloc&) {
    return {};
}

void Segment::give_back(Section section, std::uint32_t index) noexcept {
    if (generation_ != fork_generation()) return;  // a thread of the parent may have the lock
    const std::lock_guard lock(mutex_);
    slots_[static_cast<std::size_t>(section)].free.push_back(index);  // has room
}

std::uint64_t Segment::next_id(Section section) noexcept {
    const std::lock_guard lock(mutex_);
    return ++slots_[static_cast<std::size_t>(section)].ids;
}

}  // namespace verbatim::telemetry
