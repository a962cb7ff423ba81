// Thousands of strangers call a listener: silent, talking something else, or with hellos that are
// cut off, damaged, or of nobody. Honest callers among them get in, and nothing is left behind.
#include <atomic>
#include <deque>
#include <filesystem>
#include <random>

#include "bootstrap/hello.hpp"
#include "core_fault.hpp"
#include "core_hand_made_peer.hpp"
#include "sanitized.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::local;
using test::RawSocket;

Deadline soon() { return Deadline::after(60s); }

std::ptrdiff_t open_files() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

class Strangers {
  public:
    // `hello`: a whole one, which would be met.
    Strangers(std::uint16_t port, std::vector<std::byte> hello)
        : port_(port), hello_(std::move(hello)) {}

    void call() {
        const auto sort = random_() % 16;
        RawSocket socket = RawSocket::connected(port_);
        std::vector<std::byte> bytes = sort < 6 ? noise() : hello_;
        if (sort >= 6) bytes.resize(1 + random_() % (sort < 14 ? bytes.size() : 16));
        if (sort >= 11) damage(bytes);
        if (sort != 0) (void)socket.put(bytes);  // the other side may have hung up already
        if (sort % 4 == 0) keep(std::move(socket));
    }
    // A hello with every byte, one of which may be wrong.
    void call_whole() {
        RawSocket socket = RawSocket::connected(port_);
        std::vector<std::byte> bytes = hello_;
        if (random_() % 2 == 0) damage(bytes);
        (void)socket.put(bytes);
        if (random_() % 2 == 0) keep(std::move(socket));
    }
    void leave() { silent_.clear(); }

  private:
    std::vector<std::byte> noise() {
        std::vector<std::byte> bytes(1 + random_() % 300);
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random_());
        return bytes;
    }
    void damage(std::vector<std::byte>& bytes) {
        bytes[random_() % bytes.size()] ^= static_cast<std::byte>(1 + random_() % 255);
    }
    // Says no more, and stays for a while.
    void keep(RawSocket socket) {
        silent_.push_back(std::move(socket));
        if (silent_.size() > 100) silent_.pop_front();
    }

    std::uint16_t port_;
    std::vector<std::byte> hello_;
    std::mt19937_64 random_{7};
    std::deque<RawSocket> silent_;
};

// Answers each caller that gets in, one after the other.
class Serving {
  public:
    explicit Serving(const Config& config)
        : context_(config), listener_(context_.listen("127.0.0.1:0")), thread_([this] { run(); }) {}
    ~Serving() {
        stop_ = true;
        thread_.join();
    }
    std::uint16_t port() const { return listener_.port(); }

  private:
    void run() {
        while (!stop_) try {
                Connection connection = listener_.accept(Deadline::after(50ms));
                const Message message = connection.receive_message(soon());
                connection.send_message(2, message.payload(), {}, soon());
                // Until it has heard that.
                while (connection.progress() == Errc::ok) connection.pause(1000, soon());
            } catch (const Error&) {
                // Nobody came, or a stranger that knew how to begin.
            }
    }

    Context context_;
    Listener listener_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

// On a busy machine even an honest caller may be too slow for the listener, and calls again.
Connection call(Context& calling, std::uint16_t port) {
    for (const Deadline deadline = soon();;) try {
            return calling.connect(local(port));
        } catch (const Error&) {
            if (deadline.passed()) throw;
        }
}

void expect_answer(Context& calling, std::uint16_t port, int number) {
    Connection connection = call(calling, port);
    connection.send_message(1, std::as_bytes(std::span(&number, 1)), {}, soon());
    const Message message = connection.receive_message(soon());
    ASSERT_EQ(message.payload().size(), sizeof number);
    EXPECT_EQ(std::memcmp(message.payload().data(), &number, sizeof number), 0);
}

TEST(HelloFlood, lets_honest_callers_in_and_leaves_nothing_behind) {
    test::CapturedLog log;  // a line for each of them
    Config config = test::small_config();
    config.connect.timeout = 250ms;  // of strangers that stay silent
    Config patient = test::small_config();
    patient.connect.timeout = 60s;
    Context calling(patient);
    test::LoneEndpoint lone(patient);
    const auto hello = encode_frame(FrameType::hello, encode_hello(lone.endpoint.hello()));
    const bool is_long = std::getenv("VERBATIM_LONG") != nullptr;
    const int count = is_long ? 100'000 : test::kSanitized ? 500 : 4000;
    {
        Serving serving(config);
        expect_answer(calling, serving.port(), 0);
    }
    const auto before = open_files();  // those of a link between devices, too
    {
        Serving serving(config);
        Strangers strangers(serving.port(), hello);
        for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
            i % 100 == 0 ? strangers.call_whole() : strangers.call();
            if (i % (count / 16) == 0) expect_answer(calling, serving.port(), i);
        }
        strangers.leave();
        expect_answer(calling, serving.port(), count);
    }
    (void)log.text();
    // Other threads end what is left of a device.
    const Deadline deadline = soon();
    while (open_files() > before && !deadline.passed()) std::this_thread::yield();
    EXPECT_LE(open_files(), before);
}

}  // namespace
}  // namespace verbatim
