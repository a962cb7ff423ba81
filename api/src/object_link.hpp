// What the transfers of one connection share: the order of what arrives, graphs that arrive while
// this side is still sending, layouts already told, the staging buffer. Threads: the connection's.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <verbatim/core/connection.hpp>
#include <verbatim/objects/fixup.hpp>
#include <verbatim/objects/transfer.hpp>

#include "graph_wire.hpp"
#include "told_layouts.hpp"

namespace verbatim::objects {

// The receiver's answer to this side's current offer.
struct Answer {
    enum class State : std::uint8_t { none, partial, granted, refused } state = State::none;
    std::vector<RemoteExtent> extents;
    Errc code = Errc::ok;
    std::string reason;
};

// One graph coming in.
struct Arrival {
    wire::Offer offer{};
    std::string type_name;
    std::string layout;                  // as far as it came
    std::vector<std::byte> metadata;     // back-pointers and extensions, as far as they came
    std::shared_ptr<ImageMemory> image;  // null: none was lent yet
    Grant grant;                         // of the image; ended before it is read
    std::size_t extents_sent = 0;
    bool complete = false;  // the end message came
    std::uint64_t checksum = 0;

    std::uint64_t metadata_bytes() const noexcept {
        return offer.back_pointers * sizeof(BackPointer) + offer.extensions * sizeof(Extension);
    }
    bool layout_is_known() const noexcept { return layout.size() == offer.layout_bytes; }
    bool is_granted() const noexcept { return image != nullptr; }
};

class ObjectLink {
  public:
    static constexpr std::uint8_t kChannel = wire::kChannel;
    explicit ObjectLink(Connection& connection);
    ~ObjectLink();
    ObjectLink(const ObjectLink&) = delete;
    ObjectLink& operator=(const ObjectLink&) = delete;

    // The handler of the channel.
    void receive(Message& message) noexcept;
    // Takes in everything that has arrived and gives pending answers. Throws Error.
    // Of a receiver, the connection's end waits until the graph that came before it is taken. To a
    // sender that has sent everything it is no error.
    enum class Role : std::uint8_t { sender, flusher, receiver };
    void pump(Connection& connection, Role role);
    // Grows whenever a transfer of this connection gets on.
    std::uint64_t activity() const noexcept { return activity_; }
    void note_activity() noexcept { ++activity_; }

    // ---- sending ----
    std::unique_ptr<Scan> lend_scan() {
        return scan_ ? std::move(scan_) : std::make_unique<Scan>(*arena_);
    }
    void give_back(std::unique_ptr<Scan> scan) noexcept { scan_ = std::move(scan); }
    // The number of the next graph that is offered; begin_offer() once the offer is on its way.
    std::uint64_t next_offer() const noexcept { return offers_ + 1; }
    void begin_offer() {
        answer_ = {};
        ++offers_;
    }
    const Answer& answer() const noexcept { return answer_; }
    // The receiver must hear that graph `id` will not be completed.
    void cancel(Connection& connection, std::uint64_t id) noexcept;
    bool is_told(std::uint64_t fingerprint) const { return told_.contains(fingerprint); }
    void set_told(std::uint64_t fingerprint) { told_.insert(fingerprint); }
    // Allocated when first asked for, after the first graph was scanned: in memory that the
    // application had just freed, it would make a dangling pointer look valid.
    std::byte* staging();
    std::size_t staging_bytes() const noexcept { return staging_bytes_; }

    // ---- receiving ----
    std::unique_ptr<FixupTables> lend_tables() {
        return tables_ ? std::move(tables_) : std::make_unique<FixupTables>();
    }
    // What a receiver borrowed, and the memory of a graph's metadata.
    void give_back(std::unique_ptr<FixupTables> tables, std::vector<std::byte> metadata) noexcept;
    // The oldest graph that is coming in, or null.
    Arrival* arrival() noexcept { return arrivals_.empty() ? nullptr : &arrivals_.front(); }
    void drop_arrival();
    // Lends memory for a graph. Throws Error(graph_too_large).
    void grant(Connection& connection, Arrival& arrival);
    void refuse(Connection& connection, Arrival& arrival, const Error& error);
    // Lends memory for graphs that were announced while this side sends, so that two sides that
    // both send first do not wait for each other.
    void grant_waiting(Connection& connection);
    // The layout the sender uses, for explaining a mismatch.
    std::string_view told_layout(std::uint64_t fingerprint) const {
        return layouts_.find(fingerprint);
    }

  private:
    // What a peer that takes none of our answers, or sends before this side receives, can make us
    // keep: refusals and cancellations under way, whole graphs.
    static constexpr std::size_t kMaxPending = 64, kMaxWhole = 1024;

    void take_held() noexcept;
    void take(const Message& message);
    void take_offer(std::span<const std::byte> payload);
    void take_grant(std::span<const std::byte> payload);
    void take_refusal(std::span<const std::byte> payload);
    void take_bytes(std::span<const std::byte> payload);
    void take_end(std::span<const std::byte> payload);
    void take_cancel(std::span<const std::byte> payload);
    Arrival* find(std::uint64_t id) noexcept;
    std::size_t whole_arrivals() const noexcept;
    [[noreturn]] void protocol_error(const char* what);
    bool must_tell_end(Role role) const noexcept {
        if (role == Role::flusher) return false;
        return role == Role::sender || arrivals_.empty() || !arrivals_.front().complete;
    }
    void send_pending(Connection& connection);
    bool send_grants(Connection& connection, Arrival& arrival);

    std::shared_ptr<Arena> arena_;
    std::size_t staging_bytes_;
    std::byte* staging_ = nullptr;
    // Tables are kept because touching fresh memory costs more than filling it; null while lent.
    std::unique_ptr<Scan> scan_;
    std::unique_ptr<FixupTables> tables_;
    std::vector<std::byte> spare_metadata_;
    std::uint64_t activity_ = 0;
    std::uint64_t offers_ = 0;
    std::uint64_t offers_seen_ = 0;
    Answer answer_;
    std::set<std::uint64_t> told_;
    ToldLayouts layouts_;
    std::deque<Arrival> arrivals_;
    struct Pending {
        std::uint8_t kind;
        std::vector<std::byte> payload;
    };
    std::deque<Message> held_;     // not taken yet, as too much is pending
    std::deque<Pending> pending_;  // refusals and cancellations that found the ring full
    const char* broken_ =
        nullptr;  // what the peer did wrong: nothing it sends is believed any more
};

}  // namespace verbatim::objects
