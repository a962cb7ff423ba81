// The paths of the sender's walk that are not taken for every reference.
#include <verbatim/objects/graph/packing.hpp>

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>

namespace verbatim::objects {

PackTables::PackTables(const std::shared_ptr<Arena>& a) : arena(a), targets(*a), staging(a) {}

Packing::Packing(PackTables& tables, Run walk, std::span<const TypeKey* const> types,
                 std::size_t inner_types, PackOptions options)
    : tables_(tables), run_(walk), options_(options) {
    if (tables_.waiting.size() < inner_types) tables_.waiting.resize(inner_types);
    tables_.targets.begin(types);
    begin_walk();
}

bool Packing::run() {
    struct Suspension {
        Staging& staging;
        ~Suspension() { staging.suspend(); }
    } const suspension{tables_.staging};
    tables_.staging.resume();
    return run_(*this);
}

void Packing::begin_walk() {
    tables_.staging.begin();
    tables_.stack.clear();
    for (auto& waiting : tables_.waiting) waiting.clear();
    tables_.places.clear();
    tables_.arrays.clear();
    steps_ = references_ = objects_ = 0;
    traced_ = {};
    flush_at_ = options_.flush_bytes;
    if (options_.acyclic) flush_at_ = std::min(flush_at_, kTracedFrom);
}

void Packing::set_announced() {
    tables_.staging.set_announced();
    told_records_ += tables_.places.size() + tables_.arrays.size();
    tables_.places.clear();
    tables_.arrays.clear();
    flush_at_ = tables_.staging.cursor() + options_.flush_bytes;
}

void Packing::run_frames() {
    if (options_.acyclic && must_trace()) return run_frames_traced();
    traced_.depth = kNotTraced;
    Column<PackFrame>& stack = tables_.stack;
    std::uint64_t steps = 0;
    do {
        // Not copied: its members were stored one by one, and loaded in pairs they would stall.
        const PackFrame& frame = stack.back();
        stack.pop_back();
        if (!stack.empty()) __builtin_prefetch(stack.back().source);
        frame.step(*this, frame);
        ++steps;
    } while (!stack.empty() && !wants_flush());
    steps_ += steps;
}

bool Packing::must_begin_to_trace() noexcept {
    if (!options_.acyclic || flush_at_ != kTracedFrom) return false;
    flush_at_ = options_.flush_bytes;
    return !wants_flush();
}

// A quarter of the time, in ever longer parts of the walk. So a cycle is found while the image has
// some twenty times its bytes.
bool Packing::must_trace() const noexcept {
    const std::uint64_t bytes = tables_.staging.cursor(), begun = std::bit_floor(bytes);
    return bytes >= kTracedFrom && bytes - begun < begun / 4;
}

// Brent's search for cycles, on the path of the walk. A frame under which others lie has led to all
// of them, until the stack is lower than it left it. So another frame of the same object meanwhile
// is a cycle; a shared object is none. The walk leaves all that does not lead into a cycle. So it
// comes to trace an object of one, and then for long enough.
void Packing::run_frames_traced() {
    Column<PackFrame>& stack = tables_.stack;
    if (steps_ - traced_.since > traced_.most_steps) {
        traced_.most_steps *= 2;
        traced_.depth = kNotTraced;
    }
    std::uint64_t steps = 0;
    do {
        const PackFrame& frame = stack.back();
        stack.pop_back();
        if (stack.size() < traced_.depth) {
            traced_.frame = frame;
            traced_.depth = stack.size();
            traced_.since = steps_ + steps;
        } else if (frame.source == traced_.frame.source && is_traced(frame)) {
            has_cycle_ = true;
            return;
        }
        frame.step(*this, frame);
        ++steps;
    } while (!stack.empty() && !wants_flush());
    steps_ += steps;
}

bool Packing::is_traced(const PackFrame& frame) const noexcept {
    return frame.step == traced_.frame.step && frame.count == traced_.frame.count;
}

void Packing::refuse_cycle(const std::string& type) {
    throw Error(Errc::bad_pointer, "graph, " + type,
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
    tables_.targets.begin_walk();
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

void Packing::drop_staged() {
    tables_.staging.set_announced();
    tables_.staging.set_retired();
    tables_.places.clear();
    tables_.arrays.clear();
    flush_at_ = tables_.staging.cursor() + options_.flush_bytes;
}

}  // namespace verbatim::objects
