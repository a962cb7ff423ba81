// A receive operation is one graph on its way in; its options.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/deadline.hpp>
#include <verbatim/objects/composed/composed_verifier.hpp>
#include <verbatim/objects/graph/open_walks.hpp>
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

// One graph on its way in, for programs that take each step themselves; receive_async() leaves that
// to the lane. Several may be under way at a time: each takes the next graph of its channel that no
// other has. One that ends before its step() was true leaves its graph the next one. Threads: the
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
            if (inbound_.is_composed()) return verify();
            return inbound_.is_at_once() ? mend_at_once() : mend_on();
        } catch (const std::bad_alloc&) {
            const Error error(Errc::out_of_memory, "received graph",
                              "this process has no memory for the tables of the walk",
                              "release other memory, and have the graph sent again");
            inbound_.drop(error);
            throw error;
        } catch (...) {
            // Of a comparator or a hash function of the program, too: the walk cannot go on from
            // here.
            inbound_.drop(objects::error_of_step());
            throw;
        }
    }
    bool has_begun() const noexcept { return inbound_.has_begun(); }
    // Once. Throws Error: there is none.
    Received<T> take() {
        if (!received_ || received_->get() == nullptr) objects::refuse_take();
        return std::move(*received_);
    }
    // ---- for receive() ----
    objects::ObjectLink& link() const noexcept { return inbound_.link(); }

  private:
    template <class>
    friend class Receiving;
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
    // A composed message, once all of it is there.
    bool verify() {
        const objects::ComposedMemory memory = inbound_.composed();
        if (memory.bytes == nullptr) return false;
        if constexpr (kComposed<T> && objects::kCanBeComposed<T>) {
            objects::ComposedVerifier<T> verifier(inbound_.composed_tables());
            T* const root = verifier.run(memory);
            received_.emplace(inbound_.take(), root,
                              ReceiveReport{verifier.objects(), 0, memory.used});
            return true;
        } else {
            objects::refuse_composed(objects::type_info<T>());
        }
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
        ReceiveReport report{mending.objects(), mending.records(), mending.image_bytes()};
        report.classes = mending.class_counts();
        received_.emplace(inbound_.take(), root, report);
        if (image_) image_->objects = report.objects;
        received_->keep_image(std::move(image_));
    }

    objects::Inbound inbound_;
    bool keeps_image_ = false;
    std::shared_ptr<objects::KeptImage> image_;
    std::optional<Received<T>> received_;
};

}  // namespace verbatim
