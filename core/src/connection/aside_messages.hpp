// Application messages that a layer above passed by on its way to what lies behind them, in order,
// as copies: at most kMostBytes of them, as a peer decides how many come. Threads: the
// connection's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <verbatim/core/connection.hpp>

namespace verbatim {

class AsideMessages {
  public:
    static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

    bool empty() const noexcept { return kept_.empty(); }
    // The first one is handed out.
    bool holds() const noexcept { return holds_; }

    // False, and nothing kept, if there is no room. Allocates.
    bool keep(const Message& message) {
        const std::size_t bytes = message.payload.size() + sizeof(Kept);
        if (bytes > kMostBytes - bytes_) return false;
        kept_.push_back({message.kind, {message.payload.begin(), message.payload.end()}});
        bytes_ += bytes;
        return true;
    }
    // Hands out the first one; it stays until release(). Not if empty.
    Message hold() noexcept {
        holds_ = true;
        return {kept_.front().kind, kept_.front().payload};
    }
    void release() noexcept {
        bytes_ -= kept_.front().payload.size() + sizeof(Kept);
        kept_.pop_front();
        holds_ = false;
    }

  private:
    struct Kept {
        std::uint8_t kind;
        std::vector<std::byte> payload;
    };
    std::deque<Kept> kept_;
    std::size_t bytes_ = 0;  // of all that are kept
    bool holds_ = false;
};

}  // namespace verbatim
