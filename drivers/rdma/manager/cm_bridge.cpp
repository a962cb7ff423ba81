// The thread, and what it does with each event of the connection manager.
#include "cm_bridge.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

#include "../messages.hpp"
#include "cm_addresses.hpp"
#include "cm_errors.hpp"

namespace verbatim::rdma {
namespace {

constexpr std::size_t kMostWaiting = 64;
constexpr int kBacklog = 64;
constexpr std::chrono::seconds kForTheLast{2};

// Signals are the program's, and are handled in its threads.
class NoSignals {
  public:
    NoSignals() noexcept {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    NoSignals(const NoSignals&) = delete;
    NoSignals& operator=(const NoSignals&) = delete;

  private:
    sigset_t before_;
};

// rdma_cm reads the address by its family.
sockaddr* writable(const sockaddr& address) { return const_cast<sockaddr*>(&address); }

}  // namespace

CmBridge::CmBridge(std::string device, std::chrono::milliseconds probe_after)
    : device_(std::move(device)),
      probe_after_(probe_after),
      events_(open_events()),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    const NoSignals guard;
    try {
        thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
        throw Error(Errc::out_of_memory, "connection manager",
                    fmt::format("no thread for its streams: {}", error.what()),
                    "raise the limit: ulimit -u");
    }
}

CmBridge::Events CmBridge::open_events() {
    Events channel(rdma_create_event_channel());
    if (channel == nullptr) throw no_manager(errno);
    return channel;
}

CmBridge::~CmBridge() {
    // A forked child has neither the thread nor the identifiers. A thread that is not there can be
    // neither joined nor detached.
    if (born_ != fork_generation()) {
        for (auto& [id, one] : ones_) (void)one.connection.release();
        (void)events_.release();
        (void)new std::thread(std::move(thread_));
        return;
    }
    stop();
    for (auto it = ones_.begin(); it != ones_.end();) it = drop(it);
}

void CmBridge::stop() noexcept {
    if (born_ != fork_generation() || !thread_.joinable()) return;
    stops_by_ = Clock::now() + kForTheLast;
    stops_ = true;
    (void)eventfd_write(wake_.get(), 1);
    thread_.join();
}

rdma_cm_id* CmBridge::make_id() {
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(events_.get(), &id, nullptr, RDMA_PS_TCP) != 0)
        throw call_error("connection manager", "rdma_create_id", errno);
    return id;
}

std::shared_ptr<CmMailbox> CmBridge::call(const sockaddr& to, std::chrono::milliseconds limit) {
    const std::lock_guard guard(mutex_);
    auto box = std::make_shared<CmMailbox>();
    rdma_cm_id* const id = make_id();
    ones_[id] = {box, limit, Clock::now() + limit, cm_text(to), nullptr, nullptr};
    if (rdma_resolve_addr(id, nullptr, writable(to), static_cast<int>(limit.count())) != 0)
        fail(ones_.find(id), unreachable(cm_text(to), errno));
    (void)eventfd_write(wake_.get(), 1);
    return box;
}

CmBridge::Listening CmBridge::listen(const sockaddr& at, std::chrono::milliseconds limit) {
    const std::lock_guard guard(mutex_);
    auto box = std::make_shared<CmMailbox>();
    rdma_cm_id* const id = make_id();
    if (rdma_bind_addr(id, writable(at)) != 0 || rdma_listen(id, kBacklog) != 0) {
        const int error = errno;
        rdma_destroy_id(id);
        throw cannot_listen_by_manager(cm_text(at), error);
    }
    ones_[id] = {box, limit, Clock::time_point::max(), {}, nullptr, nullptr};
    return {box, id, ntohs(rdma_get_src_port(id))};
}

void CmBridge::forget(rdma_cm_id* id) noexcept {
    if (born_ != fork_generation()) return;
    const std::lock_guard guard(mutex_);
    for (auto it = ones_.begin(); it != ones_.end();) {
        const bool is_its_caller =
            it->second.listener == id && !it->second.connection->is_established();
        it = it->first == id || is_its_caller ? drop(it) : std::next(it);
    }
}

CmBridge::Ones::iterator CmBridge::drop(Ones::iterator at) noexcept {
    rdma_cm_id* const id = at->first;
    if (at->second.connection) (void)rdma_disconnect(id);
    const auto next = ones_.erase(at);  // its queue pair goes first
    rdma_destroy_id(id);
    return next;
}

void CmBridge::fail(Ones::iterator at, Error why) noexcept {
    if (at->second.listener != nullptr)
        log::debug("a caller by rdma_cm: {}", why.what());
    else if (const auto box = at->second.box.lock())
        box->fail(std::move(why));
    drop(at);
}

void CmBridge::run() noexcept {
    std::vector<pollfd> files;
    while (true) {
        wait(files);
        const std::lock_guard guard(mutex_);
        eventfd_t count = 0;
        (void)eventfd_read(wake_.get(), &count);
        take_events();
        go_on();
        const bool carries = std::any_of(ones_.begin(), ones_.end(), [](const auto& one) {
            return one.second.connection && one.second.connection->is_established();
        });
        if (stops_ && (!carries || Clock::now() >= stops_by_)) return;
    }
}

CmBridge::Clock::time_point CmBridge::wakes_at() const noexcept {
    auto when = stops_ ? stops_by_ : Clock::time_point::max();
    for (const auto& [id, one] : ones_) {
        when = std::min(when, one.until);
        if (one.connection) when = std::min(when, one.connection->acts_at());
    }
    return when;
}

