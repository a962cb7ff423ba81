// Loss, duplication, reordering and corruption of packets.
#include "faulty_packets.hpp"

#include <algorithm>
#include <cstring>

namespace verbatim::softnic {

// SplitMix64: good enough to strike, and the same in every run.
std::uint64_t FaultyPackets::draw() noexcept {
    random_ += 0x9e3779b97f4a7c15;
    std::uint64_t mixed = random_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
}

bool FaultyPackets::strikes(std::uint32_t millionths) noexcept {
    constexpr std::uint64_t kMillion = 1000000;
    return millionths != 0 && draw() % kMillion < millionths;
}

void FaultyPackets::copy(const PacketPieces& packet, Copy& to) noexcept {
    to.count = 0;
    for (const iovec& piece : packet) {
        const std::size_t part = std::min(piece.iov_len, to.bytes.size() - to.count);
        std::memcpy(to.bytes.data() + to.count, piece.iov_base, part);
        to.count += part;
    }
}

bool FaultyPackets::send_one(const PacketPieces& packet) noexcept {
    return inner_->send(std::span(&packet, 1)) != 0;
}

bool FaultyPackets::send_one(Copy& packet) noexcept {
    const iovec piece{packet.bytes.data(), std::exchange(packet.count, 0)};
    return send_one(PacketPieces(&piece, 1));
}

bool FaultyPackets::send_changed(const PacketPieces& packet) noexcept {
    copy(packet, changed_);
    const std::uint64_t bit = draw() % (8 * changed_.count);
    changed_.bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    return send_one(changed_);
}

// What it loses counts as taken. False: the back end takes nothing now.
bool FaultyPackets::take(const PacketPieces& packet) noexcept {
    if (strikes(faults_.lose)) return true;
    if (held_.count == 0 && strikes(faults_.swap)) {
        copy(packet, held_);
        return true;
    }
    const bool taken = strikes(faults_.corrupt) ? send_changed(packet) : send_one(packet);
    if (!taken) return false;
    if (strikes(faults_.duplicate)) send_one(packet);
    if (held_.count != 0) send_one(held_);
    return true;
}

// A packet that is given again has the same fate.
std::size_t FaultyPackets::send(std::span<const PacketPieces> packets) noexcept {
    for (std::size_t i = 0; i != packets.size(); ++i) {
        const std::uint64_t before = random_;
        if (take(packets[i])) continue;
        random_ = before;
        return i;
    }
    return packets.size();
}

}  // namespace verbatim::softnic
