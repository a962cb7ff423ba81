// receive() takes object graphs from a connection.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <verbatim/core/connection.hpp>
#include <verbatim/objects/fixup.hpp>
#include <verbatim/objects/send.hpp>
#include <verbatim/objects/transfer.hpp>

namespace verbatim {

// The result of one receive().
struct ReceiveReport {
    std::uint64_t objects = 0;
    std::uint64_t back_pointers = 0;
    std::uint64_t object_bytes = 0;
};

// A received graph: owns the memory that the objects lie in. The objects are ordinary ones, to be
// read through `const T&`; their destructors never run, and their containers refuse to allocate.
// Movable; may be released by any thread and after the connection and the context are gone.
template <class T>
class Received {
  public:
    Received(objects::ImageMemory memory, T* root, ReceiveReport report) noexcept
        : memory_(std::move(memory)), root_(root), report_(report) {}
    Received(Received&& other) noexcept
        : memory_(std::move(other.memory_)),
          root_(std::exchange(other.root_, nullptr)),
          report_(other.report_) {}
    Received& operator=(Received&& other) noexcept {
        memory_ = std::move(other.memory_);
        root_ = std::exchange(other.root_, nullptr);
        report_ = other.report_;
        return *this;
    }

    const T& operator*() const noexcept { return *root_; }
    const T* operator->() const noexcept { return root_; }
    const T* get() const noexcept { return root_; }
    // For changing values in place. Containers must not grow, owners must not be released: the
    // memory is not theirs.
    T& mutable_view() noexcept { return *root_; }
    const ReceiveReport& report() const noexcept { return report_; }

  private:
    objects::ImageMemory memory_;
    T* root_;
    ReceiveReport report_;
};

// One graph on its way in, for programs that must not block. Threads: the connection's.
template <class T>
class ReceiveOperation {
  public:
    explicit ReceiveOperation(Connection& connection)
        : inbound_(connection, objects::type_info<T>()) {}

    // True once take() may be called. Never blocks, but checks and mends the whole graph in its
    // last step. Throws Error; corrupt_message: the graph was refused, the connection goes on.
    bool step() {
        if (received_) return true;
        if (!inbound_.step()) return false;
        objects::Arrived& arrived = inbound_.arrived();
        objects::Fixup fixup(arrived.image.data(), arrived.image.bytes(), arrived.back_pointers(),
                             arrived.extensions(), inbound_.tables());
        T* root = fixup.run<T>();
        const ReceiveReport report{fixup.objects(),
                                   arrived.back_pointer_count + arrived.extension_count,
                                   arrived.image.bytes()};
        received_.emplace(std::move(arrived.image), root, report);
        return true;
    }
    bool has_begun() const noexcept { return inbound_.has_begun(); }
    Received<T> take() { return std::move(*received_); }

  private:
    objects::Inbound inbound_;
    std::optional<Received<T>> received_;
};

struct ReceiveOptions {
    Deadline deadline = Deadline::never();  // for the whole transfer
};

// Waits for the next graph, whose root must be a T, and returns it usable. Throws Error;
// type_mismatch, graph_too_large and corrupt_message leave the connection usable and return
// nothing. Threads: the connection's.
template <class T>
Received<T> receive(Connection& connection, ReceiveOptions options = {}) {
    ReceiveOperation<T> operation(connection);
    objects::Patience patience(connection, options.deadline, "receive");
    while (!operation.step()) patience.wait(operation.has_begun());
    return operation.take();
}

}  // namespace verbatim
