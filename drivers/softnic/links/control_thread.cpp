// The answering side of links.
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
#include "description.hpp"

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
      keys_(keys),
      files_(files),
      options_(options),
      generation_(fork_generation()),
      secret_(std::make_unique<const Nonce>(random_nonce())) {
    if (::listen(listener.get(), kBacklog) != 0) fail_start("listen", errno);
    doors_.push_back({options.nonce, std::move(listener)});
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
    for (Door& door : new_doors_) doors_.push_back(std::move(door));
    new_doors_.clear();
}

bool ControlThread::has_name(const Nonce& nonce) const {
    return std::any_of(doors_.begin(), doors_.end(),
                       [&](const Door& door) { return door.nonce == nonce; });
}

void ControlThread::wait_for_events() {
    entries_.clear();
    entries_.push_back({wake_.get(), POLLIN, 0});
    for (const Door& door : doors_)
        entries_.push_back({out_of_descriptors_ ? -1 : door.listener.get(), POLLIN, 0});
    for (const Session& session : sessions_) entries_.push_back({session.socket.get(), POLLIN, 0});
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
    for (Session& session : sessions_)
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
        if (entries_[1 + door].revents != 0) accept_sessions(doors_[door].listener.get());
}

int ControlThread::poll_timeout_ms() const {
    Instant next = Instant::max();
    if (out_of_descriptors_) next = std::chrono::steady_clock::now() + kNoDescriptorsRetry;
    for (const Session& session : sessions_)
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
    Session session;
    session.socket = std::move(socket);
    session.user = peer->uid;
    session.peer.process = std::make_shared<PeerProcess>(peer->pid);
    session.hello_by = std::chrono::steady_clock::now() + kHelloTime;
    if (peer->uid != geteuid()) {
        LinkMessage first;
        first.sequence = 1;  // as that of every hello
        if (options_.same_user_only)
            return refuse(
                session, first, Errc::permission_denied,
                fmt::format("the asking process runs as uid {}, this device belongs to uid {}",
                            peer->uid, geteuid()));
        const auto strangers = std::ranges::count_if(sessions_, [](const Session& other) {
            return !other.welcomed && other.user != geteuid();
        });
        if (strangers >= kMaxStrangers) return;
    }
    sessions_.push_back(std::move(session));
}

void ControlThread::drop_finished_sessions() {
    for (Session& session : sessions_)
        if (!session.socket && std::exchange(session.welcomed, false))
            service_.end_session(session.peer.session.id);
    const Instant now = std::chrono::steady_clock::now();
    std::erase_if(sessions_, [now](const Session& session) {
        return !session.socket || (!session.welcomed && now >= session.hello_by);
    });
}

void ControlThread::serve(Session& session) {
    for (int budget = kMessagesPerTurn; budget != 0; --budget) {
        LinkMessage request;
        std::vector<Descriptor> unwanted;
        const Received got = receive_message(session.socket.get(), request, unwanted);
        if (got == Received::nothing) return;
        if (got == Received::other_version)
            refuse(session, request, Errc::version_mismatch,
                   fmt::format("this process speaks version {} of the link protocol, the peer {}",
                               kLinkVersion, request.version));
        if (got != Received::message) return session.socket.close();
        answer(session, request);
        if (!session.socket) return;
    }
}

void ControlThread::answer(Session& session, const LinkMessage& request) try {
    if (request.op == LinkOp::hello) return answer_hello(session, request);
    if (request.op == LinkOp::describe) return answer_description(session, request);
    if (!session.welcomed) return session.socket.close();
    switch (request.op) {
        case LinkOp::list_files:
            return answer_files(session, request,
                                files_.numbers_after(request.file, kFilesPerMessage));
        case LinkOp::get_file:
            return answer_files(session, request, {request.file});
        case LinkOp::get_keys:
            return answer_keys(session, request);
        case LinkOp::prove:
            return answer_proof(session, request);
        case LinkOp::open_channel:
            return answer_channel(session, request);
        case LinkOp::wake:
            return service_.wake(request.to_queue_pair);
        default:
            return refuse(session, request, Errc::protocol_error, "unknown request");
    }
} catch (const Error& error) {
    refuse(session, request, error.code(), error.cause());
}

