// A program on dedicated cores: `verbatim-dedicated serve FILE.toml` and `verbatim-dedicated ask
// FILE.toml [ROUNDS]`. Each runs on the core that the first [[poller]] section of its file names
// (configs/dedicated.toml), and shows its own loop's times: of the server, from one look at the
// lane to the next; of the client, from a question to its answer.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <sched.h>

#include <verbatim/core/context.hpp>

namespace {

using namespace verbatim;
using Nanoseconds = std::chrono::nanoseconds;

constexpr const char* kAddress = "127.0.0.1:7475";
constexpr std::uint8_t kQuestion = 1, kAnswer = 2;

// All times of a loop, exact.
class Times {
  public:
    explicit Times(std::size_t most) { times_.reserve(most); }
    void add(Clock::duration time) {
        if (times_.size() < times_.capacity()) times_.push_back(time);
    }
    void print(const char* what) {
        if (times_.empty()) return;
        std::sort(times_.begin(), times_.end());
        std::printf("%s: %zu on core %d; p50 %lld ns, p99 %lld ns, p99.9 %lld ns, max %lld ns\n",
                    what, times_.size(), sched_getcpu(), at(0.5), at(0.99), at(0.999), at(1));
    }

  private:
    long long at(double share) const {
        const auto last = static_cast<double>(times_.size() - 1);
        return Nanoseconds(times_[static_cast<std::size_t>(last * share)]).count();
    }
    std::vector<Clock::duration> times_;
};

// Answers until the client goes, in a loop that is a task of the poller.
void serve(Context& context, Lane lane) {
    Connection client = context.listen(kAddress).accept(lane);
    client.on(kQuestion, [](Connection& from, Message& question) {
        while (from.try_send(kAnswer, question.payload()) == Errc::would_block) {
        }
    });
    Times looks(1'000'000);
    for (auto last = Clock::now(); client.state() == Errc::ok;) {
        (void)lane.poll();
        const auto now = Clock::now();
        looks.add(now - last);
        last = now;
    }
    looks.print("looks at the lane");
}

void ask(Context& context, Lane lane, std::size_t rounds) {
    Connection server = context.connect(kAddress, lane);
    Times trips(rounds);
    Message answer;
    for (std::size_t i = 0; i < rounds; ++i) {
        const auto began = Clock::now();
        server.send_message(kQuestion, std::as_bytes(std::span(&i, 1)), {}, Deadline::never());
        while (server.try_receive(answer) == Errc::would_block) (void)lane.poll();
        trips.add(Clock::now() - began);
        if (answer.payload().size() != sizeof i ||
            std::memcmp(answer.payload().data(), &i, sizeof i) != 0)
            throw Error(Errc::protocol_error, server.peer_name(), "another answer came");
    }
    trips.print("round trips");
}

int run(std::string_view role, const std::string& file, std::size_t rounds) {
    const Config config = Config::from_file(file);
    if (config.pollers.empty() || (role != "serve" && role != "ask")) return 2;
    Context context(config);
    Lane lane = context.pollers().front()->lane();
    lane.call([&] { role == "serve" ? serve(context, lane) : ask(context, lane, rounds); });
    return 0;
}

}  // namespace

int main(int argc, char** argv) try {
    std::size_t rounds = 100'000;
    if (argc == 4) std::from_chars(argv[3], argv[3] + std::strlen(argv[3]), rounds);
    const int status = argc < 3 ? 2 : run(argv[1], argv[2], rounds);
    if (status == 2)
        std::fputs(
            "usage: verbatim-dedicated serve|ask FILE.toml [ROUNDS]\n"
            "FILE.toml needs a section [[poller]]; see configs/dedicated.toml\n",
            stderr);
    return status;
} catch (const Error& error) {
    std::fprintf(stderr, "verbatim-dedicated: %s\n", error.what());
    return 1;
}
