// The graphs that come in on one connection, and what was lent for them. Every payload is checked
// here. Threads: the lane's.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <verbatim/core/connection.hpp>

#include "arrival.hpp"
#include "told_layouts.hpp"
#include "windows_lent.hpp"

namespace verbatim::objects {

class Incoming {
  public:
    explicit Incoming(Connection& connection);
    ~Incoming();
    Incoming(const Incoming&) = delete;
    Incoming& operator=(const Incoming&) = delete;

    // A message of a sender; what cannot be kept yet is held, with all behind it. Throws Breach.
    void receive(Message& message);
    // Takes in what was held, as far as there is room for it now. Throws Breach.
    void take_held();
    // Answers what waits for an answer. Throws Breach.
    void settle(Connection& connection);

    // The next graph of a channel that no other receiver has; it is `taker`'s until unclaim().
    Arrival* claim(std::uint16_t channel, const void* taker) noexcept;
    void unclaim(Arrival& arrival) noexcept;
    // The receiver has taken the graph, or its error.
    void finish(Arrival& arrival) noexcept;
    // A graph of the channel, or its error, can be taken at once.
    bool is_readable(std::uint16_t channel) const noexcept;
    // Not this graph; the sender is told if it is still at it.
    void refuse(Arrival& arrival, const Error& error);
    // The layout that the sender uses, for explaining a mismatch.
    std::string_view layout(std::uint64_t fingerprint) const { return layouts_.find(fingerprint); }
    const LentWindows& lent() const noexcept { return lent_; }
    std::size_t waiting() const noexcept { return waiting_; }

  private:
    struct Refused {
        std::uint64_t id;
        Errc code;
        std::string reason;
    };

    bool take(const Message& message);
    void take_layout(std::span<const std::byte> payload);
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
    Arrival& open(std::uint64_t id);
    Arrival& add(std::uint64_t id, std::uint64_t fingerprint);
    void drop_slots(Arrival& arrival) noexcept;
    void end_need(Arrival& arrival) noexcept;
    void set_over(Arrival& arrival) noexcept;

    const Config::ObjectsSection options_;
    std::shared_ptr<Arena> arena_;
    std::shared_ptr<Budget> budget_;
    LentWindows lent_;
    std::list<Arrival> arrivals_, spare_;
    std::vector<Arrival*> open_;  // streamed, and not over
    std::size_t waiting_ = 0;     // whole or refused, and not settled
    std::uint64_t waiting_bytes_ = 0;
    std::uint64_t seen_ = 0;  // graphs
    std::deque<Message> held_;
    std::deque<Refused> refused_;  // of which the sender was not told yet
    ToldLayouts layouts_;
    wire::LayoutPart partial_{};  // the layout that is being told
    std::string partial_text_;
};

}  // namespace verbatim::objects
