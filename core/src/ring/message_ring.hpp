// Messages in both directions over one queue pair: a sending and a receiving ring that carry each
// other's credits. Credits ride in the records of the other direction; where there are none, an
// 8-byte write brings them once half of the ring is consumed and not reported, so a sender always
// gets on. Threads: one at a time. Data path: no allocation, lock, system call or exception.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ring_receiver.hpp"
#include "ring_sender.hpp"

namespace verbatim {

// Memory of this side that the peer writes: its records, and how far it has consumed ours.
struct LocalRing {
    const std::byte* memory = nullptr;
    std::size_t bytes = 0;
    std::uint64_t tag_key = 0;  // drawn here, told to the peer only
    const std::uint64_t* credit_word =
        nullptr;  // a position; owner: the peer, by RDMA writes of 8 bytes
};
struct RemoteWord {
    std::uint64_t address = 0;
    std::uint32_t remote_key = 0;
};

class MessageRing {
  public:
    MessageRing(SendPath& path, const LocalRing& local, const RemoteRing& remote,
                RemoteWord remote_credit)
        : path_(path),
          receiver_(local.memory, local.bytes, local.tag_key),
          half_(local.bytes / 2),
          credit_word_(local.credit_word),
          sender_(path, remote),
          credit_address_(remote_credit.address),
          credit_write_{mlx5::PreparedWrite8(
              path.queue(),
              {.opcode = mlx5::Opcode::write, .remote_key = remote_credit.remote_key})} {}

    // Copies head and body into one message. would_block; message_too_large; protocol_error or the
    // queue pair's error, for good.
    Errc try_send(unsigned kind, std::span<const std::byte> head,
                  std::span<const std::byte> body) noexcept {
        path_.make_room();
        const std::uint64_t consumed = receiver_.consumed();
        const auto credit = static_cast<std::uint32_t>(consumed / ring::kAlignment);
        Errc error = sender_.try_send(kind, head, body, credit);
        if (error == Errc::would_block) [[unlikely]] {
            error = take_written_credit();
            if (error != Errc::ok) return error;
            error = sender_.try_send(kind, head, body, credit);
        }
        if (error == Errc::ok) [[likely]]
            returned_ = consumed;
        return error;
    }

    // The next message; release() it before the next call. would_block; protocol_error for good.
    Errc try_receive(Message& message) noexcept {
        std::uint32_t credit = 0;
        if (const Errc error = receiver_.try_receive(message, credit); error != Errc::ok)
            return error;
        return sender_.take_credit(credit);
    }
    void release() noexcept {
        receiver_.release();
        if (receiver_.consumed() - returned_ >= half_) [[unlikely]]
            (void)return_credit();
    }

    void put_back() noexcept { receiver_.put_back(); }
    bool ready() const noexcept { return receiver_.ready(); }

    // What may have found the send queue full before. Call it now and then, as poll() of the send
    // path.
    Errc progress() noexcept {
        return receiver_.consumed() - returned_ >= half_ ? return_credit() : Errc::ok;
    }

    std::size_t max_payload() const noexcept { return sender_.max_payload(); }
    std::uint64_t sent() const noexcept { return sender_.sent(); }
    std::uint64_t consumed() const noexcept { return receiver_.consumed(); }
    bool holds() const noexcept { return receiver_.holds(); }
    const Message& held() const noexcept { return receiver_.held(); }

  private:
    Errc return_credit() noexcept {
        path_.make_room();
        const std::uint64_t consumed = receiver_.consumed();
        const Errc error = path_.post(credit_write_, credit_address_, consumed);
        if (error == Errc::ok) returned_ = consumed;
        return error;
    }
    Errc take_written_credit() noexcept {
        return sender_.take_position(__atomic_load_n(credit_word_, __ATOMIC_ACQUIRE));
    }

    SendPath& path_;
    RingReceiver receiver_;
    std::size_t half_;
    std::uint64_t returned_ = 0;  // how far the peer was told that we consumed
    const std::uint64_t* credit_word_;
    RingSender sender_;
    std::uint64_t credit_address_;
    PreparedWrite<mlx5::PreparedWrite8> credit_write_;
};

}  // namespace verbatim
