// Finding, keeping and evicting registrations.
#include "cached_regions.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "memory_watch.hpp"
#include "page_check.hpp"

namespace verbatim {
namespace {

constexpr std::size_t kMostEntries = 65536;
constexpr Access kForeignRights = Access::local_write | Access::window_bind;

[[noreturn]] void refuse_registration(Errc code, std::string cause, std::string remedy) {
    throw Error(code, "registration", std::move(cause), std::move(remedy));
}

RegistrationOptions checked_options(const RegistrationOptions& options) {
    if (options.max_bytes < PageRange::kPageBytes || options.max_entries == 0 ||
        options.max_entries > kMostEntries)
        throw Error(
            Errc::config_error, "registration cache",
            fmt::format("max_bytes = {}, max_entries = {}", options.max_bytes, options.max_entries),
            fmt::format("allow at least a page, and 1 to {} entries", kMostEntries));
    return options;
}

PageRange checked_range(std::uintptr_t start, std::size_t bytes, Access access) {
    constexpr std::uintptr_t kLast = std::numeric_limits<std::uintptr_t>::max();
    if (bytes == 0 || start > kLast - bytes || start + bytes > kLast - PageRange::kPageBytes)
        refuse_registration(Errc::invalid_argument, fmt::format("{} bytes at {:#x}", bytes, start),
                            "name bytes that there are");
    if (!allows(kForeignRights, access))
        refuse_registration(Errc::invalid_argument, "it asks for remote rights",
                            "lend it by a Grant, which has an end");
    return PageRange::around(start, bytes);
}

}  // namespace

CachedRegions::CachedRegions(Device& device, const RegistrationOptions& options)
    : device_(device),
      options_(checked_options(options)),
      watch_(options.watch ? MemoryWatch::instance() : nullptr),
      ranges_(options.max_entries) {
    if (watch_ == nullptr) return;
    for (std::size_t slot = options.max_entries; slot-- > 0;) free_slots_.push_back(slot);
    watch_->attach(ranges_);
}

CachedRegions::~CachedRegions() {
    clear();
    if (watch_ != nullptr) watch_->detach(ranges_);
}

CachedRegions::Entry& CachedRegions::acquire(std::uintptr_t start, std::size_t bytes,
                                             Access access) {
    if (is_inherited())
        refuse_registration(Errc::invalid_argument, "this process was forked off the cache's",
                            "make a context and a cache of its own");
    const PageRange pages = checked_range(start, bytes, access);
    const bool may_keep = watch_ != nullptr && watch_->settle();
    Entries out;  // destroyed without the lock: a device may wait for peers
    const std::lock_guard lock(mutex_);
    if (ranges_.take_news())
        take_out_idle(
            out, [&](const Entry& one) { return !is_valid(one); }, [] { return true; });
    Entry* entry = may_keep ? find(pages, access) : nullptr;
    if (entry != nullptr)
        ++usage_.hits;
    else
        entry = &add(pages, access, may_keep, out);
    ++entry->in_flight;
    ++usage_.in_flight;
    return *entry;
}

bool CachedRegions::is_valid(const Entry& entry) const noexcept {
    return entry.slot != Entry::kNoSlot && !ranges_.is_gone(entry.slot);
}

CachedRegions::Entry* CachedRegions::find(const PageRange& pages, Access access) noexcept {
    for (auto at = index_.upper_bound(pages.first); at != index_.begin();) {
        --at;
        if (at->first + longest_ < pages.end) return nullptr;
        Entry& one = *at->second;
        if (!one.pages.covers(pages) || !allows(one.access, access) || !is_valid(one)) continue;
        entries_.splice(entries_.end(), entries_, at->second);
        return &one;
    }
    return nullptr;
}

CachedRegions::Entry& CachedRegions::add(const PageRange& pages, Access access, bool may_keep,
                                         Entries& out) {
    // What the new one covers is of no more use.
    take_out_idle(
        out,
        [&](const Entry& one) { return pages.covers(one.pages) && allows(access, one.access); },
        [] { return true; });
    make_room(pages.bytes(), out);
    entries_.push_back({.pages = pages, .access = access});
    const auto entry = std::prev(entries_.end());
    usage_.bytes += pages.bytes();
    try {
        const bool kept = may_keep && keep(entry);
        check_pages(pages, access);
        entry->region = device_.register_memory(reinterpret_cast<std::byte*>(pages.first),
                                                pages.bytes(), access, {});
        ++usage_.misses;
        if (!kept) ++usage_.on_demand;
    } catch (...) {
        take_out(entry, out);
        throw;
    }
    return *entry;
}

// Before it is registered: what happens to the pages from now on is told.
bool CachedRegions::keep(Entries::iterator entry) {
    if (free_slots_.empty()) return false;
    const std::size_t slot = free_slots_.back();
    const auto place = index_.emplace(entry->pages.first, entry);
    if (!watch_->watch(ranges_, slot, entry->pages)) {
        index_.erase(place);
        return false;
    }
    free_slots_.pop_back();
    entry->slot = slot;
    longest_ = std::max(longest_, entry->pages.bytes());
    return true;
}

void CachedRegions::make_room(std::size_t bytes, Entries& out) {
    const std::size_t before = out.size();
    const auto lacks = [&] {
        return entries_.size() >= options_.max_entries || bytes > options_.max_bytes ||
               usage_.bytes > options_.max_bytes - bytes;
    };
    take_out_idle(
        out, [](const Entry&) { return true; }, lacks);
    usage_.evicted += out.size() - before;
    if (lacks())
        refuse_registration(
            Errc::out_of_memory,
            fmt::format("{} bytes wanted; of {} bytes and {} entries, {} and {} are in flight",
                        bytes, options_.max_bytes, options_.max_entries, usage_.bytes,
                        entries_.size()),
            "end leases, or raise max_bytes or max_entries of [foreign]");
}

template <class Wanted, class More>
void CachedRegions::take_out_idle(Entries& out, Wanted wanted, More more) noexcept {
    for (auto at = entries_.begin(); at != entries_.end() && more();) {
        const auto one = at++;
        if (one->in_flight == 0 && wanted(*one)) take_out(one, out);
    }
}

void CachedRegions::take_out(Entries::iterator entry, Entries& out) noexcept {
    if (entry->slot != Entry::kNoSlot) {
        if (!is_valid(*entry)) ++usage_.invalidated;
        const auto [first, last] = index_.equal_range(entry->pages.first);
        index_.erase(
            std::find_if(first, last, [&](const auto& one) { return one.second == entry; }));
        watch_->unwatch(ranges_, entry->slot, entry->pages);
        free_slots_.push_back(entry->slot);  // it has room: the slot came from there
    }
    usage_.bytes -= entry->pages.bytes();
    out.splice(out.end(), entries_, entry);
}

void CachedRegions::release(Entry& entry) noexcept {
    if (is_inherited()) return;
    Entries out;
    const std::lock_guard lock(mutex_);
    --usage_.in_flight;
    if (--entry.in_flight != 0 || is_valid(entry)) return;
    const auto at = std::find_if(entries_.begin(), entries_.end(),
                                 [&](const Entry& one) { return &one == &entry; });
    take_out(at, out);
}

void CachedRegions::clear() noexcept {
    if (is_inherited()) return;
    Entries out;
    const std::lock_guard lock(mutex_);
    take_out_idle(
        out, [](const Entry&) { return true; }, [] { return true; });
}

RegistrationUsage CachedRegions::usage() const {
    if (is_inherited()) return {};
    const std::lock_guard lock(mutex_);
    RegistrationUsage usage = usage_;
    usage.entries = entries_.size();
    return usage;
}

}  // namespace verbatim
