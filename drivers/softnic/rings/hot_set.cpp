// Growth of a hot set.
#include "hot_set.hpp"

#include <verbatim/driver/error.hpp>

#include <fmt/format.h>

namespace verbatim::softnic {

HotSet::~HotSet() {
    for (auto& row : rows_) {
        const std::unique_ptr<Row> chunks(row.load(std::memory_order_relaxed));
        if (chunks == nullptr) continue;
        for (auto& chunk : *chunks) delete chunk.load(std::memory_order_relaxed);
    }
}

HotSet::Chunk& HotSet::chunk_of(std::uint32_t number) {
    std::atomic<Row*>& row = rows_[number / kBits / kBits];
    if (row.load(std::memory_order_relaxed) == nullptr)
        row.store(new Row{}, std::memory_order_release);
    std::atomic<Chunk*>& chunk = (*row.load(std::memory_order_relaxed))[number / kBits % kBits];
    if (chunk.load(std::memory_order_relaxed) == nullptr)
        chunk.store(new Chunk, std::memory_order_release);
    return *chunk.load(std::memory_order_relaxed);
}

HotSet::Place HotSet::add(QueuePair& pair) {
    if (free_.empty() && used_ == kMost)
        throw Error(Errc::out_of_memory, "completion queue",
                    fmt::format("{} queue pairs complete in it already", kMost),
                    "use more completion queues");
    Place place;
    place.number_ = free_.empty() ? used_ : free_.back();
    place.chunk_ = &chunk_of(place.number_);
    free_.reserve(std::bit_ceil(used_ + 1));  // so that remove() cannot fail
    free_.empty() ? static_cast<void>(++used_) : free_.pop_back();
    place.chunk_->pairs[place.number_ % kBits].store(&pair, std::memory_order_release);
    return place;
}

void HotSet::remove(const Place& place) noexcept {
    place.chunk_->pairs[place.number_ % kBits].store(nullptr);
    clear(place);
}

void HotSet::give_back(const Place& place) noexcept {
    clear(place);
    free_.push_back(place.number_);
}

void HotSet::set_all() noexcept {
    for (std::uint32_t number = 0; number < used_; ++number) {
        Place place;
        place.number_ = number;
        place.chunk_ = &chunk_of(number);
        if (place.chunk_->pairs[number % kBits].load() != nullptr) set(place);
    }
}

}  // namespace verbatim::softnic
