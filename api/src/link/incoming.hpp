// The graphs that come in on one connection, and what was lent for them. Every payload is checked
// here. Threads: the lane's.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <verbatim/core/connection.hpp>

#include "arrivals.hpp"
#include "messages/told_types.hpp"
#include "windows_lent.hpp"

namespace verbatim::objects {

class Incoming {
  public:
    explicit Incoming(Connection& connection);
    ~Incoming();
    Incoming(const Incoming&) = delete;
    Incoming& operator=(const Incoming&) = delete;

    // A message of a sender; what cannot be kept yet is held, with all behind it: false. Throws
    // Breach.
    bool receive(Message& message);
    // Takes in what was held, as far as there is room for it now. Throws Breach.
    void take_held();
    // Answers what waits for an answer. Throws Breach.
    void settle(Connection& connection);
    LentWindows& lent() noexcept { return lent_; }

    Arrivals& arrivals() noexcept { return arrivals_; }
    ToldTypes& types() noexcept { return types_; }
    // An answer waits for room, or for memory that others may release, in any thread: no message
    // tells of that.
    bool must_settle() const noexcept;
    // Nothing more can come in before the program has received graphs that are there.
    bool is_starved() const noexcept;
    // Not this graph; the sender is told if it is still at it.
    void refuse(Arrival& arrival, const Error& error);

  private:
    struct Refused {
        std::uint64_t id;
        Errc code;
        std::string reason;
    };

    // What is left of the arena, looked at now and then.
    struct Room {
        std::size_t least, unseen;  // bytes: that are to be left; taken since the last look
        bool is_scarce(const Arena& arena, std::size_t taken) noexcept;
    };

    bool take(const Message& message);
    bool take_eager(std::span<const std::byte> payload);
    void take_begin(std::span<const std::byte> payload);
    void take_fragment(std::span<const std::byte> payload);
    bool take_binding(Arrival& arrival, const wire::Binding& binding);
    void take_told(Arrival& arrival, const wire::Fragment& head);
    void take_restart(std::span<const std::byte> payload);
    void take_cancel(std::span<const std::byte> payload);
    void take_need(std::span<const std::byte> payload);
    void lend(Connection& connection);
    void serve(Connection& connection, Arrival& arrival);
    bool send_refusals(Connection& connection);
    void drop_slots(Arrival& arrival) noexcept;
    void set_over(Arrival& arrival) noexcept;

    const Config::ObjectsSection options_;
    std::shared_ptr<Arena> arena_;
    Room room_;
    std::shared_ptr<Budget> budget_;
    LentWindows lent_;
    Arrivals arrivals_;
    std::uint64_t room_slots_ = 0;  // wanted for messages that are being composed
    // Lists take no memory while they are empty.
    std::list<Message> held_;
    std::list<Refused> refused_;  // of which the sender was not told yet
    ToldTypes types_;
};

}  // namespace verbatim::objects
