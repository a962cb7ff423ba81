// A send operation is one graph on its way over a connection; its options, and its report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/deadline.hpp>
#include <verbatim/core/registration_cache.hpp>
#include <verbatim/objects/graph/open_walks.hpp>
#include <verbatim/objects/operations/driven.hpp>
#include <verbatim/objects/operations/forward.hpp>
#include <verbatim/objects/operations/received.hpp>
#include <verbatim/objects/operations/send_report.hpp>
#include <verbatim/objects/operations/transfer.hpp>
#include <verbatim/objects/types/all.hpp>

namespace verbatim {

struct SendOptions {
    // For the whole transfer, including the wait for the receiver's memory. A graph whose send has
    // failed with timeout may have arrived whole nevertheless (docs/graphs.md, "Owners").
    Deadline deadline = Deadline::never();
    // Graphs of one channel are received in the order in which they were sent; receivers choose
    // theirs.
    std::uint16_t channel = 0;
    // The caller vouches that no object is referred to twice: the walk is cheaper. A shared object
    // is then sent once for each reference; a cycle is an error (bad_pointer) that names a type.
    bool acyclic = false;
    // Objects larger than 256 KiB that lie outside of the connection's arena leave from where they
    // lie, under leases of this cache; it outlives the operation. Null: they are copied on the way.
    RegistrationCache* foreign = nullptr;
    // What the send waits for.
    Until until = Until::reusable;
};

// One graph on its way, for programs that take each step themselves; send_async() leaves that to
// the lane. The graph must stay unchanged until it is done. Several may be on their way at a time;
// they are in the order of their first steps. Threads: the connection's.
template <class T>
class SendOperation {
  public:
    SendOperation(Connection& connection, const T& root, SendOptions options = {})
        : lease_(connection),
          packer_(*lease_, root, objects::pack_options(connection, options.acyclic)),
          outbound_(lease_.link(), packer_, objects::root_type<T>(),
                    {options.channel, options.acyclic, options.foreign}) {}

    // True once the graph may change: one of at most [objects] eager_bytes is in the receiver's
    // ring, another one in its memory. Never blocks. Throws Error: bad_pointer, type_mismatch,
    // graph_too_large and corrupt_message leave the connection usable.
    bool step() { return outbound_.step(); }
    // True while only the receiver's answer can help.
    bool awaits_receiver() const noexcept { return outbound_.awaits_receiver(); }

    SendReport report() const {
        return {packer_.objects(),     packer_.references(),   packer_.told_records(),
                packer_.image_bytes(), outbound_.wire_bytes(), packer_.class_counts()};
    }

    // ---- for send() ----
    objects::ObjectLink& link() const noexcept { return lease_.link(); }
    objects::Outbound& outbound() noexcept { return outbound_; }

  private:
    objects::PackLease lease_;
    objects::Packer<T> packer_;
    objects::Outbound outbound_;
};

// A received graph on its way to another process, as it came. It may be released meanwhile, but not
// be changed. As SendOperation.
class ForwardOperation {
  public:
    // `image`: of a graph that is_forwardable().
    ForwardOperation(Connection& connection, std::shared_ptr<const objects::KeptImage> image,
                     SendOptions options = {})
        : image_(std::move(image)),
          lease_(connection),
          forwarding_(*lease_, *image_),
          outbound_(lease_.link(), forwarding_, *image_->root,
                    {options.channel, image_->is_acyclic}) {}

    bool step() { return outbound_.step(); }
    bool awaits_receiver() const noexcept { return outbound_.awaits_receiver(); }
    SendReport report() const {
        return {image_->objects,           forwarding_.references(), forwarding_.told_records(),
                forwarding_.image_bytes(), outbound_.wire_bytes(),   {}};
    }

    // ---- for send() ----
    objects::ObjectLink& link() const noexcept { return lease_.link(); }
    objects::Outbound& outbound() noexcept { return outbound_; }

  private:
    std::shared_ptr<const objects::KeptImage> image_;
    objects::PackLease lease_;
    objects::Forwarding forwarding_;
    objects::Outbound outbound_;
};

namespace objects {

// A send that leaves as it lies where that can be, else by a walk. `Direct`: the former operation.
template <class Direct, class T>
class EitherSendOperation {
  public:
    bool step() { return outbound().step(); }
    bool awaits_receiver() const noexcept {
        return direct_ ? direct_->awaits_receiver() : walked_->awaits_receiver();
    }
    SendReport report() const { return direct_ ? direct_->report() : walked_->report(); }

    // ---- for send() ----
    ObjectLink& link() const noexcept { return direct_ ? direct_->link() : walked_->link(); }
    Outbound& outbound() noexcept { return direct_ ? direct_->outbound() : walked_->outbound(); }

  protected:
    EitherSendOperation() = default;
    // One of them, from the constructor on.
    std::optional<Direct> direct_;
    std::optional<SendOperation<T>> walked_;
};

}  // namespace objects

// A received graph on its way: as it came if it is_forwardable(), else by a walk. As SendOperation;
// the graph must stay until it is done. T may be const: of a part, or a file that was mapped so.
template <class T>
class ReceivedSendOperation
    : public objects::EitherSendOperation<ForwardOperation, std::remove_const_t<T>> {
  public:
    ReceivedSendOperation(Connection& connection, const Received<T>& graph,
                          SendOptions options = {}) {
        if (graph.is_forwardable())
            this->direct_.emplace(connection, graph.image(), options);
        else
            this->walked_.emplace(connection, *graph, options);
    }
};

namespace objects {

// The operation that sends such a root.
template <class T>
struct OperationOf {
    using Type = SendOperation<T>;
};
template <class T>
struct OperationOf<Received<T>> {
    using Type = ReceivedSendOperation<T>;
};

}  // namespace objects

}  // namespace verbatim
