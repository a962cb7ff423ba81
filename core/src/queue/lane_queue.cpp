// Growth of a lane's queue, and its users.
#include "lane_queue.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace verbatim {
namespace {

// What cards take (PRM, log_max_cq_sz: 22 on all of ConnectX).
constexpr std::uint32_t kMostEntries = 1U << 22;

bool can_lengthen(SharedCompletions& completions, std::uint32_t entries) {
    try {
        completions.lengthen(entries);
        return true;
    } catch (const Error& error) {
        if (error.code() != Errc::unsupported) throw;
        return false;
    }
}

}  // namespace

LaneQueue::LaneQueue(Device& device, std::uint32_t entries)
    : device_(device),
      channel_(device.create_completion_channel()),
      first_(device, entries, *channel_) {}

bool LaneQueue::has(std::uint32_t number) const noexcept {
    return first_.number() == number ||
           std::ranges::any_of(further_, [=](const auto& one) { return one->number() == number; });
}

SharedCompletions* LaneQueue::find_room(std::uint32_t entries) noexcept {
    if (first_.take(entries)) return &first_;
    for (const auto& one : further_)
        if (one->take(entries)) return one.get();
    return nullptr;
}

// Twice the entries each time, so that few queues have to be polled.
SharedCompletions& LaneQueue::grow(std::uint32_t entries) {
    if (further_.empty()) {
        // Entries may be given back meanwhile: it gets longer all the same.
        const std::uint64_t wanted =
            std::bit_ceil(std::max<std::uint64_t>(first_.taken(), first_.entries()) + entries);
        if (wanted <= kMostEntries && can_lengthen(first_, static_cast<std::uint32_t>(wanted)))
            return first_;
    }
    const SharedCompletions& last = further_.empty() ? first_ : *further_.back();
    const std::uint32_t twice = std::min(kMostEntries, 2 * last.entries()),
                        wanted = std::max(twice, entries);
    further_.push_back(std::make_unique<SharedCompletions>(device_, wanted, *channel_));
    return *further_.back();
}

SharedCompletions& LaneQueue::reserve(std::uint32_t entries) {
    if (SharedCompletions* const room = find_room(entries)) return *room;
    try {
        SharedCompletions& grown = grow(entries);
        (void)grown.take(entries);
        return grown;
    } catch (const Error& error) {
        throw Error(Errc::out_of_memory, "lane",
                    fmt::format("its {} completion queues have no {} entries left: {}",
                                1 + further_.size(), entries, error.cause()),
                    "raise completions of [lane], or make another lane");
    }
}

void LaneQueue::attach(QueueUser& user, SharedCompletions& completions) {
    if (free_slots_.empty()) {
        if (users_.size() == kMostUsers)
            throw Error(Errc::out_of_memory, "lane",
                        fmt::format("it has {} queue pairs already", kMostUsers),
                        "make another lane");
        news_.reserve(users_.size() + 1);
        taken_.reserve(users_.size() + 1);
        free_slots_.reserve(users_.size() + 1);
        users_.push_back(nullptr);
        free_slots_.push_back(static_cast<std::uint32_t>(users_.size() - 1));
    }
    const std::uint32_t slot = free_slots_.back();
    completions.attach(user);
    free_slots_.pop_back();
    users_[slot] = &user;
    user.set_slot(slot);
}

void LaneQueue::detach(QueueUser& user, SharedCompletions& completions) noexcept {
    completions.detach(user);
    std::erase(news_, &user);
    users_[user.slot()] = nullptr;
    free_slots_.push_back(user.slot());
}

void LaneQueue::poll_further() noexcept {
    for (const auto& one : further_) poll(*one);
}

bool LaneQueue::arm() noexcept {
    return first_.arm() &&
           std::ranges::all_of(further_, [](const auto& one) { return one->arm(); });
}

void LaneQueue::take_events() noexcept {
    // Each queue has one event at most: it is armed again when that was taken.
    for (std::size_t left = 1 + further_.size(); left != 0; --left) {
        const CompletionQueueHandle* const of = channel_->take_event();
        if (of == nullptr) return;
        if (of == &first_.handle()) first_.count_event();
        for (const auto& one : further_)
            if (of == &one->handle()) one->count_event();
    }
}

}  // namespace verbatim
