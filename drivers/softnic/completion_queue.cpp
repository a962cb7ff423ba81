// Construction, and progress on empty polls; arming; another buffer.
#include "completion_queue.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

#include "queue_pair.hpp"
#include "queue_pair/peer_waking.hpp"

namespace verbatim::softnic {

CompletionQueue::CompletionQueue(const Options& options)
    : memory_(std::in_place, options.entries, options.entry_bytes, options.number),
      view_(memory_->view()),
      ring_(view_),
      channel_(options.channel) {
    if (!options.parked) view_.progress_hook = {progress_hook, this};
    if (channel_ == nullptr || options.parked) {
        view_.doorbell_register = nullptr;
        return;
    }
    view_.arm_hook = {arm_hook, this};
    ring_.set_signal({signal, this});
    source_.queue = this;
    source_.disarm = disarm_hook;
    channel_->add(source_);
}

CompletionQueue::CompletionQueue(const mlx5::CompletionQueueView& view, const EventHook& event)
    : view_(view), ring_(view), event_(event) {}

CompletionQueue::~CompletionQueue() {
    if (channel_ != nullptr) channel_->remove(source_);
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

bool CompletionQueue::disarm_hook(CompletionQueueHandle* self) noexcept {
    auto& queue = *static_cast<CompletionQueue*>(self);
    queue.woken_.store(true, std::memory_order_relaxed);  // as in wake()
    return queue.ring_.disarm();
}

// The driver has written record and register. First peers are told, then what they did before they
// could know is looked for: between the two nothing is missed.
void CompletionQueue::armed() noexcept {
    const std::uint32_t word = read_record(view_.doorbell_record + mlx5::kRecordArm);
    const auto* const written = reinterpret_cast<const volatile std::uint64_t*>(
        view_.doorbell_register + mlx5::kArmRegisterOffset);
    const std::uint64_t expected =
        mlx5::be32(word).raw() | std::uint64_t{mlx5::be32(view_.number).raw()} << 32;
    if (__atomic_load_n(written, __ATOMIC_RELAXED) != expected) {
        log::warn("completion queue {}: register and record disagree, it is not armed",
                  view_.number);
        return;
    }
    const bool solicited = (word & mlx5::kArmSolicited) != 0;
    woken_.store(false, std::memory_order_relaxed);
    sleep_word_.store(next_sleep_word(sleep_word_.load(), solicited));
    list_.walk_all([this](QueuePair& queue_pair) { queue_pair.turns().tell_sleep(*this); });
    std::atomic_thread_fence(std::memory_order_seq_cst);
    ring_.arm(word);
    bool unfinished = false;
    list_.walk([&](QueuePair& queue_pair) {
        QueuePairTurns& turns = queue_pair.turns();
        turns.progress(QueuePairTurns::Look::whole);
        turns.absence().armed();
        unfinished |= turns.engines().unfinished();
        turns.engines().shared().connection.hand_over();
    });
    // More than one turn of work: the poll goes on with it. Or a peer heard of this sleep and did
    // its one wake-up before the queue was armed: it does no other, whatever this turn left it to
    // do.
    if (unfinished || woken_.load(std::memory_order_relaxed)) ring_.fire();
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
bool CompletionQueue::move_to(const mlx5::CompletionQueueView& next) {
    const std::lock_guard lock(mutex_);
    std::sort(writers_.begin(), writers_.end(), [](const QueuePair* a, const QueuePair* b) {
        return a->view().number < b->view().number;
    });
    std::vector<QueuePair*> announced;
    announced.reserve(writers_.size());
    for (QueuePair* const writer : writers_) writer->turns().engines().stop();
    const bool moved = ring_.move_to(next);
    if (moved) view_ = next;
    for (QueuePair* const writer : writers_)
        if (!writer->turns().engines().go_on()) announced.push_back(writer);
    // With all gates open: a turn may wait for a peer.
    for (QueuePair* const writer : announced) writer->turns().catch_up();
    return moved;
}

void CompletionQueue::resize(std::uint32_t entries) {
    if (!memory_)
        throw Error(Errc::unsupported, fmt::format("completion queue {}", view_.number),
                    "its memory belongs to somebody else", "create another one");
    auto fresh = std::make_unique<CompletionQueueMemory>(entries, view_.entry_bytes, view_.number);
    mlx5::CompletionQueueView next = view_;
    next.buffer = fresh->view().buffer;
    next.entries = fresh->view().entries;
    if (!move_to(next))
        throw Error(Errc::invalid_argument, fmt::format("completion queue {}", view_.number),
                    fmt::format("more than {} of its completions are unpolled", next.entries - 1),
                    "poll first, or ask for more entries");
    old_buffer_ = std::exchange(buffer_, std::move(fresh));
}

}  // namespace verbatim::softnic
