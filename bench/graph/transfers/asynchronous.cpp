// Rates of sends (Naos Fig. 8): many graphs of 16 points from one process to another. objects() are
// graphs. floor: send(), which streams them, as each returns once its graph may change.
// in_flight_64: so many handles of send_async(). callback, co_await: the next one when the one
// before is over.
#include <array>
#include <coroutine>
#include <exception>
#include <optional>

#include "../subject.hpp"
#include "../workloads/sequences.hpp"
#include "receiver_process.hpp"

#include <verbatim/objects.hpp>

namespace bench_graph {
namespace {

constexpr std::uint64_t kGraphs = 4096;
using verbatim::Connection;
using verbatim::Sending;

struct OneByOne {
    void operator()(Connection& connection, const Cloud& cloud) const {
        for (std::uint64_t i = 0; i < kGraphs; ++i) verbatim::send(connection, cloud);
    }
};

struct InFlight {
    void operator()(Connection& connection, const Cloud& cloud) const {
        std::array<std::optional<Sending<Cloud>>, 64> sending;
        for (std::uint64_t i = 0; i < kGraphs; ++i) {
            auto& one = sending[i % sending.size()];
            if (one) one->wait();
            one.emplace(connection, cloud);
        }
        for (auto& one : sending) one->wait();
    }
};

struct ByCallbacks {
    void operator()(Connection& connection, const Cloud& cloud) const {
        bool is_over = true;
        const auto done = [&](Sending<Cloud>&) { is_over = true; };
        std::optional<verbatim::WhenSent<Cloud, decltype(done)>> one;
        for (std::uint64_t i = 0; i < kGraphs; ++i) {
            is_over = false;
            one.emplace(connection, cloud, verbatim::SendOptions{}, done);
            while (!is_over) (void)connection.progress();
        }
    }
};

struct ByCoroutine {
    struct Started {
        struct promise_type {
            Started get_return_object() noexcept { return {}; }
            std::suspend_never initial_suspend() noexcept { return {}; }
            std::suspend_never final_suspend() noexcept { return {}; }
            void return_void() noexcept {}
            void unhandled_exception() noexcept { std::terminate(); }
        };
    };
    static Started send_all(Connection& connection, const Cloud& cloud, bool& is_over) {
        for (std::uint64_t i = 0; i < kGraphs; ++i)
            co_await verbatim::send_async(connection, cloud);
        is_over = true;
    }
    void operator()(Connection& connection, const Cloud& cloud) const {
        bool is_over = false;
        send_all(connection, cloud, is_over);
        while (!is_over) (void)connection.progress();
    }
};

// Sums up what came of each round, and says so.
void receive_rounds(Channel& channel) {
    const auto context = make_context(0, std::size_t{16} << 20);
    const auto connection = accept_one(*context, channel);
    while (true) {
        channel.receive();
        std::uint64_t points = 0;
        for (std::uint64_t i = 0; i < kGraphs; ++i)
            points += verbatim::receive<Cloud>(*connection)->points.size();
        channel.send(points);
    }
}

template <class Way>
class SendRate final : public Subject {
  public:
    std::uint64_t objects() const override { return kGraphs; }
    std::uint64_t bytes() const override { return 0; }
    void transfer() override {
        receiver_.channel().send(0);
        Way()(*connection_, *cloud_);
        points_ = receiver_.channel().receive();
    }
    bool verify() override { return points_ == kGraphs * cloud_->points.size(); }
    double other_process_ns() const override { return receiver_.cpu_ns(); }

  private:
    ReceiverProcess receiver_{receive_rounds};
    std::unique_ptr<verbatim::Context> context_ = make_context(std::size_t{1} << 20, 0);
    std::unique_ptr<Connection> connection_ = connect_to(*context_, receiver_.channel());
    const Cloud* cloud_ = Points{{"rate"}, Order::allocation, 16}.make(context_->arena());
    std::uint64_t points_ = 0;
};

template <class Way>
void add_rate(const std::string& subject) {
    add_subject("rate_of_sends", subject, [] { return std::make_unique<SendRate<Way>>(); });
}

}  // namespace

void add_send_rates() {
    add_rate<OneByOne>("floor");
    add_rate<InFlight>("verbatim.in_flight_64");
    add_rate<ByCallbacks>("verbatim.callback");
    add_rate<ByCoroutine>("verbatim.co_await");
}

}  // namespace bench_graph
