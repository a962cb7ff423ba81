// A sender of graphs made by hand: says what a test wants it to, whether the protocol allows it or
// not. docs/graphs.md is the protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <verbatim/objects.hpp>

#include "link/messages/wire.hpp"

namespace verbatim::test {

class HandMadeSender {
  public:
    explicit HandMadeSender(Connection& connection) : connection_(connection) {}

    template <class T>
    static std::uint64_t fingerprint_of() {
        return objects::layout_of(objects::type_info<T>()).fingerprint;
    }
    template <class T>
    Errc layout() {
        const std::string& text = objects::layout_of(objects::type_info<T>()).text;
        const objects::wire::LayoutPart head{fingerprint_of<T>(),
                                             static_cast<std::uint32_t>(text.size()), 0};
        return say(objects::wire::kLayout, head, std::as_bytes(std::span(text)));
    }
    // A graph that is one T without references.
    template <class T>
    static objects::wire::Eager eager_of(std::uint64_t id) {
        return {id, fingerprint_of<T>(), sizeof(T), 0, 1, 0, 0, 0, 0};
    }
    template <class T>
    Errc eager(const objects::wire::Eager& head, const T& value) {
        return say(objects::wire::kEager, head, std::as_bytes(std::span(&value, 1)));
    }
    template <class T>
    Errc begin(std::uint64_t id, std::uint16_t channel = 0) {
        return say(objects::wire::kBegin,
                   objects::wire::Begin{id, fingerprint_of<T>(), channel, 0, 0});
    }
    // `changes`: what it was told of lent windows and freed slots.
    Errc need(std::uint64_t id, std::uint32_t slots, std::uint32_t changes = 0) {
        return say(objects::wire::kNeed, objects::wire::Need{id, slots, changes});
    }
    // The same, heard whatever it was told meanwhile: a receiver drops a few that were overtaken.
    // would_block: again.
    Errc insist(std::uint64_t id, std::uint32_t slots) {
        for (; asked_ < 5; ++asked_)
            if (const Errc error = need(id, slots); error != Errc::ok) return error;
        asked_ = 0;
        return Errc::ok;
    }
    Errc fragment(const objects::wire::Fragment& head, std::span<const std::byte> body = {}) {
        return say(objects::wire::kFragment, head, body);
    }
    Errc cancel(std::uint64_t id) {
        return say(objects::wire::kCancel, objects::wire::GraphId{id});
    }
    // The extents of the next window, if it was told. Other answers before it are dropped.
    std::vector<RemoteExtent> lent() {
        Message message;
        std::vector<RemoteExtent> extents;
        while (extents.empty() && connection_.try_receive(message) == Errc::ok) {
            std::span<const std::byte> payload = message.payload();
            objects::wire::Lend head;
            RemoteExtent extent;
            if (message.kind() != objects::wire::kLend || !objects::wire::parse(payload, head))
                continue;
            while (objects::wire::parse(payload, extent)) extents.push_back(extent);
        }
        return extents;
    }
    template <class Head>
    Errc say(std::uint8_t kind, const Head& head, std::span<const std::byte> body = {}) {
        return LayerChannel::try_send(connection_, objects::wire::kChannel,
                                      objects::wire::bytes_of(head), body, kind);
    }

  private:
    Connection& connection_;
    int asked_ = 0;  // of insist()
};

}  // namespace verbatim::test
