// The operation queue goes on with the asynchronous operations of one connection: when its lane
// polls and something has come for them, or is left to be done (docs/graphs.md, "Asynchronous
// operations"). Threads: the lane's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <verbatim/core/layers/repeated_step.hpp>
#include <verbatim/objects/operations/driven.hpp>

namespace verbatim::objects {

// Operations in the order in which they came; links of them, so nothing is allocated.
class OperationList {
  public:
    bool empty() const noexcept { return first_ == nullptr; }
    DrivenOperation* first() const noexcept { return first_; }
    static DrivenOperation* after(const DrivenOperation& operation) noexcept {
        return operation.next_;
    }
    std::size_t size() const noexcept { return size_; }
    void add(DrivenOperation& operation) noexcept;
    void remove(DrivenOperation& operation) noexcept;

  private:
    DrivenOperation *first_ = nullptr, *last_ = nullptr;
    std::size_t size_ = 0;
};

class OperationQueue {
  public:
    explicit OperationQueue(ObjectLink& link);
    OperationQueue(const OperationQueue&) = delete;
    OperationQueue& operator=(const OperationQueue&) = delete;

    void begin_send(DrivenOperation& send) noexcept;
    void begin_receive(DrivenOperation& receive) noexcept;
    // It ends before it is over.
    void forget(DrivenOperation& operation) noexcept;

    // Goes on with all of them, as far as nothing has to be waited for. Tells those that are over;
    // they may begin and end others, and the connection.
    void drive() noexcept;
    // The same, after what has come by now was taken in.
    void look() noexcept;
    // Nothing of the program may run meanwhile, but for what is told.
    bool is_driving() const noexcept { return is_driving_; }
    // All of them fail.
    void fail_all(const Error& error) noexcept;
    // Others would overtake some that wait.
    bool has_sends() const noexcept { return !sends_.empty(); }
    bool has_receives() const noexcept { return !receives_.empty(); }
    // Of these a wait must look again.
    Clock::time_point next_deadline() const noexcept;

  private:
    using Stage = DrivenOperation::Stage;
    struct Look {
        OperationQueue* queue;
        Errc operator()() const noexcept;
    };
    // Sends whose writes are under way when the next one begins: each has tables of its own.
    static constexpr std::size_t kMostPosted = 2;
    // Steps of one look, before others have their turn.
    static constexpr int kMostSteps = 64;

    bool is_idle() const noexcept;
    bool needs_looks() const noexcept;
    void take_in() noexcept;
    void send() noexcept;
    void retire() noexcept;
    void end_failed() noexcept;
    void land() noexcept;
    void receive() noexcept;
    void watch_time() noexcept;
    void expire(OperationList& list, Clock::time_point now, bool stalled) noexcept;
    Stage step(DrivenOperation& operation) noexcept;
    void set_sent(DrivenOperation& operation) noexcept;
    void finish(DrivenOperation& operation) noexcept;
    void fail(DrivenOperation& operation, const Error& error) noexcept;

    ObjectLink& link_;
    OperationList sends_;              // the first one walks, the others are queued
    OperationList posted_;             // their writes are under way, from copies
    OperationList landing_;            // sent, and to be told when they have landed
    OperationList receives_;           // the next one's graph first
    OperationList ending_;             // sends that have failed while their writes were under way
    DrivenOperation* next_ = nullptr;  // of the list that is gone through
    bool is_driving_ = false, again_ = false;
    unsigned looks_ = 0;
    std::size_t with_deadline_ = 0, receiving_ = 0;  // operations; receives that have begun
    std::uint64_t activity_ = 0;                     // of the link
    Deadline stalled_;                               // when it must have got on
    RepeatedStep<Look> looking_;
};

}  // namespace verbatim::objects
