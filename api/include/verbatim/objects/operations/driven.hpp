// A driven operation is a send or receive that polls of its lane go on with. This is the part of it
// that needs no type. docs/graphs.md, "Asynchronous operations", has its states.
//
// Threads: the lane's.
#pragma once

#include <cstdint>
#include <memory>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/deadline.hpp>
#include <verbatim/objects/operations/link_use.hpp>

namespace verbatim {

// What a send is over with.
enum class Until : std::uint8_t {
    reusable,   // the graph may change
    delivered,  // memory of the receiver holds all of it
};

namespace objects {

class ObjectLink;
class Inbound;

// Operations wait that the next one would overtake.
bool others_send(ObjectLink& link);
bool others_receive(ObjectLink& link);

class DrivenOperation {
  public:
    DrivenOperation(const DrivenOperation&) = delete;
    DrivenOperation& operator=(const DrivenOperation&) = delete;

    // True once it is over, well or not. Else polls the lane once, but not in a handler.
    bool test() noexcept;
    // Drives the lane until it is over. Throws Error: why it failed; would_deadlock (in a handler).
    void wait();
    // Why it failed; null: it has not.
    const Error* error() const noexcept { return error_.get(); }

  protected:
    // How far a step came.
    enum class Stage : std::uint8_t {
        queued,     // it waits for those before it, or for a graph
        under_way,  // it waits for its peer, or for its next turn
        reusable,   // of a send: writes that are under way read copies
        sent,       // of a send: nothing of it is left here
        received,
    };
    // A send that is dropped is sent once nothing of it is left here; till then it is dropped
    // again.
    enum class Order : std::uint8_t { go_on, drop };
    using Step = Stage (*)(DrivenOperation&, Order);  // may throw Error, unless it drops
    // Once it is over; may end the operation.
    using Tell = void (*)(DrivenOperation&) noexcept;

    // `inbound`: of a receive; null: a send.
    DrivenOperation(Connection& connection, Step step, Tell tell, Deadline deadline, Until until)
        : link_(connection), step_(step), tell_(tell), deadline_(deadline), until_(until) {}
    ~DrivenOperation();
    // Takes its first steps, if it is its turn. May tell.
    void begin_send() noexcept;
    void begin_receive(const Inbound& inbound) noexcept;
    // No step of it is taken any more. First in each destructor.
    void leave() noexcept;

    void set_tell(Tell tell) noexcept { tell_ = tell; }
    bool is_over() const noexcept { return is_over_; }
    bool is_reusable() const noexcept { return stage_ >= Stage::reusable; }
    // Of a send: memory of the receiver holds it. Asks for news of that.
    bool has_landed() noexcept;
    void check() const;
    Connection& connection() const;

  private:
    friend class OperationQueue;
    friend class OperationList;
    bool has_deadline() const noexcept { return deadline_.when != Deadline::never().when; }

    LinkUse link_;
    DrivenOperation *next_ = nullptr, *before_ = nullptr;
    class OperationList* list_ = nullptr;
    const Inbound* inbound_ = nullptr;
    Step step_;
    Tell tell_;
    Deadline deadline_;
    std::unique_ptr<Error> error_;
    std::uint64_t last_request_ = 0;  // that carries it; 0: not known yet
    Stage stage_ = Stage::queued;
    Until until_;
    bool is_over_ = false;
};

}  // namespace objects
}  // namespace verbatim
