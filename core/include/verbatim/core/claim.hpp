// A claim is room in the peer's message ring for one message, which the program writes in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <verbatim/driver/error.hpp>

namespace verbatim {

class LaneMember;

// Claims of a connection are sent in the order in which they were made, each once it and all before
// it are closed; so is every other message that is sent meanwhile. So a claim that stays open for
// long stops the connection's messages: build what takes long in memory of the arena instead, in
// any order, and write it (Connection::try_write). A claim that ends without commit() sends
// nothing. It may outlive its Connection, not its Lane; then it sends nothing either.
// Threads: the lane's. Data path.
class Claim {
  public:
    Claim() = default;
    Claim(Claim&& other) noexcept { swap(other); }
    Claim& operator=(Claim&& other) noexcept {
        Claim moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~Claim() {
        if (owner_ != nullptr) abandon();
    }

    explicit operator bool() const noexcept { return owner_ != nullptr; }
    // Aligned to 8 bytes. Its contents are undefined at first.
    std::span<std::byte> bytes() const noexcept { return bytes_; }
    // Closes the claim: its first `used` bytes are the message. Now, or by later polls of the lane,
    // once the send queue has room. invalid_argument: more than bytes(), and it stays open. Other
    // errors: the connection has ended.
    Errc commit(std::size_t used) noexcept;

  private:
    friend class LaneMember;
    void abandon() noexcept;
    void swap(Claim& other) noexcept {
        std::swap(owner_, other.owner_);
        std::swap(bytes_, other.bytes_);
        std::swap(number_, other.number_);
    }

    LaneMember* owner_ = nullptr;
    std::span<std::byte> bytes_;
    std::uint32_t number_ = 0;
};

}  // namespace verbatim
