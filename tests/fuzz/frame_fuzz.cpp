// What a peer may send on a stream of the tcp port. The first byte of the input says where the
// stream is cut.
#include <algorithm>
#include <cstring>

#include "fuzz_target.hpp"
#include "ports/tcp/stream_input.hpp"

using namespace verbatim;
using namespace verbatim::softnic;

namespace {

void look_at(const Frame& frame) {
    fuzz::require(frame.header.bytes <= kMaxFrameBytes);
    fuzz::require(frame.body.size() + sizeof(FrameHeader) == frame.header.bytes);
    const bool answers =
        frame.header.kind == FrameKind::words || frame.header.kind == FrameKind::give_up;
    fuzz::require((frame.header.number == 0) == answers);
    if (frame.header.kind == FrameKind::words) {
        const auto words = frame.read<WordsBody>();
        fuzz::require(words.acknowledged <= words.taken && words.state <= 2);
    }
    if (frame.header.kind == FrameKind::read)
        fuzz::require(frame.read<ReadBody>().bytes <= kMaxResult);
}

template <class Body>
std::vector<std::byte> frame_of(FrameKind kind, std::uint64_t number, const Body& body,
                                std::uint8_t flags = 0) {
    FrameHeader header;
    header.bytes = sizeof header + sizeof body;
    header.kind = kind;
    header.flags = flags;
    header.number = number;
    std::vector<std::byte> bytes(sizeof header + sizeof body);
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &body, sizeof body);
    return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    fuzz::Input input(data, bytes);
    const auto cut = static_cast<std::size_t>(input.number(1));
    StreamInput stream;
    while (input.left() > 0) {
        const auto piece = input.take(cut + 1);
        const auto room = stream.room();
        fuzz::require(room.size() >= piece.size());
        std::copy(piece.begin(), piece.end(), room.begin());
        stream.add(piece.size());
        for (Frame frame;;) {
            const FrameState state = stream.next(frame);
            if (state == FrameState::malformed) return 0;
            if (state == FrameState::partial) break;
            look_at(frame);
            stream.take(frame);
        }
    }
    return 0;
}

std::vector<std::vector<std::byte>> fuzz_seeds() {
    std::vector<std::vector<std::byte>> seeds;
    const auto add = [&](std::uint8_t cut, const std::vector<std::vector<std::byte>>& frames) {
        std::vector<std::byte> seed{std::byte{cut}};
        for (const auto& frame : frames)
            for (const std::byte byte : frame) seed.push_back(byte);
        seeds.push_back(std::move(seed));
    };
    const auto message =
        frame_of(FrameKind::send, 1, MessageBody{0, 7}, kFirstPart | kLastPart | kCarriesImmediate);
    const auto words = frame_of(FrameKind::words, 0, WordsBody{.taken = 2, .acknowledged = 1});
    const auto read = frame_of(FrameKind::read, 2, ReadBody{4096, 5, 100});
    const auto result = frame_of(FrameKind::result, 2, std::array<std::byte, 100>{});
    add(255, {message, read});
    add(3, {words, result, words});
    add(0, {read, message});
    return seeds;
}
