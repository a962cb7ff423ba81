// How a queue pair's engine turns keys and addresses into bytes it can touch: local keys through
// this device's own table, remote keys through the peer's table and the mappings of the link. One
// recent local key and two remote ones are cached, and re-validated by the versions of their table
// entries. Nothing but RemoteMemory, and those that opened it there, touches what a peer's key
// names. Threads: the one inside the send (or receive) gate.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <verbatim/mlx5/formats.hpp>

#include "../../softqueue/failure_text.hpp"
#include "../keys/key_table.hpp"
#include "../keys/pieces.hpp"
#include "../links/link.hpp"
#include "../rings/peer_access.hpp"
#include "../rings/remote_atomic.hpp"
#include "recent_grants.hpp"

namespace verbatim::softnic {

class LocalMemory {
  public:
    // `domain`: whose keys these are.
    LocalMemory(const KeyTableView& keys, FailureText& failure, std::uint32_t domain) noexcept
        : keys_(&keys), failure_(&failure), domain_(domain) {}

    // Adds [address, address + bytes) to the list if `key` covers it and allows `wanted`.
    mlx5::Syndrome add(std::uint32_t key, std::uint64_t address, std::uint64_t bytes, Access wanted,
                       PieceList& list) noexcept {
        if (grant_.key != key || !grant_.current()) [[unlikely]]
            if (!look_up(key)) return refuse(key, address, bytes);
        if (!grant_.covers(address, bytes) || !allows(grant_.access, wanted)) [[unlikely]]
            return refuse(key, address, bytes);
        list.add(reinterpret_cast<std::byte*>(address + grant_.origin), bytes);
        return kNoSyndrome;
    }

    // Where they may be written to, if the key is the cached one and all is in order; else null.
    std::byte* place_now(std::uint32_t key, std::uint64_t address,
                         std::uint64_t bytes) const noexcept {
        const bool good = grant_.key == key && grant_.current() && grant_.covers(address, bytes) &&
                          allows(grant_.access, Access::local_write);
        return good ? reinterpret_cast<std::byte*>(address + grant_.origin) : nullptr;
    }

  private:
    bool look_up(std::uint32_t key) noexcept;
    mlx5::Syndrome refuse(std::uint32_t key, std::uint64_t address, std::uint64_t bytes) noexcept;

    const KeyTableView* keys_;
    FailureText* failure_;
    std::uint32_t domain_;
    GrantedRange grant_;
};

// Instead of a syndrome: the peer was asked for what is missing, and has not answered yet.
inline constexpr mlx5::Syndrome kPeerIsAsked{0xff};

// Bytes of the peer: mapped here, or reached by cross-memory attach.
struct RemoteRange {
    std::byte* mapped = nullptr;  // null: private memory of the peer
    std::uint64_t address = 0;    // in the peer
};

class RemoteMemory {
  public:
    explicit RemoteMemory(FailureText& failure) noexcept : failure_(&failure) {}
    // The peer's queue pair, at which this one's requests arrive, and the ring to it, which stays
    // until unbind(). `barriers`: this process takes part in those of others.
    void bind(std::shared_ptr<Link> link, std::uint32_t queue_pair, const ChannelSender& ring,
              bool barriers) noexcept;
    void unbind() noexcept;

    // Of XRC: keys are to be of this one from now on.
    void expect_domain(std::uint32_t domain) noexcept {
        if (domain == domain_) [[likely]]
            return;
        domain_ = domain;
        recent_.clear();
    }

    // kPeerIsAsked: nothing is decided; again later.
    mlx5::Syndrome reach(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                         Access wanted, RemoteRange& range) noexcept {
        if (!recent_.use(key)) [[unlikely]]
            if (const mlx5::Syndrome syndrome = translate(key); syndrome != kNoSyndrome)
                return syndrome;
        const RecentGrants::Recent& recent = recent_.last();
        if (!recent.covers(address, bytes) || !allows(recent.access, wanted)) [[unlikely]]
            return refuse(key, address, bytes, wanted);
        range.address = address + recent.origin;
        range.mapped = recent.base == nullptr ? nullptr : recent.place(address);
        return !recent.may_vanish || range.mapped == nullptr ? kNoSyndrome : prove(range, bytes);
    }

