// The queue pair's life: creation, connection, questions of peers and of programs, and its end.
#include "queue_pair.hpp"

#include <algorithm>
#include <chrono>
#include <new>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

#include "ports/tcp/meeting/port_choice.hpp"

namespace verbatim::softnic {
namespace {

// The answer of a control thread takes some 50 us.
constexpr std::chrono::milliseconds kSoon{1};

ChannelTerms terms_of(const QueuePairParts& parts) noexcept {
    ChannelTerms terms;
    terms.sleeps = parts.receive_completions->may_sleep();
    terms.domain = parts.domain;
    terms.names_queues = parts.xrc_domain != nullptr;
    return terms;
}

// Tests of doorbells and of faults want requests; rdma-core's programs know no direct access, and
// turns without hooks leave what was posted meanwhile undone.
bool stores_unnoticed(const Options& options, const QueuePairTraits& traits) noexcept {
    return !options.strict_doorbells && !options.parked && !traits.follows_verbs &&
           !traits.datagrams() && !traits.names_queues;
}

void ring_bell_of(const void* core) noexcept {
    static_cast<const DeviceCore*>(core)->ring_own_bell();
}

const char* name_of(PortKind port, const DeviceCore& core) noexcept {
    if (port == PortKind::udp) return core.options().port == PortKind::dpdk ? "dpdk" : "udp";
    return port == PortKind::tcp ? "tcp" : "shm";
}

void check_peer(const DeviceCore& core, std::uint32_t number, const QueuePairAddress& peer) {
    const std::string object = fmt::format("queue pair {}", number);
    if (core.inherited())
        throw Error(Errc::device_error, object, "it was inherited through fork()",
                    "open a device in the child");
    if (peer.kind != kAddressKind)
        throw Error(Errc::unsupported, object, "the peer's device is no software NIC",
                    "choose the same device.kind on both sides");
}

// Asks the peer for its ring; requests go there from then on.
void open_channel(QueuePair& queue_pair, std::shared_ptr<Link> link, std::uint32_t peer,
                  Instant deadline) {
    queue_pair.setup().streams().decline();
    ChannelPlace place = link->open_channel(queue_pair.view().number, peer, deadline);
    std::shared_ptr<const WakeFile> waker = std::move(place.waker);
    ChannelSender outgoing(std::move(place));
    queue_pair.states().start(std::move(link), std::move(outgoing), std::move(waker));
}

// Nobody answers on this host, where the peer was: it has ended since.
std::shared_ptr<Link> link_to(DeviceCore& core, const QueuePairAddress& own,
                              const QueuePairAddress& peer, Instant deadline) try {
    return core.link_to(peer, deadline);
} catch (const Error& error) {
    const bool is_here = own.home.host != HostName{} && own.home.host == peer.home.host;
    if (error.code() != Errc::unsupported || !is_here) throw;
    throw Error(Errc::peer_lost, error.object(),
                "no software NIC answers there any more: the peer has ended", "start it again");
}

}  // namespace

QueuePair::QueuePair(std::shared_ptr<DeviceCore> core, QueuePairParts parts)
    : core_(std::move(core)),
      target_(parts.xrc_domain, *this, *core_),
      turns_(*core_, *this, parts),
      setup_(turns_, core_->rings(), terms_of(parts), core_->wires(), {ring_bell_of, core_.get()}),
      sources_(turns_.engines().shared(), turns_.engines().receive_gate(), turns_.attention(),
               core_->rings()),
      states_(*this, *core_, turns_) {
    transport_ = "shm";
    QueuePairEngines& engines = turns_.engines();
    engines.set_number(core_->add_queue_pair(*this));
    try {
        engines.make(*core_, parts, turns_.hook());
        turns_.absence().bind(engines.shared(), engines.requester(), engines.responder());
        states_.open();
        made_.store(true, std::memory_order_release);
        turns_.absence().open();
    } catch (...) {
        states_.abandon();
        core_->remove_queue_pair(view().number);
        if (engines.shared().access) engines.shared().access->remove();
        throw;
    }
}

// Made by the first call: few queue pairs need it.
std::byte* QueuePair::open_remote(std::uint64_t address, std::size_t bytes,
                                  std::uint32_t remote_key) noexcept {
    if (direct_ == nullptr) {
        QueuePairEngines& engines = turns_.engines();
        if (!stores_unnoticed(core_->options(), engines.shared().traits)) return nullptr;
        direct_.reset(new (std::nothrow) DirectAccess(
            engines.send_gate(), engines.requester(),
            {[](void* turns) noexcept { static_cast<QueuePairTurns*>(turns)->run_send(); },
             &turns_}));
        if (direct_ == nullptr) return nullptr;
    }
    return direct_->open(address, bytes, remote_key);
}

// After it nothing that comes through this queue pair touches memory, but for a peer that is
// stopped in the middle: that one keeps its word in the registry.
QueuePair::~QueuePair() {
    if (core_->inherited()) return;
    close_remote();
    core_->remove_queue_pair(view().number);
    states_.close();
    turns_.engines().shared().access->remove();
}

QueuePairAddress QueuePair::address() const {
    QueuePairAddress address;
    address.kind = kAddressKind;
    address.number = view().number;
    address.nonce = core_->nonce();
    const std::string& name = core_->socket_name();
    std::copy_n(name.begin(), std::min(name.size(), address.local_socket.size()),
                address.local_socket.begin());
    setup_.streams().tell(address);
    return address;
}

ChannelPlace QueuePair::open_for(const LinkPeer& asking, std::uint32_t from) {
    // A number that was guessed, or was a former queue pair's.
    if (!made_.load(std::memory_order_acquire))
        throw Error(Errc::connection_refused, fmt::format("queue pair {}", view().number),
                    "it is being made");
    return shared().traits.datagrams() ? sources_.admit(asking, from, setup_.terms())
                                       : setup_.admit(asking, from);
}

// Of what came meanwhile the engine thread is told.
void QueuePair::end_session(std::uint64_t session, Instant deadline) noexcept {
    if (!made_.load(std::memory_order_acquire)) return;
    setup_.end_session(session);
    if (!shared().traits.datagrams()) return;
    sources_.end_session(session, deadline);
    core_->ring_own_bell();
}

// The peer's control thread answers where there is a link, unless the peer has stopped. What was
// begun then stays for connect(): the peer may have been told of it.
bool QueuePair::connect_soon(const QueuePairAddress& peer) {
    check_peer(*core_, view().number, peer);
    std::shared_ptr<Link> link = core_->link_to(peer, std::nullopt);
    if (link == nullptr || !choose_port(address(), peer).shm()) return false;
    setup_.expect({peer.nonce, peer.number});
    try {
        setup_.open_ring(peer.nonce);
        open_channel(*this, std::move(link), peer.number, std::chrono::steady_clock::now() + kSoon);
    } catch (const Error& error) {
        if (error.code() == Errc::timeout) return false;
        setup_.withdraw();
        throw;
    }
    return true;
}

void QueuePair::connect(const QueuePairAddress& peer, int timeout_ms) {
    check_peer(*core_, view().number, peer);
    const Instant deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    const QueuePairAddress own = address();
    PortChoice choice = choose_port(own, peer);
    setup_.expect({peer.nonce, peer.number});
    try {
        setup_.open_ring(peer.nonce);
        setup_.streams().settle(choice, own, peer, deadline);
        transport_ = name_of(choice.port, *core_);
        is_moved_by_polls_ = !choice.shm();
        if (!choice.shm()) {
            log::info("queue pair {}: the port is {}: {}", view().number, transport_,
                      choice.reason);
            return states_.start(choice.port, own, peer, deadline);
        }
        open_channel(*this, link_to(*core_, own, peer, deadline), peer.number, deadline);
    } catch (...) {
        setup_.withdraw();
        throw;
    }
}

bool QueuePair::peer_lost() const noexcept {
    const auto held = setup_.lock();
    return shared().connection.peer_lost();
}

std::uint64_t QueuePair::receiver_not_ready_count() const noexcept {
    const auto held = setup_.lock();
    if (const PeerStream* const stream = shared().connection.stream.load())
        return stream->words().not_ready();
    const ChannelSender& outgoing = shared().connection.outgoing;
    return outgoing ? outgoing.not_ready() : 0;
}

std::optional<QueuePairFacts> QueuePair::facts() const {
    if (!made_.load(std::memory_order_acquire)) return std::nullopt;
    const RequestCounts& sent = turns_.engines().requester().counts();
    const ReceiveCounts& received = turns_.engines().responder().counts();
    QueuePairFacts facts;
    facts.number = view().number;
    facts.transport = shared().traits.transport;
    if (shared().traits.names_queues) facts.xrc = XrcSide::initiator;
    if (target_) facts.xrc = XrcSide::target;
    facts.state = state();
    facts.requests = sent.requests.load(std::memory_order_relaxed);
    facts.messages = received.messages.load(std::memory_order_relaxed);
    facts.bytes_sent = sent.bytes_sent.load(std::memory_order_relaxed);
    facts.bytes_received = received.bytes.load(std::memory_order_relaxed) +
                           sent.bytes_fetched.load(std::memory_order_relaxed);
    facts.not_ready = receiver_not_ready_count();
    for (std::size_t i = 0; i < kFaultActions; ++i)
        facts.faults[i] =
            turns_.engines().requester().faults().counted(static_cast<FaultAction>(i));
    const auto peer = setup_.peer_number();
    if (peer && !shared().traits.datagrams()) facts.peer = *peer;
    return facts;
}

}  // namespace verbatim::softnic
