#include <verbatim/objects/operations/forward.hpp>

#include <algorithm>

namespace verbatim::objects {
namespace {

constexpr std::uint64_t kFlushBytes = std::uint64_t{1} << 20;

}  // namespace

Forwarding::Forwarding(PackTables& tables, const KeptImage& image)
    : Packing(tables, &Forwarding::run_all, {}, 0, {}), image_(image) {}

bool Forwarding::run_all(Packing& packing) { return static_cast<Forwarding&>(packing).run_on(); }

bool Forwarding::run_on() {
    if (done_) return true;
    const std::uint64_t flush_at = tables_.staging.cursor() + kFlushBytes;
    while (true) {
        const KeptImage::Mark& mark = image_.marks[mark_++];
        done_ = mark_ == image_.marks.size();
        if (!done_ && (mark.told.cursor < flush_at || !may_stop_at(mark.told.cursor))) continue;
        list_to(mark.told.cursor);
        tell_to(mark);
        if (done_) objects_ = image_.objects;
        return done_;
    }
}

// Segments that lie side by side are told of together.
bool Forwarding::may_stop_at(std::uint64_t offset) const noexcept {
    const auto run = std::find_if(
        image_.runs.begin() + static_cast<std::ptrdiff_t>(run_), image_.runs.end(),
        [offset](const KeptImage::Run& next) { return offset < next.offset + next.bytes; });
    return run == image_.runs.end() || run->bytes <= kSegmentBytes || offset <= run->offset;
}

void Forwarding::list_to(std::uint64_t end) {
    Staging& staging = tables_.staging;
    while (staging.cursor() < end) {
        const KeptImage::Run& run = image_.runs[run_];
        const std::uint64_t at = staging.cursor(), run_end = run.offset + run.bytes;
        staging.list(image_.memory.data() + at, std::min(end, run_end) - at);
        if (end >= run_end) ++run_;
        if (end < run_end) break;
    }
}

void Forwarding::tell_to(const KeptImage::Mark& mark) {
    for (; place_ < mark.places; ++place_) tables_.places.push_back(image_.facts.places[place_]);
    for (; array_ < mark.arrays; ++array_) tables_.arrays.push_back(image_.facts.arrays[array_]);
    steps_ = mark.told.steps;
    references_ = mark.told.references;
}

}  // namespace verbatim::objects
