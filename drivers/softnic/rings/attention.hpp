// Whether the progress lists of a queue pair look at it in each round. Hot: they do. Cold: a round
// comes to it only after a peer's mark, or after heat(). A queue pair is hot while it has requests
// or messages that nobody else will tell of, in the error state, and for a while after; so what
// follows soon needs no mark.
//
// What makes work, and who tells of it:
// - A peer's record, its report of a fault, the end or the error state of its queue pair: the peer
//   marks, if `listens` is set, which a cold queue pair's is (channel.hpp).
// - Requests posted here, to be executed or acknowledged; requests that wait for room, for a time
//   (receiver not ready, a fault policy), for a key that another thread changes, or for the way to
//   the peer; wake-ups owed to a peer: the thread inside the gate heats after a turn that leaves
//   such work. Then it takes one more turn, which finds what came between the first turn and the
//   heating. A thread that leaves a gate in spite of a mark heats, too.
// - A message without a receive: pending, so hot until receives are posted. Receives posted to a
//   queue pair in the error state: always hot.
// - The end of a peer that was given the ring and does not know the way back yet: no notice comes,
//   so the queue pair stays hot until `attached` is set (channel.hpp).
// - The end of a link: the control thread heats all queue pairs of the device.
// - Requests posted past all functions of the library: the engine thread of the uverbs device,
//   which reads all doorbell records after a trap.
//
// cool() runs inside both gates of its queue pair: nobody leaves work behind meanwhile. It sets
// `listens`, says cold, and looks once more after a full fence. The peer stores its work, executes
// a full fence, and loads `listens`: so it marks, or the last look sees the work. A thread that has
// made work loads the state after a full fence, or inside a gate: if that is not cold yet, the last
// look sees the work.
#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "hot_set.hpp"
#include "progress_list.hpp"

namespace verbatim::softnic {

class Attention {
  public:
    // Where the queue pair is in one of the lists that drive it.
    struct Listed {
        ProgressList* list = nullptr;
        HotSet::Place place;
    };
    static constexpr std::size_t kLists = 3;  // of two completion queues, and of a third party

    // Control path. Nothing changes before the first finish_hot(), and from close() to the next
    // one: then the queue pair enters its lists, or leaves them, or a ring of its goes.
    void close() noexcept {
        if (count_ == 0) return;
        while (!change(State::cold) && !change(State::hot)) sched_yield();
    }
    std::span<const Listed> lists() const noexcept { return {places_.data(), count_}; }
    // While it is closed, and no round comes to the queue pair.
    void set_lists(std::span<const Listed> lists) noexcept {
        count_ = static_cast<std::uint32_t>(lists.size());
        std::copy(lists.begin(), lists.end(), places_.begin());
    }

    bool hot() const noexcept { return state_.load(std::memory_order_relaxed) == State::hot; }
    // True: the caller alone changes it, and calls one of the finishing functions soon.
    bool begin_heating() noexcept { return change(State::cold); }
    bool begin_cooling() noexcept { return change(State::hot); }
    void finish_hot() noexcept {
        set_bits();
        state_.store(State::hot);
    }
    // Inside a gate, where nobody finishes cooling: the lists look at it in their next rounds,
    // though the thread that heats it, or gives up cooling it, has not come to that yet.
    void set_bits() noexcept {
        vain_looks_.store(0, std::memory_order_relaxed);
        for (std::uint32_t i = 0; i < count_; ++i) places_[i].list->hot().set(places_[i].place);
    }
    void finish_cold() noexcept {
        for (std::uint32_t i = 0; i < count_; ++i) places_[i].list->hot().clear(places_[i].place);
        state_.store(State::cold);
    }

    // A round has found nothing to do: true if it did so `patience` times in a row, more or less.
    bool weary(std::uint32_t patience) noexcept {
        const std::uint32_t looks = vain_looks_.load(std::memory_order_relaxed) + 1;
        vain_looks_.store(looks, std::memory_order_relaxed);
        return looks >= patience;
    }
    void found_work() noexcept {
        if (vain_looks_.load(std::memory_order_relaxed) != 0)
            vain_looks_.store(0, std::memory_order_relaxed);
    }

  private:
    enum class State : std::uint8_t { cold, changing, hot };
    bool change(State from) noexcept {
        return state_.load(std::memory_order_relaxed) == from &&
               state_.compare_exchange_strong(from, State::changing);
    }

    std::atomic<State> state_{State::changing};
    std::atomic<std::uint32_t> vain_looks_{0};
    std::array<Listed, kLists> places_;
    std::uint32_t count_ = 0;
};

}  // namespace verbatim::softnic
