// Messages of unreliable senders: what does not fit, or finds no receive, is dropped, and nobody
// learns of it.
#include "receive_engine.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

namespace {

constexpr std::size_t kIpv4Offset = 20;
// Messages per sender and call.
constexpr int kMessagesPerRun = 16;

}  // namespace

void ReceiveEngine::run_datagrams() noexcept {
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
            if ((record.flags & kFillerRecord) == 0 && !source->replaced)
                deliver_datagram(source->number, record, payload);
            source->ring.release(record);
        }
    }
}

void ReceiveEngine::deliver_datagram(std::uint32_t sender, const RecordHeader& record,
                                     const std::byte* payload) noexcept {
    if (record.total != shared_->limits.queue_key.load(std::memory_order_relaxed)) return;
    if (!holds_entry_.load(std::memory_order_relaxed) && !take_unreliably()) return;
    const std::uint64_t bytes = kGlobalRouteBytes + std::uint64_t{record.bytes};
    PieceList list;
    access_.enter();
    const Syndrome syndrome = receive_list(list);
    const bool fits = bytes <= list.total;
    if (syndrome == kNoSyndrome && fits) {
        scatter(list, 0, shared_->traits.route.data(), shared_->traits.route.size());
        scatter(list, kGlobalRouteBytes, payload, record.bytes);
    }
    access_.leave();
    if (syndrome != kNoSyndrome) return fail(syndrome, Syndrome::remote_operation);
    // The receive stays for a message that fits.
    if (!fits) return;
    mlx5::Cqe cqe;
    const bool ipv4 = std::to_integer<unsigned>(shared_->traits.route[kIpv4Offset]) >> 4 == 4;
    // UCX goes by the kind of the route when it looks whether a datagram is for its address.
    const std::uint32_t route =
        mlx5::kSenderHasRoute | (ipv4 ? mlx5::kSenderOverUdp | mlx5::kSenderIpv4Route : 0);
    const mlx5::be32 from(route | sender);
    std::memcpy(cqe.scatter.data() + mlx5::kCqeSenderOffset, &from, sizeof from);
    received_ = bytes;
    if (complete(record, cqe)) count_message(record.bytes);
}

// False: nothing is posted.
bool ReceiveEngine::take_unreliably() noexcept {
    const Taken taken = list_ != nullptr ? take_shared() : take_own();
    if (taken == Taken::broken) fail(Syndrome::local_queue_pair, Syndrome::remote_operation);
    return taken == Taken::entry;
}

}  // namespace verbatim::softnic
