// Reservation, page choice and population of arena memory.
#include "arena_memory.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>

#include <fmt/format.h>
#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/file_size_limit.hpp>
#include <verbatim/driver/log.hpp>

#include "system_memory.hpp"

namespace verbatim {
namespace {

constexpr std::size_t kSmallestPart = std::size_t{64} << 10;
constexpr const char* kLockRemedy =
    "run: ulimit -l unlimited (or set memlock in /etc/security/limits.conf), or set lock_memory = "
    "false";
std::atomic<bool> warned_of_small_pages{false};

// `unit` is a power of two.
constexpr std::size_t rounded_up(std::size_t bytes, std::size_t unit) noexcept {
    return (bytes + unit - 1) & ~(unit - 1);
}

std::size_t huge_size_for(const ArenaOptions& options) noexcept {
    switch (options.pages) {
        case PageChoice::base_4k:
            return 0;
        case PageChoice::huge_1g:
            return std::size_t{1} << 30;
        case PageChoice::huge_2m:
            return std::size_t{2} << 20;
        // A segment below the huge page size is meant to be small: no huge pages, and no warning.
        case PageChoice::automatic:
            return options.segment_bytes >= (std::size_t{2} << 20) ? std::size_t{2} << 20 : 0;
    }
    return 0;
}

// A page of addresses alone, which asks the kernel something.
struct ProbePage {
    ProbePage()
        : at(mmap(nullptr, kSmallPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0)) {}
    ~ProbePage() {
        if (at != MAP_FAILED) munmap(at, kSmallPageBytes);
    }
    ProbePage(const ProbePage&) = delete;
    ProbePage& operator=(const ProbePage&) = delete;
    void* const at;
};

// Gives addresses back to the reservation.
void unmap(std::byte* at, std::size_t bytes) noexcept {
    mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace

ArenaMemory::ArenaMemory(const ArenaOptions& options, Pages pages)
    : options_(options), pages_(pages), huge_page_bytes_(huge_size_for(options)) {
    count_forks();
    check_machine();
    reserve();
}

// Before anything is populated: the node is not there, the first segment could not be locked, or a
// later one.
void ArenaMemory::check_machine() const {
    if (options_.numa_node >= 0)
        if (const ProbePage page; page.at != MAP_FAILED) bind_to_node(page.at, kSmallPageBytes);
    const std::uint64_t lockable = options_.lock_memory ? system_memory::lockable_bytes() : ~0ull;
    if (lockable < options_.segment_bytes)
        fail(Errc::permission_denied,
             fmt::format("segments of {} bytes cannot be locked: RLIMIT_MEMLOCK is {}",
                         options_.segment_bytes, system_memory::memlock_limit()),
             kLockRemedy);
    if (lockable < options_.max_bytes)
        log::warn("arena {}: max_bytes is {}, but RLIMIT_MEMLOCK is {}: it cannot grow beyond. {}",
                  options_.name, options_.max_bytes, system_memory::memlock_limit(), kLockRemedy);
}

ArenaMemory::~ArenaMemory() {
    if (!is_inherited()) munmap(base_, options_.max_bytes);
    if (huge_file_ >= 0) close(huge_file_);
    if (base_file_ >= 0) close(base_file_);
}

void ArenaMemory::fail(Errc code, const std::string& cause, const std::string& remedy) const {
    throw Error(code, "arena " + options_.name, cause, remedy);
}

std::size_t ArenaMemory::page_bytes() const noexcept {
    return huge_bytes_ != 0 ? huge_page_bytes_ : kSmallPageBytes;
}

// Reserves more than is needed and gives back both ends, so that segments are aligned to their own
// size and to huge pages.
void ArenaMemory::reserve() {
    const std::size_t alignment =
        std::max({options_.segment_bytes, huge_page_bytes_, kSmallPageBytes});
    if (options_.is_set_aside && reserve_set_aside(alignment)) return;
    const std::size_t bytes = options_.max_bytes + alignment;
    void* raw = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        fail(Errc::out_of_memory,
             fmt::format("cannot reserve {} bytes of addresses ({})", bytes, errno_text(errno)),
             "lower max_bytes, or raise the address space limit (ulimit -v)");
    auto* start = static_cast<std::byte*>(raw);
    const std::size_t skip =
        (alignment - reinterpret_cast<std::uintptr_t>(start) % alignment) % alignment;
    base_ = start + skip;
    if (skip != 0) munmap(start, skip);
    if (alignment != skip) munmap(base_ + options_.max_bytes, alignment - skip);
}

// Drawn for each arena, also after a fork. A few attempts: there is room for many.
bool ArenaMemory::reserve_set_aside(std::size_t alignment) noexcept {
    constexpr int kAttempts = 4;
    constexpr std::uint64_t kBytes = SetAside::kEnd - SetAside::kFirst;
    if (!SetAside::kIsUsable || options_.max_bytes + alignment > kBytes / 2) return false;
    const std::uint64_t places = (kBytes - options_.max_bytes) / alignment;
    for (int i = 0; i < kAttempts; ++i) {
        std::uint64_t drawn = 0;
        if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) return false;
        const std::uint64_t first = (SetAside::kFirst + alignment - 1) / alignment * alignment;
        auto* const wanted = reinterpret_cast<void*>(first + drawn % places * alignment);
        void* const got =
            mmap(wanted, options_.max_bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        base_ = static_cast<std::byte*>(got);
        if (got == wanted) return true;
        if (got != MAP_FAILED) munmap(got, options_.max_bytes);
    }
    return false;
}

void ArenaMemory::grow(std::size_t bytes) {
    if (bytes > options_.max_bytes - populated_)
        fail(Errc::out_of_memory,
             fmt::format("{} of at most {} bytes are taken", populated_, options_.max_bytes),
             fmt::format("raise max_bytes of [{}] in the configuration", options_.name));
    // Once a segment had to use ordinary pages the later ones do too: huge pages lead, as file_at()
    // assumes.
    const std::size_t whole = rounded_up(bytes, options_.segment_bytes);
    const bool huge =
        huge_page_bytes_ != 0 && huge_bytes_ == mapped_ && choose_huge(whole / huge_page_bytes_);
    if (huge && take_huge(whole)) return;
    take_small(bytes);
}

// How far ordinary pages reach after a growth: to the end of a part. Parts are an eighth to a
// quarter of what is there, up to a segment: a few objects cost a few pages, a large heap costs few
// calls, and at most a quarter lies idle. Less where the machine has no more.
std::size_t ArenaMemory::small_end(std::size_t bytes) const {
    const std::size_t taken = populated_ - huge_bytes_, need = taken + bytes;
    if (pages_ == Pages::on_touch) return rounded_up(need, options_.segment_bytes);
    const std::size_t smallest = std::min(kSmallestPart, options_.segment_bytes);
    const std::size_t part =
        std::clamp(std::bit_floor(taken / 4 | 1), smallest, options_.segment_bytes);
    const std::size_t end = rounded_up(need, part);
    return system_memory::can_take(end - taken) ? end : rounded_up(need, kSmallPageBytes);
}

void ArenaMemory::take_small(std::size_t bytes) {
    const std::size_t end = huge_bytes_ + small_end(bytes);
    if (base_file_ < 0) base_file_ = make_file(false);
    if (end > mapped_) {
        const std::size_t whole = rounded_up(end - mapped_, options_.segment_bytes);
        map({base_ + mapped_, whole, base_file_, false});
        mapped_ += whole;
    }
    const Piece piece{base_ + populated_, end - populated_, base_file_, false};
    populate(piece);
    populated_ = end;
}

// False: another process was quicker, and ordinary pages will do.
bool ArenaMemory::take_huge(std::size_t bytes) try {
    if (huge_file_ < 0) huge_file_ = make_file(true);
    const Piece piece{base_ + populated_, bytes, huge_file_, true};
    map(piece);
    populate(piece);
    populated_ = mapped_ = huge_bytes_ = populated_ + bytes;
    return true;
} catch (const Error&) {
    if (options_.pages != PageChoice::automatic) throw;
    warn_of_small_pages(bytes / huge_page_bytes_);
    return false;
}

bool ArenaMemory::choose_huge(std::uint64_t wanted_pages) {
    if (system_memory::huge_pages(huge_page_bytes_).free >= wanted_pages) return true;
    if (options_.pages != PageChoice::automatic)
        fail(Errc::out_of_memory, system_memory::huge_page_advice(huge_page_bytes_, wanted_pages),
             "or set pages = \"auto\"");
    warn_of_small_pages(wanted_pages);
    return false;
}

void ArenaMemory::warn_of_small_pages(std::uint64_t wanted_pages) const {
    if (!warned_of_small_pages.exchange(true))
        log::warn("arena {} uses 4 KiB pages (slower). {}", options_.name,
                  system_memory::huge_page_advice(huge_page_bytes_, wanted_pages));
}

int ArenaMemory::make_file(bool huge) {
    if (const auto limit = file_size_limit(); options_.max_bytes > limit)
        fail(Errc::out_of_memory,
             fmt::format("max_bytes is {}, the limit of file sizes (RLIMIT_FSIZE) is {} bytes",
                         options_.max_bytes, limit),
             "run: ulimit -f unlimited, or lower max_bytes");
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    if (huge)
        flags |= MFD_HUGETLB |
                 (huge_page_bytes_ == (std::size_t{1} << 30) ? MFD_HUGE_1GB : MFD_HUGE_2MB);
    const int file = memfd_create(("verbatim:" + options_.name).c_str(), flags);
    if (file < 0)
        fail(Errc::out_of_memory, "cannot create a memory file (" + errno_text(errno) + ")",
             "raise the limit of open files (ulimit -n) if it is reached");
    if (ftruncate(file, static_cast<off_t>(options_.max_bytes)) != 0 ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        const int error = errno;
        close(file);
        fail(Errc::out_of_memory, "cannot size and seal a memory file (" + errno_text(error) + ")",
             "free memory, or use smaller arenas");
    }
    return file;
}

void ArenaMemory::bind_to_node(void* at, std::size_t bytes) const {
    if (options_.numa_node < 0) return;
    constexpr std::size_t kBits = 8 * sizeof(unsigned long), kNodes = 1024;
    std::array<unsigned long, kNodes / kBits> nodes{};
    const auto node = static_cast<std::size_t>(options_.numa_node);
    if (node < kNodes) nodes[node / kBits] = 1ul << (node % kBits);
    // The kernel reads one bit less than it is told.
    if (node < kNodes && syscall(SYS_mbind, at, bytes, MPOL_BIND, nodes.data(), kNodes + 1, 0) == 0)
        return;
    const std::string why = node < kNodes ? errno_text(errno) : "no such node";
    fail(Errc::config_error, fmt::format("cannot bind to NUMA node {} ({})", node, why),
         "choose a node that `ls /sys/devices/system/node` shows, or -1");
}

// Gives the pages back to the machine.
void ArenaMemory::empty(const Piece& piece) noexcept {
    if (fallocate(piece.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, piece.at - base_,
                  static_cast<off_t>(piece.bytes)) != 0)
        log::warn("arena {}: cannot give back {} bytes ({})", options_.name, piece.bytes,
                  errno_text(errno));
}

// Asked first, because a kernel that runs out kills a process instead of saying no.
void ArenaMemory::expect_memory(std::size_t bytes) const {
    if (system_memory::can_take(bytes)) return;
    fail(Errc::out_of_memory,
         fmt::format("{} more bytes wanted, the machine or control group has {}", bytes,
                     system_memory::available_bytes()),
         "free memory, raise the group's limit, or use smaller arenas");
}

// Maps whole segments, which have no pages yet.
void ArenaMemory::map(const Piece& piece) {
    const auto [at, bytes, file, huge] = piece;
    void* mapped =
        mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, at - base_);
    if (mapped == MAP_FAILED)
        fail(Errc::out_of_memory, fmt::format("cannot map {} bytes ({})", bytes, errno_text(errno)),
             huge ? system_memory::huge_page_advice(huge_page_bytes_, bytes / huge_page_bytes_)
                  : "");
    // A device or a peer writes here: a forked child must neither share nor copy these pages.
    madvise(at, bytes, MADV_DONTFORK);
    try {
        bind_to_node(at, bytes);
    } catch (...) {
        unmap(at, bytes);
        throw;
    }
}

// Fetches the pages of a mapped piece, unless they come when they are touched. A failure gives them
// back, and huge ones their addresses.
void ArenaMemory::populate(const Piece& piece) try {
    const auto [at, bytes, file, huge] = piece;
    const bool now = pages_ == Pages::populated;
    if (now && !huge) expect_memory(bytes);
    // Population reports exhaustion here, as an error; a later first touch would report it as
    // SIGBUS.
    if (now && madvise(at, bytes, MADV_POPULATE_WRITE) != 0)
        fail(Errc::out_of_memory,
             fmt::format("cannot populate {} bytes ({})", bytes, errno_text(errno)),
             "free memory, or use smaller arenas; Linux 5.14 or later is needed");
    if (options_.lock_memory && mlock(at, bytes) != 0)
        fail(Errc::permission_denied,
             fmt::format("cannot lock {} bytes: RLIMIT_MEMLOCK is {} ({})", bytes,
                         system_memory::memlock_limit(), errno_text(errno)),
             kLockRemedy);
} catch (...) {
    if (piece.huge) unmap(piece.at, piece.bytes);
    empty(piece);
    throw;
}

}  // namespace verbatim
