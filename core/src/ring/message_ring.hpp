// Messages in both directions over one queue pair: a sending and a receiving ring that carry each
// other's credits (returned_credits.hpp). Threads: the lane's. Data path: no allocation, lock,
// system call or exception.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "../arrival/arrival_sender.hpp"
#include "returned_credits.hpp"
#include "ring_batch.hpp"
#include "ring_claims.hpp"
#include "ring_receiver.hpp"
#include "ring_sender.hpp"

namespace verbatim {

// Memory of this side that the peer writes: its records, and how far it has consumed ours.
struct LocalRing {
    const std::byte* memory = nullptr;
    std::size_t bytes = 0;
    std::uint64_t tag_key = 0;                   // drawn here, told to the peer only
    const std::uint64_t* credit_word = nullptr;  // a position; owner: the peer
};

// Of a call that sends nothing: how often there is no room is counted.
inline Errc refused(RingSender& sender, Errc error) noexcept {
    sender.counts().would_block += error == Errc::would_block;
    return error;
}

class MessageRing {
  public:
    MessageRing(SendPath& path, ArrivalSender& arrival, const LocalRing& local,
                const RemoteRing& remote, mlx5::RemoteMemory remote_credit)
        : path_(path),
          arrival_(arrival),
          receiver_(local.memory, local.bytes, local.tag_key),
          returned_(path, arrival, local.bytes, remote_credit),
          credit_word_(local.credit_word),
          sender_(path, remote) {}

    // Copies head and body into one message. would_block; message_too_large; protocol_error or the
    // queue pair's error, for good.
    Errc try_send(const OutgoingMessage& message) noexcept {
        if (!batch_.empty() || !claims_.empty()) [[unlikely]]
            return send_behind(message);
        path_.make_room();
        const std::uint64_t consumed = receiver_.consumed();
        const std::uint32_t credit = ring::to_credit(consumed);
        const auto attempt = [&] { return sender_.try_send(message, credit); };
        Errc error = attempt();
        if (error == Errc::would_block) [[unlikely]]
            error = look_for_room(attempt);
        if (error != Errc::ok) [[unlikely]]
            return refused(sender_, error);
        return announce(consumed);
    }

    // The same, but a small message waits in a batch for post_batch(), the next try_send(), or
    // until the batch is full.
    Errc try_batch(const OutgoingMessage& message) noexcept {
        if (!claims_.empty()) [[unlikely]]
            return try_send(message);
        if (batch_.try_add(message)) [[likely]]
            return Errc::ok;
        if (const Errc error = post_batch(); error != Errc::ok) return refused(sender_, error);
        // Long messages, the end of a lap and a full ring are dealt with there.
        return batch_.try_add(message) ? Errc::ok : try_send(message);
    }
    // Posts the batch, if one is open. would_block: the send queue is full; it stays open.
    Errc post_batch() noexcept {
        if (batch_.empty()) return Errc::ok;
        path_.make_room();
        const std::uint64_t consumed = receiver_.consumed();
        if (const Errc error = batch_.post(ring::to_credit(consumed)); error != Errc::ok)
            return error;
        return announce(consumed);
    }

    // Claims room for a message of so many bytes, behind all others: RingClaims. would_block, as
    // try_send() has it.
    Errc try_claim(const OutgoingMessage& message, std::size_t bytes,
                   RingClaims::Place& place) noexcept {
        if (const Errc error = post_batch(); error != Errc::ok) return refused(sender_, error);
        const auto attempt = [&] { return claims_.try_claim(message, bytes, place); };
        const Errc error = attempt();
        return error == Errc::would_block ? refused(sender_, look_for_room(attempt)) : error;
    }
    // After one was closed. would_block: the send queue is full; progress() goes on.
    Errc settle_claims() noexcept {
        if (!claims_.has_closed()) return Errc::ok;
        path_.make_room();
        const std::uint64_t consumed = receiver_.consumed(), before = sender_.sent();
        bool told = false;
        const Errc error = claims_.settle(ring::to_credit(consumed), told);
        if (sender_.sent() == before) return error;
        const Errc announced = announce(told ? consumed : returned_.last());
        return error != Errc::ok ? error : announced;
    }
    RingClaims& claims() noexcept { return claims_; }
    // Posts every message that was accepted and may go. would_block: the send queue is full.
    Errc post_waiting() noexcept {
        const Errc error = post_batch();
        return error != Errc::ok ? error : settle_claims();
    }
    // Every message that was accepted has been posted.
    bool has_posted_all() const noexcept { return batch_.empty() && !claims_.has_messages(); }

    // The next message, which is held until release(). would_block; protocol_error for good.
    Errc next(Record& record) noexcept {
        if (const Errc error = receiver_.next(record); error != Errc::ok) return error;
        if (!record.is_new) return Errc::ok;
        const Errc error = sender_.take_credit(record.credit);
        if (error != Errc::ok) [[unlikely]]
            receiver_.release(record.number);
        return error;
    }
    void release(std::uint32_t number) noexcept {
        receiver_.release(number);
        (void)return_credit();
    }

    // Posts what waits, or found the send queue full before. Call it with each poll.
    Errc progress() noexcept {
        if (const Errc error = post_waiting(); error != Errc::ok) return error;
        return return_credit();
    }
    // There is something for progress() to do.
    bool owes() const noexcept {
        return returned_.is_due(receiver_.consumed()) || !batch_.empty() || claims_.has_closed();
    }

