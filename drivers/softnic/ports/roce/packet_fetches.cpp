// Questions as packets. Each packet of a response is a question of its own for ReadResults.
#include "packet_fetches.hpp"

#include <algorithm>

#include "packets/message_opcodes.hpp"

namespace verbatim::softnic {

std::uint64_t PacketFetches::ask(std::uint64_t address, std::uint32_t key,
                                 const PieceList& into) noexcept {
    FetchList::Fetch& fetch = list_.newest();
    const auto ask = [&] { return ask_once(address, key, fetch); };
    return list_.ask_all(into, ask) ? fetch.number = last_ : 0;
}

// False: there is no room. What begins within a word of the peer's memory is asked for alone up to
// one, so that no packet of the rest ends within a word.
bool PacketFetches::ask_once(std::uint64_t address, std::uint32_t key,
                             FetchList::Fetch& fetch) noexcept {
    constexpr std::uint64_t kWord = 8;
    const std::uint64_t at = address + fetch.asked, left = fetch.total - fetch.asked;
    const std::size_t free = results_.free_questions();
    if (free == 0 || !packets_.fits(sizeof(RemoteHeader))) return false;
    std::uint64_t bytes = std::min<std::uint64_t>(left, free * mtu_);
    if (at % kWord != 0) bytes = std::min<std::uint64_t>(bytes, mtu_ - at % kWord);
    if (bytes > results_.room()) return false;
    const std::uint64_t first = packets_.next_number();
    std::uint32_t numbers = 0;
    for (std::uint64_t noted = 0; noted != bytes; ++numbers) {
        const std::uint64_t part = std::min<std::uint64_t>(bytes - noted, mtu_);
        noted += part;
        results_.note_question(first + numbers, part, noted == bytes);
    }
    last_ = packets_.begin(
        {.numbers = numbers, .bytes = sizeof(RemoteHeader), .opcode = PacketOpcode::read_request});
    const RemoteHeader header{SplitWord(at), mlx5::be32(key),
                              mlx5::be32(static_cast<std::uint32_t>(bytes))};
    packets_.add(&header, sizeof header);
    packets_.commit();
    news_ = true;
    fetch.asked += bytes;
    return true;
}

std::uint64_t PacketFetches::ask(const RemoteAtomic& operation) noexcept {
    if (results_.room() < kAtomicResult || !packets_.fits(sizeof operation) ||
        !list_.begin(kAtomicResult))
        return 0;
    const AtomicPacket packet(operation);
    results_.note_question(packets_.next_number(), kAtomicResult);
    last_ = packets_.begin(
        {.bytes = static_cast<std::uint16_t>(packet.bytes()), .opcode = packet.opcode()});
    packets_.add(packet.data(), packet.bytes());
    packets_.commit();
    news_ = true;
    list_.newest().atomic = true;
    return list_.newest().number = last_;
}

}  // namespace verbatim::softnic
