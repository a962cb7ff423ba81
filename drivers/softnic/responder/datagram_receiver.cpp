// Delivery of datagrams into receives.
#include "datagram_receiver.hpp"

#include <cstring>

namespace verbatim::softnic {

using mlx5::Syndrome;

namespace {

constexpr std::size_t kIpv4Offset = 20;
// Messages per sender and call.
constexpr int kMessagesPerRun = 16;

}  // namespace

void DatagramReceiver::run(ReceiveEntries& entries, ReceivedMessage& message,
                           ReceiveCounts& counts) noexcept {
    for (auto* source = shared_->sources.first(); source != nullptr; source = source->next) {
        for (int budget = kMessagesPerRun; budget != 0 && shared_->receives(); --budget) {
            RecordHeader record;
            const std::byte* payload = nullptr;
            const auto peek = source->ring.peek(record, payload);
            if (peek == ChannelReceiver::Peek::nothing) break;
            if (peek == ChannelReceiver::Peek::broken) {
                // This sender is not listened to any more; the others are.
                source->ring.set_state(ReceiverState::closed);
                source->broken.store(true);
                break;
            }
            if ((record.flags & kFillerRecord) == 0 && !source->replaced &&
                deliver(entries, message, source->number, record, payload))
                counts.add_message(record.bytes);
            source->ring.release(record);
        }
    }
}

// False: it was dropped, or the queue pair failed.
bool DatagramReceiver::deliver(ReceiveEntries& entries, ReceivedMessage& message,
                               std::uint32_t sender, const RecordHeader& record,
                               const std::byte* payload) noexcept {
    if (record.total != shared_->limits.queue_key.load(std::memory_order_relaxed)) return false;
    if (!entries.held() && !take(entries)) return false;
    const std::uint64_t bytes = kGlobalRouteBytes + std::uint64_t{record.bytes};
    PieceList list;
    message.access().enter();
    const Syndrome syndrome = ReceivedMessage::list(entries, list);
    const bool fits = bytes <= list.total;
    if (syndrome == kNoSyndrome && fits) {
        scatter(list, 0, shared_->traits.route.data(), shared_->traits.route.size());
        scatter(list, kGlobalRouteBytes, payload, record.bytes);
    }
    message.access().leave();
    if (syndrome != kNoSyndrome) entries.fail(syndrome, Syndrome::remote_operation);
    // The receive stays for a message that fits.
    if (syndrome != kNoSyndrome || !fits) return false;
    message.begin(bytes);
    return message.complete(entries, record, sender_of(sender));
}

// What completions say of the sender.
mlx5::Cqe DatagramReceiver::sender_of(std::uint32_t sender) const noexcept {
    mlx5::Cqe cqe;
    const bool ipv4 = std::to_integer<unsigned>(shared_->traits.route[kIpv4Offset]) >> 4 == 4;
    // UCX goes by the kind of the route when it looks whether a datagram is for its address.
    const std::uint32_t route =
        mlx5::kSenderHasRoute | (ipv4 ? mlx5::kSenderOverUdp | mlx5::kSenderIpv4Route : 0);
    const mlx5::be32 from(route | sender);
    std::memcpy(cqe.scatter.data() + mlx5::kCqeSenderOffset, &from, sizeof from);
    return cqe;
}

// False: nothing is posted.
bool DatagramReceiver::take(ReceiveEntries& entries) noexcept {
    const ReceiveEntries::Taken taken = entries.take();
    if (taken == ReceiveEntries::Taken::broken)
        entries.fail(Syndrome::local_queue_pair, Syndrome::remote_operation);
    return taken == ReceiveEntries::Taken::entry;
}

}  // namespace verbatim::softnic
