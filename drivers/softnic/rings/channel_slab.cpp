// Slots: growth, reuse, and who looks after their marks.
#include "channel_slab.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>

#include "channel.hpp"
#include "progress_list.hpp"

namespace verbatim::softnic {
namespace {

// The first slab of a peer is short: most peers have a few queue pairs. Later ones are as long as a
// board, or as this many bytes of addresses.
constexpr std::uint32_t kFirstSlots = 64;
constexpr std::size_t kMostBytes = std::size_t{256} << 20;

std::uint32_t slots_of_next(std::size_t slabs, std::size_t slot_bytes) noexcept {
    const std::size_t wanted = slabs == 0 ? kFirstSlots : WorkBoard::kSlots;
    return static_cast<std::uint32_t>(std::clamp<std::size_t>(kMostBytes / slot_bytes, 1, wanted));
}

}  // namespace

ChannelSlab::ChannelSlab(std::size_t slot_bytes, std::uint32_t slots)
    : slot_bytes_(slot_bytes),
      slots_(slots),
      memory_(SharedMemory::create_sparse("verbatim-rings", kBoardBytes + slots * slot_bytes)) {
    if (!memory_->populate(0, kBoardBytes))
        throw Error(Errc::out_of_memory, "two-sided rings",
                    "the machine has no memory left for their work board", "free memory");
    board_ = ::new (memory_->data()) WorkBoard;
}

ChannelSlab::~ChannelSlab() {
    for (auto& pairs : pairs_) delete pairs.load(std::memory_order_relaxed);
}

// The peer's last store to a slot says which of the times that it was lent has ended.
bool ChannelSlab::let_go(std::uint32_t slot) const noexcept {
    const auto& header = *reinterpret_cast<const ChannelHeader*>(at(slot));
    return header.produced.released.load(std::memory_order_acquire) ==
           header.terms.lent.load(std::memory_order_relaxed);
}

std::optional<std::uint32_t> ChannelSlab::take() {
    const std::lock_guard lock(mutex_);
    free_.reserve(slots_), closing_.reserve(slots_);  // so that give_back() cannot fail
    if (free_.empty() && fresh_ == slots_) collect();
    if (free_.empty() && fresh_ == slots_) return std::nullopt;
    const std::uint32_t slot = free_.empty() ? fresh_ : free_.back();
    if (!memory_->populate(offset(slot), slot_bytes_))
        throw Error(Errc::out_of_memory, "two-sided ring", "the machine has no memory left for it",
                    "free memory, or use shorter rings");
    free_.empty() ? static_cast<void>(++fresh_) : free_.pop_back();
    return slot;
}

// Makes slots free that senders have let go of.
void ChannelSlab::collect() noexcept {
    const PeerProcess* asked = nullptr;  // most are one process's, and asking costs system calls
    bool ended = false;
    std::erase_if(closing_, [&](const Closing& closing) {
        if (closing.sender.get() != asked) {
            asked = closing.sender.get();
            ended = asked != nullptr && asked->ended();
        }
        if (!ended && !let_go(closing.slot)) return false;
        free_.push_back(closing.slot);
        return true;
    });
}

void ChannelSlab::give_back(std::uint32_t slot, bool lent,
                            std::shared_ptr<const PeerProcess> sender) noexcept {
    if (generation_ != fork_generation()) return;  // the lock may be held by a thread of the parent
    const std::lock_guard lock(mutex_);
    if (lent && !let_go(slot))
        closing_.push_back({slot, std::move(sender)});
    else
        free_.push_back(slot);
}

std::size_t ChannelSlab::closing() const noexcept {
    const std::lock_guard lock(mutex_);
    return closing_.size();
}

void ChannelSlab::enlist(std::uint32_t slot, QueuePair& pair) {
    const std::lock_guard lock(mutex_);
    auto& place = pairs_[slot / kChunk];
    if (place.load(std::memory_order_relaxed) == nullptr)
        place.store(new Pairs{}, std::memory_order_release);
    (*place.load(std::memory_order_relaxed))[slot % kChunk].store(&pair, std::memory_order_release);
}

// Waits without the lock, which control threads take. A list that leaves the readers meanwhile has
// ended its round, and may be gone.
bool ChannelSlab::unlist(std::uint32_t slot, Instant deadline) noexcept {
    std::unique_lock lock(mutex_);
    Pairs* const pairs = pairs_[slot / kChunk].load(std::memory_order_relaxed);
    if (pairs == nullptr) return true;
    (*pairs)[slot % kChunk].store(nullptr);
    std::vector<std::pair<ProgressList*, std::uint64_t>> rounds;
    for (ProgressList* const list : readers_)
        if (const std::uint64_t round = list->rounds(); (round & 1) != 0)
            rounds.emplace_back(list, round);
    for (;;) {
        std::erase_if(rounds, [this](const auto& entry) {
            return std::ranges::find(readers_, entry.first) == readers_.end() ||
                   entry.first->rounds() != entry.second;
        });
        if (rounds.empty()) return true;
        lock.unlock();
        if (deadline != Instant::max() && std::chrono::steady_clock::now() >= deadline)
            return false;
        sched_yield();
        lock.lock();
    }
}

void ChannelSlab::add_reader(ProgressList& list) {
    const std::lock_guard lock(mutex_);
    readers_.push_back(&list);
}

void ChannelSlab::remove_reader(const ProgressList& list) noexcept {
    const std::lock_guard lock(mutex_);
    // Once: it may be added again already.
    const auto found = std::find(readers_.begin(), readers_.end(), &list);
    if (found != readers_.end()) readers_.erase(found);
}

ChannelSlot ChannelSlabs::take(const Nonce& peer, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (auto& [whose, slabs] : slabs_)
        std::erase_if(slabs, [](const auto& slab) { return slab.expired(); });
    std::erase_if(slabs_, [](const auto& entry) { return entry.second.empty(); });
    auto& slabs = slabs_[{peer, bytes}];
    std::size_t closing = 0;
    for (const auto& known : slabs) {
        auto slab = known.lock();
        const auto slot = slab == nullptr ? std::nullopt : slab->take();
        if (slot) return {std::move(slab), *slot};
        if (slab != nullptr) closing += slab->closing();
    }
    if (closing >= kMostClosing)
        throw Error(Errc::out_of_memory, "two-sided rings",
                    fmt::format("the peer holds {} that were taken back", closing),
                    "end the peer's process, or its queue pairs");
    auto slab = std::make_shared<ChannelSlab>(bytes, slots_of_next(slabs.size(), bytes));
    slabs.push_back(slab);
    const std::uint32_t slot = *slab->take();
    return {std::move(slab), slot};
}

}  // namespace verbatim::softnic
