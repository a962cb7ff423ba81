// The asking side of a link.
#include "link.hpp"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

namespace verbatim::softnic {
namespace {

constexpr std::chrono::milliseconds kBacklogRetry{2};

std::string name_of(const QueuePairAddress& peer) {
    return {peer.local_socket.begin(),
            std::find(peer.local_socket.begin(), peer.local_socket.end(), '\0')};
}

}  // namespace

std::shared_ptr<Link> Link::open(const QueuePairAddress& peer, const LinkOptions& options,
                                 Instant deadline) {
    std::shared_ptr<Link> link(new Link(options));
    link->object_ = "link to @" + name_of(peer);
    link->peer_nonce_ = peer.nonce;
    link->connect_socket(peer, deadline);
    link->check_user();
    link->greet(deadline);
    link->fetch_all_keys(deadline);
    link->fetch_all_files(deadline);
    link->place_all_keys(deadline);
    return link;
}

Link::~Link() {
    const File* file = files_.load(std::memory_order_relaxed);
    while (file != nullptr) delete std::exchange(file, file->next);
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
}

void Link::greet(Instant deadline) {
    LinkMessage hello;
    hello.op = LinkOp::hello;
    hello.from = options_.own_nonce;
    hello.to = peer_nonce_;
    const Answer answer = request(hello, LinkOp::welcome, deadline);
    if (answer.message.from != peer_nonce_ || answer.message.to != options_.own_nonce)
        throw Error(Errc::protocol_error, object_,
                    "the peer proved another identity than its address says");
    if (answer.files.empty() || answer.files.size() > 2)
        throw Error(Errc::protocol_error, object_, "the welcome carries no key table");
    if (answer.files.size() == 2)
        bell_ = Bell(SharedMemory::map(answer.files[1].get(), Bell::kBytes, Mapping::read_write,
                                       object_ + " bell"));
    peer_raises_barriers_ = (answer.message.features & kRaisesBarriers) != 0;
    populated_[0] = std::make_unique<std::atomic<std::uint64_t>[]>(kChunkKeys);
    keys_ = KeyTableView(SharedMemory::map(answer.files[0].get(), kKeyChunkBytes,
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
    static_cast<void>(request(prove, LinkOp::proven, deadline));
    proven_ = true;
} catch (const std::exception& error) {
    log::debug("{}: no rights over the peer: {}", object_, error.what());
}

void Link::fetch_chunk(std::uint32_t chunk, Instant deadline) {
    LinkMessage get;
    get.op = LinkOp::get_keys;
    get.chunk = chunk;
    const Answer answer = request(get, LinkOp::keys, deadline);
    if (answer.files.size() != 1)
        throw Error(Errc::protocol_error, object_, "the answer carries no keys");
    auto memory = SharedMemory::map(answer.files[0].get(), kKeyChunkBytes, Mapping::read_only,
                                    object_ + " key table");
    auto populated = std::make_unique<std::atomic<std::uint64_t>[]>(kChunkKeys);
    const std::lock_guard lock(mutex_);
    if (keys_.has(chunk)) return;  // another thread was faster
    populated_[chunk] = std::move(populated);
    keys_.set(chunk, std::move(memory));
}

void Link::fetch_all_keys(Instant deadline) {
    for (std::uint32_t chunk = 1; chunk < keys_.chunks(); ++chunk) fetch_chunk(chunk, deadline);
}

Errc Link::fetch_keys(std::uint32_t key) noexcept try {
    fetch_chunk((key >> 8) / kChunkKeys,
                std::chrono::steady_clock::now() + options_.request_timeout);
    return Errc::ok;
} catch (const Error& error) {
    log::warn("{}", error.what());
    return error.code();
} catch (...) {
    return Errc::out_of_memory;
}

void Link::fetch_all_files(Instant deadline) {
    LinkMessage list;
    list.op = LinkOp::list_files;
    for (;;) {
        Answer answer = request(list, LinkOp::files, deadline);
        const std::size_t count = answer.files.size();
        const std::uint64_t last = add_files(std::move(answer));
        if (count < kFilesPerMessage) return;
        if (last <= list.file)
            throw Error(Errc::protocol_error, object_, "the peer lists the same files again");
        list.file = last;
    }
}

Errc Link::fetch_file(std::uint64_t number) noexcept try {
    LinkMessage get;
    get.op = LinkOp::get_file;
    get.file = number;
    const Instant deadline = std::chrono::steady_clock::now() + options_.request_timeout;
    return add_files(request(get, LinkOp::files, deadline)) == number ? Errc::ok
                                                                      : Errc::protocol_error;
} catch (const Error& error) {
    log::warn("{}", error.what());
    return error.code();
} catch (...) {
    return Errc::out_of_memory;
}

// Maps what came; returns the last number.
std::uint64_t Link::add_files(Answer answer) {
    const LinkMessage& message = answer.message;
    if (message.count > kFilesPerMessage || message.count != answer.files.size())
        throw Error(Errc::protocol_error, object_, "the answer's files do not match their count");
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < message.count; ++i) {
        last = message.files[i];
        const std::string what = fmt::format("{} memory file {}", object_, last & ~kPageFile);
        auto file = std::make_unique<File>();
        file->number = last;
        if ((last & kPageFile) != 0)
            file->pages = std::make_unique<PageView>(std::move(answer.files[i]), what);
        else
            file->memory = SharedMemory::map(answer.files[i].get(), 0, Mapping::arena, what);
        const std::lock_guard lock(mutex_);
        file->next = files_.load(std::memory_order_relaxed);
        files_.store(file.release(), std::memory_order_release);
    }
    return last;
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

std::byte* Link::place(const Grant& grant) noexcept {
    std::uint64_t end = 0;
    if (__builtin_add_overflow(grant.file_offset, grant.bytes, &end)) return nullptr;
    const File* const known = find(grant.file, end);
    if (known == nullptr) return nullptr;
    std::byte* const data = known->pages != nullptr
                                ? known->pages->place(grant.file_offset, grant.bytes)
                                : known->memory->data() + grant.file_offset;
    if (data == nullptr) return nullptr;
    const std::uint32_t index = grant.key >> 8;
    std::atomic<std::uint64_t>& populated = populated_[index / kChunkKeys][index % kChunkKeys];
    if (populated.load(std::memory_order_relaxed) != grant.version) {
        if (known->pages != nullptr ? !PageView::populate(data, grant.bytes)
                                    : !known->memory->populate(grant.file_offset, grant.bytes))
            return nullptr;
        populated.store(grant.version, std::memory_order_relaxed);
    }
    return data;
}

// Whatever is registered when the link comes up costs the data path no system call later. Large
// arenas take their time (page tables), so this stops half-way to the deadline; what is left over
// is done on first use.
void Link::place_all_keys(Instant deadline) noexcept {
    if (same_process_) return;
    const Instant start = std::chrono::steady_clock::now();
    const Instant enough = start + (deadline - start) / 2;
    for (std::uint32_t index = kFirstKeyIndex; index < kMostKeys; ++index) {
        if (index % kChunkKeys == 0 && !keys_.has(index / kChunkKeys)) return;
        Grant grant;
        if (!keys_.find_index(index, grant) || grant.file == 0) continue;
        if (std::chrono::steady_clock::now() >= enough) return;
        place(grant);
    }
}

ChannelPlace Link::open_channel(std::uint32_t from, std::uint32_t to, Instant deadline) {
    LinkMessage open;
    open.op = LinkOp::open_channel;
    open.from_queue_pair = from;
    open.to_queue_pair = to;
    const Answer answer = request(open, LinkOp::channel, deadline);
    if (answer.files.size() != 1)
        throw Error(Errc::protocol_error, object_, "the answer carries no ring");
    auto memory =
        SharedMemory::map(answer.files[0].get(), kBoardBytes, Mapping::slab, object_ + " rings");
    if (!memory->populate(0, kBoardBytes))
        throw Error(Errc::out_of_memory, object_,
                    "the machine has no memory left to map its rings");
    return {std::move(memory), answer.message.file};
}

bool Link::wake(std::uint32_t queue_pair) noexcept {
    LinkMessage message;
    message.op = LinkOp::wake;
    message.to_queue_pair = queue_pair;
    // Nobody has to be woken in a process that ended.
    return send_message(socket_.get(), message) || errno != EAGAIN;
}

class Link::Turn {
  public:
    Turn(Link& link, Instant deadline) : link_(link) {
        std::unique_lock lock(link.mutex_);
        if (!link.turn_ended_.wait_until(lock, deadline, [&] { return !link.asking_; }))
            throw Error(Errc::timeout, link.object_, "the peer does not answer", "is it stopped?");
        link.asking_ = true;
    }
    ~Turn() {
        const std::lock_guard lock(link_.mutex_);
        link_.asking_ = false;
        link_.turn_ended_.notify_one();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

  private:
    Link& link_;
};

// The control thread, which sees the end of the socket, tells those who use the link.
void Link::lose() noexcept {
    mark_lost();
    ::shutdown(socket_.get(), SHUT_RDWR);
}

Link::Answer Link::request(LinkMessage message, LinkOp expected, Instant deadline) {
    const Turn turn(*this, deadline);
    message.sequence = ++sequence_;
    // A peer that closed the link may have said why; that can be read still.
    if (!lost() && (send_message(socket_.get(), message) || errno == EPIPE || errno == ECONNRESET))
        return wait_answer(message.sequence, expected, deadline);
    lose();
    throw Error(Errc::peer_lost, object_, "the peer closed the link");
}

Link::Answer Link::wait_answer(std::uint64_t sequence, LinkOp expected, Instant deadline) {
    Answer answer;
    for (;;) {
        if (!wait_readable(socket_.get(), deadline))
            throw Error(Errc::timeout, object_, "the peer does not answer", "is it stopped?");
        answer.files.clear();
        const Received got = receive_message(socket_.get(), answer.message, answer.files);
        if (got == Received::nothing) continue;
        if (got == Received::other_version)
            throw Error(
                Errc::version_mismatch, object_,
                fmt::format("the peer speaks version {} of the link protocol, this process {}",
                            answer.message.version, kLinkVersion),
                "use the same version of verbatim on both sides");
        if (got == Received::closed) {
            lose();
            throw Error(Errc::peer_lost, object_, "the peer closed the link");
        }
        if (got == Received::malformed)
            throw Error(Errc::protocol_error, object_, "the peer sent a malformed answer");
        // An older sequence is the late answer to a request that ran into its deadline.
        if (answer.message.sequence == sequence) break;
    }
    if (answer.message.op == LinkOp::refusal)
        throw Error(static_cast<Errc>(answer.message.status), object_, answer.message.sentence());
    if (answer.message.op != expected)
        throw Error(Errc::protocol_error, object_, "the peer answered another question");
    return answer;
}

}  // namespace verbatim::softnic
