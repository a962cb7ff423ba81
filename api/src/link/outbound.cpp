// The sender of one graph: walk, then either one message, or bind, write and tell, a flush at a
// time.
#include <algorithm>
#include <cstring>
#include <thread>

#include <verbatim/core/config.hpp>
#include <verbatim/objects/operations/composed_image.hpp>
#include <verbatim/objects/operations/transfer.hpp>

#include "image_writer.hpp"
#include "object_link.hpp"

namespace verbatim::objects {
namespace {

// Staging buffers whose writes have not retired, at most, when the walk goes on.
constexpr std::size_t kMostUnderWay = 8;
// Staged before the first flush, at most, of graphs that would need many records; and that part of
// the arena. A cyclic graph of 400,000 nodes takes 18 MiB.
constexpr std::size_t kMostHeld = std::size_t{32} << 20, kPartOfArena = 16;
// Eager sends between two looks at what the peer says.
constexpr std::uint32_t kSendsUnseen = 8;

template <class T>
void append(std::vector<std::byte>& to, std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    to.insert(to.end(), bytes.begin(), bytes.end());
}

// The next of the values that are yet to be told, as many as there is room for.
template <class T>
std::span<const T> next_of(std::span<const T> all, std::size_t told, std::size_t& room,
                           std::size_t item = sizeof(T)) {
    const std::size_t count = std::min(all.size() - told, room / item);
    room -= count * item;
    return all.subspan(told, count);
}

void append(std::vector<std::byte>& to, std::span<const Patch> patches) {
    for (const Patch& patch : patches) {
        static_assert(Patch::kMost <= wire::Amendment::kMost);
        wire::Amendment amendment{patch.offset, patch.bytes, {}};
        std::memcpy(amendment.data, patch.data, patch.bytes);
        append<std::byte>(to, wire::bytes_of(amendment));
    }
}

std::uint16_t flags_of(const OutboundOptions& options) noexcept {
    return static_cast<std::uint16_t>((options.acyclic ? wire::kAcyclic : 0) |
                                      (options.composed ? wire::kComposed : 0));
}

// Before any look at the connection: its receiver may have closed right behind the refusal.
void check_refusal(ObjectLink& link, std::uint64_t id) {
    if (id == 0) return;
    const RefusedGraph* const refusal = link.outgoing().refusal_of(id);
    if (refusal == nullptr) return;
    const Connection* const connection = link.connection();
    throw Error(refusal->code,
                connection != nullptr ? "receiver " + connection->peer_name() : "receiver",
                "it refused the graph: " + refusal->reason, "do that at the receiver");
}

}  // namespace

PackOptions pack_options(Connection& connection, bool acyclic) noexcept {
    PackOptions options{.acyclic = acyclic};
    options.hold_bytes = std::min(kMostHeld, connection.arena().reserved_bytes() / kPartOfArena);
    if (acyclic) options.most_bytes = connection.config().objects.max_graph_bytes;
    return options;
}

PackLease::PackLease(Connection& connection)
    : link_(connection), tables_(link_->tables().lend_pack()) {}

PackLease::~PackLease() { link_->tables().give_back(std::move(tables_)); }

Outbound::Outbound(ObjectLink& link, Packing& packing, const RootType& root,
                   OutboundOptions options)
    : link_(link), packing_(packing), root_(root), options_(options) {}

Connection& Outbound::connection() const { return link_.here(); }

Outbound::~Outbound() {
    if (link_.outgoing().teller == this) link_.outgoing().teller = nullptr;
    if (phase_ == Phase::done || !writer_) return;
    const bool is_told = phase_ == Phase::retire && walked_;
    try {
        // The device may still read the graph. Copies of it are kept until it has read them.
        const Deadline deadline = Deadline::after(connection().config().objects.timeout);
        for (unsigned round = 0; !is_quiet() && !deadline.passed(round); ++round) {
            if (connection().progress() != Errc::ok) break;
            std::this_thread::yield();
        }
    } catch (const Error&) {
        // The connection is over. It keeps the copies until it has drained.
    }
    if (!writer_->has_retired()) link_.tables().note_unretired();
    writer_.reset();
    if (id_ != 0) link_.outgoing().end(link_.connection(), id_, !is_told);
}

void Outbound::begin_step() {
    check_refusal(link_, id_);
    if (phase_ != Phase::retire) (void)link_.here();
    if (phase_ == Phase::walk && id_ == 0 && ++link_.outgoing().sends % kSendsUnseen != 0) return;
    link_.pump();
    check_refusal(link_, id_);
    if (phase_ != Phase::retire) link_.check();
}

bool Outbound::step(bool is_part) {
    if (phase_ == Phase::done) return true;
    begin_step();
    const std::uint64_t begun = packing_.image_bytes(), told = told_cursor_;
    while (phase_ != Phase::done)
        if (!advance() || (is_part && phase_ == Phase::walk &&
                           (told_cursor_ != told || packing_.image_bytes() != begun)))
            return false;
    return true;
}

bool Outbound::is_reusable() const noexcept {
    return phase_ == Phase::done || (phase_ == Phase::retire && walked_ && !writer_->reads_graph());
}

bool Outbound::is_quiet() noexcept try {
    return phase_ == Phase::done || !writer_ || writer_->retire() || !writer_->reads_graph();
} catch (const Error&) {
    return true;  // the connection is over
}

bool Outbound::advance() {
    switch (phase_) {
        case Phase::walk:
            return walk();
        case Phase::layout:
            return send_layout();
        case Phase::eager:
            return send_eager();
        case Phase::begin:
            return begin();
        case Phase::restart:
            return restart();
        case Phase::bind:
            return bind();
        case Phase::write:
            return write();
        case Phase::tell:
            return tell();
        case Phase::retire:
            return retire();
        case Phase::done:
            break;
    }
    return true;
}

bool Outbound::send(std::uint8_t kind, std::span<const std::byte> head,
                    std::span<const std::byte> body) {
    const Errc code = LayerChannel::try_send(connection(), wire::kChannel, head, body, kind);
    if (code == Errc::would_block) return false;
    if (code != Errc::ok) {
        connection().check();
        throw Error(code, "message of a graph to " + connection().peer_name(),
                    std::string(describe(code)));
    }
    wire_bytes_ += head.size() + body.size();
    link_.note_activity();
    return true;
}

bool Outbound::walk() {
    // Once the receiver awaits it. A walk that begins anew drops the opener.
    if (id_ != 0 && writer_) packing_.staging().set_opener(&writer_->opener());
    walked_ = packing_.run();
    const bool is_void = packing_.take_restart() && id_ != 0;
    if (id_ == 0 && !walked_ && packing_.may_hold_back()) return true;
    if (id_ != 0)
        phase_ = is_void ? Phase::restart : Phase::bind;
    else if (!link_.outgoing().is_told(root_.layout.fingerprint))
        phase_ = Phase::layout;
    else
        phase_ = is_small() ? Phase::eager : Phase::begin;
    return true;
}

bool Outbound::is_small() const {
    Staging& staging = packing_.staging();
    const std::uint64_t bytes = staging.cursor();
    if (!walked_ || bytes > connection().config().objects.eager_bytes || bytes > kSegmentBytes ||
        root_.alignment > kEagerAlignment)
        return false;
    const std::uint64_t records = packing_.places().size() * sizeof(PlaceRecord) +
                                  packing_.arrays().size() * sizeof(ArrayRecord);
    const std::span pieces = staging.pieces();
    return pieces.size() == 1 && pieces[0].bytes == bytes && staging.patches().empty() &&
           sizeof(wire::Eager) + records + bytes <= connection().max_message_bytes();
}

bool Outbound::send_layout() {
    Outgoing& outgoing = link_.outgoing();
    if (!outgoing.is_told(root_.layout.fingerprint)) {
        if (!tell_layout(root_.layout, root_.info.spelled())) return false;
        outgoing.set_told(root_.layout.fingerprint);
    }
    phase_ = is_small() ? Phase::eager : Phase::begin;
    return true;
}

// False: there was no room for all of it.
bool Outbound::tell_layout(const Layout& layout, std::string_view name) {
    const std::string_view text = layout.text;
    if (text.size() > wire::kMaxLayoutBytes)
        throw Error(Errc::unsupported, "type " + std::string(name),
                    "its layout takes more than 1 MiB to describe",
                    "bind fewer types in one graph, or shorten their names");
    // The parts of one layout follow each other: another operation may have sent its own between.
    if (std::exchange(link_.outgoing().teller, this) != this) told_.layout = 0;
    // A quarter of a message's room keeps the receiver busy while the next one is written.
    const std::size_t room = std::min<std::size_t>(
        connection().max_message_bytes() - sizeof(wire::LayoutPart), std::size_t{16} << 10);
    while (told_.layout < text.size()) {
        const std::string_view part = text.substr(told_.layout, room);
        const wire::LayoutPart head{layout.fingerprint, static_cast<std::uint32_t>(text.size()),
                                    static_cast<std::uint32_t>(told_.layout)};
        if (!send(wire::kLayout, wire::bytes_of(head), std::as_bytes(std::span(part))))
            return false;
        told_.layout += part.size();
    }
    link_.outgoing().teller = nullptr;
    told_.layout = 0;
    return true;
}

// Those that the walks have met since. Nothing is asked: the receiver has all of them before the
// first graph that uses them.
bool Outbound::tell_classes() {
    for (SentClasses& classes = *link_.outgoing().classes; !classes.are_told();) {
        const PolymorphicClass& next = classes.next_to_tell();
        const Layout& layout = layout_of(next.info());
        const std::string name = next.info().spelled(), file = described_in(next);
        if (!tell_layout(layout, name)) return false;
        const wire::Class head{layout.fingerprint, classes.next_number(),
                               static_cast<std::uint16_t>(name.size()),
                               static_cast<std::uint16_t>(file.size())};
        const std::string text = name + file;
        if (!send(wire::kClass, wire::bytes_of(head), std::as_bytes(std::span(text)))) return false;
        classes.set_told();
    }
    return true;
}

bool Outbound::send_eager() {
    if (!link_.outgoing().classes->are_told() && !tell_classes()) return false;
    Staging& staging = packing_.staging();
    const std::span places = packing_.places();
    const std::span arrays = packing_.arrays();
    Outgoing& outgoing = link_.outgoing();
    const wire::Eager head{outgoing.next_id(),
                           root_.layout.fingerprint,
                           static_cast<std::uint32_t>(staging.cursor()),
                           static_cast<std::uint32_t>(packing_.steps()),
                           static_cast<std::uint32_t>(packing_.references()),
                           static_cast<std::uint32_t>(places.size()),
                           static_cast<std::uint32_t>(arrays.size()),
                           options_.channel,
                           flags_of(options_)};
    const Piece image = staging.pieces()[0];
    std::span<const std::byte> all = wire::bytes_of(head);
    if (!places.empty() || !arrays.empty()) {
        outgoing.scratch.assign(all.begin(), all.end());
        append(outgoing.scratch, places);
        append(outgoing.scratch, arrays);
        all = outgoing.scratch;
    }
    if (!send(wire::kEager, all, {image.from, image.bytes})) return false;
    outgoing.begin_eager();
    packing_.set_announced();
    phase_ = Phase::done;
    return true;
}

bool Outbound::begin() {
    Outgoing& outgoing = link_.outgoing();
    if (!writer_) link_.pump();  // memory may have been freed
    if (!outgoing.may_begin()) return false;
    const wire::Begin head{outgoing.next_id(), root_.layout.fingerprint, options_.channel,
                           flags_of(options_), 0};
    if (!writer_) writer_ = std::make_unique<ImageWriter>(link_, options_.foreign);
    if (!send(wire::kBegin, wire::bytes_of(head), {})) return false;
    id_ = head.id;
    outgoing.begin_streamed();
    // Not before: the receiver may have its windows back while no graph is on its way.
    if (options_.place != nullptr) writer_->prefer(options_.place->take(link_));
    phase_ = Phase::bind;
    return true;
}

bool Outbound::restart() {
    if (!send(wire::kRestart, wire::bytes_of(wire::GraphId{id_}), {})) return false;
    writer_->restart();
    told_cursor_ = 0;
    phase_ = Phase::bind;
    return true;
}

bool Outbound::bind() {
    const std::uint32_t missing =
        writer_->bind(packing_.staging().pieces(), packing_.staging().cursor());
    if (missing == 0) {
        phase_ = Phase::write;
        return true;
    }
    const std::uint64_t changes = link_.outgoing().windows.changes() + 1;
    const std::uint32_t all = walked_ ? writer_->unbound(packing_.staging().cursor()) : 0;
    const wire::Need need{id_, missing, static_cast<std::uint32_t>(changes - 1), all, 0};
    if (asked_ != changes && send(wire::kNeed, wire::bytes_of(need), {})) asked_ = changes;
    return false;
}

bool Outbound::write() {
    if (writer_->write(packing_.staging().pieces())) {
        phase_ = Phase::tell;
        return true;
    }
    if (!writer_->take_sign_of_life()) return false;
    // Its loss does no harm.
    wire::Fragment head{};
    head.id = id_;
    head.cursor = told_cursor_;
    head.flags = wire::kPartial;
    (void)send(wire::kFragment, wire::bytes_of(head), {});
    return true;
}

bool Outbound::tell() {
    if (!link_.outgoing().classes->are_told() && !tell_classes()) return false;
    for (bool is_all = false; !is_all;)
        if (!tell_part(is_all)) return false;
    // The receiver knows all of the flush.
    wire_bytes_ += packing_.staging().cursor() - told_cursor_;
    told_cursor_ = packing_.staging().cursor();
    told_ = {};
    writer_->set_told();
    packing_.set_announced();
    const bool must_wait = packing_.staging().buffers().under_way() >= kMostUnderWay;
    phase_ = walked_ || must_wait ? Phase::retire : Phase::walk;
    return true;
}

bool Outbound::tell_part(bool& is_all) {
    Staging& staging = packing_.staging();
    std::size_t room = connection().max_message_bytes() - sizeof(wire::Fragment);
    const auto bindings = next_of(writer_->bindings(), told_.bindings, room);
    const auto places = next_of(packing_.places(), told_.places, room);
    const auto arrays = next_of(packing_.arrays(), told_.arrays, room);
    const auto patches =
        told_.bindings + bindings.size() == writer_->bindings().size()
            ? next_of(staging.patches(), told_.patches, room, sizeof(wire::Amendment))
            : std::span<const Patch>();
    is_all = told_.bindings + bindings.size() == writer_->bindings().size() &&
             told_.places + places.size() == packing_.places().size() &&
             told_.arrays + arrays.size() == packing_.arrays().size() &&
             told_.patches + patches.size() == staging.patches().size();
    const wire::Fragment head{id_,
                              staging.cursor(),
                              packing_.steps(),
                              packing_.references(),
                              static_cast<std::uint32_t>(bindings.size()),
                              static_cast<std::uint32_t>(places.size()),
                              static_cast<std::uint32_t>(arrays.size()),
                              static_cast<std::uint32_t>(patches.size()),
                              (!is_all ? wire::kPartial : (walked_ ? wire::kLast : 0)) |
                                  (staging.excerpts().any() ? wire::kExcerpts : 0),
                              0};
    std::span<const std::byte> body = std::as_bytes(places);
    if (!bindings.empty() || !arrays.empty() || !patches.empty()) {
        std::vector<std::byte>& scratch = link_.outgoing().scratch;
        scratch.clear();
        append(scratch, bindings);
        append(scratch, places);
        append(scratch, arrays);
        append(scratch, patches);
        body = scratch;
    }
    if (!send(wire::kFragment, wire::bytes_of(head), body)) return false;
    told_.bindings += bindings.size();
    writer_->set_told(told_.bindings);
    told_.places += places.size();
    told_.arrays += arrays.size();
    told_.patches += patches.size();
    return true;
}

bool Outbound::retire() {
    if (!writer_->retire()) return false;
    packing_.staging().buffers().set_retired();
    if (!walked_) {
        phase_ = Phase::walk;
        return true;
    }
    link_.outgoing().end(link_.connection(), id_, false);
    phase_ = Phase::done;
    return true;
}

}  // namespace verbatim::objects
