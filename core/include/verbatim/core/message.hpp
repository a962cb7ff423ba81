// A message as it was received: a view into the ring that gives its space back when it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace verbatim {

class LaneMember;

// Several messages of a connection may be held at a time, and given back in any order. The ring's
// space is free up to the first one that is held. So a message that is held for long stops the
// sender at last: copy what must live long. A message may outlive its Connection, not its Lane.
// Threads: the lane's. Data path.
class Message {
  public:
    Message() = default;
    Message(Message&& other) noexcept { swap(other); }
    Message& operator=(Message&& other) noexcept {
        Message moved(std::move(other));
        swap(moved);
        return *this;
    }
    ~Message() { release(); }

    // 0 .. 239: the program's. 240 and up: those of Verbatim's own layers.
    std::uint8_t channel() const noexcept { return channel_; }
    // 0 .. 15: the sender's, within the channel.
    std::uint8_t kind() const noexcept { return kind_; }
    // Aligned to 8 bytes.
    std::span<const std::byte> payload() const noexcept { return payload_; }
    // It holds a message, which may be empty.
    explicit operator bool() const noexcept { return owner_ != nullptr || copy_ != nullptr; }
    // Gives the space back now.
    void release() noexcept {
        if (*this) give_back();
    }

  private:
    friend class LaneMember;
    void give_back() noexcept;
    void swap(Message& other) noexcept {
        std::swap(owner_, other.owner_);
        std::swap(copy_, other.copy_);
        std::swap(payload_, other.payload_);
        std::swap(number_, other.number_);
        std::swap(channel_, other.channel_);
        std::swap(kind_, other.kind_);
    }

    LaneMember* owner_ = nullptr;  // of a record in the ring
    std::byte* copy_ = nullptr;    // instead: memory of its own
    std::span<const std::byte> payload_;
    std::uint32_t number_ = 0;
    std::uint8_t channel_ = 0, kind_ = 0;
};

}  // namespace verbatim
