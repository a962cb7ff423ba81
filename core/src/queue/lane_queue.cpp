// Growth of a lane's queue, and its users.
#include "lane_queue.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

namespace verbatim {

LaneQueue::LaneQueue(Device& device, std::uint32_t entries)
    : channel_(device.create_completion_channel()),
      handle_(device.create_completion_queue(entries, channel_.get())),
      completions_(handle_->view()) {}

void LaneQueue::reserve(std::uint32_t entries) {
    const std::uint64_t taken = reserved_.load(std::memory_order_relaxed), wanted = taken + entries;
    if (wanted > completions_.entries()) {
        try {
            completions_.resize(*handle_, static_cast<std::uint32_t>(std::bit_ceil(wanted)));
        } catch (const Error& error) {
            throw Error(Errc::out_of_memory, "lane",
                        fmt::format("its completion queue has {} entries, of which {} are taken, "
                                    "and cannot grow: {}",
                                    completions_.entries(), taken, error.cause()),
                        "raise completions of [lane], or make another lane");
        }
    }
    reserved_.fetch_add(entries, std::memory_order_relaxed);
}

void LaneQueue::attach(QueueUser& user) {
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
    completions_.attach(&user.send(), &user.receive());
    free_slots_.pop_back();
    users_[slot] = &user;
    user.set_slot(slot);
}

void LaneQueue::detach(QueueUser& user) noexcept {
    completions_.detach(user.number());
    std::erase(news_, &user);
    users_[user.slot()] = nullptr;
    free_slots_.push_back(user.slot());
}

void LaneQueue::take_events() noexcept {
    while (channel_->take_event() != nullptr) completions_.count_event();
}

}  // namespace verbatim
