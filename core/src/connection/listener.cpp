// The accepting side.
#include <sys/eventfd.h>

#include <fmt/format.h>
#include <verbatim/driver/deadline.hpp>
#include <verbatim/driver/log.hpp>

#include "connection_impl.hpp"
#include "listener_impl.hpp"

namespace verbatim {
namespace {

constexpr std::size_t kMaxCallers = 64;  // more wait in the kernel's queue
// Between attempts to take a caller while there is no descriptor for it: no event tells of a free
// one.
constexpr std::chrono::milliseconds kStarvedPause{20};

void turn_down(SideChannel& channel, const Error& reason) {
    log::warn("refused {}: {}", channel.name(), reason.cause());
    channel.refuse(reason);
}

}  // namespace

Listener::Impl::Impl(std::shared_ptr<Context::Impl> shared, Lane lane_of_context, Bound bound)
    : context(std::move(shared)),
      lane(std::move(lane_of_context)),
      file(std::move(bound.file)),
      socket(std::move(bound.socket)),
      by_manager_(std::move(bound.by_manager)),
      stopped_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

Listener::Impl::~Impl() {
    stop_ = true;
    if (stopped_) (void)eventfd_write(stopped_.get(), 1);
    if (server_.joinable()) server_.join();
}

// The callers of a listener, while it accepts.
class Listener::Impl::Accepting final : public Awaited {
  public:
    Accepting(Impl& impl, const Target& target) noexcept : impl_(impl), target_(target) {}
    void go_on() noexcept override try {
        impl_.take_callers();
        impl_.welcomes_.go_on();
        // Not where a handler waits for another lane: room is made between polls only.
        if (target_.lane == nullptr || !target_.lane->in_handler()) impl_.hear_callers(target_);
    } catch (const std::exception& error) {
        log::error("listener: {}", error.what());
    }
    void add_to(WaitList& list) const override {
        impl_.welcomes_.add_to(list);
        impl_.add_callers_to(list, target_);
    }

