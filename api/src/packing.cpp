// The paths of the sender's walk that are not taken for every reference.
#include <verbatim/objects/graph/packing.hpp>

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>

namespace verbatim::objects {

PackTables::PackTables(const std::shared_ptr<Arena>& a) : arena(a), claims(*a), staging(a) {}

Packing::Packing(PackTables& tables, Run run, std::span<const TypeKey* const> types,
                 std::size_t inner_types, PackOptions options)
    : tables_(tables), run_(run), types_(types), options_(options) {
    if (tables_.waiting.size() < inner_types) tables_.waiting.resize(inner_types);
    begin_walk();
}

void Packing::begin_walk() {
    tables_.claims.clear();
    tables_.placement.begin(types_);
    tables_.staging.begin();
    tables_.stack.clear();
    for (auto& waiting : tables_.waiting) waiting.clear();
    if constexpr (kChecksPointers) tables_.readable.fill(0);
    tables_.places.clear();
    tables_.arrays.clear();
    steps_ = references_ = objects_ = 0;
    flush_at_ = flush_bytes_;
    learned_ = false;
}

void Packing::set_announced() {
    tables_.staging.set_announced();
    told_records_ += tables_.places.size() + tables_.arrays.size();
    tables_.places.clear();
    tables_.arrays.clear();
    flush_at_ = tables_.staging.cursor() + flush_bytes_;
}

void Packing::run_frames() {
    if (open_) return run_frames_traced();
    Column<PackFrame>& stack = tables_.stack;
    std::uint64_t steps = 0;
    do {
        // Not copied: its members were stored one by one, and loaded in pairs they would stall.
        const PackFrame& frame = stack.back();
        stack.pop_back();
        frame.step(*this, frame);
        ++steps;
    } while (!stack.empty() && !wants_flush());
    steps_ += steps;
}

void Packing::trace() { open_ = std::make_unique<OpenObjects>(); }

// An object is open from its step until all steps that follow from it are done, which a frame under
// theirs tells.
void Packing::run_frames_traced() {
    constexpr auto kLeave = [](Packing& packing, const PackFrame& frame) {
        (*packing.open_)[frame.offset] = false;
    };
    while (!tables_.stack.empty() && !wants_flush()) {
        const PackFrame frame = tables_.stack.back();
        tables_.stack.pop_back();
        if (frame.count == 1) {
            tables_.stack.push_back({kLeave, frame.source, frame.offset, 0});
            (*open_)[frame.offset] = true;
        }
        frame.step(*this, frame);
    }
}

void Packing::refuse_cycle(std::uint64_t offset) const {
    const auto at = open_->find(offset);
    if (at == open_->end() || !at->second) return;
    const Placement::Object object = tables_.placement.find(offset);
    throw Error(Errc::bad_pointer,
                "graph, an object of type " + tables_.placement.type_of(object).info().spelled(),
                "it leads to itself, and the graph was sent as acyclic",
                "send it without `acyclic`, which keeps cycles");
}

void Packing::tell(std::uint64_t reference, std::uint64_t offset) {
    tables_.places.push_back({reference, offset});
    if (tables_.places.size() >= kMostRecords) flush_at_ = 0;
}

void Packing::restart() {
    if (++restarts_ > kMostRestarts)
        throw Error(Errc::bad_pointer, "graph",
                    "its objects lie inside each other in ever new ways",
                    "let pointers lead to whole objects or to elements of one array");
    restarted_ = true;
    told_records_ = 0;
    begin_walk();
}

void Packing::check_size() const {
    if (tables_.staging.cursor() <= options_.most_bytes) return;
    throw Error(
        Errc::graph_too_large, "graph",
        fmt::format("it takes more than {} bytes{}", options_.most_bytes,
                    options_.acyclic ? "; sent as acyclic, a cycle has no end" : ""),
        options_.acyclic ? "send it without `acyclic`, which keeps cycles" : "send it in parts");
}

void Packing::refuse(const Extent& wanted, const std::string& cause) const {
    throw Error(Errc::bad_pointer,
                fmt::format("reference {} of the graph, to {} x {} at {:#x}", references_,
                            wanted.count, type_of(wanted.number).info().spelled(), wanted.address),
                cause, "mend the pointer and send again");
}

void Packing::check_readable(const Extent& wanted) const {
    if (tables_.arena->contains(reinterpret_cast<const void*>(wanted.address))) return;
    if (!is_readable(wanted.address) || !is_readable(wanted.address + bytes_of(wanted) - 1))
        refuse(wanted, "it leads to unmapped memory");
}

// The kernel is asked once for a page, or little more often.
bool Packing::is_readable(std::uint64_t address) const noexcept {
    const std::uint64_t page = address / Claims::kPageBytes;
    std::uint64_t& known = tables_.readable[page % tables_.readable.size()];
    if (known == page) return true;
    std::byte probe;
    const iovec local{&probe, 1}, remote{reinterpret_cast<void*>(address), 1};
    if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != 1) return false;
    known = page;
    return true;
}

