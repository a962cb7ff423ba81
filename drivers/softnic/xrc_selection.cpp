// Looking up the queues that peers name.
#include "responder/xrc_selection.hpp"

#include "device.hpp"
#include "xrc_domain.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

bool XrcSelection::name(ReceiveEntries& entries, const RecordHeader& record) noexcept {
    constexpr std::uint32_t kWhole = kFirstRecord | kLastRecord;
    if (shared_->traits.xrc_domain == nullptr || record.bytes != 0 ||
        record.flags != (kQueueRecord | kWhole)) {
        shared_->failure.text.set("the peer wrote a malformed record");
        entries.fail(Syndrome::local_queue_pair, Syndrome::remote_invalid);
        return false;
    }
    number_ = record.total;
    shared_->connection.incoming.release(record);
    leave(entries);
    return true;
}

bool XrcSelection::look_up(ReceiveEntries& entries) noexcept {
    const XrcQueue* const found = shared_->traits.xrc_domain->find(number_);
    if (found == nullptr) {
        shared_->failure.text.set("shared receive queue {} is none of the XRC domain", number_);
        entries.fail(Syndrome::flushed, Syndrome::remote_invalid);
        shared_->failure.report(QueuePairEvent::request_error);
        return false;
    }
    if (entries.written() != nullptr && entries.written() != found) announce(entries);
    KeyTable& keys = found->device->keys();
    entries.source() = {
        found->list,  &found->completions->ring(),
        &keys,        LocalMemory(keys.view(), shared_->failure.text, found->list->domain()),
        found->index, found};
    return true;
}

// A receive that is taken keeps its queue.
void XrcSelection::leave(ReceiveEntries& entries) noexcept {
    if (entries.held()) return;
    ReceiveEntries::Source& source = entries.source();
    source.queue = nullptr;
    source.list = nullptr;
    source.index = shared_->traits.receive_index;
}

void XrcSelection::announce(ReceiveEntries& entries) noexcept {
    if (const XrcQueue* const written = entries.take_written()) written->completions->announce();
}

void XrcSelection::forget(ReceiveEntries& entries, const XrcQueue& queue) noexcept {
    if (entries.written() == &queue) announce(entries);
    if (entries.source().queue != &queue) return;
    if (entries.drop_held()) {
        shared_->failure.text.set("shared receive queue {} was destroyed under a message",
                                  queue.list->number());
        entries.fail(Syndrome::flushed, Syndrome::remote_operation);
    }
    leave(entries);
}

void XrcSelection::reset(ReceiveEntries& entries) noexcept {
    announce(entries);
    leave(entries);
    number_ = 0;
}

}  // namespace verbatim::softnic