    // Whether this side touches such a range itself; else nothing was done, and the peer is to do
    // it. Attaching may turn out to be refused by any copy.
    bool reaches(const RemoteRange& range) const noexcept {
        return range.mapped != nullptr || link_->attaches();
    }
    // The last aligned 8 bytes come last where the range is mapped. Private memory takes a system
    // call, and has no order that a poller could rely on.
    mlx5::Syndrome write(const RemoteRange& to, const PieceList& list) noexcept;
    mlx5::Syndrome read(const RemoteRange& from, const PieceList& list) noexcept;
    // Of a mapped range; `before`: what was there before.
    mlx5::Syndrome execute(const RemoteAtomic& operation, const RemoteRange& at,
                           std::uint64_t& before) noexcept;
    // A write or read of bytes that lie side by side. False: nothing was done, because the key is
    // no cached one, or not everything about it is in order.
    bool write_now(std::uint32_t key, std::uint64_t address, const std::byte* from,
                   std::size_t bytes) noexcept {
        const MemoryTouch inside(access_.sequence());
        const bool good = is_good_now(key, address, bytes, Access::remote_write);
        if (good) write_in_order(recent_.last().place(address), from, bytes);
        return good;
    }
    bool read_now(std::uint32_t key, std::uint64_t address, std::byte* to,
                  std::size_t bytes) noexcept {
        const MemoryTouch inside(access_.sequence());
        const bool good = is_good_now(key, address, bytes, Access::remote_read);
        if (good) read_bytes(to, recent_.last().place(address), bytes);
        return good;
    }

    // A copy that the program makes itself, of at most kMostInside bytes, from open() to close().
    // Null: it may not, or the memory is not mapped here for good; nothing is open then.
    std::byte* open(std::uint32_t key, std::uint64_t address, std::size_t bytes) noexcept;
    void close() noexcept {
        mlx5::store_fence();  // behind streaming stores
        access_.sequence().leave();
    }

    // After a jump out of a copy.
    void recover() noexcept { access_.recover(); }

  private:
    using Clock = std::chrono::steady_clock;
    // Inside the bracket of a chunk: what was found before holds still.
    bool current() const noexcept { return recent_.last().current() && access_.allowed(); }
    bool is_good_now(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                     Access wanted) noexcept {
        if (!recent_.use(key) || !access_.allowed()) return false;
        const RecentGrants::Recent& recent = recent_.last();
        return recent.covers(address, bytes) && allows(recent.access, wanted) &&
               recent.base != nullptr && (!recent.may_vanish || Clock::now() < recent.proven_until);
    }
    mlx5::Syndrome revoked() noexcept;
    template <class Copy>
    mlx5::Syndrome in_chunks(std::uint64_t total, Copy&& copy) noexcept;
    enum class Way : std::uint8_t { write, read };
    mlx5::Syndrome translate(std::uint32_t key) noexcept;
    mlx5::Syndrome prove(RemoteRange& range, std::uint64_t bytes) noexcept;
    mlx5::Syndrome attach_failed(int cause, const PieceList* list) noexcept;
    mlx5::Syndrome map(const Grant& grant, std::byte*& base) noexcept;
    mlx5::Syndrome refuse(std::uint32_t key, std::uint64_t address, std::uint64_t bytes,
                          Access wanted) noexcept;
    mlx5::Syndrome copy_private(Way way, const RemoteRange& range, const PieceList& list,
                                const Chunk& chunk) noexcept;

    FailureText* failure_;
    std::shared_ptr<Link> link_;
    PeerAccess access_;
    std::uint32_t queue_pair_ = 0, domain_ = 0;
    RecentGrants recent_;
};

}  // namespace verbatim::softnic
