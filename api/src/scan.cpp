// The general paths of the sender's walk: objects met before, objects inside others, and what is
// wrong with a pointer.
#include <verbatim/objects/scan.hpp>

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

namespace verbatim::objects {
namespace {

// An address that cannot be read at all. Only debug builds pay for the question: outside arenas
// pointers are the caller's contract.
bool is_readable(std::uint64_t address, std::uint64_t bytes) {
    std::byte probe[2];
    const iovec local{probe, sizeof probe};
    const iovec remote[2] = {{reinterpret_cast<void*>(address), 1},
                             {reinterpret_cast<void*>(address + bytes - 1), 1}};
    return process_vm_readv(getpid(), &local, 1, remote, 2, 0) == 2;
}

ObjectArray array_at(std::uint64_t address, std::uint64_t count, const TypeKey& type) {
    return {type.info(), count, reinterpret_cast<const std::byte*>(address)};
}

}  // namespace

void Scan::begin_walk() noexcept {
    marks_.clear();
    runs_.clear();
    stretches_.clear();
    back_pointers_.clear();
    extensions_.clear();
    short_strings_.clear();
    deferred_.clear();
    likely_.clear();
    for (auto& [address, container] : containers_) container.met = false;
    cursor_ = next_address_ = references_ = objects_ = 0;
    learned_ = false;
    ++walks_;
}

bool Scan::end_walk() {
    if (learned_ && walks_ < kMaxWalks) return false;
    if (learned_)
        throw Error(Errc::bad_pointer, "graph",
                    "its objects overlap in ever new ways (pointers and arrays that begin inside "
                    "each other)",
                    "let pointers lead to whole objects or to elements of one array");
    if (runs_.size() >= kMaxRuns)
        throw Error(Errc::graph_too_large, "graph", "it has more than 2^31 separate pieces",
                    "send it in parts");
    resolve_deferred();
    std::sort(short_strings_.begin(), short_strings_.end(),
              [](const ShortString& a, const ShortString& b) { return a.offset < b.offset; });
    return true;
}

// Pointers into the middle of objects that were met after them.
void Scan::resolve_deferred() {
    for (const auto& [index, address] : deferred_) {
        BackPointer& pointer = back_pointers_[index];
        const std::uint64_t target = address;
        const bool found = any_run(address, [&](const Run& run) {
            if (target < run.address || target >= run.address + run.bytes()) return false;
            pointer.offset = run.offset + (target - run.address);
            return true;
        });
        if (found) continue;
        const auto container = std::prev(containers_.upper_bound(address));
        throw Error(
            Errc::bad_pointer, fmt::format("pointer to {:#x}", address),
            fmt::format("it leads into the middle of a {} that nothing else in the graph refers to",
                        container->second.type->info().name),
            "refer to the whole object as well, or send from it");
    }
}

template <class Visit>
bool Scan::any_run(std::uint64_t address, Visit&& visit) {
    for (Mark mark = marks_.newest(address); mark != 0;) {
        const Run& run = runs_[mark - 1];
        if (visit(run)) return true;
        mark = older(run, address);
    }
    return false;
}

Scan::Extent Scan::meet_any(const Wanted& wanted) {
    check(wanted);
    Extent extent;
    switch (point_back(wanted)) {
        case Seen::yes:
            return {};
        case Seen::conflict:
            // Part of a larger object that was learned already: then there is nothing to learn.
            if (meet_container(wanted, extent)) {
                learned_ = true;
                return extent;
            }
            return learn(wanted);
        case Seen::no:
            break;
    }
    if (!containers_.empty() && meet_container(wanted, extent)) return extent;
    if (is_free(wanted.address, wanted.end())) return take_in(wanted);
    if (meets_text(wanted)) {  // this walk is void: in the next one strings have runs
        text_has_runs_ = learned_ = true;
        return {};
    }
    if (is_taken(wanted)) return learn(wanted);
    return take_in(wanted);
}

Scan::Seen Scan::point_back(const Wanted& wanted) {
    Seen seen = Seen::no;
    any_run(wanted.address, [&](const Run& run) {
        const std::uint64_t delta = wanted.address - run.address;
        if (wanted.address < run.address || delta >= run.bytes()) return false;
        const std::uint64_t inner = run.is_array ? delta : delta % run.stride();
        if (!run.is_array && inner >= run.type->bytes) return false;  // padding behind an object
        const std::uint64_t count = run.is_array ? run.count : 1;
        const std::uint64_t start = wanted.address - inner;
        if (!holds(array_at(start, count, *run.type), inner, wanted.type.info(), wanted.count)) {
            // Either `wanted` is the larger object, to be known in the next walk, or the types
            // contradict.
            if (start < wanted.address || start + count * run.type->bytes > wanted.end() ||
                !holds(array_at(wanted.address, wanted.count, wanted.type), 0, run.type->info(),
                       count))
                refuse(wanted, fmt::format("the same bytes are also reached as {} x {}", count,
                                           run.type->info().name));
            seen = Seen::conflict;
            return true;
        }
        back_pointers_.push_back({references_, run.offset + delta});
        seen = Seen::yes;
        return true;
    });
    return seen;
}

// True if `wanted` lies in a known container and was dealt with here.
bool Scan::meet_container(const Wanted& wanted, Extent& extent) {
    auto at = containers_.upper_bound(wanted.address);
    if (at == containers_.begin()) return false;
    const std::uint64_t start = std::prev(at)->first;
    Container& container = std::prev(at)->second;
    if (wanted.address >= container.end) return false;
    if (wanted.end() > container.end)
        return false;  // larger still: is_taken() or learn() will tell
    const bool exact = start == wanted.address && container.count == wanted.count &&
                       container.type == &wanted.type;
    if (container.met) return true;  // learned in this walk, which is void anyhow
    if (exact) {
        container.met = true;
        return false;
    }
    const std::uint64_t delta = wanted.address - start;
    if (!holds(array_at(start, container.count, *container.type), delta, wanted.type.info(),
               wanted.count))
        refuse(wanted, fmt::format("the same bytes are also reached as {} x {}", container.count,
                                   container.type->info().name));
    if (container.type == &wanted.type) {
        container.met = true;
        extent = take_in({start, container.count, wanted.type});
        extensions_.push_back({references_, runs_.back().offset + delta, container.count});
        return true;
    }
    deferred_.emplace_back(back_pointers_.size(), wanted.address);
    back_pointers_.push_back({references_, 0});
    return true;
}

// Remembers an object that holds others which were met before it. This walk goes on, so that it
// learns all of them, but its result is void.
Scan::Extent Scan::learn(const Wanted& wanted) {
    auto at = containers_.lower_bound(wanted.address);
    while (at != containers_.end() && at->first < wanted.end()) {
        if (at->second.end > wanted.end())
            refuse(wanted, fmt::format("it overlaps a {} at {:#x}", at->second.type->info().name,
                                       at->first));
        if (at->first == wanted.address && at->second.end == wanted.end() && at->second.met)
            return {};
        at = containers_.erase(at);
    }
    learned_ = true;
    containers_[wanted.address] = {wanted.end(), wanted.count, &wanted.type, true};
    return {wanted.address, wanted.count, true};
}

Scan::Extent Scan::take_in(const Wanted& wanted) {
    cursor_ = round_to(cursor_, image_alignment(wanted.type.alignment));
    const bool is_array = wanted.count > 1;
    const bool aligned = wanted.address % kImageGranule == 0;
    const bool direct = aligned && arena_.contains(reinterpret_cast<const void*>(wanted.address));
    const std::uint64_t padded = round_to(wanted.bytes(), kImageGranule);
    // A run whose granules others share must not grow: its links tell of two blocks only.
    const bool extends = extends_last(wanted.type, wanted.address, is_array) &&
                         is_free(wanted.address, wanted.end());
    if (extends)
        ++runs_.back().count;
    else
        runs_.push_back({wanted.address, cursor_, wanted.count, &wanted.type, is_array});
    // Outside arenas the padding belongs to somebody else.
    add_stretch({wanted.address, cursor_, direct ? padded : wanted.bytes(), direct});
    mark(wanted.address, wanted.end(), extends);
    cursor_ += padded;
    next_address_ = !is_array && aligned ? wanted.address + padded : 0;
    ++objects_;
    return {wanted.address, wanted.count, true};
}

// Takes in `count` objects that lie side by side in the arena; false (and nothing done) if anything
// about them is unusual.
bool Scan::meet_neighbours(std::uint64_t address, std::uint64_t count, const TypeKey& type) {
    const std::uint64_t stride = round_to(type.bytes, kImageGranule);
    const auto* first = reinterpret_cast<const void*>(address);
    if (address % kImageGranule != 0 || type.alignment > kImageGranule || !containers_.empty())
        return false;
    const std::uint64_t bytes = count * stride, end = address + bytes;
    if (!arena_.contains(first) || !arena_.is_allocated(first, bytes)) return false;
    if (!is_free(address, end)) return false;
    const bool extends = extends_last(type, address, false);
    if (!extends) {
        cursor_ = round_to(cursor_, kImageGranule);
        runs_.push_back({address, cursor_, 0, &type, false});
    }
    runs_.back().count += count;
    add_stretch({address, cursor_, bytes, true});
    mark(address, end, extends);
    cursor_ += bytes;
    next_address_ = end;
    objects_ += count;
    references_ += count;
    return true;
}

// Was nothing met in any granule of [address, end)?
bool Scan::is_free(std::uint64_t address, std::uint64_t end) {
    for (std::uint64_t at = address / kImageGranule * kImageGranule; at < end;) {
        const std::uint64_t page_end = std::min(end, round_to(at + 1, PageMarks::kPageBytes));
        if (!marks_.page_is_untouched(at) &&
            !marks_.is_free(at, (page_end - at + kImageGranule - 1) / kImageGranule))
            return false;
        at = page_end;
    }
    return true;
}

// Does any object met before share bytes with `wanted`?
bool Scan::is_taken(const Wanted& wanted) {
    const auto overlaps = [&](const Run& run) {
        if (wanted.address >= run.address + run.bytes() || wanted.end() <= run.address)
            return false;
        if (run.is_array) return true;
        // Not if `wanted` lies in the padding behind one object of the run.
        const std::uint64_t first =
            wanted.address <= run.address ? 0 : (wanted.address - run.address) % run.stride();
        return first < run.type->bytes || first + wanted.bytes() > run.stride();
    };
    for (std::uint64_t at = wanted.address / kImageGranule * kImageGranule; at < wanted.end();
         at += kImageGranule)
        if (any_run(at, overlaps)) return true;
    return false;
}

// Does a string that has no run share granules with `wanted`?
bool Scan::meets_text(const Wanted& wanted) {
    if (text_has_runs_) return false;
    for (std::uint64_t at = wanted.address / kImageGranule * kImageGranule; at < wanted.end();
         at += kImageGranule) {
        const auto holds_granule = [at](const Run& run) {
            return at + kImageGranule > run.address && at < run.address + run.bytes();
        };
        if (!is_free(at, at + kImageGranule) && !any_run(at, holds_granule)) return true;
    }
    return false;
}

// Marks [address, end) as the last run's, or as what it `extends` to.
void Scan::mark(std::uint64_t address, std::uint64_t end, bool extends) {
    constexpr std::uint64_t kPage = PageMarks::kPageBytes;
    const auto mark = static_cast<Mark>(runs_.size());
    PageMarks::Links& links = runs_.back().links;
    for (std::uint64_t at = address / kImageGranule * kImageGranule; at < end;) {
        const std::uint64_t page_end = std::min(end, round_to(at + 1, kPage));
        if (at % kPage == 0 && page_end - at == kPage && marks_.page_is_untouched(at)) {
            marks_.mark_page(at, mark);
            links.last = 0;
        } else {
            const std::uint64_t granules = (page_end - at + kImageGranule - 1) / kImageGranule;
            marks_.add({at, granules, mark, extends}, links);
        }
        extends = true;  // from page to page
        at = page_end;
    }
}

void Scan::check(const Wanted& wanted) const {
    if (wanted.address % wanted.type.alignment != 0)
        refuse(wanted,
               fmt::format("it is misaligned (needs a multiple of {})", wanted.type.alignment));
    if (wanted.count > (~std::uint64_t{0} - wanted.address) / wanted.type.bytes)
        refuse(wanted, fmt::format("{} objects do not fit the address space", wanted.count));
    const auto* target = reinterpret_cast<const void*>(wanted.address);
    if (arena_.contains(target)) {
        if (!arena_.is_allocated(target, wanted.bytes()))
            refuse(wanted, "it leads to arena memory that was freed or never allocated");
        return;
    }
    if (kChecksHeapPointers && !is_readable(wanted.address, wanted.bytes()))
        refuse(wanted, "it leads to unmapped memory");
}

void Scan::refuse(const Wanted& wanted, const std::string& cause) const {
    throw Error(Errc::bad_pointer,
                fmt::format("reference {} of the graph, to {} x {} at {:#x}", references_,
                            wanted.count, wanted.type.info().name, wanted.address),
                cause, "nothing was sent; mend the pointer and send again");
}

void Scan::note_short_string(const void* string_image, std::uint32_t character_bytes) {
    const auto address = reinterpret_cast<std::uint64_t>(string_image);
    // The string lies inside an object that was taken in: its place in the image follows.
    any_run(address, [&](const Run& run) {
        if (address < run.address || address >= run.address + run.bytes()) return false;
        short_strings_.push_back({address, run.offset + (address - run.address), character_bytes});
        return true;
    });
}

}  // namespace verbatim::objects
