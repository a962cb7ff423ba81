// A sender of graphs made by hand: says what a test wants it to, whether the protocol allows it or
// not. docs/wire.md, "Graphs", is the protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <verbatim/objects.hpp>

#include "graph_wire.hpp"

namespace verbatim::test {

class HandMadeSender {
  public:
    explicit HandMadeSender(Connection& connection) : connection_(connection) {}

    // An offer of a T with `image_bytes`, not yet sent; its layout is told.
    template <class T>
    static objects::wire::Offer offer_of(std::uint64_t id, std::uint64_t image_bytes) {
        const objects::Layout& layout = objects::layout_of(objects::type_info<T>());
        return {.id = id,
                .fingerprint = layout.fingerprint,
                .image_bytes = image_bytes,
                .back_pointers = 0,
                .extensions = 0,
                .layout_bytes = layout.text.size(),
                .has_checksum = 0,
                .name_bytes = static_cast<std::uint32_t>(objects::type_info<T>().name.size())};
    }
    template <class T>
    Errc offer(const objects::wire::Offer& offer) {
        const std::string& name = objects::type_info<T>().name;
        return say(objects::wire::kOffer, objects::wire::bytes_of(offer),
                   std::as_bytes(std::span(name)));
    }
    // Of layout and metadata.
    Errc bytes(std::uint64_t id, std::span<const std::byte> payload) {
        return say(objects::wire::kBytes, objects::wire::bytes_of(objects::wire::Bytes{id}),
                   payload);
    }
    template <class T>
    Errc layout(std::uint64_t id) {
        return bytes(id,
                     std::as_bytes(std::span(objects::layout_of(objects::type_info<T>()).text)));
    }
    Errc cancel(std::uint64_t id) {
        return say(objects::wire::kCancel, objects::wire::bytes_of(objects::wire::Cancel{id}), {});
    }
    Errc end(std::uint64_t id) {
        return say(objects::wire::kEnd, objects::wire::bytes_of(objects::wire::End{id, 0}), {});
    }
    // The extents of the next grant, if it has come.
    std::vector<RemoteExtent> granted() {
        Message message;
        std::vector<RemoteExtent> extents;
        if (connection_.try_receive(message) != Errc::ok) return extents;
        std::span<const std::byte> payload = message.payload();
        objects::wire::Grant head;
        RemoteExtent extent;
        if (message.kind() == objects::wire::kGrant && objects::wire::parse(payload, head))
            while (objects::wire::parse(payload, extent)) extents.push_back(extent);
        return extents;
    }
    Errc say(std::uint8_t kind, std::span<const std::byte> head, std::span<const std::byte> body) {
        return LayerChannel::try_send(connection_, objects::wire::kChannel, head, body, kind);
    }

  private:
    Connection& connection_;
};

}  // namespace verbatim::test
