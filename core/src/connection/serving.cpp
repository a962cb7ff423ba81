// A listener that accepts in a thread of its own, for lanes that pollers drive.
#include <verbatim/driver/log.hpp>

#include "connection_impl.hpp"
#include "listener_impl.hpp"

namespace verbatim {

void host(Meeting meeting, const std::function<void(Connection&)>& setup) {
    const std::shared_ptr<Lane::Impl> lane = meeting.lane;
    auto made = std::make_unique<Connection::Impl>(std::move(meeting));
    const Connection::Impl::Use use(*made);  // so it does not move during this call
    auto hosted = std::make_shared<Connection>(std::move(made));
    Connection* const raw = hosted.get();
    lane->kept().host(std::move(hosted));
    setup(*raw);
    // Last, as it ends the object. A cycle of ownership until then, or until end_all_hosted().
    raw->on_end([](Connection& ended) {
        const Lane its_own = ended.lane();  // it may have moved
        its_own.impl()->kept().end_hosted(&ended);
    });
}

void Listener::Impl::serve(std::vector<Lane> lanes, std::function<void(Connection&)> setup) {
    refuse_inherited(*lane.impl(), "listener");
    if (lanes.empty() || server_.joinable())
        throw Error(Errc::invalid_argument, "listener",
                    lanes.empty() ? "it has no poller to serve with" : "it serves already",
                    "write a section [[poller]], and call serve() once");
    for (const Lane& one : lanes) check_lane(*context, one);
    lanes_ = std::move(lanes);
    setup_ = std::make_shared<std::function<void(Connection&)>>(std::move(setup));
    server_ = std::thread([this] { run(); });
}

void Listener::Impl::run() noexcept {
    const auto place = [this] {
        Lane& next_lane = lanes_[turn_++ % lanes_.size()];
        return next_lane.call([&] { return make_room(next_lane.impl(), context->config); });
    };
    const Target target{nullptr, place, nullptr};
    while (!stop_) try {
            if (auto meeting = next(target, Deadline::never())) hand_over(std::move(*meeting));
        } catch (const std::exception& error) {
            log::error("listener: {}", error.what());
        }
}

void Listener::Impl::hand_over(Meeting meeting) {
    Lane(meeting.lane).submit([meeting = std::move(meeting), setup = setup_]() mutable noexcept {
        const std::string name = meeting.channel.name();
        try {
            host(std::move(meeting), *setup);
        } catch (const std::exception& error) {
            log::warn("refused {}: {}", name, error.what());
        }
    });
}

}  // namespace verbatim
