// Dialling again, and what became of messages.
#include <sys/random.h>

#include <cstring>

#include <verbatim/driver/log.hpp>

#include "../lane/lane_driver.hpp"
#include "reconnecting_impl.hpp"

namespace verbatim {
namespace {

ClientIdentity new_client() {
    ClientIdentity client;
    if (getrandom(client.id.data(), client.id.size(), 0) != static_cast<ssize_t>(client.id.size()))
        throw Error(Errc::device_error, "client id", "the kernel gave no random bytes",
                    "see whether getrandom() is forbidden here");
    return client;
}

std::uint32_t seed_of(const ClientIdentity& client) noexcept {
    std::uint32_t seed = 0;
    std::memcpy(&seed, client.id.data(), sizeof seed);
    return seed;
}

// Another attempt would end in the same way.
bool is_for_good(Errc code) noexcept {
    switch (code) {
        case Errc::permission_denied:
        case Errc::version_mismatch:
        case Errc::unsupported:
        case Errc::config_error:
        case Errc::invalid_argument:
        case Errc::no_device:
            return true;
        default:
            return false;
    }
}

void check_options(const ReconnectOptions& options) {
    if (options.first_pause.count() > 0 && options.longest_pause >= options.first_pause &&
        options.give_up_after.count() >= 0)
        return;
    throw Error(Errc::invalid_argument, "reconnect options", "the pauses contradict each other",
                "first_pause is at least 1 ms, and longest_pause no shorter");
}

}  // namespace

Reconnecting::Impl::Impl(const Lane& on, Address address, const ReconnectOptions& wanted)
    : lane(on),
      context(std::static_pointer_cast<Context::Impl>(on.impl()->resources().keeps)),
      to(std::move(address)),
      options(wanted),
      client(new_client()),
      pauses_(wanted.first_pause, wanted.longest_pause, seed_of(client)),
      next_attempt_(Clock::now()),
      lost_at_(next_attempt_) {}

Errc Reconnecting::Impl::state() const noexcept {
    if (ended) return ended->code();
    return connection && connection->state() == Errc::ok ? Errc::ok : Errc::would_block;
}

void Reconnecting::Impl::go_on() noexcept try {
    if (ended || lane.impl()->in_handler()) return;
    if (lane.impl()->polled().is_inherited())
        (void)calling_.release();  // a thread may use it there
    refuse_inherited(*lane.impl(), "reconnecting");
    if (connection) {
        if (connection->state() == Errc::ok) return settle();
        end_connection();
    }
    if (!ended && !connection && !calling_ && Clock::now() >= next_attempt_) dial();
    if (!calling_) return;
    calling_->go_on();
    if (calling_->is_over()) take_calling();
} catch (const Error& error) {
    failed(error);
} catch (const std::exception& error) {
    failed(Error(Errc::out_of_memory, "reconnecting", error.what()));
}

void Reconnecting::Impl::add_to(WaitList& list) const {
    if (calling_) return calling_->add_to(list);
    if (!ended && !connection) list.add(Deadline{next_attempt_});
}

// Each attempt has a generation of its own: the listener may know of one that failed here.
void Reconnecting::Impl::dial() {
    ++client.generation;
    calling_ =
        std::make_unique<Calling>(context, make_room(lane.impl(), context->config), to, client);
}

void Reconnecting::Impl::take_calling() {
    const std::unique_ptr<Calling> over = std::move(calling_);
    begin(over->take());
}

void Reconnecting::Impl::begin(Meeting meeting) {
    connection.emplace(std::make_unique<Connection::Impl>(std::move(meeting)));
    for (const auto& [channel, handler] : handlers.channels)
        connection->set_handler(channel, handler);
    pauses_.reset();
    log::info("{}: connected as generation {}", connection->peer_name(), client.generation);
    if (handlers.connected) handlers.connected(*connection);
}

void Reconnecting::Impl::settle() noexcept {
    if (!connection) return;
    MessageRing& ring = now().member.ring();
    if (ring.has_posted_all()) unsettled.resolve(ring.sent());
    unsettled.take(std::max(ring.sender().at().consumed(), now().end().taken()));
}

void Reconnecting::Impl::end_connection() {
    settle();
    const bool is_over = connection->peer_closed() && !options.after_close;
    const std::uint64_t first = unsettled.settled();
    const Lost lost{client.generation, first, unsettled.accepted() - first, connection->state()};
    const std::string name = connection->peer_name();
    unsettled.clear();
    connection.reset();
    lost_at_ = Clock::now();
    if (is_over) ended.emplace(Errc::peer_lost, name, "the peer closed it", "connect again");
    pause();
    if (handlers.lost) handlers.lost(lost);
}

void Reconnecting::Impl::pause() { next_attempt_ = Clock::now() + pauses_.next(); }

void Reconnecting::Impl::failed(const Error& error) {
    calling_.reset();
    log::debug("{}", error.what());
    const auto limit = options.give_up_after;
    if (is_for_good(error.code()))
        ended = error;
    else if (limit.count() != 0 && Clock::now() - lost_at_ >= limit)
        ended.emplace(Errc::timeout, error.object(), "no connection in time: " + error.cause(),
                      "start the listener, or raise give_up_after");
    pause();
}

Errc Reconnecting::Impl::try_send(const OutgoingMessage& message) noexcept {
    if (!connection || ended || now().told.state != Errc::ok) [[unlikely]]
        return state();
    const Errc error =
        connection->try_send(message.channel, message.head, message.body, message.kind);
    if (error != Errc::ok)  // its end is told by a poll
        return scope_of(error) == Scope::connection ? Errc::would_block : error;
    const MessageRing& ring = now().member.ring();
    settle();
    unsettled.accept(ring.has_posted_all() ? ring.sent() : Unsettled::kUnknown);
    return Errc::ok;
}

Reconnecting::Reconnecting(const Lane& lane, std::string_view address,
                           const ReconnectOptions& options) {
    check_options(options);
    impl_ = std::make_unique<Impl>(lane, parse_address(address), options);
}
Reconnecting::Reconnecting(Reconnecting&&) noexcept = default;
Reconnecting& Reconnecting::operator=(Reconnecting&& other) noexcept {
    const Reconnecting ended(std::move(*this));
    impl_ = std::move(other.impl_);
    return *this;
}
// A forked child has no thread of an attempt that is under way: its copy stays where it is.
Reconnecting::~Reconnecting() {
    if (impl_ != nullptr && impl_->lane.impl()->polled().is_inherited()) (void)impl_.release();
}

void Reconnecting::set_handler(std::uint8_t channel, ChannelHandler handler) {
    if (impl_->connection) impl_->connection->set_handler(channel, handler);
    impl_->handlers.channels.emplace_back(channel, std::move(handler));
}

void Reconnecting::on_connected(std::function<void(Connection&)> call) {
    impl_->handlers.connected = std::move(call);
}
void Reconnecting::on_lost(std::function<void(const Lost&)> call) {
    impl_->handlers.lost = std::move(call);
}

Errc Reconnecting::poll() noexcept {
    const auto guard = impl_->lane.impl()->enter();
    (void)impl_->lane.impl()->poll();
    impl_->go_on();
    return impl_->state();
}

void Reconnecting::wait(Deadline deadline) {
    const auto guard = impl_->lane.impl()->enter();
    refuse_in_handler_of(*impl_->lane.impl());
    Config::LaneSection waits = impl_->context->config.lane;
    waits.spin = {};
    WaitingLanes waiting(impl_->lane, waits);
    const Awaited::Here here(*impl_);
    WaitRounds rounds(waiting.driver(), deadline);
    while (impl_->state() == Errc::would_block) {
        if (deadline.passed())
            throw Error(Errc::timeout, "reconnecting", "there was no connection in time",
                        "start the listener, or allow more time");
        rounds.next();
    }
    check();
}

void Reconnecting::check() const {
    if (impl_->ended) throw *impl_->ended;
}

Errc Reconnecting::try_send(std::uint8_t channel, std::span<const std::byte> head,
                            std::span<const std::byte> body, std::uint8_t kind) noexcept {
    return impl_->try_send({channel, kind, head, body});
}
std::uint64_t Reconnecting::sent() const noexcept { return impl_->unsettled.accepted(); }
std::uint64_t Reconnecting::settled() noexcept {
    impl_->settle();
    return impl_->unsettled.settled();
}
Connection* Reconnecting::connection() noexcept {
    return impl_->connection ? &*impl_->connection : nullptr;
}
const ClientIdentity& Reconnecting::client() const noexcept { return impl_->client; }

}  // namespace verbatim
