// The paths of the sender's walk that are not taken for every reference.
#include <verbatim/objects/graph/packing.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>

namespace verbatim::objects {

PackTables::PackTables(const std::shared_ptr<Arena>& a) : arena(a), targets(*a), staging(a) {}

SentClasses& PackTables::sent_classes() {
    if (classes == nullptr) classes = std::make_shared<SentClasses>();
    return *classes;
}

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
    for (PredictedTable& predicted : tables_.predicted) predicted.last = 0;
    tables_.open_waiting.clear();
    class_counts_ = {};
    steps_ = references_ = objects_ = met_again_ = 0;
    cycles_ = {};
    flush_at_ = options_.flush_bytes;
    if (options_.searches()) flush_at_ = std::min(flush_at_, CycleSearch::kFrom);
}

void Packing::set_announced() {
    tables_.staging.set_announced(!tables_.targets.is_void());
    told_records_ += tables_.places.size() + tables_.arrays.size();
    tables_.places.clear();
    tables_.arrays.clear();
    flush_at_ = tables_.staging.cursor() + options_.flush_bytes;
}

bool Packing::may_hold_back() noexcept {
    // An array of pointers has 64 of its targets wait.
    constexpr std::uint64_t kMany = 256;
    // A random graph of nodes meets few again at first; a list whose elements wait meets none.
    constexpr std::uint64_t kUnproven = std::uint64_t{1} << 20, kProven = 4 * kUnproven;
    const std::uint64_t held = tables_.staging.staged_bytes();
    if (options_.acyclic || flush_at_ == 0 || held >= options_.hold_bytes) return false;
    flush_at_ = tables_.staging.cursor() + options_.flush_bytes;
    if (!tables_.staging.buffers().reserve(2)) return false;
    // A large array of pointers takes no staging: what it leads to is yet to be met.
    if (held < options_.flush_bytes) return true;
    // Near its end few objects of a random graph wait, and still most of what they lead to was met.
    const std::uint64_t few = objects_ / (met_again_ >= objects_ / 2 ? 64 : 8);
    if (tables_.stack.size() < std::max(kMany, few)) return false;
    return held < kUnproven || met_again_ >= objects_ / (held >= kProven ? 16 : 64);
}

void Packing::run_frames() {
    if (options_.searches() && CycleSearch::is_due(tables_.staging.cursor()))
        return run_frames_searching();
    cycles_.pause();
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

void Packing::run_frames_searching() {
    Column<PackFrame>& stack = tables_.stack;
    cycles_.begin_part(steps_);
    do {
        const PackFrame& frame = stack.back();
        stack.pop_back();
        if (!stack.empty()) __builtin_prefetch(stack.back().source);
        if (cycles_.enters({frame.step, frame.source, frame.count}, stack.size(), steps_)) return;
        frame.step(*this, frame);
        ++steps_;
    } while (!stack.empty() && !wants_flush());
}

bool Packing::must_begin_search() noexcept {
    if (!options_.searches() || flush_at_ != CycleSearch::kFrom) return false;
    flush_at_ = options_.flush_bytes;
    return !wants_flush();
}

void CycleSearch::refuse(std::span<const StepsOfType> types, std::string_view otherwise) const {
    const Step met = found();
    std::string what(otherwise);
    for (const StepsOfType& type : types)
        if (met == type.one || met == type.many || met == type.in_excerpts)
            what = "an object of type " + type.info().spelled();
    throw Error(Errc::bad_pointer, "graph, " + what,
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

}  // namespace verbatim::objects
