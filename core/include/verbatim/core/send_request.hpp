// A send request is a long message, or a run of a stream's bytes, that leaves from where it lies.
// The peer reads it out of this process. Short ones, and those outside of arenas, are copied.
// Source: UCX, rendezvous; hadroNIO (Ruhland §3). docs/messages.md has the states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <verbatim/core/grant.hpp>

namespace verbatim {

class LentSends;

// Used once. The bytes are the program's again when the result is known; it does not change them
// before. Threads: the lane's. It may outlive the connection.
class SendRequest {
  public:
    explicit SendRequest(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
    // Before the result is known: takes the memory back. The connection ends if the peer reads
    // there nevertheless.
    ~SendRequest();
    SendRequest(const SendRequest&) = delete;
    SendRequest& operator=(const SendRequest&) = delete;

    // would_block: it was not accepted yet, or the peer has not read it; poll the lane. ok. Else
    // why the connection ended.
    Errc result() const noexcept {
        return result_ == Errc::would_block || grant_.has_ended() ? result_ : Errc::would_block;
    }
    std::span<const std::byte> bytes() const noexcept { return bytes_; }
    // It is, or was, lent to the peer.
    bool is_lent() const noexcept { return static_cast<bool>(grant_); }

  private:
    friend class LentSends;
    friend class StreamLayer;
    friend class TaggedLayer;
    LentSends* sends_ = nullptr;  // while the peer may read it
    SendRequest *next_ = nullptr, *previous_ = nullptr;
    Grant grant_;
    std::span<const std::byte> bytes_;
    std::uint64_t id_ = 0;
    std::size_t copied_ = 0;  // leading bytes
    bool copies_ = false;     // it cannot be lent
    Errc result_ = Errc::would_block;
};

}  // namespace verbatim