void ControlThread::answer_hello(Session& session, const LinkMessage& request) {
    if (!has_name(request.to)) {
        refuse(session, request, Errc::protocol_error, "the hello names another device");
        return session.socket.close();
    }
    session.welcomed = true;
    session.peer.session = {request.from, ++last_session_, request.from};
    LinkMessage welcome;
    welcome.op = LinkOp::welcome;
    welcome.from = request.to;
    welcome.to = request.from;
    if (keys_.accesses().barriers()) welcome.features |= kRaisesBarriers;
    welcome.secret_at = reinterpret_cast<std::uintptr_t>(secret_.get());
    const std::array<int, 2> files{keys_.view().file(), options_.bell ? options_.bell.file() : -1};
    reply(session, request, welcome, std::span(files).first(options_.bell ? 2 : 1));
}

// To this user only, though others may connect.
void ControlThread::answer_description(Session& session, const LinkMessage& request) {
    if (session.user != geteuid())
        return refuse(session, request, Errc::permission_denied,
                      fmt::format("this device belongs to uid {}", geteuid()));
    LinkMessage answer;
    answer.op = LinkOp::description;
    const Descriptor text = file_of(service_.describe());
    const std::array<int, 1> file{text.get()};
    reply(session, request, answer, file);
}

// It has read the secret in this process' memory.
void ControlThread::answer_proof(Session& session, const LinkMessage& request) {
    if (request.secret != *secret_)
        return refuse(session, request, Errc::permission_denied, "that is not the secret");
    session.may_attach = true;
    LinkMessage answer;
    answer.op = LinkOp::proven;
    reply(session, request, answer);
}

void ControlThread::answer_keys(Session& session, const LinkMessage& request) {
    if (request.chunk >= keys_.view().chunks())
        return refuse(session, request, Errc::invalid_argument, "there are not so many keys");
    LinkMessage answer;
    answer.op = LinkOp::keys;
    const std::array<int, 1> file{keys_.view().file(request.chunk)};
    reply(session, request, answer, file);
}

void ControlThread::answer_files(Session& session, const LinkMessage& request,
                                 const std::vector<std::uint64_t>& numbers) {
    LinkMessage answer;
    answer.op = LinkOp::files;
    std::vector<Descriptor> kept;
    std::vector<int> files;
    for (const std::uint64_t number : numbers) {
        if ((number & kPageFile) != 0 && !session.may_attach) continue;
        Descriptor file = files_.duplicate(number);
        if (!file) continue;  // released meanwhile
        answer.files[answer.count++] = number;
        files.push_back(file.get());
        kept.push_back(std::move(file));
    }
    reply(session, request, answer, files);
}

void ControlThread::answer_channel(Session& session, const LinkMessage& request) {
    LinkMessage answer;
    answer.op = LinkOp::channel;
    const ChannelPlace place =
        service_.open_channel(session.peer, request.from_queue_pair, request.to_queue_pair);
    answer.file = place.offset;
    const std::array<int, 1> file{place.memory->file()};
    reply(session, request, answer, file);
}

void ControlThread::reply(Session& session, const LinkMessage& request, LinkMessage& message,
                          std::span<const int> files) {
    message.sequence = request.sequence;
    // A peer that asks but does not read is cut off: this thread never waits for one peer.
    if (!send_message(session.socket.get(), message, files)) session.socket.close();
}

void ControlThread::refuse(Session& session, const LinkMessage& request, Errc code,
                           const std::string& why) {
    LinkMessage refusal;
    refusal.op = LinkOp::refusal;
    refusal.status = static_cast<std::uint32_t>(code);
    refusal.set_sentence(why);
    reply(session, request, refusal);
}

}  // namespace verbatim::softnic
