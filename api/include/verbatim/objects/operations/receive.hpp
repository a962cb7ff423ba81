// receive() takes object graphs from a connection. receive_async() begins to; polls of the lane go
// on.
#pragma once

#include <coroutine>
#include <cstdint>
#include <optional>
#include <utility>

#include <verbatim/objects/operations/driven.hpp>
#include <verbatim/objects/operations/receive_operation.hpp>

namespace verbatim {

// A handle of one graph that is awaited. Those of one channel get its graphs in the order of their
// making. Its end before the graph is whole leaves the graph the next one. `co_await` gives the
// graph or throws the Error, in a poll of the lane. Threads: the lane's.
template <class T>
class Receiving : public objects::DrivenOperation {
  public:
    explicit Receiving(Connection& connection, ReceiveOptions options = {})
        : Receiving(connection, options, nullptr) {
        begin();
    }
    ~Receiving() { leave(); }

    // Once, when it is over. Throws Error: why there is no graph; as receive() does.
    Received<T> take() {
        check();
        return operation_.take();
    }

    bool await_ready() const noexcept { return is_over(); }
    void await_suspend(std::coroutine_handle<> waiting) noexcept {
        waiting_ = waiting;
        set_tell([](DrivenOperation& self) noexcept { static_cast<Receiving&>(self).waiting_(); });
    }
    Received<T> await_resume() { return take(); }

  protected:
    Receiving(Connection& connection, ReceiveOptions options, Tell tell)
        : DrivenOperation(connection, &Receiving::step, tell, options.deadline, Until::reusable),
          operation_(connection, options) {}
    void begin() noexcept { begin_receive(operation_.inbound_); }

  private:
    static Stage step(DrivenOperation& self, Order order) {
        ReceiveOperation<T>& operation = static_cast<Receiving&>(self).operation_;
        if (order == Order::go_on) {
            if (operation.step()) return Stage::received;
            return operation.has_begun() ? Stage::under_way : Stage::queued;
        }
        operation.inbound_.leave();
        return Stage::queued;
    }

    ReceiveOperation<T> operation_;
    std::coroutine_handle<> waiting_;
};

// Calls `done(Receiving<T>&)` once it is over: by a poll of the lane, or already in the
// constructor. It must not throw, and may end this object.
template <class T, class Done>
class WhenReceived final : public Receiving<T> {
  public:
    WhenReceived(Connection& connection, ReceiveOptions options, Done done)
        : Receiving<T>(connection, options, &tell), done_(std::move(done)) {
        this->begin();
    }

  private:
    static void tell(objects::DrivenOperation& self) noexcept {
        auto& one = static_cast<WhenReceived&>(self);
        Done done = std::move(one.done_);  // which may end what it lay in
        done(one);
    }
    Done done_;
};

template <class T>
[[nodiscard]] Receiving<T> receive_async(Connection& connection, ReceiveOptions options = {}) {
    return Receiving<T>(connection, options);
}
template <class T, class Done>
[[nodiscard]] WhenReceived<T, Done> receive_async(Connection& connection, ReceiveOptions options,
                                                  Done done) {
    return WhenReceived<T, Done>(connection, options, std::move(done));
}

// Waits for the next graph, whose root must be a T, and returns it usable. Throws Error;
// type_mismatch, graph_too_large and corrupt_message leave the connection usable and return
// nothing; timeout leaves the graph the next one. Threads: the connection's.
template <class T>
Received<T> receive(Connection& connection, ReceiveOptions options = {}) {
    if (ReceiveOperation<T> operation(connection, options);
        !objects::others_receive(operation.link())) {
        objects::Patience patience(operation.link(), options.deadline,
                                   objects::Patience::Of::receive);
        while (!operation.step()) patience.wait(operation.has_begun());
        return operation.take();
    }
    Receiving<T> behind(connection, options);
    behind.wait();
    return behind.take();
}

// True if receive() of that channel would return, or throw what became of a graph, without a wait.
// Takes in what has arrived; never blocks. Throws Error: the connection's end, if nothing is left.
inline bool readable(Connection& connection, std::uint16_t channel = 0) {
    return objects::is_readable(connection, channel);
}

// The next graph if it is there. Throws as receive() does.
template <class T>
std::optional<Received<T>> try_receive(Connection& connection, std::uint16_t channel = 0) {
    if (!readable(connection, channel)) return std::nullopt;
    ReceiveOperation<T> operation(connection, {Deadline::never(), channel});
    if (!operation.step()) return std::nullopt;
    return operation.take();
}

}  // namespace verbatim
