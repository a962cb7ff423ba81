// Progress on empty polls, and the list it walks; arming; another buffer.
#include "completion_queue.hpp"

#include <sched.h>

#include <algorithm>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

#include "peer_waking.hpp"
#include "queue_pair.hpp"

namespace verbatim::softnic {

CompletionQueue::CompletionQueue(const Options& options)
    : memory_(options.entries, options.entry_bytes, options.number),
      ring_(memory_.view()),
      channel_(options.channel),
      list_(new List) {
    if (!options.parked) memory_.view().progress_hook = {progress_hook, this};
    if (channel_ == nullptr || options.parked) {
        memory_.view().doorbell_register = nullptr;
        return;
    }
    memory_.view().arm_hook = {arm_hook, this};
    ring_.set_signal({signal, this});
    source_.queue = this;
    channel_->add(source_);
}

CompletionQueue::~CompletionQueue() {
    if (channel_ != nullptr) channel_->remove(source_);
    delete list_.load(std::memory_order_relaxed);
}

void CompletionQueue::progress_hook(void* self) noexcept {
    static_cast<CompletionQueue*>(self)->progress();
}

void CompletionQueue::arm_hook(void* self) noexcept {
    static_cast<CompletionQueue*>(self)->armed();
}

void CompletionQueue::signal(void* self) noexcept {
    auto& queue = *static_cast<CompletionQueue*>(self);
    queue.channel_->raise(queue.source_);
}

// The driver has written record and register. First peers are told, then what they did before they
// could know is looked for: between the two nothing is missed.
void CompletionQueue::armed() noexcept {
    const mlx5::CompletionQueueView& view = memory_.view();
    const std::uint32_t word = read_record(view.doorbell_record + mlx5::kRecordArm);
    const auto* const written = reinterpret_cast<const volatile std::uint64_t*>(
        view.doorbell_register + mlx5::kArmRegisterOffset);
    const std::uint64_t expected =
        mlx5::be32(word).raw() | std::uint64_t{mlx5::be32(view.number).raw()} << 32;
    if (__atomic_load_n(written, __ATOMIC_RELAXED) != expected) {
        log::warn("completion queue {}: register and record disagree, it is not armed",
                  view.number);
        return;
    }
    const bool solicited = (word & mlx5::kArmSolicited) != 0;
    sleep_word_.store(next_sleep_word(sleep_word_.load(), solicited));
    walk([this](QueuePair& queue_pair) { queue_pair.tell_sleep(*this); });
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ring_.arm(word);
    bool unfinished = false;
    walk([&](QueuePair& queue_pair) {
        queue_pair.progress();
        unfinished |= queue_pair.has_arrivals();
    });
    if (unfinished) ring_.fire();  // more than one turn of work: the poll goes on with it
}

template <class Function>
void CompletionQueue::walk(Function&& function) noexcept {
    std::uint64_t round = rounds_.load(std::memory_order_relaxed);
    if ((round & 1) != 0) return;
    // Sequentially consistent, as are the accesses in replace(): either this round is seen there,
    // or the new list is seen here.
    if (!rounds_.compare_exchange_strong(round, round + 1)) return;
    for (QueuePair* const queue_pair : *list_.load()) function(*queue_pair);
    rounds_.store(round + 2, std::memory_order_release);
}

void CompletionQueue::progress() noexcept {
    walk([](QueuePair& queue_pair) { queue_pair.progress(); });
}

void CompletionQueue::add_writer(QueuePair& queue_pair) {
    const std::lock_guard lock(mutex_);
    if (std::find(writers_.begin(), writers_.end(), &queue_pair) == writers_.end())
        writers_.push_back(&queue_pair);
}

void CompletionQueue::remove_writer(const QueuePair& queue_pair) {
    const std::lock_guard lock(mutex_);
    std::erase(writers_, &queue_pair);
}

// With all engines that write here stopped. Queue pairs are stopped in the order of their numbers,
// so that two queues which share some can be resized at once.
void CompletionQueue::resize(std::uint32_t entries) {
    auto fresh =
        std::make_unique<CompletionQueueMemory>(entries, view().entry_bytes, view().number);
    mlx5::CompletionQueueView& view = memory_.view();
    const std::lock_guard lock(mutex_);
    std::sort(writers_.begin(), writers_.end(), [](const QueuePair* a, const QueuePair* b) {
        return a->view().number < b->view().number;
    });
    for (QueuePair* const writer : writers_) writer->stop();
    mlx5::CompletionQueueView next = view;
    next.buffer = fresh->view().buffer;
    next.entries = fresh->view().entries;
    const bool moved = ring_.move_to(next);
    for (QueuePair* const writer : writers_) writer->go_on();
    if (!moved)
        throw Error(Errc::invalid_argument, fmt::format("completion queue {}", view.number),
                    fmt::format("more than {} of its completions are unpolled", next.entries - 1),
                    "poll first, or ask for more entries");
    view = next;
    old_buffer_ = std::exchange(buffer_, std::move(fresh));
}

void CompletionQueue::attach(QueuePair& queue_pair) {
    const std::lock_guard lock(mutex_);
    auto list = std::make_unique<List>(*list_.load());
    if (std::find(list->begin(), list->end(), &queue_pair) == list->end())
        list->push_back(&queue_pair);
    replace(std::move(list));
}

void CompletionQueue::detach(const QueuePair& queue_pair) {
    const std::lock_guard lock(mutex_);
    auto list = std::make_unique<List>(*list_.load());
    std::erase(*list, &queue_pair);
    replace(std::move(list));
}

void CompletionQueue::replace(std::unique_ptr<List> list) noexcept {
    const std::unique_ptr<const List> old(list_.exchange(list.release()));
    const std::uint64_t round = rounds_.load();
    if ((round & 1) == 0) return;
    while (rounds_.load(std::memory_order_acquire) == round) sched_yield();
}

}  // namespace verbatim::softnic
