// The slow exits of key translation, and cross-memory attach.
#include "memory_access.hpp"

#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace verbatim::softnic {

using mlx5::Syndrome;

namespace {

// So that the looks take 2 % of the time of a peer that does nothing but write 64 KiB at a time (8
// % with 10 us; measured on a busy machine, 2 cores).
constexpr std::chrono::microseconds kProofTime{40};

// Whether there is memory behind all pieces.
bool present(const PieceList& list) noexcept {
    constexpr std::uintptr_t kPage = 4096, kPages = 256;
    std::array<unsigned char, kPages> unused;
    for (std::size_t i = 0; i < list.count; ++i) {
        const auto start = reinterpret_cast<std::uintptr_t>(list.items[i].data);
        const std::uintptr_t end = start + list.items[i].bytes;
        for (std::uintptr_t at = start & ~(kPage - 1); at < end; at += kPages * kPage)
            if (mincore(reinterpret_cast<void*>(at), std::min(end - at, kPages * kPage),
                        unused.data()) != 0)
                return false;
    }
    return true;
}

}  // namespace

// A window's key is for peers only. The domain of what is cached needs no second look: another one
// is another version of the entry.
bool LocalMemory::look_up(std::uint32_t key) noexcept {
    Grant found;
    const bool is_good = keys_->find(key, found) && !found.of_window() && found.domain == domain_;
    grant_ = is_good ? GrantedRange(found) : GrantedRange();
    return is_good;
}

Syndrome LocalMemory::refuse(std::uint32_t key, std::uint64_t address,
                             std::uint64_t bytes) noexcept {
    Grant found;
    if (keys_->find(key, found) && found.domain != domain_)
        failure_->set("local key {:#x} is of another protection domain", key);
    else
        failure_->set("local key {:#x} does not cover {} bytes at {:#x}, or forbids the access",
                      key, bytes, address);
    return Syndrome::local_protection;
}

void RemoteMemory::bind(std::shared_ptr<Link> link, std::uint32_t queue_pair,
                        const ChannelSender& ring, bool barriers) noexcept {
    unbind();
    access_.bind(ring, barriers && link->peer_raises_barriers());
    link_ = std::move(link);
    queue_pair_ = queue_pair;
    domain_ = ring.domain();
}

void RemoteMemory::unbind() noexcept {
    access_.unbind();
    link_ = nullptr;
    queue_pair_ = domain_ = 0;
    recent_.clear();
}

Syndrome RemoteMemory::translate(std::uint32_t key) noexcept {
    if (link_->memory().keys().lacks(key)) {
        const Errc fetched = link_->memory().fetch_keys(key);
        if (fetched == Errc::would_block) return kPeerIsAsked;
        if (link_->lost() || fetched == Errc::timeout) return Syndrome::retry_exceeded;
    }
    Grant grant;
    if (!link_->memory().keys().find(key, grant)) {
        failure_->set("remote key {:#x} is not registered (any more) by the peer", key);
        return Syndrome::remote_access;
    }
    if (!grant.serves_queue_pair(queue_pair_)) {
        failure_->set("remote key {:#x} is a window for another queue pair", key);
        return Syndrome::remote_access;
    }
    if (grant.domain != domain_) {
        failure_->set("remote key {:#x} is of another protection domain than the peer's queue pair",
                      key);
        return Syndrome::remote_access;
    }
    std::byte* base = nullptr;
    const Syndrome syndrome = map(grant, base);
    if (syndrome == kNoSyndrome) recent_.renew(key, {grant, base});
    return syndrome;
}

