// Memory outside of arenas: mappings of whole pages, and a cache that registers them.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include <verbatim/core/context.hpp>
#include <verbatim/core/registration_cache.hpp>

#include "../core_messages.hpp"

namespace verbatim::test {

inline constexpr std::size_t kPage = 4096;

// Private pages, at an address of the kernel's choice or at this one, where nothing is mapped.
class Pages {
  public:
    explicit Pages(std::size_t count, void* at = nullptr, int flags = MAP_PRIVATE)
        : bytes_(count * kPage) {
        const int fixed = at != nullptr ? MAP_FIXED_NOREPLACE : 0;
        data_ = static_cast<std::byte*>(
            mmap(at, bytes_, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | fixed, -1, 0));
        if (data_ == MAP_FAILED) data_ = nullptr;
    }
    Pages(Pages&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
    Pages& operator=(Pages&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~Pages() { unmap(); }

    explicit operator bool() const noexcept { return data_ != nullptr; }
    std::byte* data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }
    std::byte* page(std::size_t index) const noexcept { return data_ + index * kPage; }
    void unmap() noexcept {
        if (data_ != nullptr) munmap(data_, bytes_);
        data_ = nullptr;
    }
    // The caller unmaps them.
    std::byte* let_go() noexcept { return std::exchange(data_, nullptr); }
    // To an address of the kernel's choice, or to this one; false: it stayed.
    bool move(std::size_t count, void* to = nullptr) {
        void* const moved =
            to == nullptr ? mremap(data_, bytes_, count * kPage, MREMAP_MAYMOVE)
                          : mremap(data_, bytes_, count * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, to);
        if (moved == MAP_FAILED) return false;
        data_ = static_cast<std::byte*>(moved);
        bytes_ = count * kPage;
        return true;
    }

  private:
    std::byte* data_;
    std::size_t bytes_;
};

// A context with one cache.
struct Cached {
    explicit Cached(const RegistrationOptions& options)
        : context(small_config()), cache(context, options) {}
    Cached() : Cached(small_config().foreign) {}

    // Acquires it for a moment. True: it was kept.
    bool touch(void* memory, std::size_t bytes, Access access = RegistrationCache::kLendable) {
        const auto before = cache.usage().hits;
        const Registered lease = cache.acquire(memory, bytes, access);
        EXPECT_TRUE(lease.covers(memory, bytes));
        return cache.usage().hits != before;
    }
    bool touch(const Pages& pages) { return touch(pages.data(), pages.bytes()); }

    Context context;
    RegistrationCache cache;
};

// Whether this run keeps registrations (VERBATIM_TEST_WATCH, and what the system allows).
inline bool keeps() {
    static const bool known = [] {
        Cached one;
        const Pages pages(1);
        one.touch(pages);
        return one.touch(pages);
    }();
    return known;
}

// Whether a region has been released.
inline bool is_alive(const std::shared_ptr<const std::atomic<bool>>& region) {
    return region->load();
}

}  // namespace verbatim::test
