// Opening a link, and what it tells its peer.
#include "link.hpp"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

namespace verbatim::softnic {
namespace {

constexpr std::chrono::milliseconds kBacklogRetry{2};
// A small part of what a socket holds by default, in the kernel's way of counting.
constexpr int kMostUnread = 16384;

std::string name_of(const QueuePairAddress& peer) {
    return {peer.local_socket.begin(),
            std::find(peer.local_socket.begin(), peer.local_socket.end(), '\0')};
}

bool in_this_pid_namespace(pid_t process) {
    std::error_code theirs, ours;
    return std::filesystem::read_symlink(fmt::format("/proc/{}/ns/pid", process), theirs) ==
               std::filesystem::read_symlink("/proc/self/ns/pid", ours) &&
           !theirs && !ours;
}

}  // namespace

std::shared_ptr<Link> Link::open(const QueuePairAddress& peer, const LinkOptions& options,
                                 Instant deadline) {
    std::shared_ptr<Link> link(new Link(options, "link to @" + name_of(peer)));
    link->peer_nonce_ = peer.nonce;
    link->connect_socket(peer, deadline);
    link->check_user();
    link->greet(deadline);
    link->memory_.fetch_all(deadline);
    if (!link->same_process_) link->memory_.place_all(deadline);
    return link;
}

void Link::connect_socket(const QueuePairAddress& peer, Instant deadline) {
    if (const int error = open_local_socket(socket_); error != 0)
        throw Error(Errc::device_error, object_, fmt::format("socket: {}", std::strerror(error)),
                    "raise the limit of open files (ulimit -n)");
    const std::string name = name_of(peer);
    while (const int error = connect_local_socket(socket_, name)) {
        if (error != EAGAIN)  // EAGAIN: the peer's backlog is full
            throw Error(
                Errc::unsupported, object_,
                fmt::format(
                    "no software NIC answers there ({}): the peer is on another host, in another "
                    "network namespace, or has ended",
                    std::strerror(error)),
                "run both processes on one host and in one network namespace");
        if (std::chrono::steady_clock::now() >= deadline)
            throw Error(Errc::timeout, object_, "the peer does not accept links", "is it stopped?");
        std::this_thread::sleep_for(kBacklogRetry);
    }
}

void Link::check_user() {
    const std::optional<ucred> peer = peer_of(socket_.get());
    if (!peer)
        throw Error(Errc::device_error, object_,
                    fmt::format("SO_PEERCRED: {}", std::strerror(errno)));
    if (options_.same_user_only && peer->uid != geteuid())
        throw Error(
            Errc::permission_denied, object_,
            fmt::format("the peer runs as uid {}, this process as uid {}", peer->uid, geteuid()),
            "run both as the same user, or set device.same_user_only = false on both sides");
    process_ = peer->pid;
    same_process_ = peer->pid == getpid();
    may_signal_us_ = peer->uid == geteuid() && in_this_pid_namespace(peer->pid);
}

void Link::greet(Instant deadline) {
    LinkMessage hello;
    hello.op = LinkOp::hello;
    hello.from = options_.own_nonce;
    hello.to = peer_nonce_;
    const LinkQuestions::Answer answer = questions_.ask(hello, LinkOp::welcome, deadline);
    if (answer.message.from != peer_nonce_ || answer.message.to != options_.own_nonce)
        throw Error(Errc::protocol_error, object_,
                    "the peer proved another identity than its address says");
    if (answer.files.empty() || answer.files.size() > 2)
        throw Error(Errc::protocol_error, object_, "the welcome carries no key table");
    if (answer.files.size() == 2)
        bell_ = Bell(SharedMemory::map(answer.files[1].get(), Bell::kBytes, Mapping::read_write,
                                       object_ + " bell"));
    peer_raises_barriers_ = (answer.message.features & kRaisesBarriers) != 0;
    memory_.set_first_keys(SharedMemory::map(answer.files[0].get(), kKeyChunkBytes,
                                             Mapping::read_only, object_ + " key table"));
    prove_rights(answer.message.secret_at, deadline);
}

// That this process may attach to the peer; the kernel decides. Without it the peer shares no page
// files, and its private memory is reached in other ways.
void Link::prove_rights(std::uint64_t secret_at, Instant deadline) noexcept try {
    if (same_process_ || process_ == 0 || secret_at == 0) return;
    LinkMessage prove;
    prove.op = LinkOp::prove;
    const iovec local{prove.secret.data(), prove.secret.size()};
    const iovec remote{reinterpret_cast<void*>(secret_at), prove.secret.size()};
    const auto wanted = static_cast<ssize_t>(prove.secret.size());
    if (process_vm_readv(process_, &local, 1, &remote, 1, 0) != wanted) return;
    static_cast<void>(questions_.ask(prove, LinkOp::proven, deadline));
    proven_ = true;
} catch (const std::exception& error) {
    log::debug("{}: no rights over the peer: {}", object_, error.what());
}

void Link::refuse_attach(const char* why) noexcept {
    if (attach_refused_.exchange(true)) return;
    log::warn(
        "{}: cross-memory attach to process {} is refused ({}); its private memory is reached by "
        "its own threads, more slowly: allow it (prctl(PR_SET_PTRACER) in the peer, "
        "kernel.yama.ptrace_scope = 0, CAP_SYS_PTRACE in a container, one pid namespace), or use "
        "memory of an arena",
        object_, process_, why);
}

ChannelPlace Link::open_channel(std::uint32_t from, std::uint32_t to, Instant deadline) {
    LinkMessage open;
    open.op = LinkOp::open_channel;
    open.from_queue_pair = from;
    open.to_queue_pair = to;
    LinkQuestions::Answer answer = questions_.ask(open, LinkOp::channel, deadline);
    if (answer.files.empty() || answer.files.size() > 2)
        throw Error(Errc::protocol_error, object_, "the answer carries no ring");
    auto memory =
        SharedMemory::map(answer.files[0].get(), kBoardBytes, Mapping::slab, object_ + " rings");
    if (!memory->populate(0, kBoardBytes))
        throw Error(Errc::out_of_memory, object_,
                    "the machine has no memory left to map its rings");
    return {std::move(memory), answer.message.file, answer.message.chunk, door_of(answer)};
}

// One file for all queue pairs: each answer brings it.
std::shared_ptr<const WakeFile> Link::door_of(LinkQuestions::Answer& answer) {
    const std::uint32_t number = answer.message.chunk;
    if (number == 0 || answer.files.size() != 2 || !may_signal_us_) return nullptr;
    return doors_.take(number, std::move(answer.files[1]));
}

bool Link::wake(std::uint32_t queue_pair) noexcept {
    LinkMessage message;
    message.op = LinkOp::wake;
    message.to_queue_pair = queue_pair;
    // Nobody has to be woken in a process that ended.
    return send_message(socket_.get(), message) || errno != EAGAIN;
}

// So a stopped peer never has so much unread that a question or a wake-up finds no room.
void Link::ask_to_run(std::uint32_t queue_pair) noexcept {
    int unread = 0;
    if (ioctl(socket_.get(), SIOCOUTQ, &unread) != 0 || unread > kMostUnread) return;
    LinkMessage message;
    message.op = LinkOp::run;
    message.to_queue_pair = queue_pair;
    static_cast<void>(send_message(socket_.get(), message));
}

}  // namespace verbatim::softnic
