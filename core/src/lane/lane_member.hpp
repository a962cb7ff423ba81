// A lane member is the part of a connection that its lane drives: its requests, its rings and its
// arrival. Threads: the lane's. Data path: no allocation, lock, system call or exception.
#pragma once

#include <cstdint>
#include <span>

#include <verbatim/core/claim.hpp>
#include <verbatim/core/message.hpp>

#include "../arrival/arrival_receiver.hpp"
#include "../arrival/note_pool.hpp"
#include "../ring/fragments.hpp"
#include "../ring/message_ring.hpp"
#include "../telemetry/lane_telemetry.hpp"
#include "idle.hpp"

namespace verbatim {

class PolledSet;

// What a lane tells the connection. Null members are not called.
struct MemberEvents {
    void* owner = nullptr;
    // Records are complete that were not told of before.
    void (*arrived)(void* owner) noexcept = nullptr;
    // The queue pair failed, or the peer broke the protocol. May come more than once.
    void (*failed)(void* owner, Errc why) noexcept = nullptr;
    // It has work to go on with (PendingMembers).
    void (*pending)(void* owner) noexcept = nullptr;
    // The side channel can be read.
    void (*socket)(void* owner) noexcept = nullptr;
    // Grants of the peer's have ended: their remote keys, sorted.
    void (*keys_ended)(void* owner, std::span<const std::uint32_t> keys) noexcept = nullptr;
    // Nothing has gone over it for the time of the idle policy, and nothing is under way.
    void (*idle)(void* owner) noexcept = nullptr;
};

// The queue pair of a member, and its place on a lane.
struct MemberQueues {
    QueueUser& user;
    LaneQueue& queue;
    PolledSet& polled;
    PostedWords* posted;         // null: both sides always poll
    const NotePool::Note& note;  // that the peer writes
    mlx5::RemoteMemory remote_note;
};

// What a member is made of; all of it outlives the member.
struct MemberParts {
    QueueUser& user;
    LaneQueue& queue;
    PolledSet& polled;
    LocalRing local;
    RemoteRing remote;
    mlx5::RemoteMemory remote_credit;
    PostedWords* posted;         // null: both sides always poll
    const std::uint64_t& armed;  // of PeerWords
    RemoteArrival remote_arrival;
    const PostedCopy& posted_copy;
    std::uint32_t posted_copy_key;
    const NotePool::Note& note;  // that the peer writes
    mlx5::RemoteMemory remote_note;
    std::uint64_t longest_message;  // that the peer may send
};

class LaneMember {
  public:
    explicit LaneMember(const MemberParts& parts)
        : is_always_hot(parts.posted == nullptr),
          polling{.note = &parts.note},
          path_(parts.queue, parts.user),
          sender_(path_, parts.posted, parts.armed, parts.remote_note),
          receiver_(path_, parts.remote_arrival, parts.posted_copy, parts.posted_copy_key),
          ring_(path_, sender_, parts.local, parts.remote, parts.remote_credit),
          fragments_(parts.longest_message),
          polled_(&parts.polled) {
        parts.user.set_owner(this);
        telemetry.wakeups = &sender_.wakeups();
    }

    SendPath& path() noexcept { return path_; }
    // What is done with it may be something that the lane is to go on with.
    MessageRing& ring() noexcept {
        polling.words.are_valid = false;
        return ring_;
    }
    ArrivalReceiver& arrival() noexcept { return receiver_; }
    MemberEvents& events() noexcept { return events_; }

