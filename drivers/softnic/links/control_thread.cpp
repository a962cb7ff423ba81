// Sessions of peers, and watching of links.
#include "control_thread.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <verbatim/driver/deadline.hpp>
#include <verbatim/driver/log.hpp>

#include "../host/own_threads.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::chrono::seconds kHelloTime{5};
constexpr std::size_t kMaxSessions = 4096;
constexpr int kBacklog = 128;
// Of them, those of other users who have not said who they are.
constexpr std::ptrdiff_t kMaxStrangers = 64;
// Of one peer, before the others' turn; and newcomers.
constexpr int kMessagesPerTurn = 16, kNewcomersPerTurn = 32;
// While the process has no descriptors left, the listener is looked at this often instead of at
// once.
constexpr std::chrono::milliseconds kNoDescriptorsRetry{100};

[[noreturn]] void fail_start(const char* step, int cause) {
    throw Error(Errc::device_error, "software NIC control thread",
                fmt::format("{}: {}", step, std::strerror(cause)),
                "raise the limits of open files and processes (ulimit -n, ulimit -u)");
}

}  // namespace

ControlThread::ControlThread(ControlService& service, KeyTable& keys, FileTable& files,
                             const ControlOptions& options, Descriptor listener)
    : service_(service),
      answers_(service, keys, files, options.bell),
      same_user_only_(options.same_user_only),
      generation_(fork_generation()) {
    if (::listen(listener.get(), kBacklog) != 0) fail_start("listen", errno);
    answers_.add_name(options.nonce);
    doors_.push_back(std::move(listener));
    wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) fail_start("eventfd", errno);
    const int refused = start_own_thread(thread_, entry, this, Faults::blocked);
    if (refused != 0) fail_start("pthread_create", refused);
}

ControlThread::~ControlThread() {
    if (generation_ != fork_generation()) return;  // the thread stayed in the parent
    stop_.store(true, std::memory_order_release);
    wake();
    pthread_join(thread_, nullptr);
}

void ControlThread::listen(const Nonce& nonce, Descriptor listener) {
    if (::listen(listener.get(), kBacklog) != 0) fail_start("listen", errno);
    const std::lock_guard lock(mutex_);
    new_doors_.push_back({nonce, std::move(listener)});
    wake();
}

void ControlThread::watch(std::shared_ptr<Link> link) {
    const std::lock_guard lock(mutex_);
    watched_.push_back(std::move(link));
    wake();
}

void ControlThread::forget(const Link& link) {
    if (generation_ != fork_generation()) return;  // the lock may be held by a thread of the parent
    const std::lock_guard lock(mutex_);
    std::erase_if(watched_, [&](const auto& candidate) { return candidate.get() == &link; });
    wake();
}

void ControlThread::wake() noexcept {
    const std::uint64_t one = 1;
    // A full counter wakes as well.
    if (write(wake_.get(), &one, sizeof one) < 0) return;
}

void* ControlThread::entry(void* self) {
    const OwnThread own;
    pthread_setname_np(pthread_self(), "verbatim-ctl");
    static_cast<ControlThread*>(self)->run();
    return nullptr;
}

void ControlThread::run() {
    while (!stop_.load(std::memory_order_acquire)) try {
            {
                const std::lock_guard lock(mutex_);
                watched_now_ = watched_;
                open_doors();
            }
            wait_for_events();
            drop_finished_sessions();
        } catch (const std::exception& error) {
            log::error("software NIC control thread: {}", error.what());
        }
}

// Under mutex_.
void ControlThread::open_doors() {
    for (Door& door : new_doors_) {
        answers_.add_name(door.nonce);
        doors_.push_back(std::move(door.listener));
    }
    new_doors_.clear();
}

