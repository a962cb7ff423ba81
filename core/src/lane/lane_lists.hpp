// What a lane keeps beside its members. Threads: the lane's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <verbatim/core/inbox_item.hpp>

#include "lane_member.hpp"
#include "quarantine.hpp"

namespace verbatim {

// Stalled items found no room; each poll takes them once more.
class StalledItems {
  public:
    // Room for so many, so that add() allocates nothing. Throws std::bad_alloc.
    void expect(std::size_t items) {
        items_.reserve(items);
        retried_.reserve(items);
    }
    bool empty() const noexcept { return items_.empty(); }
    void add(std::shared_ptr<InboxItem> item) { items_.push_back(std::move(item)); }
    // Those that find no room again come back.
    void retry() noexcept {
        retried_.swap(items_);
        for (const auto& item : retried_) item->retry(*item);
        retried_.clear();
    }

  private:
    std::vector<std::shared_ptr<InboxItem>> items_, retried_;
};

// Pending members have work that no event may tell of, such as the end of their connection: each
// poll asks their owners, until these need it no more.
class PendingMembers {
  public:
    void expect(std::size_t members) { members_.reserve(members); }
    bool empty() const noexcept { return members_.empty(); }
    void add(LaneMember& member) noexcept {
        if (std::find(members_.begin(), members_.end(), &member) == members_.end())
            members_.push_back(&member);
    }
    void remove(const LaneMember& member) noexcept {
        std::erase_if(members_, [&](const LaneMember* one) { return one == &member; });
    }
    // Owners may remove members while they are asked. Returns how many were.
    std::size_t look() noexcept {
        const std::size_t before = members_.size();
        for (std::size_t i = members_.size(); i-- != 0;) {
            if (i >= members_.size()) continue;
            const MemberEvents& events = members_[i]->events();
            if (events.pending != nullptr) events.pending(events.owner);
        }
        return before - std::min(before, members_.size());
    }

  private:
    std::vector<LaneMember*> members_;
};

// Kept objects live by the lane: connections that nobody else owns, and memory of ended ones in
// which messages are still held.
class KeptObjects {
  public:
    // `quarantine`: swept with these.
    explicit KeptObjects(Quarantine& quarantine) noexcept : quarantine_(quarantine) {}
    // A connection, until it ends or all are cleared.
    void host(std::shared_ptr<void> connection) { hosted_.push_back(std::move(connection)); }
    // For another lane; null: it is not hosted here.
    std::shared_ptr<void> release_hosted(const void* connection) noexcept {
        const auto at = std::find_if(hosted_.begin(), hosted_.end(),
                                     [&](const auto& one) { return one.get() == connection; });
        if (at == hosted_.end()) return nullptr;
        std::shared_ptr<void> released = std::move(*at);
        hosted_.erase(at);
        return released;
    }
    void end_hosted(const void* connection) noexcept {
        const std::shared_ptr<void> ended = release_hosted(connection);
    }
    void end_all_hosted() noexcept {
        while (!hosted_.empty()) end_hosted(hosted_.back().get());
    }
    // Connections that close with the lane's polls, and belong to nobody else.
    void begin_closing() noexcept { ++closing_; }
    void end_closing() noexcept { --closing_; }
    bool has_closing() const noexcept { return closing_ != 0; }
    // `object`, the memory of `member`.
    void linger(std::shared_ptr<void> object, const LaneMember& member) {
        lingering_.push_back({std::move(object), &member});
    }
    // Something is in quarantine, of which no event tells.
    bool must_be_swept() const noexcept { return !quarantine_.is_empty(); }
    void sweep() noexcept {
        std::erase_if(lingering_, [](const Lingering& one) { return one.member->held() == 0; });
        quarantine_.sweep();
    }

  private:
    struct Lingering {
        std::shared_ptr<void> object;
        const LaneMember* member;
    };
    Quarantine& quarantine_;
    std::vector<std::shared_ptr<void>> hosted_;
    std::vector<Lingering> lingering_;
    std::size_t closing_ = 0;
};

}  // namespace verbatim
