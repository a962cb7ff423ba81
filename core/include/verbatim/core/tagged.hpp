// Tagged messages are matched by the receiver. A receive names a tag and the bits of it that count,
// and takes the first message that agrees, whenever it came. Source: UCX, tag matching; hadroNIO
// sends its messages by it (Ruhland §3). docs/messages.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/send_request.hpp>

namespace verbatim {

class TaggedLayer;

// One receive. It belongs to the program, and is linked into the connection while it is posted; its
// end takes it back. Threads: the lane's. It may outlive the connection.
class TaggedReceive {
  public:
    static constexpr std::uint64_t kAllBits = ~std::uint64_t{0};

    // `into`: where the message goes; it is the receive's until the result is known.
    explicit TaggedReceive(std::uint64_t tag, std::span<std::byte> into,
                           std::uint64_t mask = kAllBits) noexcept
        : into_(into), tag_(tag), mask_(mask) {}
    // Takes it back. Waits, if a message is being read from the peer's memory into it.
    ~TaggedReceive();
    TaggedReceive(const TaggedReceive&) = delete;
    TaggedReceive& operator=(const TaggedReceive&) = delete;

    // would_block: posted, or never was. ok. message_too_large: `into` has its beginning, bytes()
    // says how long it was. out_of_memory, protocol_error, or why the connection ended. flushed:
    // taken back.
    Errc result() const noexcept { return result_; }
    // Of the message that was received.
    std::uint64_t tag() const noexcept { return tag_; }
    std::size_t bytes() const noexcept { return bytes_; }
    // Takes it back, if no message has come for it.
    void cancel() noexcept;

  private:
    friend class TaggedLayer;
    TaggedLayer* layer_ = nullptr;  // while it is posted
    TaggedReceive *next_ = nullptr, *previous_ = nullptr;
    std::span<std::byte> into_;
    std::uint64_t tag_, mask_;
    std::size_t bytes_ = 0;
    bool is_pulled_ = false;  // of a lent message
    Errc result_ = Errc::would_block;
};

// The tagged messages of a connection; several such objects share them. Must not outlive the
// connection. Threads: the lane's. Messages that nobody has asked for wait at the receiver, 1 MiB
// of them at most, with 64 bytes for each beside its own: the sender is told would_block then.
// Lent messages wait at the sender, 16 at most.
class Tagged {
  public:
    // Both sides make one. The first one measures what lending costs, and drives the lane for that.
    // Throws Error(invalid_argument): another layer has the channel.
    explicit Tagged(Connection& connection);

    // Of messages that are copied: 256 KiB, or less in a small ring. Lent ones have any length.
    std::size_t longest_copied() const noexcept;

    // Requests of so many bytes and more are lent; as measured, unless it is set.
    std::size_t lend_from() const noexcept;
    void set_lend_from(std::size_t bytes) noexcept;

    // Data path. Copies the message. message_too_large. would_block: the ring is full, or what was
    // sent before waits at the peer; poll, and try again.
    Errc try_send(std::uint64_t tag, std::span<const std::byte> message) noexcept;
    // The message leaves from where it lies, in an arena and of any length, if that costs less than
    // copying. would_block: call again with this request. ok: accepted; its result tells when the
    // peer has it. invalid_argument: it was accepted before. Allocates where it does not copy.
    Errc try_send(std::uint64_t tag, SendRequest& request) noexcept;
    // Posts a receive that was not posted before. Earlier ones are served first.
    void receive(TaggedReceive& receive) noexcept;
    // The first message that agrees and waits: its tag and length. False: there is none.
    struct Waiting {
        std::uint64_t tag = 0;
        std::size_t bytes = 0;
    };
    bool probe(std::uint64_t tag, std::uint64_t mask, Waiting& waiting) const noexcept;

    // Blocking forms. They drive the lane. Throw Error: timeout, would_deadlock, message_too_large,
    // the connection's end.
    void send(std::uint64_t tag, std::span<const std::byte> message, Deadline deadline);
    // Until the peer has received it.
    void send(std::uint64_t tag, SendRequest& request, Deadline deadline);
    void wait(const TaggedReceive& receive, Deadline deadline);

  private:
    Connection::Impl& impl_;
    std::shared_ptr<TaggedLayer> layer_;
};

}  // namespace verbatim
