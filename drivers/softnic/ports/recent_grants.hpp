// Recent grants are the keys of a peer that a queue pair has used last, and where their memory is
// in this process. There are two: programs write data, and then what tells of them. Each is checked
// by the version of its table entry when it is used again. Threads: the one inside the send gate.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "../keys/key_table_view.hpp"

namespace verbatim::softnic {

class RecentGrants {
  public:
    struct Recent : GrantedRange {
        Recent() = default;
        Recent(const Grant& grant, std::byte* mapped) noexcept
            : GrantedRange(grant),
              may_vanish(grant.may_vanish()),
              is_sparse(grant.is_sparse()),
              base(mapped) {}
        // Of an address that it covers, where it is mapped.
        std::byte* place(std::uint64_t at) const noexcept { return base + (at - address); }

        bool may_vanish = false, is_sparse = false;
        std::byte* base = nullptr;  // of the granted range in this process, null: private
        std::chrono::steady_clock::time_point proven_until{};  // the peer has the memory still
    };
    static_assert(sizeof(Recent) == 64);  // ten thousand queue pairs have two of them

    RecentGrants() = default;
    RecentGrants(const RecentGrants&) = delete;
    RecentGrants& operator=(const RecentGrants&) = delete;

    // The one that was used last.
    Recent& last() noexcept { return *last_; }
    const Recent& last() const noexcept { return *last_; }
    // That of this key is the last one from now on, if there is one. False: there is none that is
    // valid.
    bool use(std::uint32_t key) noexcept {
        if (last_->key != key && older()->key == key) last_ = older();
        return last_->key == key && last_->current();
    }
    // The last one from now on, in place of the older one or of that with this key.
    void renew(std::uint32_t key, const Recent& recent) noexcept {
        if (last_->key != key) last_ = older();
        *last_ = recent;
    }
    void clear() noexcept { recent_ = {}; }

  private:
    Recent* older() noexcept { return last_ == &recent_[0] ? &recent_[1] : &recent_[0]; }

    std::array<Recent, 2> recent_;
    Recent* last_ = &recent_[0];
};

}  // namespace verbatim::softnic
