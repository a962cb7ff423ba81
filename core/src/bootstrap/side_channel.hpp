// The stream beside a queue pair: frames of the hello while connecting, then silence until
// the bye. Its end tells of the peer's death. Where the sides have proven themselves, each frame
// has a seal. Threads: one at a time.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <verbatim/rdma/cm_streams.hpp>

#include "../authentication/seal.hpp"
#include "hello.hpp"
#include "socket.hpp"

namespace verbatim {

// Puts frames together from pieces of a stream. Pure. Refuses what is no frame as early as the
// bytes allow.
class FrameReader {
  public:
    // Takes all of `bytes`. Throws Error about `object`.
    void feed(std::span<const std::byte> bytes, const std::string& object);
    // The next whole frame, if there is one. Throws Error about `object`.
    std::optional<Frame> next(const std::string& object);
    // Nothing at all has come.
    bool silent() const noexcept { return !heard_; }

  private:
    std::vector<std::byte> bytes_;
    bool heard_ = false;
};

class SideChannel {
  public:
    // `name`: of the peer, for messages.
    SideChannel(Descriptor socket, std::string name)
        : socket_(std::move(socket)), name_(std::move(name)) {}
    // Over a stream of the connection manager.
    explicit SideChannel(rdma::CmStream stream)
        : socket_(std::move(stream.socket)),
          name_(std::move(stream.peer_name)),
          local_address_(stream.local_address) {}
    // Over a connected socket, named after its peer.
    static SideChannel over(Descriptor socket) {
        std::string name = tcp::peer_name(socket);
        return {std::move(socket), std::move(name)};
    }

    // Throws Error: timeout, peer_lost, protocol_error (what listens there is not Verbatim).
    void send(FrameType type, std::span<const std::byte> body, Deadline deadline);
    // The same without waiting: a channel takes a frame at once, unless the peer has stopped.
    void say(FrameType type, std::span<const std::byte> body) {
        send(type, body, Deadline::after(std::chrono::seconds(0)));
    }
    // The next frame, which must be of that type; nothing while it is incomplete. Throws Error:
    // timeout (then the deadline has passed), what a refusal says, version_mismatch, unsupported,
    // protocol_error (also where the peer closes without a word: it has ended, or is not
    // Verbatim), peer_lost.
    std::optional<Frame> receive(FrameType type, Deadline deadline);
    // The next frame if one is complete; throws Error(peer_lost) at the end of the stream, or
    // protocol_error.
    std::optional<Frame> try_receive();
    // The next frame that has been read already. Throws Error(protocol_error): also where its seal
    // is wrong.
    std::optional<Frame> next();
    // Bytes of the peer that were read before. Throws Error(protocol_error).
    void feed(std::span<const std::byte> read_ahead) {
        if (!read_ahead.empty()) reader_.feed(read_ahead, name_);
    }
    // From now on each frame carries a seal, and the peer's must.
    void seal(std::unique_ptr<Seals> seals) noexcept { seals_ = std::move(seals); }
    // Tells the peer why it is turned down, if it still listens. Never throws.
    void refuse(const Error& reason) noexcept;
    // Says no more; what the peer has sent is read, so that closing does not destroy what it has
    // not read yet.
    void finish() noexcept;

    const std::string& name() const noexcept { return name_; }
    const Descriptor& socket() const noexcept { return socket_; }
    // By which the peer reaches this side: IPv6, or IPv4-mapped. Zeros: not known.
    std::array<std::uint8_t, 16> local_address() const {
        return local_address_ ? *local_address_ : tcp::local_address(socket_);
    }

  private:
    [[noreturn]] void ended();
    [[noreturn]] void late(FrameType type) const;
    [[noreturn]] void unexpected(FrameType came, FrameType due) const;

    Descriptor socket_;
    std::string name_;
    std::optional<std::array<std::uint8_t, 16>> local_address_;  // nothing: the socket's
    FrameReader reader_;
    std::unique_ptr<Seals> seals_;  // null: frames have none
};

}  // namespace verbatim
