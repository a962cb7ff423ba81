// The state of a connection's byte stream. What has come and was not read lies in a circular
// buffer; runs of bytes that the peer lends lie between, at their positions, and are pulled when
// they are read. Threads: the lane's. Data path, but for what is lent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include <verbatim/core/stream.hpp>

#include "layer_window.hpp"
#include "lent_answers.hpp"
#include "lent_pull.hpp"
#include "lent_sends.hpp"

namespace verbatim {

class StreamLayer {
  public:
    static constexpr std::uint8_t kChannel = kLayerChannels + 2;

    explicit StreamLayer(Connection& connection);
    ~StreamLayer() { end(Errc::flushed); }
    StreamLayer(const StreamLayer&) = delete;
    StreamLayer& operator=(const StreamLayer&) = delete;

    std::size_t least_lent() const noexcept { return sends_.least(); }
    void set_least_lent(std::size_t bytes) noexcept { sends_.set_least(bytes); }
    // Of the dispatcher.
    void receive(Message& message) noexcept;
    Errc try_write(std::span<const std::byte> bytes, std::size_t& written) noexcept;
    Errc try_write(SendRequest& request) noexcept;
    Errc try_read(std::span<std::byte> into, std::size_t& read) noexcept;
    // Reads lent bytes straight into memory that stays: call again with it while would_block, and
    // stop_direct() before it goes. unsupported: what comes next is not lent, or `into` is no
    // memory for that.
    Errc read_direct(std::span<std::byte> into, std::size_t& read) noexcept;
    void stop_direct() noexcept;
    Errc try_finish() noexcept;
    std::size_t readable() const noexcept;
    // Nothing comes any more, after what has come. The first end counts.
    void end(Errc why) noexcept;

  private:
    static constexpr std::uint8_t kBytes = 0, kEnd = 1;  // kinds
    // One message: several are under way, so that reading and writing overlap.
    static constexpr std::size_t kPiece = std::size_t{16} << 10;
    struct Lent {
        std::uint64_t position;  // in front of the byte there of the buffer
        LentOffer offer;
        std::size_t read = 0;  // leading bytes that the program has
    };
    struct Step {
        StreamLayer* layer;
        Errc operator()() const noexcept { return layer->pull_some(); }
    };
    bool take(Message& message);
    bool take_lent(std::span<const std::byte> payload);
    void store(std::span<const std::byte> bytes) noexcept;
    std::size_t copy_out(std::span<std::byte> into) noexcept;
    std::size_t read_lent(std::span<std::byte> into, bool may_pull) noexcept;
    void pull_more(LentOffer& offer) noexcept;
    void finish_lent() noexcept;
    bool may_read_directly(std::span<std::byte> into) const noexcept;
    Errc pull_some() noexcept;
    bool is_lent_next() const noexcept {
        return !lent_.empty() && lent_.front().position == begin_;
    }
    bool is_over() const noexcept {
        return peer_finished_ && begin_ == end_ && lent_.empty() && why_ != Errc::protocol_error;
    }

    Connection::Impl& impl_;
    LayerWindow window_;
    std::unique_ptr<std::byte[]> buffer_;  // Stream::kWindow
    std::uint64_t begin_ = 0, end_ = 0;    // positions of what is unread
    std::deque<Lent> lent_;                // in order
    std::size_t pulled_from_ = 0;          // where the pull's buffer begins in the first one
    bool is_direct_ = false;               // the pull under way is of read_direct()
    LentSends sends_;
    LentPull pull_;
    LentAnswers answers_;
    RepeatedStep<Step> pulling_;
    bool has_finished_ = false;  // this side
    bool peer_finished_ = false;
    Errc why_ = Errc::ok;
};

}  // namespace verbatim
