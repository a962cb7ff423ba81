// What is known of the place that a pointer leads to.
#include <verbatim/objects/graph/targets.hpp>

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>

namespace verbatim::objects {

void Targets::begin(std::span<const TypeKey* const> types) {
    types_ = types;
    containers_.clear();
    begin_walk();
}

void Targets::begin_walk() {
    claims.clear();
    placement.begin(types_);
    void_ = news_ = false;
    // The library's flags may differ from the program's.
    if (std::exchange(has_readable_, false)) readable_.fill(0);
}

void Targets::refuse(const Extent& wanted, const std::string& cause) const {
    throw Error(Errc::bad_pointer,
                fmt::format("reference {} of the graph, to {} x {} at {:#x}", wanted.reference,
                            wanted.count, type_of(wanted).info().spelled(), wanted.address),
                cause, "mend the pointer and send again");
}

void Targets::check_readable(const Extent& wanted) {
    if (arena_.contains(reinterpret_cast<const void*>(wanted.address))) return;
    if (!is_readable(wanted.address) || !is_readable(wanted.address + bytes_of(wanted) - 1))
        refuse(wanted, "it leads to unmapped memory, or such that may not be read");
}

// The kernel is asked once for a page, or little more often.
bool Targets::is_readable(std::uint64_t address) noexcept {
    const std::uint64_t page = address / Claims::kPageBytes;
    std::uint64_t& known = readable_[page % readable_.size()];
    if (known == page) return true;
    std::byte probe;
    const iovec local{&probe, 1}, remote{reinterpret_cast<void*>(address), 1};
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != 1) return false;
    known = page;
    has_readable_ = true;
    return true;
}

Targets::Meeting Targets::meet(const Extent& wanted) {
    const TypeKey& type = type_of(wanted);
    if (wanted.address % type.alignment != 0)
        refuse(wanted, fmt::format("it is misaligned (needs a multiple of {})", type.alignment));
    if (wanted.count > (~std::uint64_t{0} - wanted.address) / type.bytes)
        refuse(wanted, fmt::format("{} objects do not fit the address space", wanted.count));
    if (const Claims::Word word = claims.word_at(wanted.address); ClaimWords::names_place(word)) {
        const std::uint64_t offset = ClaimWords::offset_of(word, wanted.address);
        // Else a neighbour ends in the same granule.
        const Placement::Object object = placement.find(offset);
        if (offset < object.offset + placement.bytes_of(object))
            return meet_in_place(wanted, offset, object);
    }
    const Claims::Answer answer = claims.look_up(wanted.address, bytes_of(wanted));
    switch (answer.found) {
        case Claims::Found::freed:
            refuse(wanted, "it leads to arena memory that was freed or never allocated");
        case Claims::Found::seen:
            return meet_in_place(wanted, answer.offset, placement.find(answer.offset));
        case Claims::Found::covers:
            learn(wanted);
            return {Met::covers};
        case Claims::Found::free:
            break;
    }
    return {};
}

Targets::Meeting Targets::look(const Extent& wanted, const Placement::Part& likely) noexcept {
    std::uint64_t offset = 0;
    // Whole objects lie there, so it is none of the neighbours that may end in the same granule.
    if (const Claims::Word word = claims.word_at(wanted.address);
        wanted.count == 1 && ClaimWords::names_place(word)) {
        offset = ClaimWords::offset_of(word, wanted.address);
        if (placement.has(likely, offset))
            return {Met::seen, offset, {offset - likely.delta, 1, likely.number}, Held::now};
    }
    if (!claims.find(wanted.address, offset)) return {};
    const Placement::Object object = placement.find(offset);
    const auto* start =
        reinterpret_cast<const std::byte*>(wanted.address - (offset - object.offset));
    const Held held = placement.held(object, start, offset, type_of(wanted), wanted.count);
    return held == Held::no ? Meeting{} : Meeting{Met::seen, offset, object, held};
}

// The target starts in an object that was placed.
Targets::Meeting Targets::meet_in_place(const Extent& wanted, std::uint64_t offset,
                                        const Placement::Object& object) {
    const std::uint64_t delta = offset - object.offset;
    const auto* start = reinterpret_cast<const std::byte*>(wanted.address - delta);
    const TypeKey& type = type_of(wanted);
    if (placement.holds(object, start, offset, type, wanted.count))
        return {Met::seen, offset, object};
    const Extent placed{wanted.address - delta, object.count, object.number, wanted.reference};
    const TypeInfo& inner = placement.type_of(object).info();
    // It is the larger one, or goes on where the other ends, or the types contradict each other.
    const ObjectArray larger{type.info(), wanted.count,
                             reinterpret_cast<const std::byte*>(wanted.address)};
    const bool holds_placed = delta == 0 && bytes_of(wanted) >= bytes_of(placed) &&
                              objects::holds(larger, 0, inner, object.count);
    if (!holds_placed && !joins(placed, wanted))
        refuse(wanted, fmt::format("the same bytes are also reached as {} x {}", object.count,
                                   inner.spelled()));
    if (!holds_placed) learn(placed);
    learn(wanted);
    return {Met::covers};
}

// Are they parts of one array?
bool Targets::joins(const Extent& one, const Extent& other) const noexcept {
    const std::uint64_t distance =
        one.address < other.address ? other.address - one.address : one.address - other.address;
    return one.number == other.number && distance % type_of(one).bytes == 0;
}

void Targets::learn(Extent container) {
    void_ = true;
    const auto end_of = [this](const Extent& e) { return e.address + bytes_of(e); };
    auto at = containers_.upper_bound(container.address);
    if (at != containers_.begin() && end_of(std::prev(at)->second) > container.address) --at;
    while (at != containers_.end() && at->first < end_of(container)) {
        const Extent known = at->second;
        const std::uint64_t first = std::min(known.address, container.address);
        const std::uint64_t end = std::max(end_of(known), end_of(container));
        if (known.address == first && end_of(known) == end &&
            bytes_of(known) >= bytes_of(container) && known.number == container.number)
            return;
        if (joins(known, container)) {
            container.address = first;
            container.count = (end - first) / type_of(container).bytes;
        } else if (known.address == first && end_of(known) == end &&
                   bytes_of(known) > bytes_of(container)) {
            return;  // part of a larger one
        } else if (container.address != first || end_of(container) != end) {
            if (known.address == first && end_of(known) == end) return;
            refuse(container, fmt::format("it overlaps {} x {} at {:#x}", known.count,
                                          type_of(known).info().spelled(), known.address));
        }
        at = containers_.erase(at);
    }
    containers_[container.address] = container;
    news_ = true;
}

const Extent* Targets::container_of(std::uint64_t address) const noexcept {
    const auto after = containers_.upper_bound(address);
    if (after == containers_.begin()) return nullptr;
    const Extent& extent = std::prev(after)->second;
    return address < extent.address + bytes_of(extent) ? &extent : nullptr;
}

}  // namespace verbatim::objects
