// End notices tell the peer which keys lead nowhere any more, so that its prepared operations end
// before they fail. They go through the ring, in front of messages that are sent later, unless the
// ring is full. Threads: the lane's.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <verbatim/core/grant.hpp>

#include "../ring/message_ring.hpp"

namespace verbatim {

class EndNotices {
  public:
    bool empty() const noexcept { return keys_.empty(); }
    // The peer has yet to hear of this key.
    bool has(std::uint32_t key) const noexcept { return std::ranges::count(keys_, key) != 0; }
    // Makes room for the keys of a grant, so that add() allocates nothing. Throws std::bad_alloc.
    void expect(std::size_t keys) {
        const std::size_t needed = keys_.size() + expected_ + keys;
        if (needed > keys_.capacity()) keys_.reserve(std::max(2 * needed, kLeast));
        expected_ += keys;
    }
    // The grant ends. `is_told`: the peer shall hear of it. A peer that takes no messages hears of
    // the last kMost keys.
    void add(std::span<const RemoteExtent> ended, bool is_told) noexcept {
        expected_ -= ended.size();
        for (const RemoteExtent& extent : ended) {
            if (!is_told) break;
            if (keys_.size() == kMost) keys_.erase(keys_.begin());
            keys_.push_back(extent.remote_key);
        }
    }
    // Sends what there is room for.
    void post(MessageRing& ring) noexcept {
        while (!keys_.empty()) {
            const auto some = std::span(keys_).first(std::min(keys_.size(), ring::kMostKeys));
            const OutgoingMessage notice{.body = std::as_bytes(some),
                                         .frame = ring::Frame::ended_keys};
            const std::uint64_t before = ring.sent();
            if (ring.try_send(notice) != Errc::ok) return;
            if (before != sent_) begin_ = before;
            sent_ = ring.sent();
            ++ring.sender().counts().ended_keys;
            ring.sender().counts().ended_key_bytes += some.size_bytes();
            keys_.erase(keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(some.size()));
        }
    }
    void clear() noexcept { keys_.clear(); }
    // No grant is left.
    void reset() noexcept {
        clear();
        expected_ = 0;
    }
    // Of all that was sent: from where on there are notices only.
    std::uint64_t behind_messages(std::uint64_t sent) const noexcept {
        return sent == sent_ ? begin_ : sent;
    }

  private:
    static constexpr std::size_t kLeast = 64, kMost = 4096;
    std::vector<std::uint32_t> keys_;
    std::size_t expected_ = 0;            // of grants that have not ended
    std::uint64_t begin_ = 0, sent_ = 0;  // positions in the ring: of the last notices on end
};

}  // namespace verbatim
