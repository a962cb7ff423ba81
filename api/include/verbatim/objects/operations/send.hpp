// send() sends object graphs over a connection. send_async() begins to; polls of the lane go on.
#pragma once

#include <coroutine>
#include <optional>
#include <utility>

#include <verbatim/objects/operations/driven.hpp>
#include <verbatim/objects/operations/send_operation.hpp>

namespace verbatim {

// A handle of one graph on its way. It owns the operation: its end waits for writes that read the
// graph, and the receiver forgets what was not sent. Hundreds may be under way on a connection.
// They go one after the other, in the order of their making; only the first one takes memory for a
// walk. T: the root's type, Received<U> or ComposedMessage<U>, as in send(). `co_await` gives the
// report or throws the Error, in a poll of the lane. Threads: the lane's.
template <class T>
class Sending : public objects::DrivenOperation {
  public:
    // The graph must stay unchanged until it is reusable, or this ends. Takes the first steps.
    Sending(Connection& connection, const T& root, SendOptions options = {})
        : Sending(connection, root, options, nullptr) {
        begin_send();
    }
    ~Sending() { leave(); }

    // The graph may change: one of at most [objects] eager_bytes was copied into the connection's
    // ring, of another one the last bytes have left or were copied.
    bool reusable() const noexcept { return is_reusable(); }
    // Memory of the receiver holds all of it. It arrives even if this process ends now.
    bool delivered() noexcept { return has_landed(); }
    // Throws Error: why it failed.
    SendReport report() const {
        check();
        return operation_ ? operation_->report() : report_;
    }

    bool await_ready() const noexcept { return is_over(); }
    void await_suspend(std::coroutine_handle<> waiting) noexcept {
        waiting_ = waiting;
        set_tell([](DrivenOperation& self) noexcept { static_cast<Sending&>(self).waiting_(); });
    }
    SendReport await_resume() const { return report(); }

  protected:
    Sending(Connection& connection, const T& root, SendOptions options, Tell tell)
        : DrivenOperation(connection, &Sending::step, tell, options.deadline, options.until),
          root_(root),
          options_(options) {}

  private:
    static Stage step(DrivenOperation& self, Order order) {
        auto& one = static_cast<Sending&>(self);
        return order == Order::go_on ? one.go_on() : one.drop();
    }
    Stage go_on() {
        if (!operation_) operation_.emplace(connection(), root_, options_);
        if (operation_->outbound().step(true)) {
            drop();
            return Stage::sent;
        }
        if (operation_->outbound().is_reusable()) return Stage::reusable;
        return operation_->outbound().has_begun() && !operation_->awaits_receiver()
                   ? Stage::under_way
                   : Stage::queued;
    }
    // While writes read the graph, the operation stays.
    Stage drop() noexcept {
        if (operation_ && operation_->outbound().is_quiet()) {
            report_ = operation_->report();
            operation_.reset();
        }
        return operation_ ? Stage::under_way : Stage::sent;
    }

    const T& root_;
    SendOptions options_;
    std::optional<typename objects::OperationOf<T>::Type> operation_;  // while it is under way
    SendReport report_;
    std::coroutine_handle<> waiting_;
};

// Calls `done(Sending<T>&)` once it is over: by a poll of the lane, or already in the constructor.
// It must not throw, and may end this object.
template <class T, class Done>
class WhenSent final : public Sending<T> {
  public:
    WhenSent(Connection& connection, const T& root, SendOptions options, Done done)
        : Sending<T>(connection, root, options, &tell), done_(std::move(done)) {
        this->begin_send();
    }

  private:
    static void tell(objects::DrivenOperation& self) noexcept {
        auto& one = static_cast<WhenSent&>(self);
        Done done = std::move(one.done_);  // which may end what it lay in
        done(one);
    }
    Done done_;
};

template <class T>
[[nodiscard]] Sending<T> send_async(Connection& connection, const T& root,
                                    SendOptions options = {}) {
    return Sending<T>(connection, root, options);
}
template <class T, class Done>
[[nodiscard]] WhenSent<T, Done> send_async(Connection& connection, const T& root,
                                           SendOptions options, Done done) {
    return WhenSent<T, Done>(connection, root, options, std::move(done));
}

// Sends everything reachable from `root` and returns once the graph may change: the receiver's
// memory or ring holds it. Objects larger than 256 KiB in connection.arena() leave from where they
// lie, as those in options.foreign do; others are copied on the way. None is modified. Throws
// Error; request-scope errors (bad_pointer, type_mismatch, graph_too_large, timeout) leave the
// connection usable. Threads: the connection's; the graph must not change during the call.
//
// T may be Received<U>: one that is_forwardable() leaves as it came, for little more than a copy of
// its bytes, and `acyclic` is its sender's; others are walked. Or ComposedMessage<U>: it leaves as
// it lies, or by a walk where some of its graph lies outside.
template <class T>
SendReport send(Connection& connection, const T& root, SendOptions options = {}) {
    if (options.until != Until::delivered) {
        typename objects::OperationOf<T>::Type operation(connection, root, options);
        if (!objects::others_send(operation.link())) {
            objects::Patience patience(operation.link(), options.deadline,
                                       objects::Patience::Of::send);
            while (!operation.step()) patience.wait(!operation.awaits_receiver());
            return operation.report();
        }
    }
    Sending<T> behind(connection, root, options);
    behind.wait();
    return behind.report();
}

}  // namespace verbatim
