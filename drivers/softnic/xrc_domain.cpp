// Who is in the domain: each target is driven by the polls of each queue's completions.
#include "xrc_domain.hpp"

#include <algorithm>

#include "device.hpp"
#include "queue_pair.hpp"

namespace verbatim::softnic {
namespace {

// Nothing is ever written there, and nothing read but the record.
mlx5::CompletionQueueView no_view() noexcept {
    static std::byte entry[sizeof(mlx5::Cqe)];
    static volatile std::uint32_t record[2];
    mlx5::CompletionQueueView view;
    view.buffer = entry;
    view.entries = 1;
    view.entry_bytes = sizeof entry;
    view.doorbell_record = record;
    return view;
}

}  // namespace

XrcDomain::XrcDomain() : no_completions_(no_view(), {}) {}

std::uint32_t XrcDomain::free_number(DeviceCore& device) {
    const std::lock_guard lock(mutex_);
    for (std::size_t tries = 0; tries < 2 * kXrcQueues; ++tries) {
        const std::uint32_t number = device.numbers().next_shared_receive_queue();
        if (number != 0 && queues_[number % kXrcQueues].load() == nullptr) return number;
    }
    return 0;
}

bool XrcDomain::add(const XrcQueue& queue) {
    const std::lock_guard lock(mutex_);
    auto& place = queues_[queue.list->number() % kXrcQueues];
    if (place.load() != nullptr) return false;
    for (QueuePair* const target : targets_) queue.completions->add_writer(*target);
    queue.completions->list().add(no_completions_.list());
    place.store(&queue, std::memory_order_release);
    for (QueuePair* const target : targets_) target->target().name_queue(queue);
    return true;
}

void XrcDomain::remove(const XrcQueue& queue) noexcept {
    if (generation_ != fork_generation()) return;  // the lock may be held by a thread of the parent
    const std::lock_guard lock(mutex_);
    auto& place = queues_[queue.list->number() % kXrcQueues];
    if (place.load() != &queue) return;
    place.store(nullptr, std::memory_order_release);
    const bool stays = completes_elsewhere(queue);
    for (QueuePair* const target : targets_) {
        target->target().forget_queue(queue);
        if (!stays) queue.completions->remove_writer(*target);
    }
    queue.completions->list().remove(no_completions_.list());
}

// Whether another queue has the same completion queue.
bool XrcDomain::completes_elsewhere(const XrcQueue& queue) const noexcept {
    return std::any_of(queues_.begin(), queues_.end(), [&](const auto& place) {
        const XrcQueue* const other = place.load();
        return other != nullptr && other->completions == queue.completions;
    });
}

void XrcDomain::join(QueuePair& target) {
    targets_.push_back(&target);
    for_each_queue([&](const XrcQueue& queue) { queue.completions->add_writer(target); });
}

void XrcDomain::name_queues(QueuePair& target) const noexcept {
    for_each_queue([&](const XrcQueue& queue) { target.target().name_queue(queue); });
}

void XrcDomain::leave(QueuePair& target) noexcept { std::erase(targets_, &target); }

void XrcDomain::write_no_more(const QueuePair& target) noexcept {
    for_each_queue([&](const XrcQueue& queue) { queue.completions->remove_writer(target); });
}

}  // namespace verbatim::softnic
