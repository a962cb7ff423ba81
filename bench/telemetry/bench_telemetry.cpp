// What telemetry costs: instructions of this thread for a message sent, received and handled, for a
// poll and for a prepared read, with telemetry off and on. Both ends are in one thread, so the
// software NIC's own instructions are in each number; they are the same with both settings.
// Usage: bench_telemetry off|on|histograms
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <verbatim/core/context.hpp>
#include <verbatim/core/one_sided.hpp>
#include <verbatim/core/prepared.hpp>

#include "../post/stepped.hpp"

namespace {

using namespace verbatim;
using bench::Stepped;

constexpr unsigned kOperations = 256, kTogether = 16;

struct Ends {
    explicit Ends(const Config& config) : here(config), there(config) {
        Listener listener = there.listen("127.0.0.1:0");
        std::thread accepting([&] { in.emplace(listener.accept()); });
        out.emplace(here.connect("127.0.0.1:" + std::to_string(listener.port())));
        accepting.join();
    }
    void poll() {
        (void)here.lane().poll();
        (void)there.lane().poll();
    }
    Context here, there;
    std::optional<Connection> in, out;
};

// Instructions of each of `kOperations` calls of `work(i)`, with `between()` behind `kTogether`.
template <class Work, class Between>
double count(Work work, Between between) {
    std::uint64_t all = 0;
    for (unsigned i = 0; i < kOperations; i += kTogether) {
        all += Stepped::count([&] {
            for (unsigned k = 0; k < kTogether; ++k) work(i + k);
        });
        between();
    }
    return static_cast<double>(all) / kOperations;
}

void print(const char* name, double instructions) {
    std::printf("%-18s %8.2f\n", name, instructions);
}

void measure_messages(Ends& ends) {
    const std::uint64_t word = 7;
    const auto bytes = std::as_bytes(std::span(&word, 1));
    const auto send = [&](unsigned) { (void)ends.out->try_send(1, bytes); };
    const auto receive = [&](unsigned) {
        Message message;
        (void)ends.in->try_receive(message);
    };
    const auto all = [&] {
        for (unsigned k = 0; k < kTogether; ++k) receive(k);
        ends.poll();
    };
    for (int warm = 0; warm < 3; ++warm) (void)count(send, all);
    print("try_send 8", count(send, all));
    const auto batch = [&](unsigned) { (void)ends.out->try_batch(1, bytes); };
    print("try_batch 8", count(batch, [&] { ends.poll(), all(); }));
    for (unsigned k = 0; k < kTogether; ++k) send(k);
    print("try_receive 8", count(receive, [&] {
              for (unsigned k = 0; k < kTogether; ++k) send(k);
              ends.poll();
          }));
    for (unsigned k = 0; k < kTogether; ++k) receive(k);
}

void measure_handler(Ends& ends) {
    const std::uint64_t word = 7;
    std::uint64_t handled = 0;
    ends.in->on(2, [&](Message&) { ++handled; });
    const auto send = [&] {
        for (unsigned k = 0; k < kTogether; ++k)
            (void)ends.out->try_send(2, std::as_bytes(std::span(&word, 1)));
    };
    send();
    std::uint64_t all = 0;
    Lane lane = ends.there.lane();
    for (unsigned i = 0; i < kOperations; i += kTogether) {
        all += Stepped::count([&] { (void)lane.poll(); });
        send();
        (void)ends.here.lane().poll();
    }
    print("handled 8", static_cast<double>(all) / static_cast<double>(kOperations));
    while (lane.poll() != 0) {
    }
    print("poll, idle", count([&](unsigned) { (void)lane.poll(); }, [] {}));
}

void measure_reads(Ends& ends) {
    auto* const remote = static_cast<std::byte*>(ends.there.arena().allocate(64, 64));
    auto* const local = static_cast<std::uint64_t*>(ends.here.arena().allocate(64, 64));
    const Grant grant(*ends.in, {remote, 64}, Access::remote_read | Access::remote_write);
    OneSided one_sided(*ends.out);
    PreparedRead<std::uint64_t> read(one_sided, RemoteSpan<std::uint64_t>(grant.extents()[0]),
                                     std::span(local, 1));
    const auto drain = [&] {
        while (ends.out->try_flush() == Errc::would_block) {
        }
        ends.poll();
    };
    const auto execute = [&](unsigned) { (void)read.execute(0); };
    (void)count(execute, drain);
    print("read 8, prepared", count(execute, drain));
}

}  // namespace

int main(int argc, char** argv) try {
    Config config;
    config.device.kind = "softnic";
    const std::string_view setting = argc == 2 ? argv[1] : "";
    config.telemetry.enabled = setting != "off";
    config.telemetry.histograms = setting == "histograms";
    // Time runs a thousand times faster for a thread that is stepped.
    config.telemetry.interval *= 1000;
    Ends ends(config);
    measure_messages(ends);
    measure_handler(ends);
    measure_reads(ends);
} catch (const Error& error) {
    std::fprintf(stderr, "bench_telemetry: %s\n", error.what());
    return 1;
}
