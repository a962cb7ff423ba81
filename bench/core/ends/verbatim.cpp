// Verbatim's public API as ends: messages in the ring, one-sided writes, and both together.
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <verbatim/core/context.hpp>

#include "../subject.hpp"
#include "../workloads.hpp"
#include "slots.hpp"
#include "verbatim_link.hpp"

namespace verbatim::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::uint8_t kData = 0, kCredit = 1;

// Memory of the receive arena that the peer may write, and the peer's; a mirror to write from.
class Lent {
  public:
    Lent(Side& side, Link& link, std::size_t bytes) : link_(link), bytes_(bytes) {
        landing_ = allocate(link->receive_arena());
        source_ = allocate(link->arena());
        grant_ = Grant(*link, {landing_, bytes}, Access::remote_write);
        if (grant_.extents().size() != 1)
            throw std::runtime_error("lent memory is in more than one piece");
        RemoteExtent mine = grant_.extents()[0];
        const std::string theirs = side.exchange({reinterpret_cast<char*>(&mine), sizeof mine});
        std::memcpy(&peer_, theirs.data(), sizeof peer_);
    }
    ~Lent() {
        grant_.wait_end(Deadline::after(10s));
        link_->receive_arena().deallocate(landing_, bytes_, 64);
        link_->arena().deallocate(source_, bytes_, 64);
    }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;

    std::byte* landing() const noexcept { return landing_; }
    std::byte* source(std::size_t offset) const noexcept { return source_ + offset; }
    void put(std::size_t offset, std::size_t bytes) {
        link_.write(source(offset), bytes, peer_, offset);
    }

  private:
    std::byte* allocate(Arena& arena) const {
        auto* start = static_cast<std::byte*>(arena.allocate(bytes_, 64));
        std::memset(start, 0, bytes_);
        return start;
    }

    Link& link_;
    std::size_t bytes_;
    std::byte *landing_ = nullptr, *source_ = nullptr;
    RemoteExtent peer_;
    Grant grant_;
};

// Writes that the target sees in its memory, for SlotEnd. They take effect in order.
class Writes {
  public:
    Writes(Side& side, std::size_t bytes, const char* port = "shm")
        : link_(side, port), lent_(side, link_, bytes) {}
    std::byte* landing() { return lent_.landing(); }
    std::byte* source(std::size_t offset) { return lent_.source(offset); }
    void put(std::size_t offset, std::size_t bytes) { lent_.put(offset, bytes); }
    void put_word(std::size_t offset, std::uint64_t value) {
        *words(lent_.source(offset)) = value;
        lent_.put(offset, sizeof value);
    }
    void progress() { link_.progress(); }
    void finish() { link_.finish(); }

  private:
    Link link_;
    Lent lent_;
};

// Messages in the ring: by polling, by the blocking call, or several by one write.
enum class RingUse : std::uint8_t { polled, blocking, batched };
template <RingUse use>
class Ring {
  public:
    Ring(Side& side, const Case& of, const char* port = "shm") : link_(side, port), out_(of.bytes) {
        if (of.bytes > link_->max_message_bytes())
            throw std::runtime_error("a message has at most " +
                                     std::to_string(link_->max_message_bytes()) + " bytes");
    }
    std::byte* claim() { return out_.data(); }
    void post() { use == RingUse::batched ? link_.batch(kData, out_) : link_.send(kData, out_); }
    const std::byte* take() {
        message_ = use == RingUse::blocking ? link_->receive_message(Deadline::after(10s))
                                            : link_.receive();
        if (message_.payload().size() != out_.size()) refuse_data();
        return message_.payload().data();
    }
    void release() { message_.release(); }
    void progress() { link_.progress(); }
    void finish() { link_.finish(); }

  private:
    Link link_;
    Message message_;
    std::vector<std::byte> out_;
};

// Data are written into lent memory, and a message says so. Another gives the memory back.
class WriteAndMessage {
  public:
    WriteAndMessage(Side& side, const Case& of)
        : link_(side),
          lent_(side, link_, of.window * of.bytes),
          bytes_(of.bytes),
          window_(of.window) {}
    std::byte* claim() {
        while (window_ > 1 && sent_ - returned_ >= window_) take_back(link_.receive());
        return lent_.source(offset(sent_));
    }
    void post() {
        lent_.put(offset(sent_), bytes_);
        ++sent_;
        link_.send(kData, std::as_bytes(std::span(&sent_, 1)));
    }
    const std::byte* take() {
        for (Message next = link_.receive(); next.channel() == kCredit; next = link_.receive())
            take_back(next);
        return lent_.landing() + offset(taken_);
    }
    void release() {
        ++taken_;
        if (window_ > 1 && taken_ % (window_ / 4) == 0)
            link_.send(kCredit, std::as_bytes(std::span(&taken_, 1)));
    }
    void progress() { link_.progress(); }
    void finish() { link_.finish(); }

  private:
    std::size_t offset(std::uint64_t message) const noexcept {
        return window_ == 1 ? 0 : message % window_ * bytes_;
    }
    void take_back(const Message& credit) {
        if (credit.channel() != kCredit) refuse_data();
        returned_ = *words(credit.payload().data());
    }

    Link link_;
    Lent lent_;
    std::size_t bytes_;
    unsigned window_;
    std::uint64_t sent_ = 0, taken_ = 0, returned_ = 0;
};

// The same by another port of the software NIC.
enum class By : std::uint8_t { tcp, udp };
template <By by>
constexpr const char* kPort = by == By::tcp ? "tcp" : "udp";
template <By by>
struct RingBy : Ring<RingUse::polled> {
    RingBy(Side& side, const Case& of) : Ring(side, of, kPort<by>) {}
};
template <By by>
struct WritesBy : Writes {
    static constexpr unsigned kRoundsPerProgress = 1;
    WritesBy(Side& side, std::size_t bytes) : Writes(side, bytes, kPort<by>) {}
};

}  // namespace

void add_verbatim(Subjects& all) {
    add(all, "verbatim.udp", run_case<RingBy<By::udp>>, {&kWireMessage8, &kWire64k});
    add(all, "verbatim.tcp", run_case<RingBy<By::tcp>>, {&kWireMessage8, &kWire64k});
    add(all, "verbatim.udp", run_case<SlotEnd<WritesBy<By::udp>>>, {&kWireWrite8});
    add(all, "verbatim.tcp", run_case<SlotEnd<WritesBy<By::tcp>>>, {&kWireWrite8});
    add(all, "verbatim.ring", run_case<Ring<RingUse::polled>>,
        {&kMessage8, &kMessage64, &kMessage1k, &kMessage64k, &kRate8, &kThroughput1k,
         &kThroughput64k});
    add(all, "verbatim.ring", run_case<Ring<RingUse::blocking>>, {&kWake});
    add(all, "verbatim.batch", run_case<Ring<RingUse::batched>>, {&kRate8});
    add(all, "verbatim.write", run_case<SlotEnd<Writes>>, kWriteCases);
    add(all, "verbatim.write_message", run_case<WriteAndMessage>,
        {&kMessage1k, &kMessage64k, &kMessage1m, &kThroughput1k, &kThroughput64k, &kThroughput1m});
}

}  // namespace verbatim::bench
