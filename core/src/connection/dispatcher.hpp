// A dispatcher hands the messages of one connection out in their order: to the handlers of their
// channels, or to try_receive(). Threads: the lane's. Data path, but for kept copies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/telemetry.hpp>

#include "../lane/lane_impl.hpp"

namespace verbatim {

class Dispatcher {
  public:
    // What a peer can make this side keep beside the ring.
    static constexpr std::size_t kMostKept = std::size_t{16} << 20;

    // `handle`: the program's handle of the connection, where there is one.
    Dispatcher(Lane::Impl& lane, LaneMember& member, Connection* const& handle)
        : lane_(&lane), member_(member), handle_(handle) {}

    // Throws Error(invalid_argument): the channel has a handler.
    void set_handler(std::uint8_t channel, ChannelHandler handler);
    const ChannelHandler* handler_of(std::uint8_t channel) const noexcept {
        const std::uint8_t at = index_[channel];
        return at == kNone ? nullptr : &handlers_[at].told;
    }
    // What has come in by each channel that has a handler, and by all others.
    void count(telemetry::ConnectionCounts& counts) const noexcept;

    // Handles messages up to the first one of a channel without a handler.
    Errc handle() noexcept;
    // Handles all, and keeps those messages as copies. out_of_memory: too many are kept.
    Errc handle_all() noexcept;
    // The next message of a channel without a handler; `message` holds none.
    Errc receive(Message& message) noexcept {
        if (waiting_ || handling_ || closed_ || !kept_.empty()) [[unlikely]]
            return receive_kept(message);
        if (const Errc error = member_.next(message); error != Errc::ok) return error;
        looks_in_vain_ = 0;
        const Handled* const of = handled(message);
        return of == nullptr ? Errc::ok : receive_behind(*of, message);
    }

    // After a look in vain: a program may do nothing else, so the lane is polled every so often in
    // a row, or each time.
    bool wants_poll(bool each_time) noexcept { return ++looks_in_vain_ % 64 == 0 || each_time; }
    // Held messages keep others from coming in. True once.
    bool finds_held_up() noexcept {
        if (found_held_up_ || !member_.holds_up()) return false;
        return found_held_up_ = true;
    }
    // Something is there to be received.
    bool has_message() const noexcept { return waiting_ || !kept_.empty(); }
    // Takes what comes, also where no channel has a handler: notices lie between messages.
    void watch() noexcept {
        watches_ = true;
        member_.tell_again();
    }
    // From now on in that lane's thread.
    void move_to(Lane::Impl& lane) noexcept { lane_ = &lane; }
    // Hands nothing out any more.
    void close() noexcept { closed_ = true; }
    // Lets go what handlers own, and kept messages. None of them may be in use.
    void drop() noexcept;

  private:
    static constexpr std::uint8_t kNone = 0xff;
    struct Handled {
        ChannelHandler told, called;  // not the same where its time is measured
        telemetry::ChannelCounts counts;
    };
    // Of a message that has come just now; null: its channel has none.
    Handled* handled(const Message& message) noexcept {
        const std::uint8_t at = index_[message.channel()];
        telemetry::ChannelCounts& counts = at == kNone ? others_ : handlers_[at].counts;
        ++counts.messages;
        counts.bytes += message.payload().size();
        return at == kNone ? nullptr : &handlers_[at];
    }
    void call(const Handled& handled, Message& message) noexcept;
    Errc receive_kept(Message& message) noexcept;
    Errc receive_behind(const Handled& handled, Message& message) noexcept;
    bool keep(Message&& message) noexcept;

    // Messages that one poll hands to handlers, before others have their turn.
    static constexpr int kMostAtOnce = 64;
    Lane::Impl* lane_;
    LaneMember& member_;
    Connection* const& handle_;
    std::vector<Handled> handlers_;
    telemetry::ChannelCounts others_{telemetry::kOtherChannels, 0, 0};
    std::array<std::uint8_t, 256> index_ = [] {
        std::array<std::uint8_t, 256> none{};
        none.fill(kNone);
        return none;
    }();
    Message waiting_;          // the first one without a handler
    std::list<Message> kept_;  // before it; a list takes no memory while it is empty
    std::size_t kept_bytes_ = 0;
    unsigned looks_in_vain_ = 0;
    bool handling_ = false, closed_ = false, watches_ = false, found_held_up_ = false;
};

}  // namespace verbatim