    // The next message; `message` holds none. Errors: those of MessageRing::next().
    Errc next(Message& message) noexcept {
        Record record;
        Errc error = broken_ ? Errc::protocol_error : ring().next(record);
        if (error != Errc::ok || record.frame != ring::Frame::message) [[unlikely]] {
            error = next_behind_parts(*this, error, record, message);
            if (error != Errc::ok || message) return error;
        }
        message.owner_ = this;
        message.payload_ = record.payload;
        message.number_ = record.number;
        message.channel_ = record.channel;
        message.kind_ = record.kind;
        return Errc::ok;
    }
    // The same as a copy in memory of its own. Throws std::bad_alloc, and nothing was received.
    static Message copy_of(Message&& message);
    // Takes pads and notices in front of the next message, some of them in each call.
    // protocol_error, for good.
    friend Errc take_notices(LaneMember& member) noexcept;
    // As MessageRing has it; the lane posts the batch with its next look.
    Errc try_batch(const OutgoingMessage& message) noexcept;
    // Errors: those of MessageRing::try_claim().
    Errc try_claim(const OutgoingMessage& message, std::size_t bytes, Claim& claim) noexcept;
    Errc commit(std::uint32_t claim, std::size_t used) noexcept;
    void abandon(std::uint32_t claim) noexcept;
    // Gives a record back.
    void release(std::uint32_t number) noexcept;

    // The owner is told of records once more by the next look: it may handle some now.
    void tell_again() noexcept;
    // The connection has ended: it is armed no more.
    void end() noexcept {
        ended_ = true;
        polling.words.are_valid = false;
    }
    bool has_ended() const noexcept { return ended_; }
    // Messages and claims that are held.
    std::uint32_t held() const noexcept { return ring_.receiver().held() + claims_; }
    // Held messages keep others from coming in: as many are held as can be, or they keep ring space
    // that the fragments of a long message need.
    bool holds_up() const noexcept {
        const RingReceiver& receiver = ring_.receiver();
        return (receiver.is_full() && receiver.ready()) ||
               (fragments_.is_begun() && receiver.holds_half());
    }
    // The queue pair is gone; held messages are still given back.
    void leave() noexcept { has_left_ = true; }

    // -- For the lane --
    // Looks at memory. True if something came that was not told of before.
    bool look() noexcept;
    // Arms it, where it can. What the lane may do now:
    enum class Rest : std::uint8_t {
        quiet,     // sleep: an immediate will come
        restless,  // sleep, but look at memory now and then: the peer's answer may take its time
        none,      // poll: something is owed
    };
    Rest arm(ArrivalReceiver::Wake wake) noexcept;
    // An immediate came, or the queue pair failed.
    void take_news() noexcept;
    void fail(Errc why) noexcept;
    // It goes on with another queue pair, perhaps of another lane; the old one's requests have all
    // retired. It is hot, and its path paused still. Its owner adds it to the polled set.
    void rebind(const MemberQueues& queues) noexcept;

    bool is_always_hot;        // both sides always poll: it is never armed
    bool tells_again = false;  // the next look tells the owner
    // Owner: the polled set, and the lane for what is idle.
    struct Polling {
        const NotePool::Note* note;
        bool is_polled = false;
        PolledWords words{};            // valid: it is hot, and a look found nothing
        std::uint64_t last_active = 0;  // in polls
        std::uint32_t notes = 0;        // since it is noted
        IdleWatch idle{};
    };
    Polling polling;
    telemetry::MemberTelemetry telemetry;

  private:
    bool ended_ = false;  // failed: not armed any more. Polls read it, as all above
    void settle() noexcept;
    // Of next(), where the next record is no message, or there is none. ok: a message that is
    // whole now, or one in `record`.
    friend Errc next_behind_parts(LaneMember& member, Errc error, Record& record,
                                  Message& message) noexcept;
    Errc take_part(const Record& record, Message& message) noexcept;

    // Fragments and notices that one call takes, before others have their turn.
    static constexpr int kMostFragments = 64;

    SendPath path_;
    ArrivalSender sender_;
    ArrivalReceiver receiver_;
    MessageRing ring_;
    IncomingFragments fragments_;
    PolledSet* polled_;
    MemberEvents events_;
    std::uint32_t claims_ = 0;  // that the program holds
    bool has_left_ = false;
    bool broken_ = false;  // the peer broke the protocol: nothing is handed out any more
};

}  // namespace verbatim
