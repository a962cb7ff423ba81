// Messages in numbered slots of the receiver's memory, for carriers that write into it.
//
// A carrier is a class with a constructor (Side&, std::size_t bytes) and these members:
//     std::byte* landing();                       this side's memory, written by the peer, zeroed
//     std::byte* source(std::size_t offset);      where to write what goes to this offset
//     void put(std::size_t offset, std::size_t bytes);    carries it to the peer's landing
//     void put_word(std::size_t offset, std::uint64_t value);    after all that was put
//     void progress(), finish()                   as an end's
#pragma once

#include <vector>

#include "../data.hpp"
#include "../subject.hpp"

namespace verbatim::bench {

// A slot's flag is a word of its own that counts the messages; an 8-byte message is its own flag,
// so it must differ from the one a window before it.
class SlotLayout {
  public:
    explicit SlotLayout(const Case& of)
        : window_(of.window), own_flag_(of.bytes > 8), stride_(own_flag_ ? of.bytes + kLine : 8) {}
    std::size_t bytes() const noexcept { return kLine + window_ * stride_; }
    std::size_t slot(std::uint64_t message) const noexcept {
        return kLine + (window_ == 1 ? 0 : message % window_ * stride_);
    }
    std::size_t flag(std::uint64_t message) const noexcept {
        return slot(message) + stride_ - (own_flag_ ? kLine : 8);
    }
    bool own_flag() const noexcept { return own_flag_; }
    static constexpr std::size_t credit() noexcept { return 0; }

  private:
    static constexpr std::size_t kLine = 64;
    unsigned window_;
    bool own_flag_;
    std::size_t stride_;
};

// Looks at memory between two calls of progress(); a carrier that brings nothing without them says
// so.
template <class Carrier>
constexpr unsigned rounds_per_progress() {
    constexpr unsigned kUsual = 1024;
    if constexpr (requires { Carrier::kRoundsPerProgress; })
        return Carrier::kRoundsPerProgress;
    else
        return kUsual;
}

template <class Carrier>
class SlotEnd {
  public:
    SlotEnd(Side& side, const Case& of)
        : layout_(of),
          carrier_(side, layout_.bytes()),
          window_(of.window),
          bytes_(of.bytes),
          seen_(of.window) {}

    std::byte* claim() {
        while (window_ > 1 && sent_ - load(SlotLayout::credit()) >= window_) carrier_.progress();
        return layout_.own_flag() ? carrier_.source(layout_.slot(sent_))
                                  : reinterpret_cast<std::byte*>(&word_);
    }
    void post() {
        if (layout_.own_flag()) {
            carrier_.put(layout_.slot(sent_), bytes_);
            word_ = sent_ + 1;
        }
        carrier_.put_word(layout_.flag(sent_), word_);
        ++sent_;
    }
    const std::byte* take() {
        std::uint64_t& old = seen_[window_ == 1 ? 0 : taken_ % window_];
        const std::size_t flag = layout_.flag(taken_);
        std::uint64_t value = 0;
        for (unsigned round = 1; (value = load(flag)) == old; ++round)
            if (round % rounds_per_progress<Carrier>() == 0) carrier_.progress();
        old = value;
        return carrier_.landing() + layout_.slot(taken_);
    }
    void release() {
        ++taken_;
        if (window_ == 1 || taken_ % (window_ / 4) != 0) return;
        carrier_.put_word(SlotLayout::credit(), taken_);
    }
    void progress() { carrier_.progress(); }
    void finish() { carrier_.finish(); }

  private:
    std::uint64_t load(std::size_t offset) {
        return __atomic_load_n(reinterpret_cast<std::uint64_t*>(carrier_.landing() + offset),
                               __ATOMIC_ACQUIRE);
    }

    SlotLayout layout_;
    Carrier carrier_;
    unsigned window_;
    std::size_t bytes_;
    std::uint64_t word_ = 0;  // the next message of 8 bytes, or the next flag
    std::uint64_t sent_ = 0, taken_ = 0;
    std::vector<std::uint64_t> seen_;  // of each slot, its last flag
};

}  // namespace verbatim::bench