// Finds the granted range's place in this process. `base` is null.
Syndrome RemoteMemory::map(const Grant& grant, std::byte*& base) noexcept {
    if (link_->same_process()) {
        base = reinterpret_cast<std::byte*>(grant.address + grant.origin);
        return kNoSyndrome;
    }
    if (grant.file == 0) return kNoSyndrome;
    bool is_given = true;
    base = link_->memory().place(grant);
    if (base == nullptr && link_->may_fetch(grant.file)) {
        const Errc fetched = link_->memory().fetch_file(grant.file);
        if (fetched == Errc::would_block) return kPeerIsAsked;
        if (link_->lost() || fetched == Errc::timeout) return Syndrome::retry_exceeded;
        is_given = fetched != Errc::permission_denied;
        base = link_->memory().place(grant);
    }
    // Memory like other private one then.
    if (base == nullptr && !grant.may_vanish()) {
        failure_->set("the memory file behind remote key {:#x} {}", grant.key,
                      is_given ? "cannot be mapped here (the log says why)"
                               : "was not given by the peer: it has ended that memory, or has no "
                                 "descriptor left (ulimit -n)");
        return Syndrome::remote_access;
    }
    return kNoSyndrome;
}

Syndrome RemoteMemory::refuse(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                              Access wanted) noexcept {
    const RecentGrants::Recent& recent = recent_.last();
    if (!recent.covers(address, bytes))
        failure_->set(
            "remote key {:#x} covers {} bytes at {:#x}, the request wants {} bytes at {:#x}", key,
            recent.bytes, recent.address, bytes, address);
    else
        failure_->set("remote key {:#x} allows access {:#x}, the request needs {:#x}", key,
                      static_cast<unsigned>(recent.access), static_cast<unsigned>(wanted));
    return Syndrome::remote_access;
}

// A peer that takes its memory away waits for the chunk that is being copied, and for no other.
template <class Copy>
Syndrome RemoteMemory::in_chunks(std::uint64_t total, Copy&& copy) noexcept {
    for (std::uint64_t done = 0; done != total;) {
        const std::uint64_t bytes = std::min(kMostInside, total - done);
        const MemoryTouch inside(access_.sequence());
        if (!current()) return revoked();
        Syndrome syndrome = kNoSyndrome;
        if (!copy(done, bytes, syndrome)) return syndrome;
        done += bytes;
    }
    return kNoSyndrome;
}

// The key was valid when the request began.
Syndrome RemoteMemory::revoked() noexcept {
    if (!access_.allowed()) return Syndrome::retry_exceeded;
    failure_->set("the peer revoked the remote key while the request was executed");
    return Syndrome::remote_access;
}

Syndrome RemoteMemory::write(const RemoteRange& to, const PieceList& list) noexcept {
    if (!reaches(to)) return kNoSyndrome;
    const bool streams = list.total >= kStreamedBytes;
    return in_chunks(list.total, [&](std::uint64_t done, std::uint64_t bytes, Syndrome& syndrome) {
        const Chunk chunk{done, bytes, streams};
        if (to.mapped != nullptr) {
            gather_in_order(to.mapped + done, list, chunk);
            return true;
        }
        syndrome = copy_private(Way::write, to, list, chunk);
        return syndrome == kNoSyndrome && link_->attaches();
    });
}

Syndrome RemoteMemory::read(const RemoteRange& from, const PieceList& list) noexcept {
    if (!reaches(from)) return kNoSyndrome;
    return in_chunks(list.total, [&](std::uint64_t done, std::uint64_t bytes, Syndrome& syndrome) {
        if (from.mapped != nullptr) {
            scatter(list, done, from.mapped + done, bytes);
            return true;
        }
        syndrome = copy_private(Way::read, from, list, {done, bytes});
        return syndrome == kNoSyndrome && link_->attaches();
    });
}

Syndrome RemoteMemory::execute(const RemoteAtomic& operation, const RemoteRange& at,
                               std::uint64_t& before) noexcept {
    const MemoryTouch inside(access_.sequence());
    if (!current()) return revoked();
    before = softnic::execute(operation, at.mapped);
    return kNoSyndrome;
}

