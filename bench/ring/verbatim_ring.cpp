// Messages and one-sided writes between two processes over the software NIC, each with a context of
// its own.
#include <x86gprintrin.h>

#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <string>

#include <verbatim/core/context.hpp>

#include "peers.hpp"
#include "subjects.hpp"

namespace verbatim::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kWarmUpTrips = 4096;
constexpr unsigned kRoundsPerLook = 4096;  // polls between two looks at the peer's health
constexpr std::uint8_t kData = 0, kEnd = 1;

Config bench_config() {
    Config config;
    config.device.kind = "softnic";
    for (ArenaOptions* arena : {&config.arena, &config.receive_arena}) {
        arena->segment_bytes = std::size_t{2} << 20;
        arena->max_bytes = std::size_t{64} << 20;
        arena->pages = PageChoice::base_4k;
    }
    return config;
}

Connection accept_second(Context& context, SharedPage& page) {
    Listener listener = context.listen("127.0.0.1:0");
    page.port = listener.port();
    return listener.accept(Deadline::after(10s));
}

Connection connect_first(Context& context, SharedPage& page) {
    for (const Deadline limit = Deadline::after(10s); page.port == 0;)
        if (limit.passed()) throw Error(Errc::timeout, "benchmark", "no listener came up");
    return context.connect("127.0.0.1:" + std::to_string(page.port));
}

void require(Connection& connection, Errc error) {
    if (error == Errc::ok || error == Errc::would_block) return;
    connection.check();
    throw Error(error, "benchmark", std::string(describe(error)));
}

Message receive(Connection& connection) {
    Message message;
    for (unsigned round = 1;; ++round) {
        const Errc error = connection.try_receive(message);
        if (error == Errc::ok) return message;
        if (error != Errc::would_block || round % kRoundsPerLook == 0)
            require(connection, connection.progress());
    }
}

void send(Connection& connection, std::uint8_t kind, std::uint64_t value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    while (true) {
        const Errc error = connection.try_send(kind, bytes);
        if (error == Errc::ok) return;
        require(connection, error);
        require(connection, connection.progress());
    }
}

std::uint64_t value_of(const Message& message) {
    std::uint64_t value = 0;
    std::memcpy(&value, message.payload().data(), sizeof value);
    return value;
}

// Answers every message with its own contents until one of kind kEnd.
void echo(SharedPage& page) {
    Context context(bench_config());
    Connection connection = connect_first(context, page);
    for (std::uint8_t kind = kData; kind != kEnd;) {
        Message message = receive(connection);
        const std::uint64_t value = value_of(message);
        kind = message.channel();
        message.release();
        send(connection, kind, value);
    }
}

std::uint64_t message_round_trip(Connection& connection, std::uint64_t value) {
    const std::uint64_t began = __rdtsc();
    send(connection, kData, value);
    const std::uint64_t answer = value_of(receive(connection));
    const std::uint64_t took = __rdtsc() - began;
    if (answer != value) throw Error(Errc::protocol_error, "benchmark", "another answer came");
    return took;
}

// Takes messages in until one of kind kEnd, and answers that one.
void sink(SharedPage& page) {
    Context context(bench_config());
    Connection connection = connect_first(context, page);
    std::uint64_t count = 0;
    while (receive(connection).channel() != kEnd) ++count;
    send(connection, kEnd, count);
}

// A word of this side that the peer writes, and one of the peer's that this side writes.
class WordPair {
  public:
    explicit WordPair(Connection& connection) : connection_(connection) {
        in_ = static_cast<std::uint64_t*>(connection.receive_arena().allocate(64, 64));
        out_ = static_cast<std::uint64_t*>(connection.arena().allocate(64, 64));
        *in_ = 0;
        grant_ = Grant(connection, {reinterpret_cast<std::byte*>(in_), 64}, Access::remote_write);
        connection.send_message(kData, std::as_bytes(grant_.extents()), {}, Deadline::after(10s));
        const Message message = connection.receive_message(Deadline::after(10s));
        std::memcpy(&peer_, message.payload().data(), sizeof peer_);
    }
    WordPair(const WordPair&) = delete;
    WordPair& operator=(const WordPair&) = delete;
    ~WordPair() {
        while (connection_.try_flush() == Errc::would_block) {
        }
        grant_.wait_end(Deadline::after(10s));
        connection_.receive_arena().deallocate(in_, 64, 64);
        connection_.arena().deallocate(out_, 64, 64);
    }

    void write(std::uint64_t value) {
        *out_ = value;
        std::size_t written = 0;
        Errc error = Errc::would_block;
        while ((error = connection_.try_write(reinterpret_cast<const std::byte*>(out_), 8,
                                              peer_.address, peer_.remote_key, written)) ==
               Errc::would_block)
            require(connection_, connection_.progress());
        require(connection_, error);
    }
    // The first value that is not `old`.
    std::uint64_t await_other_than(std::uint64_t old) {
        std::uint64_t value = old;
        for (unsigned round = 1; value == old; ++round) {
            value = __atomic_load_n(in_, __ATOMIC_ACQUIRE);
            if (round % kRoundsPerLook == 0) require(connection_, connection_.progress());
        }
        return value;
    }

  private:
    Connection& connection_;
    std::uint64_t *in_, *out_;
    Grant grant_;
    RemoteExtent peer_;
};

void write_back(SharedPage& page) {
    Context context(bench_config());
    Connection connection = connect_first(context, page);
    WordPair words(connection);
    for (std::uint64_t value = 0; value != kStop;) {
        value = words.await_other_than(value);
        words.write(value);
    }
}

std::uint64_t write_round_trip(WordPair& words, std::uint64_t value) {
    const std::uint64_t began = __rdtsc();
    words.write(value);
    words.await_other_than(value - 1);
    return __rdtsc() - began;
}

}  // namespace

void message_8(benchmark::State& state) {
    SecondProcess second(echo);
    {
        Context context(bench_config());
        Connection connection = accept_second(context, second.page());
        RoundTrips trips(static_cast<std::size_t>(state.max_iterations));
        std::uint64_t value = 0;
        while (value < kWarmUpTrips) message_round_trip(connection, value++);
        for (auto _ : state) trips.add(message_round_trip(connection, value++));
        send(connection, kEnd, value);
        (void)receive(connection);
        state.counters["us_one_way"] = trips.one_way_microseconds();
    }
    second.wait();
}

void write_8(benchmark::State& state) {
    SecondProcess second(write_back);
    {
        Context context(bench_config());
        Connection connection = accept_second(context, second.page());
        WordPair words(connection);
        RoundTrips trips(static_cast<std::size_t>(state.max_iterations));
        std::uint64_t value = 1;
        while (value < kWarmUpTrips) write_round_trip(words, value++);
        for (auto _ : state) trips.add(write_round_trip(words, value++));
        words.write(kStop);
        words.await_other_than(value - 1);
        state.counters["us_one_way"] = trips.one_way_microseconds();
    }
    second.wait();
}

void stream_8(benchmark::State& state) {
    SecondProcess second(sink);
    {
        Context context(bench_config());
        Connection connection = accept_second(context, second.page());
        const auto began = Clock::now();
        std::uint64_t count = 0;
        for (auto _ : state) send(connection, kData, count++);
        send(connection, kEnd, count);
        const std::uint64_t received = value_of(receive(connection));
        const std::chrono::duration<double> took = Clock::now() - began;
        if (received != count)
            throw Error(Errc::protocol_error, "benchmark", "messages are missing");
        state.counters["msgs_per_s"] = static_cast<double>(count) / took.count();
    }
    second.wait();
}

}  // namespace verbatim::bench
