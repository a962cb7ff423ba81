// The state of a connection's tagged messages: receives that wait for a message, and messages that
// wait for a receive. Never both of one tag. Threads: the lane's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include <verbatim/core/tagged.hpp>

#include "layer_window.hpp"
#include "lent_answers.hpp"
#include "lent_pull.hpp"
#include "lent_sends.hpp"

namespace verbatim {

class TaggedLayer {
  public:
    static constexpr std::uint8_t kChannel = kLayerChannels + 1;
    static constexpr std::uint64_t kWindow = std::uint64_t{1} << 20;

    explicit TaggedLayer(Connection& connection);
    ~TaggedLayer() { end(Errc::flushed); }
    TaggedLayer(const TaggedLayer&) = delete;
    TaggedLayer& operator=(const TaggedLayer&) = delete;

    static constexpr std::size_t kLongestCopied = std::size_t{256} << 10;

    std::size_t longest_copied() const noexcept;
    std::size_t least_lent() const noexcept { return sends_.least(); }
    void set_least_lent(std::size_t bytes) noexcept { sends_.set_least(bytes); }
    // Of the dispatcher.
    void receive(Message& message) noexcept;
    Errc try_send(std::uint64_t tag, std::span<const std::byte> message) noexcept;
    Errc try_send(std::uint64_t tag, SendRequest& request) noexcept;
    void post(TaggedReceive& receive) noexcept;
    void take_back(TaggedReceive& receive) noexcept;
    // The program ends a receive.
    void drop(TaggedReceive& receive) noexcept;
    bool probe(std::uint64_t tag, std::uint64_t mask, Tagged::Waiting& waiting) const noexcept;
    // All receives end with that, those to come too. The first end counts.
    void end(Errc why) noexcept;

  private:
    static constexpr std::uint8_t kTagged = 0;  // a kind: u64 tag, the message
    // A message without a receive: its copy, or where the peer lends it.
    struct Kept {
        LentOffer offer;  // only its head and bytes, where there is a copy
        std::unique_ptr<std::byte[]> copy;
    };
    // A lent message and its receive; null: that has gone.
    struct Pulled {
        TaggedReceive* receive;
        LentOffer offer;
    };
    struct Step {
        TaggedLayer* layer;
        Errc operator()() const noexcept { return layer->pull_some(); }
    };
    // What a message costs of the window.
    static constexpr std::uint64_t cost_of(std::size_t bytes) noexcept { return bytes + 64; }
    static bool agrees(std::uint64_t tag, std::uint64_t wanted, std::uint64_t mask) noexcept {
        return ((tag ^ wanted) & mask) == 0;
    }
    bool receive_copied(std::span<const std::byte> payload);
    bool receive_lent(std::span<const std::byte> payload);
    TaggedReceive* take_receive_of(std::uint64_t tag) noexcept;
    void fill(TaggedReceive& receive, std::uint64_t tag,
              std::span<const std::byte> message) noexcept;
    void pull(TaggedReceive& receive, LentOffer offer) noexcept;
    Errc pull_some() noexcept;
    void start_pull() noexcept;
    void finish_pull() noexcept;
    void unlink(TaggedReceive& receive) noexcept;

    Connection::Impl& impl_;
    LayerWindow window_;
    TaggedReceive *first_ = nullptr, *last_ = nullptr;  // posted, in their order
    std::deque<Kept> kept_;                             // in the order of their coming
    std::deque<Pulled> pulled_;                         // the first one is being read
    std::size_t lent_ = 0;                              // of the peer: kept, and being read
    LentSends sends_;
    LentPull pull_;
    LentAnswers answers_;
    RepeatedStep<Step> pulling_;
    Errc end_ = Errc::ok;
};

}  // namespace verbatim
