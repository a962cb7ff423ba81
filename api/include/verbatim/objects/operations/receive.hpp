// receive() takes object graphs from a connection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/deadline.hpp>
#include <verbatim/objects/graph/mender.hpp>
#include <verbatim/objects/operations/received.hpp>
#include <verbatim/objects/operations/transfer.hpp>
#include <verbatim/objects/types/all.hpp>

namespace verbatim {

struct ReceiveOptions {
    Deadline deadline = Deadline::never();  // for the whole transfer
    std::uint16_t channel = 0;              // the sender's
    // Keeps a copy of the image, so that the graph can be sent on without a walk. It is checked
    // once all of it has come.
    bool forwardable = false;
};

// One graph on its way in, for programs that must not block. Several may be under way at a time:
// each takes the next graph of its channel that no other has. One that ends before its step() was
// true leaves its graph the next one. The connection stays where it is meanwhile. Threads: the
// connection's.
template <class T>
class ReceiveOperation {
  public:
    explicit ReceiveOperation(Connection& connection, ReceiveOptions options = {})
        : inbound_(connection, objects::root_type<T>(), options.channel),
          keeps_image_(options.forwardable && !objects::kHasVirtualFunctions<T>) {}

    // True once take() may be called. Never blocks, but checks and mends what has come. Throws
    // Error; corrupt_message: the graph was refused, the connection goes on.
    bool step() {
        if (received_) return true;
        if (!inbound_.look()) return false;
        if (keeps_image_ && !inbound_.keep(image_)) return false;
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
        const ReceiveReport report{mending.objects(), mending.records(), mending.image_bytes()};
        received_.emplace(inbound_.take(), root, report);
        if (image_) image_->objects = report.objects;
        received_->keep_image(std::move(image_));
    }

    objects::Inbound inbound_;
    bool keeps_image_ = false;
    std::shared_ptr<objects::KeptImage> image_;
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