void CmBridge::wait(std::vector<pollfd>& files) noexcept {
    int limit_ms = -1;
    {
        const std::lock_guard guard(mutex_);
        files.assign({{wake_.get(), POLLIN, 0}, {events_->fd, POLLIN, 0}});
        for (const auto& [id, one] : ones_)
            if (one.connection) one.connection->add_to(files);
        if (const auto when = wakes_at(); when != Clock::time_point::max()) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now());
            limit_ms = static_cast<int>(std::max<std::int64_t>(left.count(), 0));
        }
    }
    (void)poll(files.data(), files.size(), limit_ms);
}

void CmBridge::take_events() noexcept {
    pollfd entry{events_->fd, POLLIN, 0};
    while (poll(&entry, 1, 0) == 1) {
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(events_.get(), &event) != 0) return;
        const News news{event->event, event->status, event->id, event->listen_id};
        // First, because no identifier ends before.
        rdma_ack_cm_event(event);
        handle(news);
    }
}

void CmBridge::handle(const News& news) noexcept {
    const bool is_request = news.type == RDMA_CM_EVENT_CONNECT_REQUEST;
    try {
        if (is_request) return take_caller(news);
        const auto at = ones_.find(news.id);
        if (at != ones_.end()) advance(at, news);
    } catch (const Error& error) {
        if (const auto at = ones_.find(news.id); at != ones_.end()) fail(at, error);
    } catch (const std::exception& error) {
        const auto at = ones_.find(news.id);
        if (at != ones_.end())
            fail(at, Error(Errc::device_error, at->second.peer, error.what(), "see the cause"));
    }
}

// An address leads to one device, and the data path is on the context's.
void CmBridge::check_device(rdma_cm_id* id, const std::string& address) const {
    const std::string found = id->verbs == nullptr ? "" : ibv_get_device_name(id->verbs->device);
    if (found != device_) throw other_device(address, found, device_);
}

void CmBridge::advance(Ones::iterator at, const News& news) {
    One& one = at->second;
    const auto check = [&](int result) {
        if (result != 0) throw unreachable(one.peer, errno);
    };
    switch (news.type) {
        case RDMA_CM_EVENT_ADDR_RESOLVED:
            check_device(news.id, one.peer);
            return check(rdma_resolve_route(news.id, static_cast<int>(one.limit.count())));
        case RDMA_CM_EVENT_ROUTE_RESOLVED: {
            one.connection = std::make_unique<CmConnection>(*news.id, probe_after_);
            rdma_conn_param wanted = CmConnection::parameters();
            return check(rdma_connect(news.id, &wanted));
        }
        case RDMA_CM_EVENT_ESTABLISHED:
            return establish(at);
        case RDMA_CM_EVENT_DISCONNECTED:
        case RDMA_CM_EVENT_DEVICE_REMOVAL:
            if (one.connection && one.connection->is_established())
                return one.connection->disconnected();
            throw refusal_of_manager(one.peer, news.type, news.status);
        case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        case RDMA_CM_EVENT_ADDR_CHANGE:
            return;
        default:
            throw refusal_of_manager(one.peer, news.type, news.status);
    }
}

// Callers that were not taken yet, established or not.
std::size_t CmBridge::waiting_of(const rdma_cm_id* listener, const CmMailbox& box) const noexcept {
    const auto count = std::count_if(ones_.begin(), ones_.end(), [&](const auto& one) {
        return one.second.listener == listener && !one.second.connection->is_established();
    });
    return static_cast<std::size_t>(count) + box.size();
}

void CmBridge::take_caller(const News& news) {
    const auto listener = ones_.find(news.listener);
    const auto box = listener == ones_.end() ? nullptr : listener->second.box.lock();
    if (box == nullptr || waiting_of(news.listener, *box) >= kMostWaiting) {
        (void)rdma_reject(news.id, nullptr, 0);
        rdma_destroy_id(news.id);
        return;
    }
    One& one = ones_[news.id];
    one = {box, {}, Clock::now() + listener->second.limit, {}, nullptr, news.listener};
    rdma_conn_param wanted = CmConnection::parameters();
    try {
        one.peer = cm_text(*rdma_get_peer_addr(news.id));
        check_device(news.id, one.peer);
        one.connection = std::make_unique<CmConnection>(*news.id, probe_after_);
        if (rdma_accept(news.id, &wanted) == 0) return;
        throw call_error(one.peer, "rdma_accept", errno);
    } catch (const Error& error) {
        log::warn("refused {}: {}", one.peer, error.cause());
        (void)rdma_reject(news.id, nullptr, 0);
        drop(ones_.find(news.id));
    }
}

void CmBridge::establish(Ones::iterator at) {
    One& one = at->second;
    if (one.connection == nullptr || one.connection->is_established()) return;
    one.until = Clock::time_point::max();
    const auto box = one.box.lock();
    CmStream stream{one.connection->establish(), one.peer + " (rdma_cm)",
                    cm_bytes(*rdma_get_local_addr(at->first))};
    if (box != nullptr) return box->put(std::move(stream));
    drop(at);
}

void CmBridge::end(Ones::iterator at) noexcept {
    if (at->second.connection->is_established())
        drop(at);
    else
        fail(at, Error(Errc::peer_lost, at->second.peer, "the peer ended while connecting",
                       "see what the peer's own messages say"));
}

void CmBridge::go_on() noexcept {
    for (auto it = ones_.begin(); it != ones_.end();) {
        const auto here = it++;
        One& one = here->second;
        if (one.connection) one.connection->go_on();
        if (one.connection && one.connection->is_over())
            end(here);
        else if (one.until <= Clock::now())
            fail(here, nobody_answers(one.peer));
    }
}

}  // namespace verbatim::rdma
