// Windows onto a page file.
#include "page_view.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

#include <verbatim/driver/error.hpp>

#include "../../softqueue/page.hpp"
#include "shared_memory.hpp"

namespace verbatim::softnic {
namespace {

// They begin at multiples of the longest range and are twice as long: a range lies in the one that
// it begins in. Address space only.
constexpr std::uint64_t kStep = kMostPagesBytes, kWindowBytes = 2 * kStep;

}  // namespace

PageView::PageView(Descriptor file, const std::string& what) : file_(std::move(file)) {
    const FileFacts facts = inspect_file(file_.get(), what);
    if (facts.can_shrink || facts.bytes < kPageFileBytes)
        throw Error(Errc::protocol_error, what,
                    "its page file can shrink or is shorter than an address space",
                    "use the same version of verbatim on both sides");
}

PageView::~PageView() {
    const Window* window = windows_.load(std::memory_order_relaxed);
    while (window != nullptr) {
        // In a forked child the range may hold something else by now.
        if (generation_ == fork_generation()) munmap(window->data, kWindowBytes);
        delete std::exchange(window, window->next);
    }
}

std::byte* PageView::place(std::uint64_t offset, std::uint64_t bytes) noexcept {
    if (bytes > kMostPagesBytes || offset > kPageFileBytes - kWindowBytes) return nullptr;
    const std::uint64_t start = offset - offset % kStep;
    const Window* window = find(start);
    if (window == nullptr) window = open(start);
    return window == nullptr ? nullptr : window->data + (offset - start);
}

bool PageView::populate(std::byte* data, std::uint64_t bytes) noexcept {
    const auto into = reinterpret_cast<std::uintptr_t>(data) & (kPageBytes - 1);
    return madvise(data - into, into + bytes, MADV_POPULATE_WRITE) == 0;
}

const PageView::Window* PageView::find(std::uint64_t offset) const noexcept {
    const Window* window = windows_.load(std::memory_order_acquire);
    while (window != nullptr && window->offset != offset) window = window->next;
    return window;
}

const PageView::Window* PageView::open(std::uint64_t offset) noexcept {
    const std::lock_guard lock(mutex_);
    if (const Window* const known = find(offset)) return known;
    void* const data = mmap(nullptr, kWindowBytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_NORESERVE, file_.get(), static_cast<off_t>(offset));
    if (data == MAP_FAILED) return nullptr;
    madvise(data, kWindowBytes, MADV_DONTFORK);
    auto* const window = new (std::nothrow)
        Window{offset, static_cast<std::byte*>(data), windows_.load(std::memory_order_relaxed)};
    if (window == nullptr)
        munmap(data, kWindowBytes);
    else
        windows_.store(window, std::memory_order_release);
    return window;
}

}  // namespace verbatim::softnic
