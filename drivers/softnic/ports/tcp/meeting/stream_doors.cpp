// Strangers, their hellos, and the two ways to meet a peer.
#include "stream_doors.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

#include "../../../host/link_message.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::chrono::seconds kStrangersTime{5};
constexpr std::size_t kMostStreamStrangers = 64;
constexpr int kNewcomersPerDoor = 32;

// The first bytes on a socket: there is room for them. What fails shows when it is read.
void send_first(const Descriptor& socket, const void* bytes, std::size_t count) noexcept {
    if (send(socket.get(), bytes, count, MSG_NOSIGNAL) < 0) return;
}

void send_welcome(const Descriptor& socket, StreamStatus status) noexcept {
    StreamWelcome welcome;
    welcome.status = status;
    send_first(socket, &welcome, sizeof welcome);
}

}  // namespace

StreamDoors::~StreamDoors() {
    if (handler_.load() != 0) thread_.remove(handler_.load());
}

StreamPlace StreamDoors::open(const std::array<std::uint8_t, 16>& local) {
    const std::lock_guard lock(mutex_);
    const auto found = doors_.find(local);
    if (found != doors_.end()) return found->second.place;
    Door door;
    door.place.address = local == decltype(local){} ? loopback_address() : local;
    door.listener = listen_at(door.place);
    const StreamPlace place = door.place;
    doors_.emplace(local, std::move(door));
    if (handler_.load() != 0) watch_doors();
    return place;
}

StreamToken StreamDoors::invite() {
    const StreamToken token = random_nonce();
    const std::lock_guard lock(mutex_);
    invited_.try_emplace(token);
    return token;
}

void StreamDoors::withdraw(const StreamToken& token) noexcept {
    if (generation_ != fork_generation()) return;  // the lock may be held by a thread of the parent
    const std::lock_guard lock(mutex_);
    invited_.erase(token);
}

// With the first queue pair that waits for a stream. Without the lock: the engine thread takes it.
void StreamDoors::start() {
    std::call_once(started_, [this] { handler_.store(thread_.add(*this)); });
    const std::lock_guard lock(mutex_);
    watch_doors();
}

// Under mutex_.
void StreamDoors::watch_doors() noexcept {
    for (auto& [address, door] : doors_) try {
            if (std::exchange(door.watched, true))
                thread_.watch_again(door.listener.get(), handler_.load(), false);
            else
                thread_.watch(door.listener.get(), handler_.load(), true);
        } catch (const Error& error) {
            door.watched = false;
            log::error("{}", error.what());
        }
}

void StreamDoors::meet(const QueuePairAddress& own, const QueuePairAddress& peer, Instant deadline,
                       PeerStream& stream) {
    if (own.stream_token < peer.stream_token)
        stream.attach(call(own, peer, deadline), Wire::Origin::dialled);
    else
        expect(own, peer, stream);
}

Descriptor StreamDoors::call(const QueuePairAddress& own, const QueuePairAddress& peer,
                             Instant deadline) {
    Descriptor socket = dial({peer.stream_address, peer.stream_port}, deadline);
    StreamHello hello;
    hello.from_number = own.number;
    hello.to = peer.stream_token;
    hello.from = own.stream_token;
    send_first(socket, &hello, sizeof hello);
    return socket;
}

void StreamDoors::expect(const QueuePairAddress& own, const QueuePairAddress& peer,
                         PeerStream& stream) {
    start();
    const std::lock_guard lock(mutex_);
    Invitation& invitation = invited_[own.stream_token];
    invitation.expected = &stream;
    invitation.from = peer.stream_token;
    if (invitation.socket) hand_on(invitation);
}

// Under mutex_. A stream of another queue pair is none.
void StreamDoors::hand_on(Invitation& invitation) {
    Descriptor socket = std::move(invitation.socket);
    if (invitation.hello.from != invitation.from)
        return send_welcome(socket, StreamStatus::unknown);
    send_welcome(socket, StreamStatus::welcome);
    invitation.used = true;
    std::exchange(invitation.expected, nullptr)->attach(std::move(socket), Wire::Origin::accepted);
}

bool StreamDoors::ready() noexcept { return serve(); }

bool StreamDoors::tick() noexcept { return serve(); }

// True: some are to be looked at again.
bool StreamDoors::serve() noexcept try {
    if (handler_.load() == 0) return true;  // start() goes on
    full_ = false;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [address, door] : doors_) accept_strangers(door.listener);
        if (!full_) watch_doors();
    }
    const Instant now = std::chrono::steady_clock::now();
    std::erase_if(strangers_, [&](Stranger& stranger) {
        const bool ends = !hear(stranger) || now >= stranger.hello_by;
        if (stranger.bytes == stranger.hello.size()) admit(stranger);
        return ends || !stranger.socket;
    });
    return full_ || !strangers_.empty();
} catch (const std::exception& error) {
    log::error("tcp port: {}", error.what());
    return true;
}

// Under mutex_.
void StreamDoors::accept_strangers(const Descriptor& door) {
    for (int budget = kNewcomersPerDoor; budget != 0; --budget) {
        bool full = false;
        Descriptor socket = accept_stream(door, full);
        if (full && !std::exchange(full_, true)) tell_full();
        if (!socket) return;
        if (strangers_.size() >= kMostStreamStrangers) continue;
        Stranger stranger;
        stranger.socket = std::move(socket);
        stranger.hello_by = std::chrono::steady_clock::now() + kStrangersTime;
        thread_.watch(stranger.socket.get(), handler_.load(), false);
        strangers_.push_back(std::move(stranger));
    }
}

// Each tick finds it anew.
void StreamDoors::tell_full() noexcept {
    constexpr std::chrono::seconds kQuiet{30};
    const Instant now = std::chrono::steady_clock::now();
    if (full_told_ != Instant{} && now < full_told_ + kQuiet) return;
    full_told_ = now;
    log::warn("tcp port: no descriptor left for a peer's stream; raise the limit (ulimit -n)");
}

// False: it went, or never was a peer.
bool StreamDoors::hear(Stranger& stranger) noexcept {
    std::byte* const to = stranger.hello.data() + stranger.bytes;
    const ssize_t got =
        recv(stranger.socket.get(), to, stranger.hello.size() - stranger.bytes, MSG_DONTWAIT);
    if (got > 0) stranger.bytes += static_cast<std::size_t>(got);
    std::uint64_t magic = kStreamMagic;
    std::copy_n(stranger.hello.data(), std::min(stranger.bytes, sizeof magic),
                reinterpret_cast<std::byte*>(&magic));
    if (magic != kStreamMagic) return false;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

void StreamDoors::admit(Stranger& stranger) {
    Descriptor socket = std::move(stranger.socket);
    thread_.forget(socket.get());
    StreamHello hello;
    std::copy_n(stranger.hello.data(), sizeof hello, reinterpret_cast<std::byte*>(&hello));
    if (hello.version != kStreamVersion) return send_welcome(socket, StreamStatus::other_version);
    const std::lock_guard lock(mutex_);
    const auto invited = invited_.find(hello.to);
    if (invited == invited_.end() || invited->second.used)
        return send_welcome(socket, StreamStatus::unknown);
    invited->second.socket = std::move(socket);
    invited->second.hello = hello;
    if (invited->second.expected != nullptr) hand_on(invited->second);
}

}  // namespace verbatim::softnic
