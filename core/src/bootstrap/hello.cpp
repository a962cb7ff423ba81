// Encoding and checking of side-channel frames.
#include "hello.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "../ring/ring_format.hpp"
#include "bytes.hpp"

namespace verbatim {
namespace {

constexpr std::string_view kMagic = "VERBATIM";
constexpr std::uint32_t kByteOrderMark = 0x01020304, kOtherByteOrder = 0x04030201;
constexpr std::size_t kOrderAt = 8, kVersionAt = 12;

// Extensions a reader may skip, unless they are flagged.
constexpr std::uint16_t kDeviceName = 1, kStreams = 2, kLongestMessage = 3, kClient = 4;
constexpr std::uint16_t kMustUnderstand = 1;
constexpr std::size_t kLongestName = 64, kLongestRefusal = 512;

[[noreturn]] void not_verbatim(const std::string& object, std::span<const std::byte> bytes) {
    throw Error(Errc::protocol_error, object,
                fmt::format("what answers there is not Verbatim (it began with \"{}\")",
                            printable(bytes, 24)),
                "check host and port");
}

[[noreturn]] void broken(const std::string& object, std::string_view what) {
    throw Error(Errc::protocol_error, object, fmt::format("broken frame: {}", what),
                "check that both sides run released versions; please report it if they do");
}

std::uint16_t version_in(std::span<const std::byte> header) {
    return ByteReader(header.subspan(kVersionAt)).get<std::uint16_t>();
}

void put_queue_pair(ByteWriter& out, const QueuePairAddress& address) {
    out.put(address.kind).put(address.mtu_log2).put(address.lid).put(address.number);
    out.put(address.packet_sequence).put(address.reads_answered);
    out.put(std::uint8_t{0}).put(std::uint16_t{0});
    out.put(std::as_bytes(std::span(address.gid))).put(std::as_bytes(std::span(address.nonce)));
    out.put(std::as_bytes(std::span(address.local_socket)));
}

QueuePairAddress get_queue_pair(ByteReader& in) {
    QueuePairAddress address;
    address.kind = in.get<std::uint8_t>();
    address.mtu_log2 = in.get<std::uint8_t>();
    address.lid = in.get<std::uint16_t>();
    address.number = in.get<std::uint32_t>();
    address.packet_sequence = in.get<std::uint32_t>();
    address.reads_answered = in.get<std::uint8_t>();
    (void)in.get<std::uint8_t>();
    (void)in.get<std::uint16_t>();
    in.get(address.gid);
    in.get(address.nonce);
    in.get(address.local_socket);
    return address;
}

void put_extension(ByteWriter& out, std::uint16_t type, std::span<const std::byte> bytes) {
    out.put(type).put(std::uint16_t{0}).put(static_cast<std::uint32_t>(bytes.size()));
    out.put(bytes).pad_to(8);
}

// Ports of the software NIC. A peer without them has shared memory only.
void put_streams(ByteWriter& out, const QueuePairAddress& address) {
    if (address.ports == 0) return;
    ByteWriter value;
    value.put(address.ports).put(std::uint8_t{0}).put(address.stream_port).put(address.home.user);
    value.put(std::as_bytes(std::span(address.home.host)));
    value.put(std::as_bytes(std::span(address.stream_address)));
    value.put(std::as_bytes(std::span(address.stream_token)));
    value.put(address.packet_port);
    put_extension(out, kStreams, value.take());
}

void get_streams(ByteReader in, QueuePairAddress& address, const std::string& object) {
    address.ports = in.get<std::uint8_t>();
    (void)in.get<std::uint8_t>();
    address.stream_port = in.get<std::uint16_t>();
    address.home.user = in.get<std::uint32_t>();
    in.get(address.home.host);
    in.get(address.stream_address);
    in.get(address.stream_token);
    if (in.failed()) broken(object, "extension of streams too short");
    const auto packet_port = in.get<std::uint16_t>();  // a former version has none
    address.packet_port = in.failed() ? std::uint16_t{0} : packet_port;
}

std::uint64_t get_longest(ByteReader in, const std::string& object) {
    const auto longest = in.get<std::uint64_t>();
    if (in.failed()) broken(object, "extension of the longest message too short");
    return longest;
}

ClientIdentity get_client(ByteReader in, const std::string& object) {
    ClientIdentity client;
    in.get(client.id);
    client.generation = in.get<std::uint64_t>();
    if (in.failed()) broken(object, "extension of the client too short");
    if (client.generation == 0) broken(object, "generation 0 of a client");
    return client;
}

void put_client(ByteWriter& out, const ClientIdentity& client) {
    ByteWriter value;
    value.put(client.id).put(client.generation);
    put_extension(out, kClient, value.take());
}

void get_extensions(ByteReader& in, Hello& hello, const std::string& object) {
    while (in.left() != 0) {
        const auto type = in.get<std::uint16_t>(), flags = in.get<std::uint16_t>();
        const std::size_t bytes = in.get<std::uint32_t>();
        const auto value = in.get_bytes(bytes);
        if (bytes % 8 != 0) (void)in.get_bytes(8 - bytes % 8);
        if (in.failed()) broken(object, "an extension runs past the end");
        if (type == kDeviceName)
            hello.device_name = printable(value, kLongestName);
        else if (type == kStreams)
            get_streams(ByteReader(value), hello.queue_pair, object);
        else if (type == kLongestMessage)
            hello.said.longest_message = get_longest(ByteReader(value), object);
        else if (type == kClient)
            hello.said.client = get_client(ByteReader(value), object);
        else if ((flags & kMustUnderstand) != 0)
            throw Error(Errc::unsupported, object,
                        fmt::format("the peer requires extension {}", type),
                        "run the same version of Verbatim on both sides");
    }
}

// Ranges that the rest of the code relies on.
void check_values(const Hello& hello, const std::string& object) {
    if (!std::has_single_bit(hello.page_bytes) || hello.page_bytes < 4096)
        broken(object, "page size");
    if (hello.queue_pair.kind == 0) broken(object, "device kind");
    if (hello.queue_pair.mtu_log2 < 8 || hello.queue_pair.mtu_log2 > 13) broken(object, "path MTU");
    if (hello.queue_pair.number >> 24 != 0) broken(object, "queue pair number");
    if (!ring::valid_ring_bytes(hello.ring_bytes)) broken(object, "ring size");
    if (hello.ring_address % ring::kAlignment != 0 || hello.ring_address > ~hello.ring_bytes)
        broken(object, "ring address");
    if (hello.credit_address % 8 != 0) broken(object, "credit address");
    if (hello.armed_address % 8 != 0) broken(object, "armed address");
    if (hello.posted.address % 16 != 0) broken(object, "posted address");
    if (hello.note.address % 8 != 0) broken(object, "note address");
}

constexpr std::array<std::pair<Errc, std::uint32_t>, 8> kRefusalCodes{{{Errc::version_mismatch, 1},
                                                                       {Errc::unsupported, 2},
                                                                       {Errc::permission_denied, 3},
                                                                       {Errc::protocol_error, 4},
                                                                       {Errc::out_of_memory, 5},
                                                                       {Errc::timeout, 6},
                                                                       {Errc::peer_lost, 7},
                                                                       {Errc::device_error, 8}}};

}  // namespace

std::string printable(std::span<const std::byte> bytes, std::size_t most) {
    std::string text;
    for (const std::byte byte : bytes.first(std::min(bytes.size(), most))) {
        const char c = static_cast<char>(byte);
        text += c >= ' ' && c <= '~' && c != '"' ? c : '?';
    }
    return text;
}

std::vector<std::byte> encode_frame(FrameType type, std::span<const std::byte> body) {
    std::array<std::byte, sizeof kByteOrderMark> mark;  // the one field in this machine's own order
    std::memcpy(mark.data(), &kByteOrderMark, sizeof kByteOrderMark);
    ByteWriter out;
    out.put(std::as_bytes(std::span(kMagic))).put(mark).put(kProtocolVersion);
    out.put(static_cast<std::uint16_t>(type))
        .put(static_cast<std::uint32_t>(body.size()))
        .put(std::uint32_t{0});
    out.put(body);
    return out.take();
}

void check_frame_start(std::span<const std::byte> bytes, const std::string& object) {
    const auto magic = std::as_bytes(std::span(kMagic));
    const std::size_t known = std::min(bytes.size(), magic.size());
    if (!std::equal(magic.begin(), magic.begin() + static_cast<std::ptrdiff_t>(known),
                    bytes.begin()))
        not_verbatim(object, bytes);
    if (bytes.size() < FrameHeader::kBytes) return;
    std::uint32_t mark = 0;
    std::memcpy(&mark, bytes.data() + kOrderAt, sizeof mark);
    if (mark == kOtherByteOrder)
        throw Error(
            Errc::unsupported, object, "the peer's machine has the other byte order",
            "both machines must be of one byte order: objects travel as they lie in memory");
    if (mark != kByteOrderMark) broken(object, "byte order mark");
    if (const auto version = version_in(bytes); version != kProtocolVersion)
        throw Error(Errc::version_mismatch, object,
                    fmt::format("the peer speaks protocol version {}, this side {}", version,
                                kProtocolVersion),
                    "run the same version of Verbatim on both sides");
}

FrameHeader parse_frame_header(std::span<const std::byte> bytes, const std::string& object) {
    check_frame_start(bytes, object);
    ByteReader in(bytes.subspan(kVersionAt + 2));
    const auto type = in.get<std::uint16_t>();
    const auto body_bytes = in.get<std::uint32_t>(), zero = in.get<std::uint32_t>();
    if (in.failed() || zero != 0) broken(object, "header");
    if (type < 1 || type > static_cast<std::uint16_t>(FrameType::proof))
        broken(object, "unknown type");
    if (body_bytes > FrameHeader::kMaxBody) broken(object, "body too long");
    return {static_cast<FrameType>(type), body_bytes};
}

std::vector<std::byte> encode_hello(const Hello& hello) {
    ByteWriter fixed;
    fixed.put(hello.page_bytes).put(hello.pointer_bytes).put(hello.ring_format);
    fixed.put(hello.features).put(hello.required_features);
    put_queue_pair(fixed, hello.queue_pair);
    fixed.put(hello.ring_address).put(hello.ring_bytes).put(hello.credit_address);
    fixed.put(hello.armed_address).put(hello.posted.address);
    fixed.put(hello.ring_key).put(hello.words_key).put(hello.posted.key).put(hello.note.key);
    fixed.put(hello.note.address).put(hello.tag_key);
    fixed.put(hello.user).put(hello.process);
    const std::vector<std::byte> body = fixed.take();
    ByteWriter out;
    out.put(static_cast<std::uint32_t>(sizeof(std::uint32_t) + body.size())).put(body);
    put_extension(out, kDeviceName, std::as_bytes(std::span(hello.device_name)));
    put_streams(out, hello.queue_pair);
    if (hello.said.longest_message != 0)
        put_extension(out, kLongestMessage,
                      std::as_bytes(std::span(&hello.said.longest_message, 1)));
    if (hello.said.client) put_client(out, *hello.said.client);
    return out.take();
}

Hello parse_hello(std::span<const std::byte> body, const std::string& object) {
    const std::size_t fixed_bytes = ByteReader(body).get<std::uint32_t>();
    if (fixed_bytes < sizeof(std::uint32_t) || fixed_bytes > body.size())
        broken(object, "size of the fixed part");
    ByteReader in(body.first(fixed_bytes).subspan(sizeof(std::uint32_t)));
    Hello hello;
    hello.page_bytes = in.get<std::uint32_t>();
    hello.pointer_bytes = in.get<std::uint32_t>();
    hello.ring_format = in.get<std::uint32_t>();
    hello.features = in.get<std::uint64_t>();
    hello.required_features = in.get<std::uint64_t>();
    hello.queue_pair = get_queue_pair(in);
    hello.ring_address = in.get<std::uint64_t>();
    hello.ring_bytes = in.get<std::uint64_t>();
    hello.credit_address = in.get<std::uint64_t>();
    hello.armed_address = in.get<std::uint64_t>();
    hello.posted.address = in.get<std::uint64_t>();
    hello.ring_key = in.get<std::uint32_t>();
    hello.words_key = in.get<std::uint32_t>();
    hello.posted.key = in.get<std::uint32_t>();
    hello.note.key = in.get<std::uint32_t>();
    hello.note.address = in.get<std::uint64_t>();
    hello.tag_key = in.get<std::uint64_t>();
    hello.user = in.get<std::uint32_t>();
    hello.process = in.get<std::uint32_t>();
    if (in.failed()) broken(object, "fixed part too short");
    check_values(hello, object);
    ByteReader extensions(body.subspan(fixed_bytes));
    get_extensions(extensions, hello, object);
    return hello;
}

void check_compatible(const Hello& mine, const Hello& peer, const std::string& object) {
    const auto refuse = [&](const std::string& cause, const std::string& remedy) {
        throw Error(Errc::unsupported, object, cause, remedy);
    };
    const std::string same = "run the same version of Verbatim on both sides";
    if (mine.pointer_bytes != peer.pointer_bytes)
        refuse(fmt::format("pointers have {} bytes here and {} there", mine.pointer_bytes,
                           peer.pointer_bytes),
               "build both programs for the same word size");
    if (mine.page_bytes != peer.page_bytes)
        refuse(
            fmt::format("pages have {} bytes here and {} there", mine.page_bytes, peer.page_bytes),
            "use kernels of the same page size");
    if (mine.ring_format != peer.ring_format)
        refuse(fmt::format("ring format {} here and {} there", mine.ring_format, peer.ring_format),
               same);
    if ((peer.required_features & ~mine.features) != 0 ||
        (mine.required_features & ~peer.features) != 0)
        refuse(fmt::format("features offered here {:#x}, required there {:#x}; offered there "
                           "{:#x}, required here {:#x}",
                           mine.features, peer.required_features, peer.features,
                           mine.required_features),
               same);
    const auto kind_name = [](std::uint8_t kind) {
        return kind == 1   ? "the software NIC"
               : kind == 2 ? "an RDMA device"
                           : "a device of unknown kind";
    };
    if (mine.queue_pair.kind != peer.queue_pair.kind)
        refuse(
            fmt::format("this side uses {} ({}), the peer {} ({})", kind_name(mine.queue_pair.kind),
                        mine.device_name, kind_name(peer.queue_pair.kind), peer.device_name),
            "set kind of [device] to the same on both sides");
}

void check_move(const Hello& before, const Hello& after, const std::string& object) {
    Hello expected = before;
    expected.queue_pair = after.queue_pair;
    expected.features = after.features;
    expected.note = after.note;
    expected.said.client.reset();  // said once
    if (encode_hello(expected) != encode_hello(after) ||
        before.queue_pair.kind != after.queue_pair.kind)
        broken(object, "a move that changes more than the queue pair and the note");
}

std::vector<std::byte> encode_refusal(const Refusal& refusal) {
    std::uint32_t number = 0;
    for (const auto& [code, wire] : kRefusalCodes)
        if (code == refusal.code) number = wire;
    const std::string_view text = std::string_view(refusal.text).substr(0, kLongestRefusal);
    ByteWriter out;
    out.put(number)
        .put(static_cast<std::uint32_t>(text.size()))
        .put(std::as_bytes(std::span(text)));
    return out.take();
}

Refusal parse_refusal(std::span<const std::byte> body) {
    ByteReader in(body);
    const auto number = in.get<std::uint32_t>(), bytes = in.get<std::uint32_t>();
    Refusal refusal{Errc::protocol_error, printable(in.get_bytes(bytes), kLongestRefusal)};
    for (const auto& [code, wire] : kRefusalCodes)
        if (wire == number) refusal.code = code;
    return refusal;
}

std::vector<std::byte> encode_bye(const Bye& bye) {
    ByteWriter out;
    out.put(bye.sent_position).put(bye.taken_position);
    return out.take();
}

Bye parse_bye(std::span<const std::byte> body, const std::string& object) {
    ByteReader in(body);
    Bye bye;
    bye.sent_position = in.get<std::uint64_t>();
    bye.taken_position = in.get<std::uint64_t>();
    if (in.failed()) broken(object, "bye too short");
    return bye;
}

}  // namespace verbatim
