// When pages are exchanged, and how. Forks: shared_pages_fork.cpp.
#include "shared_pages.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <verbatim/driver/file_size_limit.hpp>
#include <verbatim/driver/log.hpp>
#include <verbatim/uverbs/device_tree.hpp>

#include "../../softnic/host/page_view.hpp"

namespace verbatim::uverbs {
namespace {

// Of the 65,530 that a process may have.
constexpr std::size_t kMostMappings = 60000;
static_assert(SharedPages::kMostBytes <= softnic::kMostPagesBytes);

// No handler of the program runs meanwhile: it could write to pages that are being copied.
class WithoutSignals {
  public:
    WithoutSignals() noexcept {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    WithoutSignals(const WithoutSignals&) = delete;
    WithoutSignals& operator=(const WithoutSignals&) = delete;

  private:
    sigset_t before_;
};

// By bare system calls: nothing of this process may be written while it is copied, and a library
// that has put itself before the C library's functions, a sanitizer say, knows nothing of whole
// pages.
bool copy_to_file(int file, const PageRange& pages) noexcept {
    for (std::uint64_t done = pages.first; done < pages.end;) {
        const long more = syscall(SYS_pwrite64, file, done, pages.end - done, done);
        if (more <= 0) return false;
        done += static_cast<std::uint64_t>(more);
    }
    return true;
}

bool copy_from_file(int file, const PageRange& pages) noexcept {
    for (std::uint64_t done = pages.first; done < pages.end;) {
        const long more = syscall(SYS_pread64, file, done, pages.end - done, done);
        if (more <= 0) return false;
        done += static_cast<std::uint64_t>(more);
    }
    return true;
}

bool map(const Mapped& part, int file) noexcept {
    const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_POPULATE;
    const int flags = kind | MAP_FIXED | (part.advice.unreserved ? MAP_NORESERVE : 0);
    const off_t offset = file < 0 ? 0 : static_cast<off_t>(part.range.first);
    void* const start = part.range.memory();
    const std::uint64_t bytes = part.range.bytes();
    if (mmap(start, bytes, PROT_READ | PROT_WRITE, flags, file, offset) == MAP_FAILED) return false;
    if (part.advice.not_forked) madvise(start, bytes, MADV_DONTFORK);
    if (part.advice.not_dumped) madvise(start, bytes, MADV_DONTDUMP);
    if (part.advice.huge) madvise(start, bytes, MADV_HUGEPAGE);
    if (part.advice.never_huge) madvise(start, bytes, MADV_NOHUGEPAGE);
    return true;
}

bool wanted_by_environment() noexcept {
    const char* const text = std::getenv(DeviceTree::kShareVariable);
    return text != nullptr && std::string_view(text) == "1";
}

// What is left of `pages` without the others'.
std::vector<PageRange> without(const PageRange& pages, const std::vector<PageRange>& others) {
    std::vector<PageRange> left{pages};
    for (const PageRange& other : others) {
        std::vector<PageRange> smaller;
        for (const PageRange& part : left) {
            if (!part.overlaps(other)) {
                smaller.push_back(part);
                continue;
            }
            if (part.first < other.first) smaller.push_back({part.first, other.first});
            if (other.end < part.end) smaller.push_back({other.end, part.end});
        }
        left = std::move(smaller);
    }
    return left;
}

}  // namespace

RegisteredMemory::RegisteredMemory(std::uint64_t start, std::uint64_t bytes, bool may_share)
    : pages_(pages_of(start, bytes)), generation_(softnic::fork_generation()) {
    const bool aligned = start == pages_.first;
    const bool sized = bytes >= (aligned ? SharedPages::kLeastAligned : SharedPages::kLeastBytes) &&
                       pages_.bytes() <= SharedPages::kMostBytes;
    file_ = SharedPages::instance().add(*this, may_share && sized);
}

RegisteredMemory::~RegisteredMemory() {
    // A forked child has no part in it.
    if (generation_ == softnic::fork_generation()) SharedPages::instance().remove(*this);
}

// Never destroyed: devices with static storage may go at exit.
SharedPages& SharedPages::instance() noexcept {
    static SharedPages* const one = new SharedPages;
    return *one;
}

SharedPages::SharedPages() : generation_(softnic::fork_generation()) {}

// What a forked child has inherited is the parent's. Under mutex_.
void SharedPages::begin_afresh() noexcept {
    if (generation_ == softnic::fork_generation()) return;
    generation_ = softnic::fork_generation();
    live_.clear();
    file_ = {};
    device_ = inode_ = 0;
}

int SharedPages::add(RegisteredMemory& memory, bool may_share) {
    const std::lock_guard lock(mutex_);
    begin_afresh();
    const PageRange pages = memory.pages();
    const bool shared = may_share && wanted_by_environment() &&
                        pages.end < softnic::kPageFileBytes && make_shared(pages);
    live_.push_back({&memory, pages, shared});
    return shared ? file_.get() : -1;
}

void SharedPages::remove(const RegisteredMemory& memory) {
    const std::lock_guard lock(mutex_);
    live_.remove_if([&](const Live& one) { return one.memory == &memory; });
    if (memory.file() >= 0) make_private(memory.pages());
}

// Under mutex_.
bool SharedPages::open_file() {
    // A file that grows past the limit ends the process.
    if (file_size_limit() < softnic::kPageFileBytes) return false;
    if (file_) return true;
    softnic::Descriptor file(
        softnic::out_of_the_way(memfd_create("verbatim-pages", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
    struct stat status {};
    if (!file || ftruncate(file.get(), static_cast<off_t>(softnic::kPageFileBytes)) != 0 ||
        fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
        fstat(file.get(), &status) != 0)
        return false;
    // After the one for descriptors, so that it comes first when the process is forked: what is
    // open is known under this lock.
    static const bool handled =
        pthread_atfork([] { instance().take_snapshots(); }, [] { instance().drop_snapshots(); },
                       [] { instance().use_snapshots(); }) == 0;
    if (!handled) return false;
    device_ = status.st_dev, inode_ = status.st_ino;
    file_ = std::move(file);
    return true;
}

// Under mutex_.
bool SharedPages::may_try() noexcept {
    const auto now = std::chrono::steady_clock::now();
    const auto more = (now - refilled_) / kRefill;
    if (more > 0) {
        moves_ = static_cast<unsigned>(
            std::min<std::int64_t>(kMoves, static_cast<std::int64_t>(moves_) + more));
        refilled_ = now;
    }
    if (moves_ == 0) return false;
    --moves_;
    return true;
}

// False: the pages are as they were. Under mutex_.
bool SharedPages::make_shared(const PageRange& pages) {
    // Others may be writing there.
    const bool taken = std::ranges::any_of(
        live_, [&](const Live& one) { return !one.shared && one.pages.overlaps(pages); });
    if (taken || !may_try() || !open_file()) return false;
    const softnic::Standstill standstill(kPatience);
    if (!standstill.reached() || !standstill.alone()) return false;
    Survey found;
    if (!survey(pages, device_, inode_, found) || !worth_sharing(pages, found)) return false;
    const WithoutSignals none;
    return move_in(found);
}

// Whether it can be done at all, too.
bool SharedPages::worth_sharing(const PageRange& pages, const Survey& found) const noexcept {
    if (!found.covers(pages) || found.device_writes || found.mappings > kMostMappings) return false;
    std::uint64_t shared = pages.bytes();
    for (const Mapped& other : found.page_files) {
        // Of a mapping that the program has moved, these pages are somewhere else.
        const PageRange inside{other.offset, other.offset + other.range.bytes()};
        if (other.offset != other.range.first && inside.overlaps(pages)) return false;
        shared += other.range.bytes();
    }
    if (shared > kMostInAll) return false;
    return std::ranges::all_of(found.inside, [](const Mapped& part) {
        return part.plain || (part.ours && part.offset == part.range.first &&
                              part.protection == (PROT_READ | PROT_WRITE));
    });
}

// Allocates nothing: what the allocator writes to may be among the pages.
bool SharedPages::move_in(const Survey& found) noexcept {
    for (const Mapped& part : found.inside) {
        if (part.ours || copy_to_file(file_.get(), part.range)) continue;
        for (const Mapped& copied : found.inside)
            if (!copied.ours) punch(copied.range);
        return false;
    }
    bool all = true;
    for (const Mapped& part : found.inside) {
        if (part.ours || (all && map(part, file_.get()))) continue;
        // The old mapping is perhaps gone.
        if (all) move_out(part);
        all = false;
        punch(part.range);
    }
    return all;
}

// As far as nobody needs them shared. Under mutex_.
void SharedPages::make_private(const PageRange& pages) {
    std::vector<PageRange> others;
    for (const Live& one : live_) others.push_back(one.pages);
    const std::vector<PageRange> unused = without(pages, others);
    if (unused.empty()) return;
    const softnic::Standstill standstill(kPatience);
    if (!standstill.reached() || !standstill.alone()) return;
    Survey found;
    if (!survey(pages, device_, inode_, found)) return;
    const WithoutSignals none;
    for (const Mapped& part : found.inside)
        for (const PageRange& range : unused) {
            if (!part.ours || part.offset != part.range.first || !part.range.overlaps(range))
                continue;
            Mapped here = part;
            here.range = part.range.within(range);
            move_out(here);
        }
}

// Allocates nothing, as above.
void SharedPages::move_out(const Mapped& part) noexcept {
    if (!map(part, -1) || !copy_from_file(file_.get(), part.range)) {
        // Shared memory is better than none.
        map(part, file_.get());
        return;
    }
    if (part.protection != (PROT_READ | PROT_WRITE))
        mprotect(part.range.memory(), part.range.bytes(), part.protection);
    punch(part.range);
}

// Gives the file's memory back.
void SharedPages::punch(const PageRange& pages) const noexcept {
    fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(pages.first), static_cast<off_t>(pages.bytes()));
}

}  // namespace verbatim::uverbs
