// send_each() sends the elements of a range without it: each becomes a graph of its own, over which
// the receiver iterates while they come in. Source: Naos §4.1 (NaosIt).
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include <verbatim/objects/operations/receive.hpp>
#include <verbatim/objects/operations/send.hpp>

namespace verbatim {

namespace objects {
// Behind the elements of one send_each().
struct SeriesEnd {
    std::uint64_t elements = 0;
    bool is_whole = false;  // else the sender has failed
};
void check_series(const SeriesEnd& end, std::uint64_t received);
}  // namespace objects

// The result of one send_each(): sums, and how many elements.
struct SendEachReport : SendReport {
    std::uint64_t elements = 0;
};

// Sends each element, in order; an object that two of them share is sent twice. Returns once the
// last one may change. Where the receiver falls behind, it waits. Throws Error as send() does: then
// the receiver has the elements before that one, and hears of it. Threads: as send().
template <class Range>
SendEachReport send_each(Connection& connection, Range&& range, SendOptions options = {}) {
    SendEachReport sum;
    const auto end = [&](bool is_whole) {
        const objects::SeriesEnd behind{sum.elements, is_whole};
        sum.wire_bytes += send(connection, behind, options).wire_bytes;
    };
    try {
        for (auto&& element : range) {
            const std::iter_value_t<decltype(std::begin(range))>& root = element;
            const SendReport one = send(connection, root, options);
            sum.objects += one.objects;
            sum.references += one.references;
            sum.records += one.records;
            sum.object_bytes += one.object_bytes;
            sum.wire_bytes += one.wire_bytes;
            ++sum.elements;
        }
    } catch (...) {
        try {
            end(false);
        } catch (const Error&) {
            // The first error says more.
        }
        throw;
    }
    end(true);
    return sum;
}

// Elements of one send_each() as they come in: an input range, once. No other receive of that
// channel may be under way. One that ends early leaves the rest as the next graphs of the channel,
// and behind them the graph that says how many there were. A second one that goes on gets the rest,
// and then Error(corrupt_message): it has counted fewer.
// Threads: the connection's.
template <class T>
class ReceivingEach {
  public:
    explicit ReceivingEach(Connection& connection, ReceiveOptions options = {})
        : connection_(connection), options_(options) {}

    // Waits for the next element; none: that was the last. Throws Error as receive() does; after
    // corrupt_message and type_mismatch the elements behind can be received. flushed: the sender
    // has failed in the midst.
    std::optional<Received<T>> next() {
        if (is_over_) return std::nullopt;
        objects::Patience patience(connection_, options_.deadline, objects::Patience::Of::receive);
        std::optional<std::uint64_t> root;
        while (!(root = objects::next_root(connection_, options_.channel))) patience.wait(false);
        if (*root != objects::root_type<objects::SeriesEnd>().layout.fingerprint) {
            ++received_;
            return receive<T>(connection_, options_);
        }
        is_over_ = true;
        objects::check_series(*receive<objects::SeriesEnd>(connection_, options_), received_);
        return std::nullopt;
    }

    // Its value may be moved out.
    class Iterator {
      public:
        using difference_type = std::ptrdiff_t;
        using value_type = Received<T>;
        explicit Iterator(ReceivingEach& each) : each_(&each) { ++*this; }
        Received<T>& operator*() const noexcept { return *each_->current_; }
        Received<T>* operator->() const noexcept { return &*each_->current_; }
        Iterator& operator++() {
            each_->current_.reset();
            each_->current_ = each_->next();
            return *this;
        }
        void operator++(int) { ++*this; }
        bool operator==(std::default_sentinel_t) const noexcept { return !each_->current_; }

      private:
        ReceivingEach* each_;
    };
    Iterator begin() { return Iterator(*this); }
    std::default_sentinel_t end() const noexcept { return {}; }

  private:
    Connection& connection_;
    ReceiveOptions options_;
    std::optional<Received<T>> current_;
    std::uint64_t received_ = 0;
    bool is_over_ = false;
};

template <class T>
[[nodiscard]] ReceivingEach<T> receive_each(Connection& connection, ReceiveOptions options = {}) {
    return ReceivingEach<T>(connection, options);
}

}  // namespace verbatim
