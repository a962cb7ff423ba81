// Frames over TCP, and what their absence means.
#include "side_channel.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <verbatim/driver/log.hpp>

namespace verbatim {
namespace {

std::vector<std::byte> sealed(FrameType type, std::span<const std::byte> body, Seal& by) {
    std::vector<std::byte> whole(body.begin(), body.end());
    whole.resize(body.size() + Seal::kBytes);
    std::vector<std::byte> frame = encode_frame(type, whole);
    const auto before = std::span(frame).first(frame.size() - Seal::kBytes);
    const SecretKey::Code code = by.next(before);
    std::copy(code.begin(), code.end(), frame.end() - static_cast<std::ptrdiff_t>(code.size()));
    return frame;
}

}  // namespace

void FrameReader::feed(std::span<const std::byte> bytes, const std::string& object) {
    heard_ = heard_ || !bytes.empty();
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    check_frame_start(std::span(bytes_).first(std::min(bytes_.size(), FrameHeader::kBytes)),
                      object);
}

std::optional<Frame> FrameReader::next(const std::string& object) {
    if (bytes_.size() < FrameHeader::kBytes) return std::nullopt;
    const FrameHeader header =
        parse_frame_header(std::span(bytes_).first(FrameHeader::kBytes), object);
    const std::size_t whole = FrameHeader::kBytes + header.body_bytes;
    if (bytes_.size() < whole) return std::nullopt;
    const auto begin = bytes_.begin(), end = begin + static_cast<std::ptrdiff_t>(whole);
    Frame frame{header.type, {begin + FrameHeader::kBytes, end}};
    bytes_.erase(begin, end);
    if (bytes_.empty()) bytes_ = {};  // mostly nothing more comes: an idle connection keeps none
    return frame;
}

void SideChannel::send(FrameType type, std::span<const std::byte> body, Deadline deadline) {
    try {
        tcp::write_all(socket_,
                       seals_ ? sealed(type, body, seals_->outgoing) : encode_frame(type, body),
                       deadline, name_);
    } catch (const Error& error) {
        // Who hung up before this side could speak may have said who it is.
        if (error.code() == Errc::peer_lost && reader_.silent()) (void)try_receive();
        throw;
    }
}

void SideChannel::ended() {
    if (reader_.silent())
        throw Error(Errc::protocol_error, name_,
                    "what listens there closed without a word: it has ended, or is not Verbatim",
                    "start it again, or check host and port");
    throw Error(Errc::peer_lost, name_, "the peer closed", "see what the peer's own messages say");
}

void SideChannel::late(FrameType type) const {
    if (reader_.silent() && (type == FrameType::hello || type == FrameType::proof))
        throw Error(Errc::timeout, name_,
                    fmt::format("connected, but no {} came in time",
                                type == FrameType::hello ? "hello" : "proof of the key"),
                    "check that a Verbatim receiver accepts there; raise timeout of [connect] if "
                    "it is just slow");
    throw Error(
        Errc::timeout, name_, "the peer stopped in the middle of connecting",
        "see what the peer's own messages say; raise timeout of [connect] if it is just slow");
}

std::optional<Frame> SideChannel::try_receive() {
    std::array<std::byte, 4096> piece;
    if (auto frame = next()) return frame;
    const auto [result, count] = tcp::read_some(socket_, piece);
    if (result == tcp::ReadResult::closed) ended();
    if (result == tcp::ReadResult::bytes) reader_.feed(std::span(piece).first(count), name_);
    return next();
}

std::optional<Frame> SideChannel::next() {
    std::optional<Frame> frame = reader_.next(name_);
    if (!frame || seals_ == nullptr) return frame;
    if (!seals_->incoming.check_next(encode_frame(frame->type, frame->body)))
        throw Error(Errc::protocol_error, name_,
                    "a frame has a wrong seal: it is not the peer's, or was changed on its way",
                    "see whether something between the two sides changes the stream");
    frame->body.resize(frame->body.size() - Seal::kBytes);
    return frame;
}

// The usual mistake is a key on one side only.
void SideChannel::unexpected(FrameType came, FrameType due) const {
    if (due == FrameType::proof && came == FrameType::hello)
        throw Error(Errc::permission_denied, name_,
                    "the peer gave no proof of a key, and this side demands one",
                    "set key_file of [connect] to the same key on both sides");
    if (came == FrameType::proof && seals_ == nullptr && due != FrameType::proof)
        throw Error(Errc::permission_denied, name_,
                    "the peer wants proofs of a key, and this side has none",
                    "set key_file of [connect] to the same key on both sides, or on neither");
    throw Error(Errc::protocol_error, name_,
                fmt::format("frame of type {} where {} was due", static_cast<unsigned>(came),
                            static_cast<unsigned>(due)),
                "run the same version of Verbatim on both sides");
}

std::optional<Frame> SideChannel::receive(FrameType type, Deadline deadline) {
    std::optional<Frame> frame = try_receive();
    if (!frame && deadline.passed()) late(type);
    if (!frame) return std::nullopt;
    if (frame->type == FrameType::refused) {
        const Refusal refusal = parse_refusal(frame->body);
        throw Error(refusal.code, name_,
                    fmt::format("the peer refused the connection: \"{}\"", refusal.text),
                    "do that at the peer, then connect again");
    }
    if (frame->type != type) unexpected(frame->type, type);
    return frame;
}

void SideChannel::refuse(const Error& reason) noexcept {
    try {
        const std::string text = reason.cause() + "; " + reason.remedy();
        send(FrameType::refused, encode_refusal({reason.code(), text}),
             Deadline::after(std::chrono::seconds(0)));
        finish();
    } catch (const std::exception& error) {
        log::debug("{}: could not be told why it is refused ({})", name_, error.what());
    }
}

void SideChannel::finish() noexcept {
    shutdown(socket_.get(), SHUT_WR);
    std::array<std::byte, 1024> piece;
    for (int i = 0; i < 64; ++i)  // a peer that never stops talking loses what it says
        if (tcp::read_some(socket_, piece).result != tcp::ReadResult::bytes) return;
}

}  // namespace verbatim
