// The ways of datagrams, and the list of those who send here.
#include "datagram_flows.hpp"

#include <sched.h>

#include <utility>

namespace verbatim::softnic {
namespace {

// A peer that did not answer is not asked again for so long.
constexpr std::chrono::seconds kSilence{1};
// A receiver that takes nothing for so long holds up nobody any more.
constexpr std::chrono::seconds kPatience{2};

}  // namespace

bool Flow::must_ask() const noexcept {
    if (way_ == Way::none) return !waited_ && Clock::now() >= again_;
    return way_ == Way::unknown || (way_ == Way::open && silent());
}

void Flow::ask() noexcept {
    close();
    way_ = Way::asked_for;
    link_ = nullptr;
    ring_ = {};
}

bool Flow::take(const RecordHeader& record, const PieceList& message) noexcept {
    if (way_ == Way::asked_for) {
        waited_ = patient_;
        return !waited_;
    }
    // The answer decides on the message that waited for it.
    waited_ = false;
    return way_ != Way::open || send(record, message);
}

bool Flow::send(const RecordHeader& record, const PieceList& message) noexcept {
    std::byte* to = ring_.reserve_whole(record.bytes);
    if (to == nullptr) return ring_.broken() || is_stuck();
    full_ = false;
    for_each_part(message, 0, record.bytes, [&](const std::byte* from, std::size_t bytes) {
        copy_bytes(to, from, bytes);
        to += bytes;
    });
    ring_.commit(record);
    ring_.signal();
    link_->ring_bell();
    return true;
}

bool Flow::is_stuck() noexcept {
    const auto now = Clock::now();
    if (!std::exchange(full_, true) || ring_.consumed() != taken_then_) {
        taken_then_ = ring_.consumed();
        full_since_ = now;
    }
    return now - full_since_ >= kPatience;
}

void Flow::open(std::shared_ptr<Link> link, ChannelSender ring) noexcept {
    way_ = Way::open;
    patient_ = true;
    link_ = std::move(link);
    ring_ = std::move(ring);
    full_ = false;
}

void Flow::refuse(bool absent) noexcept {
    way_ = Way::none;
    patient_ = absent;
    again_ = absent ? Clock::time_point() : Clock::now() + kSilence;
}

std::size_t DatagramSources::size() const noexcept {
    std::size_t count = 0;
    for (const Source* source = first(); source != nullptr; source = source->next) ++count;
    return count;
}

DatagramSources::Source& DatagramSources::add(const PeerSession& sender, std::uint32_t number,
                                              ChannelReceiver ring) {
    auto source = std::make_unique<Source>();
    source->sender = sender;
    source->number = number;
    source->ring = std::move(ring);
    for (Source* old = first(); old != nullptr; old = old->next)
        if (old->number == number && old->sender.nonce == sender.nonce) {
            old->replaced = true;
            old->ring.set_state(ReceiverState::closed);
        }
    source->next = first();
    Source* const added = source.release();
    first_.store(added);
    return *added;
}

void DatagramSources::end(std::uint64_t session) noexcept {
    for (Source* source = first(); source != nullptr; source = source->next)
        if (source->sender.id == session) source->ended = true;
}

// Readers that are at one of them still find the rest of the list behind it.
void DatagramSources::remove_finished() noexcept {
    bool removed = false;
    std::atomic<Source*>* link = &first_;
    while (Source* const source = link->load()) {
        if (!source->finished()) {
            link = &source->next;
            continue;
        }
        link->store(source->next);
        source->ring.set_state(ReceiverState::closed);
        source->next_removed = std::exchange(removed_, source);
        removed = true;
    }
    while (removed && readers_.load() != 0) sched_yield();
}

void DatagramSources::clear() noexcept {
    Source* source = first_.exchange(nullptr);
    const bool ours = generation_ == fork_generation();  // else the words are the parent's
    while (source != nullptr) {
        if (ours) source->ring.set_state(ReceiverState::closed);
        delete std::exchange(source, source->next);
    }
    while (removed_ != nullptr) delete std::exchange(removed_, removed_->next_removed);
    frozen_ = false;
}

}  // namespace verbatim::softnic
