// What the transfers of one connection share: the order of what arrives, both directions, the
// tables of walks. Threads: the lane's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <verbatim/core/connection.hpp>
#include <verbatim/objects/operations/transfer.hpp>

#include "incoming.hpp"
#include "operation_queue.hpp"
#include "outgoing.hpp"
#include "walk_tables.hpp"

namespace verbatim::objects {

class ObjectLink : public std::enable_shared_from_this<ObjectLink> {
  public:
    static constexpr std::uint8_t kChannel = wire::kChannel;
    explicit ObjectLink(Connection& connection);
    ObjectLink(const ObjectLink&) = delete;
    ObjectLink& operator=(const ObjectLink&) = delete;

    // The handler of the channel.
    void receive(Connection& connection, Message& message) noexcept;
    // Polls the lane, and goes past messages of the program, which are kept for it. Not inside a
    // driven operation. Throws Error(out_of_memory): too many are kept.
    void poll();
    // Takes in what was held, and answers. Throws Error(protocol_error).
    void take_in();
    // Both; the connection's end is no error here.
    void pump() {
        poll();
        take_in();
    }
    // The same, but mostly only handles, where nothing but eager graphs has arrived.
    void pump_arrived();
    // The program's connection, wherever it was moved to; null: it has ended, and so have all
    // operations.
    Connection* connection() const noexcept {
        return impl_ == nullptr ? nullptr : LayerAccess::handle_of(*impl_);
    }
    Connection& here() const;  // throws Error: it has ended
    // Throws Error: the connection's end.
    void check() const;
    Error end_error() const;
    // Before the connection moves: true once neither side lends to the other.
    bool withdraw(bool is_asked) noexcept;
    // Nothing comes any more; the connection may go. `by_peer`: and else this program ended it.
    void end(bool by_peer) noexcept;
    // It has ended, and the peer had taken everything that was sent.
    bool ended_with_all_taken() const noexcept { return all_taken_; }
    // Grows whenever a transfer of this connection gets on.
    std::uint64_t activity() const noexcept { return activity_; }
    void note_activity() noexcept { ++activity_; }

    Incoming& incoming() noexcept { return incoming_; }
    Outgoing& outgoing() noexcept { return outgoing_; }
    OperationQueue& operations() noexcept { return operations_; }
    WalkTables& tables() noexcept { return tables_; }
    // That request, and those before it; 0 becomes the last one of all. Asks for news.
    bool has_landed(std::uint64_t& request) noexcept;
    // An answer waits for what no message tells of.
    bool must_settle() const noexcept;

    // Answers what waits for an answer.
    void settle() noexcept;

  private:
    friend class LinkUse;
    // Every so many times a receiver pumps in full.
    static constexpr std::uint32_t kLooks = 8;

    void go_on(Errc handled);
    [[noreturn]] void refuse_all() const;

    Connection::Impl* impl_;  // null: it has ended
    Incoming incoming_;
    Outgoing outgoing_;
    OperationQueue operations_;
    WalkTables tables_;
    std::uint64_t activity_ = 0;
    std::uint32_t looks_ = 0;
    bool must_go_on_ = false;       // since the last full pump more has come than eager graphs
    const char* broken_ = nullptr;  // what the peer did wrong
    std::optional<Error> end_;
    std::uint64_t landed_ = 0;  // the last request that had, at the end
    bool all_taken_ = false;    // of what was sent, by a peer that closed
    std::size_t uses_ = 0;
    std::shared_ptr<ObjectLink> kept_;  // by its uses, once it has ended
};

}  // namespace verbatim::objects
