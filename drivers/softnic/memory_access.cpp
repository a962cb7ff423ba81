// The slow exits of key translation, and cross-memory attach.
#include "memory_access.hpp"

#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace verbatim::softnic {

using mlx5::Syndrome;

// A window's key is for peers only. The domain of what is cached needs no second look: another one
// is another version of the entry.
bool LocalMemory::look_up(std::uint32_t key) noexcept {
    if (keys_->find(key, grant_) && !grant_.of_window() && grant_.domain == domain_) return true;
    grant_ = {};
    return false;
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
                        std::uint32_t domain) noexcept {
    link_ = std::move(link);
    queue_pair_ = queue_pair;
    domain_ = domain;
    grant_ = {};
    base_ = nullptr;
}

Syndrome RemoteMemory::translate(std::uint32_t key) noexcept {
    if (!link_->keys().find(key, grant_)) {
        grant_ = {};
        failure_->set("remote key {:#x} is not registered (any more) by the peer", key);
        return Syndrome::remote_access;
    }
    if (!grant_.serves_queue_pair(queue_pair_)) {
        failure_->set("remote key {:#x} is a window for another queue pair", key);
        grant_ = {};
        return Syndrome::remote_access;
    }
    if (grant_.domain != domain_) {
        failure_->set("remote key {:#x} is of another protection domain than the peer's queue pair",
                      key);
        grant_ = {};
        return Syndrome::remote_access;
    }
    const Syndrome syndrome = map_grant();
    if (syndrome != kNoSyndrome) grant_ = {};
    return syndrome;
}

// Finds the granted range's place in this process.
Syndrome RemoteMemory::map_grant() noexcept {
    base_ = nullptr;
    if (link_->same_process()) {
        base_ = reinterpret_cast<std::byte*>(grant_.address + grant_.origin);
        return kNoSyndrome;
    }
    if (grant_.file == 0) return kNoSyndrome;
    base_ = link_->place(grant_);
    if (base_ == nullptr) {
        const Errc fetched = link_->fetch_file(grant_.file);
        if (link_->lost() || fetched == Errc::timeout) return Syndrome::retry_exceeded;
        base_ = link_->place(grant_);
    }
    if (base_ == nullptr) {
        failure_->set(
            "the memory file behind remote key {:#x} cannot be mapped here (the log says why)",
            grant_.key);
        return Syndrome::remote_access;
    }
    return kNoSyndrome;
}

Syndrome RemoteMemory::refuse(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                              Access wanted) noexcept {
    if (!grant_.covers(address, bytes))
        failure_->set(
            "remote key {:#x} covers {} bytes at {:#x}, the request wants {} bytes at {:#x}", key,
            grant_.bytes, grant_.address, bytes, address);
    else
        failure_->set("remote key {:#x} allows access {:#x}, the request needs {:#x}", key,
                      static_cast<unsigned>(grant_.access), static_cast<unsigned>(wanted));
    return Syndrome::remote_access;
}

Syndrome RemoteMemory::write_private(const RemoteRange& to, const PieceList& list) noexcept {
    return copy_private(Way::write, to, list);
}

Syndrome RemoteMemory::read_private(const RemoteRange& from, const PieceList& list) noexcept {
    return copy_private(Way::read, from, list);
}

namespace {

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

Syndrome RemoteMemory::copy_private(Way way, const RemoteRange& range,
                                    const PieceList& list) noexcept {
    // A process of a pid namespace that is not this one or below it has no number here.
    if (link_->process() == 0) {
        link_->refuse_attach("it is in another pid namespace");
        return kNoSyndrome;
    }
    std::array<iovec, kMaxPieces> local;
    std::uint64_t done = 0;
    // One call moves at most 2 GiB; the rest follows.
    while (done < list.total) {
        std::size_t parts = 0;
        for_each_part(list, done, list.total - done, [&](std::byte* data, std::size_t bytes) {
            local[parts++] = {data, bytes};
        });
        const iovec remote{reinterpret_cast<void*>(range.address + done), list.total - done};
        const ssize_t moved =
            way == Way::write
                ? process_vm_writev(link_->process(), local.data(), parts, &remote, 1, 0)
                : process_vm_readv(link_->process(), local.data(), parts, &remote, 1, 0);
        if (moved > 0) {
            done += static_cast<std::uint64_t>(moved);
            continue;
        }
        const int cause = moved == 0 ? EFAULT : errno;
        if (cause == ESRCH) return Syndrome::retry_exceeded;
        // Other system calls of this kind would be refused as well.
        if (cause == EPERM || cause == EACCES || cause == ENOSYS) {
            link_->refuse_attach(std::strerror(cause));
            return kNoSyndrome;
        }
        if (cause == EFAULT) {
            const bool own = !present(list);
            failure_->set("{} memory is registered and not there (any more)",
                          own ? "own" : "the peer's");
            return own ? Syndrome::local_protection : Syndrome::remote_access;
        }
        failure_->set("cross-memory attach to process {} failed ({})", link_->process(),
                      std::strerror(cause));
        return Syndrome::remote_access;
    }
    return kNoSyndrome;
}

}  // namespace verbatim::softnic