  private:
    Impl& impl_;
    const Target& target_;
};

std::optional<Meeting> Listener::Impl::next(const Target& target, Deadline deadline) {
    Accepting accepting(*this, target);
    const Awaited::Here here(accepting);
    WaitRounds rounds(target.driver, deadline);
    while (!stop_) {
        if (auto ready = welcomes_.take(target.lane)) return ready;
        if (deadline.passed()) break;
        rounds.next();
    }
    return std::nullopt;
}

// Side by side, but for a lane that was named: a handshake ties its caller to that lane, and the
// next call may name another.
Clock::time_point Listener::Impl::may_start(const Target& target) const noexcept {
    return welcomes_.may_start(target.lane == lane.impl().get() ? nullptr : target.lane);
}

Connection Listener::Impl::accept(const Lane& on, Deadline deadline) {
    check_lane(*context, on);
    const auto guard = on.impl()->enter();
    refuse_in_handler_of(*on.impl());
    const auto place = [&] { return make_room(on.impl(), context->config); };
    WaitingLanes waiting(on, context->config.lane);
    const Target target{on.impl().get(), place, waiting.driver()};
    while (auto meeting = next(target, deadline)) {
        const std::string name = meeting->channel.name();
        try {
            return Connection(std::make_unique<Connection::Impl>(std::move(*meeting)));
        } catch (const Error& error) {
            log::warn("refused {}: {}", name, error.cause());
        }
    }
    const bool is_unix = port() == 0;
    throw Error(Errc::timeout,
                is_unix ? "listener " + tcp::local_name(socket)
                        : fmt::format("listener on port {}", port()),
                "no peer completed the hello in time", "start the sender, or allow more time");
}

std::optional<SideChannel> Listener::Impl::take_caller() {
    if (by_manager_) {
        std::optional<rdma::CmStream> stream = by_manager_->accept();
        if (!stream) return std::nullopt;
        return SideChannel(std::move(*stream));
    }
    Descriptor caller = tcp::accept(socket);
    if (!caller) return std::nullopt;
    tcp::keep_alive(caller, context->config.connect.keep_alive);
    return SideChannel::over(std::move(caller));
}

void Listener::Impl::take_callers() try {
    while (callers_.size() < kMaxCallers) {
        std::optional<SideChannel> caller = take_caller();
        starved_ = false;
        if (!caller) return;
        callers_.push_back(
            {std::move(*caller), Deadline::after(context->config.connect.timeout), std::nullopt});
        if (context->key != nullptr)
            callers_.back().proving.emplace(context->key, Prover::Role::listener);
    }
} catch (const Error& error) {  // callers wait in the kernel's queue until something was closed
    if (!starved_) log::warn("{}", error.what());
    starved_ = true;
}

void Listener::Impl::hear_callers(const Target& target) {
    for (auto it = callers_.begin(); it != callers_.end() && may_start(target) <= Clock::now();) {
        try {
            if (const auto hello = hear(*it)) {
                LaneOfEndpoint place = target.find_place();  // before the channel is given away
                welcomes_.start(context, std::move(place), std::move(it->channel), *hello);
                welcomes_.go_on();
            } else {
                ++it;
                continue;
            }
        } catch (const Error& error) {
            turn_down(it->channel, error);
        }
        it = callers_.erase(it);
    }
}

std::optional<Hello> Listener::Impl::hear(Caller& caller) {
    const std::string& name = caller.channel.name();
    if (caller.proving && !caller.proving->go_on(caller.channel, caller.deadline))
        return std::nullopt;
    const auto frame = caller.channel.try_receive();
    if (frame && frame->type == FrameType::hello) return parse_hello(frame->body, name);
    if (frame && frame->type == FrameType::proof && !caller.proving)
        throw Error(Errc::permission_denied, name,
                    "the caller proves itself by a key, and this listener has none",
                    "set key_file of [connect] to the same key on both sides, or on neither");
    if (frame)
        throw Error(Errc::protocol_error, name, "it did not begin with a hello",
                    "connect with verbatim only");
    if (caller.deadline.passed())
        throw Error(Errc::timeout, name, "it said no complete hello in time",
                    "see whether the caller is stopped, or raise timeout of [connect]");
    return std::nullopt;
}

void Listener::Impl::add_callers_to(WaitList& list, const Target& target) const {
    list.add(stopped_.get());
    if (starved_)
        list.add(Deadline::after(kStarvedPause));
    else if (callers_.size() < kMaxCallers)
        list.add(by_manager_ ? by_manager_->file() : socket.get());
    if (callers_.empty()) return;
    // While no more handshakes may begin, callers need not be heard.
    const Clock::time_point start = may_start(target);
    if (start > Clock::now()) return list.add(Deadline{start});
    for (const Caller& caller : callers_) {
        list.add(caller.channel.socket().get());
        list.add(caller.deadline);
    }
}

Listener::Listener(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&& other) noexcept {
    const Listener ended(std::move(*this));
    impl_ = std::move(other.impl_);
    return *this;
}
// The parent's is not ended by a forked child, which has none of its threads: its copy stays.
Listener::~Listener() {
    if (impl_ != nullptr && impl_->lane.impl()->polled().is_inherited()) (void)impl_.release();
}
Connection Listener::accept(Deadline deadline) { return impl_->accept(impl_->lane, deadline); }
Connection Listener::accept(const Lane& lane, Deadline deadline) {
    return impl_->accept(lane, deadline);
}
void Listener::serve(std::span<const std::unique_ptr<Poller>> pollers,
                     std::function<void(Connection&)> setup) {
    std::vector<Lane> lanes;
    for (const auto& poller : pollers) lanes.push_back(poller->lane());
    impl_->serve(std::move(lanes), std::move(setup));
}
std::uint16_t Listener::port() const noexcept { return impl_->port(); }

}  // namespace verbatim
