// A composed message takes the place of an image: it leaves as it lies.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <verbatim/objects/composed/composed_map.hpp>
#include <verbatim/objects/composed/composed_tables.hpp>
#include <verbatim/objects/operations/send_report.hpp>
#include <verbatim/objects/operations/transfer.hpp>

namespace verbatim::objects {

struct TakenSlots;

// Slots of the receiver that a message will take, while it is composed. They go back with this, or
// when the receiver asks for them. Threads: the connection's lane.
class ComposePlace {
  public:
    // Room for so many bytes, if the receiver has lent that. Else it is asked for, for later
    // messages. Never blocks.
    ComposePlace(Connection& connection, std::uint64_t bytes);
    ~ComposePlace();
    ComposePlace(ComposePlace&&) noexcept = default;
    ComposePlace& operator=(ComposePlace&& other) noexcept {
        std::swap(link_, other.link_);
        std::swap(slots_, other.slots_);
        std::swap(address_, other.address_);
        return *this;
    }

    // Of the first byte, at the receiver; 0: it is not known, or none that was set aside.
    std::uint64_t address() const noexcept { return address_; }
    // The slots, which are the caller's; none if they went back, or are another connection's.
    TakenSlots take(const ObjectLink& link) const noexcept;

  private:
    std::weak_ptr<ObjectLink> link_;
    std::shared_ptr<TakenSlots> slots_;
    std::uint64_t address_ = 0;
};

// The memory of looks at messages to be sent, which the connection keeps. Threads: its lane.
ComposedTables& composed_tables(Connection& connection);

// Stands in the place of a walk.
class ComposedImage final : public Packing {
  public:
    ComposedImage(PackTables& tables, const ComposedBytes& bytes);

  private:
    static bool run_all(Packing& packing);

    const ComposedMemory memory_;
};

// A message that leaves as it lies. As SendOperation.
class ComposedOutbound {
  public:
    ComposedOutbound(Connection& connection, const ComposePlace& place, const ComposedBytes& bytes,
                     const RootType& root, std::uint16_t channel);

    bool awaits_receiver() const noexcept { return outbound_.awaits_receiver(); }
    SendReport report() const;
    ObjectLink& link() const noexcept { return lease_.link(); }
    Outbound& outbound() noexcept { return outbound_; }

  private:
    PackLease lease_;
    ComposedImage image_;
    Outbound outbound_;
};

}  // namespace verbatim::objects
