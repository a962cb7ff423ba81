// Messages of a connection, and its place on a lane.
#include "connection_impl.hpp"

#include <verbatim/driver/log.hpp>

namespace verbatim {
namespace {

// A loop that the program drives may not poll again soon; most closes take microseconds.
constexpr std::chrono::milliseconds kInHandler{5};

}  // namespace

Connection::Impl::Impl(Meeting meeting)
    : lane(std::move(meeting.lane)),
      context(std::move(meeting.context)),
      endpoint(std::move(meeting.endpoint)),
      channel(std::move(meeting.channel)),
      member(endpoint->join(lane->queue(), lane->polled())),
      dispatcher(*lane, member, handle),
      one_sided(member.path(), context->arenas, context->device->info().max_message_bytes),
      grants(*lane, member, *context->device, context->quarantine,
             (endpoint->peer().features & Hello::kHearsOfEnds) != 0) {
    member.events() = events();
    told.client.tie(std::move(meeting.client), lane,
                    {this,
                     [](void* self) noexcept {
                         const Use use(*static_cast<Impl*>(self));
                         verbatim::supersede(*static_cast<Impl*>(self));
                     }},
                    channel.name());
    begin_telemetry(*this);
    lane->join(member, channel.socket().get());
}

Connection::Impl::~Impl() {
    lane->leave(member, channel.socket().get());
    endpoint->leave();
    one_sided.drop_prepared();  // first: callbacks may ask for results
    one_sided.waiters().fail(Errc::flushed);
    grants.abandon();
    if (is_left_to_lane()) lane->kept().end_closing();
    member.events() = {};
    member.leave();
    if (member.held() != 0) lane->kept().linger(endpoint, member);
}

MemberEvents Connection::Impl::events() noexcept {
    return {this,
            [](void* self) noexcept {
                Impl& impl = *static_cast<Impl*>(self);
                const Use use(impl);
                (void)impl.judge(impl.dispatcher.handle());
                warn_of_held(impl);
            },
            [](void* self, Errc why) noexcept { (void)static_cast<Impl*>(self)->fail(why); },
            [](void* self) noexcept { Use(*static_cast<Impl*>(self))->go_on(); },
            [](void* self) noexcept { static_cast<Impl*>(self)->look_at_side_channel(); },
            [](void* self, std::span<const std::uint32_t> keys) noexcept {
                static_cast<Impl*>(self)->one_sided.prepared().end(keys);
            },
            [](void* self) noexcept { static_cast<Impl*>(self)->closing_.end_idle(); }};
}

void Connection::Impl::abandon() noexcept {
    const Use use(*this);  // whose end deletes it
    handle = nullptr;
    endpoint->close_remote();  // else nothing that was posted since retires
    told.client.cut();
    one_sided.prepared().end_all();
    dispatcher.close();
    closing_.begin();
    if (lane->runner().load(std::memory_order_relaxed) == std::thread::id{})
        closing_.wait(lane->in_handler() ? Deadline::after(kInHandler) : Deadline::never());
    if (!closing_.go_on()) lane->pending().add(member);
    one_sided.waiters().look();
}

void Connection::Impl::Use::end_last() noexcept {
    if (impl_.closing_.is_over()) {
        delete &impl_;
        return;
    }
    impl_.dispatcher.drop();
    if (impl_.is_left_to_lane()) return;
    impl_.lane->kept().begin_closing();
    // The lane ends what is still closing, when nobody has the lane any more.
    const std::shared_ptr<Lane::Impl> owned =
        std::exchange(impl_.lane, {std::shared_ptr<void>(), impl_.lane.get()});
}

void warn_of_held(Connection::Impl& impl) noexcept {
    if (!impl.dispatcher.finds_held_up()) [[likely]]
        return;
    log::warn("{}: {} messages are held and keep the next ones from coming; release them",
              impl.channel.name(), impl.member.ring().receiver().held());
}

Errc Connection::Impl::try_send(const OutgoingMessage& message) noexcept {
    const Errc error = may_send(message);
    return error == Errc::ok ? judge(member.ring().try_send(message)) : error;
}

Errc Connection::Impl::try_claim(const OutgoingMessage& message, std::size_t bytes,
                                 Claim& claim) noexcept {
    const Errc error = may_send(message);
    return error == Errc::ok ? judge(member.try_claim(message, bytes, claim)) : error;
}

Errc Connection::Impl::handle_all() noexcept {
    const Errc error = dispatcher.handle_all();
    if (error == Errc::out_of_memory) return error;
    if (error > Errc::would_block) (void)fail(error);
    settle_end();
    return told.state;
}

}  // namespace verbatim