void ControlThread::wait_for_events() {
    entries_.clear();
    entries_.push_back({wake_.get(), POLLIN, 0});
    for (const Descriptor& door : doors_)
        entries_.push_back({out_of_descriptors_ ? -1 : door.get(), POLLIN, 0});
    for (const LinkSession& session : sessions_)
        entries_.push_back({session.socket.get(), POLLIN, 0});
    for (const auto& link : watched_now_)
        entries_.push_back({link->loss_is_known() ? -1 : link->socket(), POLLRDHUP, 0});
    const int timeout = poll_timeout_ms();
    int ready;
    {
        // What poll() says of the entries may be lost meanwhile: then it says so again.
        const AtRest rest;
        ready = poll(entries_.data(), entries_.size(), timeout);
    }
    if (ready < 0) return;
    out_of_descriptors_ = false;
    if (entries_[0].revents != 0) {
        std::uint64_t count;
        if (read(wake_.get(), &count, sizeof count) < 0) return;
    }
    std::size_t next = 1 + doors_.size();
    for (LinkSession& session : sessions_)
        if (entries_[next++].revents != 0) serve(session);
    bool lost = false;
    for (const auto& link : watched_now_) {
        if ((entries_[next++].revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0) continue;
        link->mark_lost();
        link->set_loss_known();
        lost = true;
    }
    if (lost) service_.wake_all();
    for (std::size_t door = 0; door < doors_.size(); ++door)
        if (entries_[1 + door].revents != 0) accept_sessions(doors_[door].get());
}

int ControlThread::poll_timeout_ms() const {
    Instant next = Instant::max();
    if (out_of_descriptors_) next = std::chrono::steady_clock::now() + kNoDescriptorsRetry;
    for (const LinkSession& session : sessions_)
        if (!session.welcomed) next = std::min(next, session.hello_by);
    return milliseconds_until(next);
}

void ControlThread::accept_sessions(int listener) {
    for (int budget = kNewcomersPerTurn; budget != 0; --budget) {
        const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            out_of_descriptors_ = errno == EMFILE || errno == ENFILE;
            if (out_of_descriptors_)
                log::warn(
                    "software NIC: no descriptor left for a peer's link; raise the limit (ulimit "
                    "-n)");
            return;
        }
        admit(Descriptor(fd));
    }
}

// Other users get no further where they are not wanted, and cannot take all places elsewhere.
void ControlThread::admit(Descriptor socket) {
    const std::optional<ucred> peer = peer_of(socket.get());
    if (sessions_.size() >= kMaxSessions || !peer) return;
    LinkSession session;
    session.socket = std::move(socket);
    session.user = peer->uid;
    session.peer.same_user = peer->uid == geteuid();
    session.peer.process = std::make_shared<PeerProcess>(peer->pid);
    session.hello_by = std::chrono::steady_clock::now() + kHelloTime;
    if (peer->uid != geteuid()) {
        LinkMessage first;
        first.sequence = 1;  // as that of every hello
        if (same_user_only_)
            return LinkAnswers::refuse(
                session, first, Errc::permission_denied,
                fmt::format("the asking process runs as uid {}, this device belongs to uid {}",
                            peer->uid, geteuid()));
        const auto strangers = std::ranges::count_if(sessions_, [](const LinkSession& other) {
            return !other.welcomed && other.user != geteuid();
        });
        if (strangers >= kMaxStrangers) return;
    }
    sessions_.push_back(std::move(session));
}

void ControlThread::drop_finished_sessions() {
    for (LinkSession& session : sessions_)
        if (!session.socket && std::exchange(session.welcomed, false))
            service_.end_session(session.peer.session.id);
    const Instant now = std::chrono::steady_clock::now();
    std::erase_if(sessions_, [now](const LinkSession& session) {
        return !session.socket || (!session.welcomed && now >= session.hello_by);
    });
}

void ControlThread::serve(LinkSession& session) {
    for (int budget = kMessagesPerTurn; budget != 0; --budget) {
        LinkMessage request;
        std::vector<Descriptor> unwanted;
        const Received got = receive_message(session.socket.get(), request, unwanted);
        if (got == Received::nothing) return;
        if (got == Received::other_version)
            LinkAnswers::refuse(
                session, request, Errc::version_mismatch,
                fmt::format("this process speaks version {} of the link protocol, the peer {}",
                            kLinkVersion, request.version));
        if (got != Received::message) return session.socket.close();
        answers_.answer(session, request);
        if (!session.socket) return;
    }
}

}  // namespace verbatim::softnic
