// Placing of records, and completions of whole messages.
#include "received_message.hpp"

#include <algorithm>
#include <cstring>

#include "../engine/entry_data.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

ReceivedMessage::ReceivedMessage(QueuePairShared& shared) noexcept : shared_(&shared) {
    access_.bind(shared.access->receive_word(), !shared.access->barriers());
}

Syndrome ReceivedMessage::list(ReceiveEntries& entries, PieceList& list) noexcept {
    const std::span<const std::byte> entry = entries.segments();
    const std::size_t segments = entry.size() / sizeof(mlx5::DataSegment);
    for (std::size_t i = 0; i < std::min<std::size_t>(segments, mlx5::kMaxWqeUnits); ++i) {
        mlx5::DataSegment segment;
        std::memcpy(&segment, entry.data() + i * sizeof segment, sizeof segment);
        const std::uint32_t count = segment.byte_count.native() & ~mlx5::kInlineFlag;
        if (count == 0 && segment.key.native() == mlx5::kInvalidKey) break;
        const Syndrome syndrome = entries.source().memory.add(
            segment.key.native(), segment.address.native(),
            count == 0 ? mlx5::kMaxElementBytes : count, Access::local_write, list);
        if (syndrome != kNoSyndrome) return syndrome;
    }
    return kNoSyndrome;
}

bool ReceivedMessage::place(ReceiveEntries& entries, const RecordHeader& record,
                            const std::byte* payload) noexcept {
    if (record.bytes == 0) return true;
    const MemoryTouch inside(access_);
    PieceList list;
    if (const Syndrome syndrome = this->list(entries, list); syndrome != kNoSyndrome) {
        entries.fail(syndrome, Syndrome::remote_operation);
        return false;
    }
    if (bytes_ + record.bytes > list.total) {
        shared_->failure.text.set("a message of {} bytes arrived for a receive of {} bytes",
                                  record.total, list.total);
        if (!shared_->traits.reliable()) return false;
        entries.fail(Syndrome::local_length, Syndrome::remote_invalid);
        return false;
    }
    if (shared_->traits.receive_in_entry == 0 || !keep_for_entry(entries, record, payload, list))
        scatter(list, bytes_, payload, record.bytes);
    bytes_ += record.bytes;
    return true;
}

// False: the message is too long for it, or the driver could not bring it to its place.
bool ReceivedMessage::keep_for_entry(const ReceiveEntries& entries, const RecordHeader& record,
                                     const std::byte* payload, const PieceList& list) noexcept {
    constexpr std::uint32_t kWhole = kFirstRecord | kLastRecord;
    if ((record.flags & kWhole) != kWhole || record.bytes > shared_->traits.receive_in_entry)
        return false;
    // Whose list this is: there are as many elements.
    const std::span<const std::byte> entry = entries.segments();
    const auto element = [&](std::size_t i) {
        mlx5::DataSegment segment;
        std::memcpy(&segment, entry.data() + i * sizeof segment, sizeof segment);
        return segment;
    };
    if (!lies_where_named(list, element)) return false;
    touch(list, record.bytes);
    in_entry_ = payload;
    return true;
}

bool ReceivedMessage::complete(ReceiveEntries& entries, const RecordHeader& record,
                               mlx5::Cqe cqe) noexcept {
    const bool invalidated = (record.flags & kHasInvalidate) != 0;
    const bool written = (record.flags & kWriteRecord) != 0;
    const bool immediate = (record.flags & kHasImmediate) != 0;
    const auto opcode = written       ? mlx5::CqeOpcode::write_immediate
                        : immediate   ? mlx5::CqeOpcode::send_immediate
                        : invalidated ? mlx5::CqeOpcode::send_invalidate
                                      : mlx5::CqeOpcode::send;
    cqe.immediate = mlx5::be32::from_raw(immediate || invalidated ? record.immediate : 0);
    cqe.byte_count = mlx5::be32(written ? record.total : static_cast<std::uint32_t>(bytes_));
    cqe.op_own = mlx5::make_op_own(opcode, false);
    if ((record.flags & kSolicitedRecord) != 0) cqe.op_own |= mlx5::kSolicited;
    return entries.complete(cqe, in_entry_, bytes_);
}

}  // namespace verbatim::softnic
