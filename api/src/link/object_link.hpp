// What the transfers of one connection share: the order of what arrives, both directions, the
// tables of walks. Threads: the lane's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <verbatim/core/connection.hpp>
#include <verbatim/objects/operations/transfer.hpp>

#include "incoming.hpp"
#include "outgoing.hpp"

namespace verbatim::objects {

class ObjectLink {
  public:
    static constexpr std::uint8_t kChannel = wire::kChannel;
    explicit ObjectLink(Connection& connection);
    ObjectLink(const ObjectLink&) = delete;
    ObjectLink& operator=(const ObjectLink&) = delete;

    // The handler of the channel.
    void receive(Connection& connection, Message& message) noexcept;
    // Takes in everything that has arrived, and answers. Throws Error(protocol_error |
    // out_of_memory); the connection's end is no error here.
    void pump(Connection& connection);
    // The same, but mostly only takes in, where nothing but eager graphs has arrived.
    void pump_arrived(Connection& connection);
    // Grows whenever a transfer of this connection gets on.
    std::uint64_t activity() const noexcept { return activity_; }
    void note_activity() noexcept { ++activity_; }

    Incoming& incoming() noexcept { return incoming_; }
    Outgoing& outgoing() noexcept { return outgoing_; }

    // Tables are kept because touching fresh memory costs more than filling it. One more operation
    // at the same time gets tables of its own.
    std::unique_ptr<PackTables> lend_pack();
    void give_back(std::unique_ptr<PackTables> tables) noexcept;
    std::unique_ptr<MendTables> lend_mend();
    void give_back(std::unique_ptr<MendTables> tables) noexcept;
    // Writes of a sender that has given up may still read its buffers: they are not used again.
    void note_unretired() noexcept { unretired_ = true; }

    // Answers what waits for an answer.
    void settle(Connection& connection) noexcept;

  private:
    // Every so many times a receiver pumps in full.
    static constexpr std::uint32_t kLooks = 8;

    void go_on(Connection& connection, Errc handled);
    [[noreturn]] void refuse_all() const;

    std::shared_ptr<Arena> arena_;
    Incoming incoming_;
    Outgoing outgoing_;
    std::unique_ptr<PackTables> pack_;  // null while lent
    std::unique_ptr<MendTables> mend_;
    std::vector<std::unique_ptr<PackTables>> unusable_;
    bool unretired_ = false;
    std::uint64_t activity_ = 0;
    std::uint32_t looks_ = 0;
    bool must_go_on_ = false;       // since the last full pump more has come than eager graphs
    const char* broken_ = nullptr;  // what the peer did wrong
};

}  // namespace verbatim::objects
