// The sender of one graph: offer, layout, metadata, image, end; in this order, each as far as there
// is room.
#include <verbatim/objects/transfer.hpp>

#include <algorithm>

#include <verbatim/core/config.hpp>

#include "graph_wire.hpp"
#include "image_stream.hpp"
#include "object_link.hpp"

namespace verbatim::objects {

struct Outbound::State {
    enum class Phase : std::uint8_t {
        offer,
        layout,
        answer,
        pointers,
        extensions,
        image,
        end,
        flush,
        done
    };

    Connection& connection;
    const Scan& scan;
    const TypeInfo& root;
    ObjectLink& link;
    const Layout& layout;
    ImageStream stream;
    std::uint64_t id = 0;  // once offered
    Phase phase = Phase::offer;
    std::uint64_t sent = 0;       // bytes of the phase's text
    std::uint64_t announced = 0;  // of the image, by signs of life
    std::uint64_t protocol_bytes = 0;

    State(Connection& c, const Scan& s, const TypeInfo& r)
        : connection(c),
          scan(s),
          root(r),
          link(object_link(c)),
          layout(layout_of(r)),
          stream(s, {link.staging(), link.staging_bytes(), c.config().objects.direct_bytes,
                     c.config().objects.checksum}) {}

    bool send(std::uint8_t kind, std::span<const std::byte> head,
              std::span<const std::byte> body = {}) {
        const Errc code = LayerChannel::try_send(connection, wire::kChannel, head, body, kind);
        if (code == Errc::would_block) return false;
        if (code != Errc::ok) {
            connection.check();
            throw Error(code, "message of a graph", std::string(describe(code)));
        }
        protocol_bytes += head.size() + body.size();
        link.note_activity();
        return true;
    }

    bool send_offer() {
        std::string name = root.name;
        name.resize(std::min<std::size_t>(name.size(), wire::kMaxNameBytes));
        const bool told = link.is_told(layout.fingerprint);
        if (layout.text.size() > wire::kMaxLayoutBytes)
            throw Error(Errc::unsupported, "type " + root.name,
                        "its layout takes more than 1 MiB to describe",
                        "bind fewer types in one graph, or shorten their names");
        const wire::Offer offer{link.next_offer(),
                                layout.fingerprint,
                                scan.image_bytes(),
                                scan.back_pointers().size(),
                                scan.extensions().size(),
                                told ? 0 : layout.text.size(),
                                connection.config().objects.checksum,
                                static_cast<std::uint32_t>(name.size())};
        if (!send(wire::kOffer, wire::bytes_of(offer), std::as_bytes(std::span(name))))
            return false;
        // Not before: a number that the receiver never hears of would be missing to it.
        id = offer.id;
        link.begin_offer();
        phase = told ? Phase::answer : Phase::layout;
        return true;
    }

    // Sends the rest of `bytes`, then goes to `next`.
    bool send_bytes(std::span<const std::byte> bytes, Phase next) {
        const wire::Bytes head{id};
        // A quarter of a message's room keeps the receiver busy while the next one is written.
        const std::size_t room = std::min<std::size_t>(connection.max_message_bytes() - sizeof head,
                                                       std::size_t{16} << 10);
        while (sent < bytes.size()) {
            const std::size_t count = std::min<std::size_t>(room, bytes.size() - sent);
            if (!send(wire::kBytes, wire::bytes_of(head), bytes.subspan(sent, count))) return false;
            sent += count;
        }
        sent = 0;
        phase = next;
        return true;
    }

    bool send_image() {
        while (stream.step(connection, announced + wire::kSignOfLifeBytes)) {
            if (stream.position() == scan.image_bytes()) {
                phase = Phase::end;
                return true;
            }
            if (!send(wire::kBytes, wire::bytes_of(wire::Bytes{id}))) return false;
            announced = stream.position();
        }
        return false;
    }

    bool take_answer() {
        const Answer& answer = link.answer();
        if (answer.state == Answer::State::refused) {
            phase = Phase::done;
            throw Error(answer.code, "receiver " + connection.peer_name(),
                        "it refused the graph: " + answer.reason, "do that at the receiver");
        }
        if (answer.state != Answer::State::granted) {
            link.grant_waiting(connection);
            return false;
        }
        link.set_told(layout.fingerprint);
        stream.set_extents(answer.extents);
        phase = Phase::pointers;
        return true;
    }

    // One phase as far as it goes; false if it has to wait.
    bool advance() {
        switch (phase) {
            case Phase::offer:
                return send_offer();
            case Phase::layout:
                return send_bytes(std::as_bytes(std::span(layout.text)), Phase::answer);
            case Phase::answer:
                return take_answer();
            case Phase::pointers:
                return send_bytes(std::as_bytes(scan.back_pointers()), Phase::extensions);
            case Phase::extensions:
                return send_bytes(std::as_bytes(scan.extensions()), Phase::image);
            case Phase::image:
                return send_image();
            case Phase::end:
                // The same queue pair carries it after the writes: it arrives when they have.
                if (!send(wire::kEnd, wire::bytes_of(wire::End{id, stream.checksum()})))
                    return false;
                phase = Phase::flush;
                return true;
            case Phase::flush: {
                // A receiver may close as soon as it has the graph, before its device's last
                // answers are here.
                const Errc code = connection.try_flush();
                if (code != Errc::ok && !connection.peer_took_all()) {
                    if (code == Errc::would_block) return false;
                    connection.check();
                }
                phase = Phase::done;
                return true;
            }
            case Phase::done:
                return true;
        }
        return true;
    }

    bool must_cancel() const noexcept {
        return phase != Phase::offer && phase != Phase::flush && phase != Phase::done;
    }
};

Outbound::Outbound(Connection& connection, const Scan& scan, const TypeInfo& root)
    : state_(std::make_unique<State>(connection, scan, root)) {}

Outbound::~Outbound() {
    if (state_->must_cancel()) state_->link.cancel(state_->connection, state_->id);
}

bool Outbound::step() {
    State& state = *state_;
    if (state.phase == State::Phase::done) return true;
    state.link.pump(state.connection, state.phase == State::Phase::flush
                                          ? ObjectLink::Role::flusher
                                          : ObjectLink::Role::sender);
    while (state.phase != State::Phase::done)
        if (!state.advance()) return false;
    return true;
}

bool Outbound::awaits_receiver() const noexcept { return state_->phase == State::Phase::answer; }

std::uint64_t Outbound::wire_bytes() const noexcept {
    return state_->protocol_bytes + state_->scan.image_bytes();
}

}  // namespace verbatim::objects
