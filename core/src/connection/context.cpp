// Contexts: configuration, device and arenas put together; connecting.
#include <verbatim/core/context.hpp>

#include <atomic>
#include <utility>

#include <verbatim/driver/log.hpp>

#include "../arena/system_memory.hpp"
#include "../bootstrap/unix_socket.hpp"
#include "../lane/lane_driver.hpp"
#include "calling.hpp"
#include "connection_impl.hpp"
#include "context_impl.hpp"
#include "listener_impl.hpp"

namespace verbatim {
namespace {

// Peers reach an arena by windows onto it alone.
constexpr Access kLendable = Access::local_write | Access::window_bind;

// A registration that is refused in the middle of the work hurts more than this line.
void warn_of_memlock(const Device& device, const Config& config) {
    const std::uint64_t lockable = system_memory::lockable_bytes();
    const std::uint64_t wanted = config.arena.max_bytes + config.receive_arena.max_bytes;
    if (!device.info().pins_memory || lockable >= wanted) return;
    log::warn(
        "{} pins what is registered: the arenas may take {} bytes (max_bytes), RLIMIT_MEMLOCK is "
        "{}. Run `ulimit -l unlimited` before the program, or lower max_bytes",
        device.info().name, wanted, system_memory::memlock_limit());
}

// A poller's own lane waits as the section says.
Lane lane_of(const std::shared_ptr<Context::Impl>& context, const Config::PollerSection& section) {
    Config::LaneSection lane = context->config.lane;
    lane.mode = section.mode;
    lane.spin = section.spin;
    return Lane(make_lane(context, lane));
}

// `driver`: of the lanes of this thread. Any thread. Throws Error.
Meeting meet(Calling& calling, LaneDriver* driver) {
    const Awaited::Here here(calling);
    WaitRounds rounds(driver, Deadline::never());
    while (!calling.is_over()) rounds.next();
    return calling.take();
}

// Once in a process: a program may listen often.
void warn_of_missing_key(const Config& config, const std::string& listener) {
    static std::atomic<bool> warned{false};
    if (!config.connect.key_file.empty() || warned.exchange(true)) return;
    log::warn(
        "other machines can reach listener {}, and need no key to connect. Set "
        "`[connect] key_file` on both sides (`verbatim key FILE` makes one), or listen on "
        "localhost",
        listener);
}

std::unique_ptr<rdma::CmListener> listen_by_manager(Context::Impl& context, const ManagerPort& at) {
    const Config::ConnectSection& connect = context.config.connect;
    rdma::CmStreams& streams = context.streams(at.text());
    const tcp::AddressList addresses = tcp::addresses_to_listen(at.at, connect.loopback_only);
    auto listener = streams.listen(*addresses->ai_addr, connect.timeout);
    if (!tcp::is_loopback(addresses->ai_addr)) warn_of_missing_key(context.config, at.text());
    return listener;
}

// In the lane's thread, which drives it meanwhile.
Connection meet_on(const Lane& lane, Calling& calling, Config::LaneSection waits) {
    waits.spin = {};  // asleep soon: the handshake needs this core more than a spinning lane does
    WaitingLanes waiting(lane, waits);
    return Connection(std::make_unique<Connection::Impl>(meet(calling, waiting.driver())));
}

}  // namespace

Context::Impl::Impl(const Config& configuration, std::unique_ptr<Device> opened)
    : config(configuration),
      key(config.connect.key_file.empty() ? nullptr
                                          : SecretKey::from_file(config.connect.key_file)),
      device(std::move(opened)),
      arenas(*device, config, kLendable),
      posted(*device, config.receive_arena),
      rings("message rings", config.receive_arena),
      mirrors("message mirrors", config.arena),
      quarantine(std::make_shared<Quarantine>(*device, config.receive_arena.max_bytes / 2)),
      events(*device),
      telemetry(telemetry::Segment::open(config.telemetry), arenas, *device, config) {
    warn_of_memlock(*device, config);
}

rdma::CmStreams& Context::Impl::streams(const std::string& address) {
    if (!device->info().connection_manager)
        throw Error(Errc::unsupported, address, device->info().name + " has no connection manager",
                    "use host:port or unix:/path, or an RDMA device: kind = \"rdma\" in [device]");
    const std::lock_guard guard(streams_mutex_);
    if (streams_ == nullptr)
        streams_ =
            std::make_unique<rdma::CmStreams>(device->info().name, config.connect.keep_alive);
    return *streams_;
}

std::shared_ptr<Lane::Impl> make_lane(const std::shared_ptr<Context::Impl>& context,
                                      const Config::LaneSection& section) {
    auto lane = make_own<Lane::Impl>(
        LaneResources{context, *context->device, *context->quarantine, context->events,
                      std::make_shared<NotePool>(context->posted),
                      context->config.connect.idle_timeout, &context->telemetry},
        section);
    context->events.add(lane);
    return lane;
}

void check_lane(const Context::Impl& context, const Lane& lane) {
    if (lane.impl() != nullptr) refuse_inherited(*lane.impl(), "context");
    if (lane.impl() != nullptr && lane.impl()->resources().keeps.get() == &context) return;
    throw Error(Errc::invalid_argument, "lane", "it belongs to another context",
                "give a lane or a poller of the context that connects or listens");
}

void refuse_in_handler_of(const Lane::Impl& lane) {
    if (lane.in_handler())
        throw Error(Errc::would_deadlock, "lane",
                    "one of its handlers called something that connects or accepts",
                    "give a task to Lane::submit(): tasks may wait");
}

Context::Context() : Context(Config::found()) {}
Context::Context(const Config& config) : Context(config, open_configured_device(config)) {}
Context::Context(const Config& config, std::unique_ptr<Device> device)
    : impl_(make_own<Impl>(config, std::move(device))),
      lane_(verbatim::make_lane(impl_, config.lane)) {
    for (Config::PollerSection section : config.pollers) {
        if (section.name.empty()) section.name = "poller " + std::to_string(pollers_.size());
        pollers_.push_back(std::make_unique<Poller>(section, lane_of(impl_, section)));
    }
}
Context::~Context() = default;

Lane Context::make_lane() {
    refuse_inherited(*lane_.impl(), "context");
    return Lane(verbatim::make_lane(impl_, impl_->config.lane));
}

Poller& Context::poller(std::string_view name) const {
    for (const auto& poller : pollers_)
        if (poller->name() == name) return *poller;
    throw Error(Errc::invalid_argument, "context",
                "it has no poller of the name \"" + std::string(name) + "\"",
                "write a section [[poller]] with that name");
}

Connection Context::connect(std::string_view address) { return connect(address, lane_); }

Connection Context::connect(std::string_view address, const Lane& on) {
    check_lane(*impl_, on);
    const auto guard = on.impl()->enter();
    refuse_in_handler_of(*on.impl());
    const Address to = parse_address(address);
    const std::shared_ptr<Impl> context = impl_;  // tasks run meanwhile
    const std::shared_ptr<Lane::Impl> lane = on.impl();
    LaneOfEndpoint place = make_room(lane, context->config);
    Calling calling(context, std::move(place), to);
    return meet_on(on, calling, context->config.lane);
}

Connection Context::connect_over(const HandedSocket& socket) { return connect_over(socket, lane_); }

// Until the checks have passed, the socket is the program's.
Connection Context::connect_over(const HandedSocket& socket, const Lane& on) {
    check_lane(*impl_, on);
    const auto guard = on.impl()->enter();
    refuse_in_handler_of(*on.impl());
    tcp::check_connected_stream(socket.file);
    Descriptor owned(socket.file);
    const std::shared_ptr<Impl> context = impl_;  // tasks run meanwhile
    Calling calling(context, make_room(on.impl(), context->config), std::move(owned), socket);
    return meet_on(on, calling, context->config.lane);
}

// The poller's thread only makes room and takes the connection: it does not wait for the peer.
void Context::connect(std::string_view address, Poller& poller,
                      const std::function<void(Connection&)>& setup) {
    Lane lane = poller.lane();
    check_lane(*impl_, lane);
    const Address to = parse_address(address);
    LaneOfEndpoint place = lane.call([&] {
        refuse_in_handler_of(*lane.impl());
        return make_room(lane.impl(), impl_->config);
    });
    // Driven where a task of a poller connects.
    LaneDriver* const driver = LaneDriver::is_deep() ? nullptr : LaneDriver::of_thread();
    Calling calling(impl_, std::move(place), to);
    Meeting meeting = meet(calling, driver);
    lane.call([&] { host(std::move(meeting), setup); });
}

Listener Context::listen(std::string_view address) {
    refuse_inherited(*lane_.impl(), "context");
    const Address at = parse_address(address);
    Listener::Impl::Bound bound;
    if (const auto* name = std::get_if<UnixName>(&at)) {
        static_cast<unix_socket::Bound&>(bound) = unix_socket::listen(*name);
    } else if (const auto* port = std::get_if<ManagerPort>(&at)) {
        bound.by_manager = listen_by_manager(*impl_, *port);
    } else {
        bound.socket = tcp::listen(std::get<HostPort>(at), impl_->config.connect.loopback_only);
        if (tcp::is_reachable(bound.socket))
            warn_of_missing_key(impl_->config, tcp::local_name(bound.socket));
    }
    return Listener(std::make_unique<Listener::Impl>(impl_, lane_, std::move(bound)));
}

Arena& Context::arena() noexcept { return impl_->arenas.objects.arena(); }
Arena& Context::arena(std::string_view name) const { return impl_->arenas.named_arena(name); }
Device& Context::device() noexcept { return *impl_->device; }
const Config& Context::config() const noexcept { return impl_->config; }

std::shared_ptr<void> SharedStates::find_or_make(const void* key, LayerAccess::MakeState make,
                                                 const Config& config) {
    const std::lock_guard lock(mutex_);
    for (const auto& [known, state] : states_)
        if (known == key) return state;
    states_.emplace_back(key, make(config));
    return states_.back().second;
}

std::shared_ptr<void> LayerAccess::shared_state(Connection& connection, const void* key,
                                                MakeState make) {
    if (impl_of(connection).lane->polled().is_inherited()) connection.check();
    Context::Impl& context = *impl_of(connection).context;
    return context.states.find_or_make(key, make, context.config);
}

}  // namespace verbatim
