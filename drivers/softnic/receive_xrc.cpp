// XRC targets: which shared receive queue a message is for. The peer names it once for all messages
// that follow, and is not believed.
#include <utility>

#include "device.hpp"
#include "engine/receive_engine.hpp"
#include "xrc_domain.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

// False: the queue pair failed.
bool ReceiveEngine::name_queue(const RecordHeader& record) noexcept {
    constexpr std::uint32_t kWhole = kFirstRecord | kLastRecord;
    if (shared_->traits.xrc_domain == nullptr || record.bytes != 0 ||
        record.flags != (kQueueRecord | kWhole)) {
        shared_->failure.text.set("the peer wrote a malformed record");
        fail(Syndrome::local_queue_pair, Syndrome::remote_invalid);
        return false;
    }
    queue_number_ = record.total;
    shared_->connection.incoming.release(record);
    moved_ = true;
    leave_queue();
    return true;
}

// Its receives, their keys and their completions are used from now on. False: there is no such
// queue, the queue pair failed.
bool ReceiveEngine::choose_queue() noexcept {
    if (queue_ != nullptr) [[likely]]
        return true;
    const XrcQueue* const found = shared_->traits.xrc_domain->find(queue_number_);
    if (found == nullptr) {
        shared_->failure.text.set("shared receive queue {} is none of the XRC domain",
                                  queue_number_);
        fail(Syndrome::flushed, Syndrome::remote_invalid);
        shared_->failure.report(QueuePairEvent::request_error);
        return false;
    }
    if (written_ != nullptr && written_ != found) announce();
    queue_ = found;
    queue_index_ = found->index;
    list_ = found->list;
    completions_ = &found->completions->ring();
    keys_ = &found->device->keys();
    local_ = LocalMemory(keys_->view(), shared_->failure.text, list_->domain());
    return true;
}

// A receive that is taken keeps its queue.
void ReceiveEngine::leave_queue() noexcept {
    if (holds_entry_.load(std::memory_order_relaxed)) return;
    queue_ = nullptr;
    list_ = nullptr;
}

// Within the gate, since the completion queue may go as soon as this queue pair has none of its
// receives.
void ReceiveEngine::announce() noexcept {
    if (const XrcQueue* const written = std::exchange(written_, nullptr))
        written->completions->announce();
}

void ReceiveEngine::forget_queue(const XrcQueue& queue) noexcept {
    if (written_ == &queue) announce();
    if (queue_ != &queue) return;
    if (holds_entry_.exchange(false, std::memory_order_relaxed)) {
        shared_->failure.text.set("shared receive queue {} was destroyed under a message",
                                  queue.list->number());
        fail(Syndrome::flushed, Syndrome::remote_operation);
    }
    leave_queue();
}

// The protection domain that the peer's one-sided requests belong to.
std::uint32_t ReceiveEngine::keys_domain() const noexcept {
    return shared_->traits.xrc_domain != nullptr ? list_->domain() : shared_->traits.domain;
}

}  // namespace verbatim::softnic
