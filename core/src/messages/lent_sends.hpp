// Lent sends are the send requests of one layer that the peer may read, and was told of. Threads:
// the lane's. Lending allocates; that it has ended does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <verbatim/core/send_request.hpp>

#include "../connection/waiting.hpp"
#include "lent_offer.hpp"

namespace verbatim {

class LentSends {
  public:
    LentSends(Connection::Impl& impl, std::uint8_t channel) noexcept
        : impl_(impl), channel_(channel) {}
    ~LentSends() { end(Errc::flushed); }
    LentSends(const LentSends&) = delete;
    LentSends& operator=(const LentSends&) = delete;

    // It lies in an arena; and it is long enough that lending costs less than copying.
    bool is_possible(const SendRequest& request) const noexcept;
    bool is_worth_it(const SendRequest& request) const noexcept {
        return request.bytes_.size() >= least_ && is_possible(request);
    }
    std::size_t least() const noexcept { return least_; }
    void set_least(std::size_t bytes) noexcept { least_ = bytes; }
    // Lends the request's bytes and tells the peer. would_block: call again. message_too_large:
    // they lie in too many pieces; other errors of the request: it cannot be lent.
    Errc try_send(SendRequest& request, std::uint64_t tag) noexcept;
    // A message of kind kRead: ids of requests that the peer has read. False: it lies.
    bool take(std::span<const std::byte> message) noexcept;
    void remove(SendRequest& request) noexcept;
    void end(Errc why) noexcept;

  private:
    static Errc lend(Connection& connection, SendRequest& request) noexcept;
    SendRequest* find(std::uint64_t id) noexcept;

    Connection::Impl& impl_;
    std::uint8_t channel_;
    SendRequest* first_ = nullptr;
    std::size_t open_ = 0;
    std::uint64_t last_id_ = 0;
    std::size_t least_ = 0;
};

}  // namespace verbatim
