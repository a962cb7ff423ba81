// send() sends object graphs over a connection.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/deadline.hpp>
#include <verbatim/objects/graph/open_walks.hpp>
#include <verbatim/objects/operations/transfer.hpp>
#include <verbatim/objects/types/all.hpp>

namespace verbatim {

// The result of one send().
struct SendReport {
    std::uint64_t objects = 0;       // separately reached objects, strings and arrays
    std::uint64_t references = 0;    // pointers, strings and vectors that lead to them
    std::uint64_t records = 0;       // references that the receiver had to be told of
    std::uint64_t object_bytes = 0;  // the image in the receiver's memory
    std::uint64_t wire_bytes = 0;    // image, records and protocol
    objects::ClassCounts classes;    // of references to polymorphic objects
};

struct SendOptions {
    // For the whole transfer, including the wait for the receiver's memory.
    Deadline deadline = Deadline::never();
    // Graphs of one channel are received in the order in which they were sent; receivers choose
    // theirs.
    std::uint16_t channel = 0;
    // The caller vouches that no object is referred to twice: the walk is cheaper. A shared object
    // is then sent once for each reference; a cycle is an error (graph_too_large).
    bool acyclic = false;
};

// One graph on its way, for programs that must not block. The graph must stay unchanged until it is
// done, and the connection where it is. Several may be on their way at a time; they are in the
// order of their first steps. Threads: the connection's.
template <class T>
class SendOperation {
  public:
    SendOperation(Connection& connection, const T& root, SendOptions options = {})
        : lease_(connection),
          packer_(*lease_, root, objects::pack_options(connection, options.acyclic)),
          outbound_(connection, lease_.link(), packer_, objects::root_type<T>(),
                    {options.channel, options.acyclic}) {}

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

  private:
    objects::PackLease lease_;
    objects::Packer<T> packer_;
    objects::Outbound outbound_;
};

// Sends everything reachable from `root` and returns once the graph may change: the receiver's
// memory or ring holds it. Objects larger than 256 KiB in connection.arena() leave from where they
// lie, others are copied on the way; none is modified. Throws Error; request-scope errors
// (bad_pointer, type_mismatch, graph_too_large, timeout) leave the connection usable. Threads: the
// connection's; the graph must not change during the call.
template <class T>
SendReport send(Connection& connection, const T& root, SendOptions options = {}) {
    SendOperation<T> operation(connection, root, options);
    objects::Patience patience(connection, options.deadline, "send");
    while (!operation.step()) patience.wait(!operation.awaits_receiver());
    return operation.report();
}

}  // namespace verbatim