    // Takes the credits of records that have come and are not handed out, and the one that went
    // alone. `records`: how many records had not been seen before; `has_credit`: a credit alone.
    // protocol_error, for good.
    struct News {
        std::uint32_t records = 0;
        bool has_credit = false;
    };
    Errc look(News& news) noexcept {
        if (load_word(*credit_word_) != seen_credit_) [[unlikely]] {
            news.has_credit = true;
            seen_credit_ = load_word(*credit_word_);
            if (const Errc error = sender_.take_position(seen_credit_); error != Errc::ok)
                return error;
        }
        if (receiver_.ready()) [[unlikely]]
            (void)receiver_.skip_pads();
        news.records = std::exchange(unseen_, 0);
        return receiver_.has_unseen() ? take_unread_credits(news.records) : Errc::ok;
    }
    // progress() and look() would find nothing, as nearly always. Nor will they, until `words`
    // change or something is done with the ring here.
    bool is_quiet(PolledWords& words) const noexcept {
        words.credit = credit_word_;
        words.seen_credit = seen_credit_;
        return load_word(*credit_word_) == seen_credit_ && unseen_ == 0 &&
               receiver_.is_quiet(words) && !owes();
    }
    // ok: memory holds these things (docs/arrival.md, "settling"). would_block: not yet.
    // protocol_error: they cannot be.
    Errc holds(std::uint64_t record, std::uint64_t credit) noexcept {
        if (credit > sender_.sent()) return Errc::protocol_error;
        RingReceiver::Seen seen;
        const Errc error = receiver_.holds_up_to(record, seen);
        if (error > Errc::would_block) return error;
        unseen_ += seen.count + seen.pads;
        if (seen.count != 0)
            if (const Errc credits = sender_.take_credit(seen.credit); credits != Errc::ok)
                return credits;
        if (error != Errc::ok) return error;
        return load_word(*credit_word_) >= credit ? Errc::ok : Errc::would_block;
    }

    RingReceiver& receiver() noexcept { return receiver_; }
    const RingReceiver& receiver() const noexcept { return receiver_; }
    std::uint64_t sent() const noexcept { return sender_.sent(); }
    RingSender& sender() noexcept { return sender_; }

  private:
    static constexpr std::uint64_t kLookEvery = std::uint64_t{64} << 20;
    // Of a record that was posted with this position as credit.
    Errc announce(std::uint64_t consumed) noexcept {
        returned_.went_along(consumed);
        // Credits say positions modulo 512 MiB: none may stay unread for longer than half of that.
        if (sender_.sent() - looked_at_ > kLookEvery) [[unlikely]]
            if (const Errc looked = take_unread_credits(unseen_); looked != Errc::ok) return looked;
        return arrival_.announce(Thing::record, sender_.sent());
    }
    // Of a message that comes while a batch or claims are open.
    Errc send_behind(const OutgoingMessage& message) noexcept {
        if (const Errc error = post_waiting(); error != Errc::ok) return refused(sender_, error);
        if (claims_.empty()) return try_send(message);
        const std::size_t head = message.head.size(), body = message.body.size();
        RingClaims::Place place;
        if (const Errc error = try_claim(message, head + body, place); error != Errc::ok)
            return error;
        if (head != 0) std::memcpy(place.payload, message.head.data(), head);
        if (body != 0) std::memcpy(place.payload + head, message.body.data(), body);
        claims_.commit(place.number, head + body);
        return Errc::ok;
    }
    // Repeats an attempt that found no room. Credits may lie in the word, and in records that
    // nobody has received yet; there may be room behind what is unread.
    template <class Attempt>
    [[gnu::noinline]] Errc look_for_room(Attempt attempt) noexcept {
        seen_credit_ = load_word(*credit_word_);
        if (const Errc error = sender_.take_position(seen_credit_); error != Errc::ok) return error;
        if (const Errc error = take_unread_credits(unseen_); error != Errc::ok) return error;
        const Errc error = attempt();
        if (error != Errc::would_block || !claims_.empty()) return error;
        const Errc passed = sender_.pass_unread();
        return passed != Errc::ok ? passed : attempt();
    }
    Errc return_credit() noexcept {
        const std::uint64_t consumed = receiver_.consumed();
        return returned_.is_due(consumed) ? returned_.send(consumed, sender_.counts()) : Errc::ok;
    }
    Errc take_unread_credits(std::uint32_t& records) noexcept {
        RingReceiver::Seen seen;
        looked_at_ = sender_.sent();
        if (const Errc error = receiver_.look_ahead(seen); error != Errc::ok) return error;
        records += seen.count + seen.pads;
        return seen.count == 0 ? Errc::ok : sender_.take_credit(seen.credit);
    }

    SendPath& path_;
    ArrivalSender& arrival_;
    RingReceiver receiver_;
    ReturnedCredits returned_;
    const std::uint64_t* credit_word_;
    std::uint64_t seen_credit_ = 0;
    std::uint64_t looked_at_ = 0;  // sent() at the last look at unread credits
    std::uint32_t unseen_ = 0;     // records that were seen, but not by look()
    RingSender sender_;
    RingBatch batch_{sender_};
    RingClaims claims_{sender_};
};

}  // namespace verbatim