// What is refused here is no failure of the queue pair: nobody is to read why. Memory that may
// vanish, and pages that are not there yet, take a thread that is guarded against faults.
std::byte* RemoteMemory::open(std::uint32_t key, std::uint64_t address,
                              std::size_t bytes) noexcept {
    if (!recent_.use(key)) {
        FailureText unread;
        FailureText* const own = std::exchange(failure_, &unread);
        const Syndrome syndrome = translate(key);
        failure_ = own;
        if (syndrome != kNoSyndrome) return nullptr;
    }
    const RecentGrants::Recent& recent = recent_.last();
    if (recent.may_vanish || recent.is_sparse) return nullptr;
    access_.sequence().enter();
    if (is_good_now(key, address, bytes, Access::remote_write)) return recent.place(address);
    access_.sequence().leave();
    return nullptr;
}

Syndrome RemoteMemory::copy_private(Way way, const RemoteRange& range, const PieceList& list,
                                    const Chunk& chunk) noexcept {
    // A process of a pid namespace that is not this one or below it has no number here.
    if (link_->process() == 0) {
        link_->refuse_attach("it is in another pid namespace");
        return kNoSyndrome;
    }
    std::array<iovec, kMaxPieces> local;
    std::uint64_t done = chunk.skip;
    const std::uint64_t end = chunk.skip + chunk.bytes;
    // One call may move less; the rest follows.
    while (done < end) {
        std::size_t parts = 0;
        for_each_part(list, done, end - done, [&](std::byte* data, std::size_t bytes) {
            local[parts++] = {data, bytes};
        });
        const iovec remote{reinterpret_cast<void*>(range.address + done), end - done};
        before_store();
        const ssize_t moved =
            way == Way::write
                ? process_vm_writev(link_->process(), local.data(), parts, &remote, 1, 0)
                : process_vm_readv(link_->process(), local.data(), parts, &remote, 1, 0);
        if (moved > 0) {
            done += static_cast<std::uint64_t>(moved);
            continue;
        }
        return attach_failed(moved == 0 ? EFAULT : errno, &list);
    }
    return kNoSyndrome;
}

// `list`: own memory, which may be what is missing.
Syndrome RemoteMemory::attach_failed(int cause, const PieceList* list) noexcept {
    if (cause == ESRCH) return Syndrome::retry_exceeded;
    // Other system calls of this kind would be refused as well.
    if (cause == EPERM || cause == EACCES || cause == ENOSYS) {
        link_->refuse_attach(std::strerror(cause));
        return kNoSyndrome;
    }
    if (cause == EFAULT) {
        const bool own = list != nullptr && !present(*list);
        failure_->set("{} memory is registered and not there (any more)",
                      own ? "own" : "the peer's");
        return own ? Syndrome::local_protection : Syndrome::remote_access;
    }
    failure_->set("cross-memory attach to process {} failed ({})", link_->process(),
                  std::strerror(cause));
    return Syndrome::remote_access;
}

// The peer may have unmapped what is mapped here still. Looking there costs a system call (0.5 us),
// so one look, at both ends of the request, is good for a while. Where there is no looking, the
// peer is to do the request itself.
Syndrome RemoteMemory::prove(RemoteRange& range, std::uint64_t bytes) noexcept {
    const auto now = Clock::now();
    auto& proven_until = recent_.last().proven_until;
    if (now < proven_until) return kNoSyndrome;
    if (link_->process() == 0) link_->refuse_attach("it is in another pid namespace");
    Syndrome syndrome = kNoSyndrome;
    if (link_->attaches()) {
        std::array<std::byte, 2> seen;
        const iovec local{seen.data(), seen.size()};
        const std::array<iovec, 2> remote{
            {{reinterpret_cast<void*>(range.address), 1},
             {reinterpret_cast<void*>(range.address + bytes - 1), 1}}};
        const ssize_t moved =
            process_vm_readv(link_->process(), &local, 1, remote.data(), remote.size(), 0);
        if (moved == static_cast<ssize_t>(seen.size())) {
            proven_until = now + kProofTime;
            return kNoSyndrome;
        }
        syndrome = attach_failed(moved >= 0 ? EFAULT : errno, nullptr);
    }
    range.mapped = nullptr;
    return syndrome;
}

}  // namespace verbatim::softnic
