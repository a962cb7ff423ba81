// receive() takes object graphs from a connection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/deadline.hpp>
#include <verbatim/objects/graph/open_walks.hpp>
#include <verbatim/objects/operations/transfer.hpp>
#include <verbatim/objects/types/all.hpp>

namespace verbatim {

// The result of one receive().
struct ReceiveReport {
    std::uint64_t objects = 0;
    std::uint64_t records = 0;  // references that the sender had to tell of
    std::uint64_t object_bytes = 0;
    objects::ClassCounts classes;  // of references to polymorphic objects
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

struct ReceiveOptions {
    Deadline deadline = Deadline::never();  // for the whole transfer
    std::uint16_t channel = 0;              // the sender's
};

// One graph on its way in, for programs that must not block. Several may be under way at a time:
// each takes the next graph of its channel that no other has. One that ends before its step() was
// true leaves its graph the next one. The connection stays where it is meanwhile. Threads: the
// connection's.
template <class T>
class ReceiveOperation {
  public:
    explicit ReceiveOperation(Connection& connection, ReceiveOptions options = {})
        : inbound_(connection, objects::root_type<T>(), options.channel) {}

    // True once take() may be called. Never blocks, but checks and mends what has come. Throws
    // Error; corrupt_message: the graph was refused, the connection goes on.
    bool step() {
        if (received_) return true;
        if (!inbound_.look()) return false;
        try {
            return inbound_.is_at_once() ? mend_at_once() : mend_on();
        } catch (const Error& error) {
            inbound_.drop(error);
            throw;
        }
    }
    bool has_begun() const noexcept { return inbound_.has_begun(); }
    Received<T> take() { return std::move(*received_); }

  private:
    struct Walk final : objects::KeptWalk {
        Walk(std::unique_ptr<objects::MendTables> own, bool acyclic)
            : objects::KeptWalk(std::move(own)), mender(*tables, acyclic) {
            mending = &mender;
        }
        objects::Mender<T> mender;
    };
    bool mend_at_once() {
        objects::Mender<T> mender(inbound_.tables(), inbound_.is_acyclic());
        if (!inbound_.run(mender)) objects::Mending::corrupt("it ends before its end");
        finish(mender);
        return true;
    }
    // As far as the sender has told.
    bool mend_on() {
        objects::Mending& mending =
            inbound_.walk([](std::unique_ptr<objects::MendTables> tables, bool acyclic) {
                return std::shared_ptr<objects::KeptWalk>(
                    std::make_shared<Walk>(std::move(tables), acyclic));
            });
        if (!inbound_.run(mending)) return false;
        finish(mending);
        return true;
    }
    void finish(objects::Mending& mending) {
        T* const root = static_cast<T*>(mending.root());
        const ReceiveReport report{mending.objects(), mending.records(), mending.image_bytes(),
                                   mending.class_counts()};
        received_.emplace(inbound_.take(), root, report);
    }

    objects::Inbound inbound_;
    std::optional<Received<T>> received_;
};

// Waits for the next graph, whose root must be a T, and returns it usable. Throws Error;
// type_mismatch, graph_too_large and corrupt_message leave the connection usable and return
// nothing; timeout leaves the graph the next one. Threads: the connection's.
template <class T>
Received<T> receive(Connection& connection, ReceiveOptions options = {}) {
    ReceiveOperation<T> operation(connection, options);
    objects::Patience patience(connection, options.deadline, "receive");
    while (!operation.step()) patience.wait(operation.has_begun());
    return operation.take();
}

// True if receive() of that channel would return, or throw what became of a graph, without a wait.
// Takes in what has arrived; never blocks. Throws Error: the connection's end, if nothing is left.
inline bool readable(Connection& connection, std::uint16_t channel = 0) {
    return objects::is_readable(connection, channel);
}

// The next graph if it is there. Throws as receive() does.
template <class T>
std::optional<Received<T>> try_receive(Connection& connection, std::uint16_t channel = 0) {
    if (!readable(connection, channel)) return std::nullopt;
    ReceiveOperation<T> operation(connection, {Deadline::never(), channel});
    if (!operation.step()) return std::nullopt;
    return operation.take();
}

}  // namespace verbatim
