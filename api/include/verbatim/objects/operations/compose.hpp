// compose() makes messages whose objects are made where they are sent from. Their bytes leave as
// they lie, and the receiver only verifies them (docs/composed.md).
#pragma once

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <utility>

#include <verbatim/objects/composed/composition.hpp>
#include <verbatim/objects/operations/composed_image.hpp>
#include <verbatim/objects/operations/send.hpp>

namespace verbatim {

struct ComposeOptions {
    // Of all objects. Where they take more, the message is sent the ordinary way.
    std::uint64_t most_bytes = std::uint64_t{256} << 20;
    // Room to be had at the receiver. A message that takes more, or found none, lies elsewhere
    // there: its addresses are moved.
    std::uint64_t expected_bytes = std::uint64_t{1} << 20;
};

// A message that is being composed: a root, and the memory in which it and its objects lie. It may
// be sent several times, and changed between. Its objects end with it, without their destructors:
// use std::pmr containers. Threads: one at a time.
template <class T>
class ComposedMessage {
    static_assert(kComposed<T>,
                  "verbatim: compose() needs VERBATIM_COMPOSED(type) beside the definition of the "
                  "root's type, so that receivers take such messages");
    static_assert(objects::kCanBeComposed<T>,
                  "verbatim: a type of this graph cannot be composed: weak pointers, virtual "
                  "functions, and owners whose trait does not tell addresses; use send()");

  public:
    ComposedMessage(objects::ComposePlace place, ComposeOptions options)
        : place_(std::move(place)), composition_(options.most_bytes, place_.address()) {}

    T& operator*() noexcept { return composition_.root(); }
    T* operator->() noexcept { return &composition_.root(); }
    const T& root() const noexcept { return composition_.root(); }
    // Another object of the message becomes its root.
    void set_root(T& root) noexcept { composition_.set_root(root); }

    // For containers of the program. What it gives lies in the message.
    std::pmr::memory_resource* resource() noexcept { return composition_.resource(); }
    // An object of the message. Its containers, and those of its members, use the message's memory.
    // It lasts as long as the message.
    template <class U, class... A>
    U* make(A&&... arguments) {
        return composition_.template make<U>(std::forward<A>(arguments)...);
    }
    // Has the containers of an object of the message, such as an element that is no container
    // itself, use the message's memory.
    template <class U>
    void seat(U& object) {
        objects::seat(object, resource());
    }

    // ---- for the operations ----
    const objects::ComposePlace& place() const noexcept { return place_; }
    // The bytes to be sent, and how many objects; none if some of the graph lies outside.
    std::optional<objects::ComposedBytes> finish(objects::ComposedTables& tables) const {
        return composition_.finish(tables);
    }

  private:
    objects::ComposePlace place_;
    objects::Composition<T> composition_;
};

// Begins a message to the peer of a connection. Never blocks. Throws Error(out_of_memory).
template <class T>
ComposedMessage<T> compose(Connection& connection, ComposeOptions options = {}) {
    return {objects::ComposePlace(connection, options.expected_bytes), options};
}

// A composed message on its way: as it lies, or by a walk where some of its graph lies outside. As
// SendOperation; `acyclic` is then of that walk. The message must not change until it is done.
template <class T>
class ComposedSendOperation : public objects::EitherSendOperation<objects::ComposedOutbound, T> {
  public:
    ComposedSendOperation(Connection& connection, const ComposedMessage<T>& message,
                          SendOptions options = {}) {
        if (const auto bytes = message.finish(objects::composed_tables(connection)))
            this->direct_.emplace(connection, message.place(), *bytes, objects::root_type<T>(),
                                  options.channel);
        else
            this->walked_.emplace(connection, message.root(), options);
    }
};

// send(), send_async() and Sending take the message itself, as a root.
template <class T>
struct objects::OperationOf<ComposedMessage<T>> {
    using Type = ComposedSendOperation<T>;
};

}  // namespace verbatim