Packing::Meeting Packing::meet(const Extent& wanted) {
    const TypeKey& type = type_of(wanted.number);
    if (wanted.address % type.alignment != 0)
        refuse(wanted, fmt::format("it is misaligned (needs a multiple of {})", type.alignment));
    if (wanted.count > (~std::uint64_t{0} - wanted.address) / type.bytes)
        refuse(wanted, fmt::format("{} objects do not fit the address space", wanted.count));
    if (const Claims::Word word = tables_.claims.word_at(wanted.address);
        Claims::names_place(word)) {
        const std::uint64_t offset = Claims::offset_of(word, wanted.address);
        // Else a neighbour ends in the same granule.
        const Placement::Object object = tables_.placement.find(offset);
        if (offset < object.offset + tables_.placement.bytes_of(object))
            return meet_in_place(wanted, offset);
    }
    const Claims::Answer answer = tables_.claims.look_up(wanted.address, bytes_of(wanted));
    switch (answer.found) {
        case Claims::Found::freed:
            refuse(wanted, "it leads to arena memory that was freed or never allocated");
        case Claims::Found::seen:
            return meet_in_place(wanted, answer.offset);
        case Claims::Found::covers:
            learn(wanted);
            return {Met::covers, 0};
        case Claims::Found::free:
            break;
    }
    return {};
}

Packing::Meeting Packing::look(const Extent& wanted) noexcept {
    std::uint64_t offset = 0;
    if (!tables_.claims.find(wanted.address, offset)) return {};
    const Placement::Object object = tables_.placement.find(offset);
    const auto* start =
        reinterpret_cast<const std::byte*>(wanted.address - (offset - object.offset));
    if (!tables_.placement.holds(object, start, offset, type_of(wanted.number), wanted.count))
        return {};
    return {Met::seen, offset};
}

// The target starts in an object that was placed.
Packing::Meeting Packing::meet_in_place(const Extent& wanted, std::uint64_t offset) {
    const Placement::Object object = tables_.placement.find(offset);
    const std::uint64_t delta = offset - object.offset;
    const auto* start = reinterpret_cast<const std::byte*>(wanted.address - delta);
    const TypeKey& type = type_of(wanted.number);
    if (tables_.placement.holds(object, start, offset, type, wanted.count))
        return {Met::seen, offset};
    const Extent placed{wanted.address - delta, object.count, object.number};
    const TypeInfo& inner = tables_.placement.type_of(object).info();
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
    return {Met::covers, 0};
}

// Are they parts of one array?
bool Packing::joins(const Extent& one, const Extent& other) const noexcept {
    const std::uint64_t distance =
        one.address < other.address ? other.address - one.address : one.address - other.address;
    return one.number == other.number && distance % type_of(one.number).bytes == 0;
}

void Packing::learn(Extent container) {
    learned_ = true;
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
            container.count = (end - first) / type_of(container.number).bytes;
        } else if (known.address == first && end_of(known) == end &&
                   bytes_of(known) > bytes_of(container)) {
            return;  // part of a larger one
        } else if (container.address != first || end_of(container) != end) {
            if (known.address == first && end_of(known) == end) return;
            refuse(container, fmt::format("it overlaps {} x {} at {:#x}", known.count,
                                          type_of(known.number).info().spelled(), known.address));
        }
        at = containers_.erase(at);
    }
    containers_[container.address] = container;
    news_ = true;
}

void Packing::drop_staged() {
    tables_.staging.set_announced();
    tables_.staging.set_retired();
    tables_.places.clear();
    tables_.arrays.clear();
    flush_at_ = tables_.staging.cursor() + flush_bytes_;
}

const Extent* Packing::container_of(std::uint64_t address) const noexcept {
    const auto after = containers_.upper_bound(address);
    if (after == containers_.begin()) return nullptr;
    const Extent& extent = std::prev(after)->second;
    return address < extent.address + bytes_of(extent) ? &extent : nullptr;
}

}  // namespace verbatim::objects
