// A connection's state: the endpoint's data path, its messages, the side channel, and why it ended.
// Threads: the lane's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <verbatim/core/connection.hpp>

#include "../bootstrap/peer_end.hpp"
#include "../bootstrap/side_channel.hpp"
#include "../grant/grants.hpp"
#include "../lane/lane_impl.hpp"
#include "../queue/one_sided_requests.hpp"
#include "../sender/sender_impl.hpp"
#include "closing.hpp"
#include "context_impl.hpp"
#include "dispatcher.hpp"
#include "endpoint.hpp"
#include "handshake.hpp"
#include "moving.hpp"

namespace verbatim {

// The end as the program is told of it.
struct ToldEnd {
    Errc state = Errc::ok;  // set once nothing is left to receive
    bool closed = false;    // it was a bye, and everything before it was received
    std::vector<EndHandler> handlers;
    ClientTie client;  // of a peer that dials again: its next connection ends this one
};

// Ways to send beside those of the connection itself.
struct OtherSending {
    std::shared_ptr<Sender::Impl> sender;  // made when asked for
    bool is_long = false;                  // a message in fragments is under way
};

struct Connection::Impl {
    // Joins the lane, whose queue the endpoint was made for. In the lane's thread. Throws Error.
    explicit Impl(Meeting meeting);
    ~Impl();
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    // Marks that a call of it, or its handler, is under way. A connection that is ended meanwhile
    // goes when the outermost of them returns, or later, when it has closed.
    class Use {
      public:
        explicit Use(Impl& impl) noexcept : impl_(impl) { ++impl.uses_; }
        ~Use() {
            if (--impl_.uses_ == 0 && impl_.handle == nullptr) [[unlikely]]
                end_last();
        }
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;
        Impl* operator->() const noexcept { return &impl_; }

      private:
        // The program has ended the connection: it closes, or goes.
        void end_last() noexcept;
        Impl& impl_;
    };
    // The program has ended it. It deletes itself when it has closed and no call uses it.
    void abandon() noexcept;
    // In a forked child, which has none of its memory: it has ended there.
    friend void inherit(Impl& impl) noexcept;

    // Messages, as Connection declares them.
    Errc try_send(const OutgoingMessage& message) noexcept;
    Errc try_batch(const OutgoingMessage& message) noexcept {
        const Errc error = may_send(message);
        return error == Errc::ok ? judge(member.try_batch(message)) : error;
    }
    Errc try_claim(const OutgoingMessage& message, std::size_t bytes, Claim& claim) noexcept;
    Errc try_receive(Message& message) noexcept {
        message.release();
        const Errc error = dispatcher.receive(message);
        if (error == Errc::ok) [[likely]]
            return error;
        return error == Errc::would_block ? nothing_to_receive() : fail(error);
    }
    Errc handle_all() noexcept;

    // Judges the outcome of a data-path call: a failed queue pair or ring ends the connection.
    Errc judge(Errc error) noexcept {
        if (error <= Errc::would_block || scope_of(error) == Scope::request) [[likely]]
            return error;
        return fail(error);
    }
    bool has_ended() const noexcept { return end_.noticed(); }
    Errc why_ended() const noexcept { return end_.why(); }
    const PeerEnd& end() const noexcept { return end_; }

    Errc progress() noexcept;
    void check() const;

    Connection* handle = nullptr;  // the program's; null: abandoned
    std::shared_ptr<Lane::Impl> lane;
    std::shared_ptr<Context::Impl> context;
    std::shared_ptr<Endpoint> endpoint;
    SideChannel channel;
    LaneMember& member;
    Dispatcher dispatcher;
    OneSidedRequests one_sided;
    Grants grants;
    ToldEnd told;
    OtherSending sending;
    Moving moving{*this};

    // -- For the close --
    void look_at_side_channel() noexcept;
    bool go_on_with_grants() noexcept;

  private:
    friend class Moving;
    Errc may_send(const OutgoingMessage& message) const noexcept {
        if (end_.noticed()) [[unlikely]]
            return end_.why();
        return message.kind < ring::kKinds ? Errc::ok : Errc::invalid_argument;
    }
    // Why there is no message: none has come yet, or the connection is over.
    Errc nothing_to_receive() noexcept;
    // The queue pair or the ring failed: the connection is over. The code to report.
    Errc fail(Errc why) noexcept;
    // `why`: an Errc, or the peer's Bye. Only the first end counts.
    template <class Why>
    void note_end(Why why) noexcept;
    void settle_end() noexcept;
    // Of a poll: what the connection still has to do.
    void go_on() noexcept;
    void tell_end() noexcept;
    MemberEvents events() noexcept;

    // It closes with the lane's polls, and does not keep the lane: `lane` owns nothing.
    bool is_left_to_lane() const noexcept { return lane.use_count() == 0; }

    unsigned uses_ = 0;
    Closing closing_{*this};
    PeerEnd end_;  // what has arrived can still be received
};

// Lets its lane count it, from when it joins. Throws std::bad_alloc.
void begin_telemetry(Connection::Impl& connection);
void inherit(Connection::Impl& impl) noexcept;
// Logs, once, that held messages keep others from coming in.
void warn_of_held(Connection::Impl& impl) noexcept;
// The peer has dialled again: nothing more of this connection is handed out.
void supersede(Connection::Impl& impl) noexcept;

}  // namespace verbatim
