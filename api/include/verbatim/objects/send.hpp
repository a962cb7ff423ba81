// send() sends object graphs over a connection.
#pragma once

#include <cstdint>
#include <optional>

#include <verbatim/core/connection.hpp>
#include <verbatim/objects/scan.hpp>
#include <verbatim/objects/transfer.hpp>

namespace verbatim {

// The result of one send().
struct SendReport {
    std::uint64_t objects = 0;        // separately reached objects, strings and arrays
    std::uint64_t references = 0;     // pointers, strings and vectors that lead to them
    std::uint64_t back_pointers = 0;  // references that needed metadata
    std::uint64_t object_bytes = 0;   // the image in the receiver's memory
    std::uint64_t wire_bytes = 0;     // image, metadata and protocol
};

// One graph on its way, for programs that must not block. The graph must stay unchanged until it is
// done. Threads: the connection's.
template <class T>
class SendOperation {
  public:
    // Walks the graph. Throws Error(bad_pointer | graph_too_large) before anything was sent.
    SendOperation(Connection& connection, const T& root) : scan_(connection) {
        scan_->run(root);
        outbound_.emplace(connection, *scan_, objects::type_info<T>());
    }

    // True once the receiver's memory holds the graph. Never blocks. Throws Error.
    bool step() { return outbound_->step(); }
    // True while only the receiver's answer can help.
    bool awaits_receiver() const noexcept { return outbound_->awaits_receiver(); }

    SendReport report() const {
        return {scan_->objects(), scan_->references(),
                scan_->back_pointers().size() + scan_->extensions().size(), scan_->image_bytes(),
                outbound_->wire_bytes()};
    }

  private:
    objects::ScanLease scan_;
    std::optional<objects::Outbound> outbound_;
};

struct SendOptions {
    // For the whole transfer, including the receiver's call of receive().
    Deadline deadline = Deadline::never();
};

namespace objects {
// Pauses between steps; throws Error(timeout) when the deadline passes, or when a begun transfer
// does not move for config objects.timeout.
class Patience {
  public:
    Patience(Connection& connection, Deadline deadline, const char* what)
        : connection_(connection), deadline_(deadline), what_(what) {}
    void wait(bool begun);

  private:
    Connection& connection_;
    Deadline deadline_;
    const char* what_;
    unsigned round_ = 0;          // pauses since the transfer last got on
    std::uint64_t activity_ = 0;  // of the link, then
    Deadline stalled_;            // when it must have got on; none before it has begun
};
}  // namespace objects

// Sends everything reachable from `root` and returns once the receiver's memory holds it (Naos
// §3.2, blocking). Objects in connection.arena() leave from where they lie, others are copied on
// the way; none is modified. Throws Error; request-scope errors (bad_pointer, type_mismatch,
// graph_too_large, timeout) leave the connection usable. Threads: the connection's; the graph must
// not change during the call.
template <class T>
SendReport send(Connection& connection, const T& root, SendOptions options = {}) {
    SendOperation<T> operation(connection, root);
    objects::Patience patience(connection, options.deadline, "send");
    while (!operation.step()) patience.wait(!operation.awaits_receiver());
    return operation.report();
}

}  // namespace verbatim
