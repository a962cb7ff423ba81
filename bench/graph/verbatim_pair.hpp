// Both ends of a connection over the software NIC in one process, driven by one thread: whatever
// the library, its engine and the kernel do for a transfer is CPU time of this process.
#pragma once

#include <cstddef>
#include <memory>

#include <verbatim/objects.hpp>

namespace bench_graph {

class VerbatimPair {
  public:
    // Arenas populated for graphs of so many bytes, sender's objects and receiver's image.
    explicit VerbatimPair(std::size_t graph_bytes);

    verbatim::Arena& arena() noexcept { return sender_->arena(); }

    template <class T>
    verbatim::Received<T> transfer(const T& root) {
        verbatim::ReceiveOperation<T> receive(*receiving_);
        verbatim::SendOperation<T> send(*sending_, root);
        for (bool sent = false, received = false; !sent || !received;) {
            sent = sent || send.step();
            received = received || receive.step();
        }
        bytes_ = send.report().wire_bytes;
        return receive.take();
    }
    // What the last transfer moved.
    std::uint64_t bytes() const noexcept { return bytes_; }

  private:
    std::unique_ptr<verbatim::Context> sender_;
    std::unique_ptr<verbatim::Context> receiver_;
    std::unique_ptr<verbatim::Connection> sending_;
    std::unique_ptr<verbatim::Connection> receiving_;
    std::uint64_t bytes_ = 0;
};

}  // namespace bench_graph
