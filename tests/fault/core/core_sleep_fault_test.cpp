// Two processes that sleep between messages, and send at any moment of the other's arming: each
// message must wake its receiver (docs/arrival.md). What is lost here is lost for ever, and the
// wait ends by its deadline.
#include <sys/resource.h>

#include <random>

#include "core_fault.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using softnic::test::Child;
using softnic::test::Wire;

constexpr std::uint64_t kMessages = 2000;
constexpr std::uint8_t kChannel = 1;

Config sleeping_config() {
    Config config = test::small_config();
    config.lane.mode = LaneMode::event;
    return config;
}

// Up to about 30 us: as long as arming and falling asleep take, on any of the devices.
class Pauses {
  public:
    explicit Pauses(unsigned seed) : random_(seed) {}
    void pause() {
        const auto end =
            std::chrono::steady_clock::now() + std::chrono::nanoseconds(random_() % 30'000);
        while (std::chrono::steady_clock::now() < end) {
        }
    }

  private:
    std::mt19937 random_;
};

void send_number(Connection& connection, std::uint64_t number) {
    connection.send_message(kChannel, std::as_bytes(std::span(&number, 1)), {},
                            Deadline::after(30s));
}
// Of the next message; ~0 if there is none.
std::uint64_t wait_for_number(Connection& connection) {
    const Message message = connection.receive_message(Deadline::after(30s));
    std::uint64_t number = ~std::uint64_t{0};
    if (message.payload().size() == sizeof number)
        std::memcpy(&number, message.payload().data(), sizeof number);
    return number;
}
std::uint64_t times_asleep() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::uint64_t>(usage.ru_nvcsw);
}

// Answers each message after a pause, and arms after another one.
int answer(Wire& wire) {
    std::uint16_t port = 0;
    if (!wire.get(port)) return 90;
    Context context(sleeping_config());
    Connection connection = context.connect(test::local(port));
    Pauses pauses(1);
    for (std::uint64_t i = 0; i < kMessages; ++i) {
        pauses.pause();
        if (wait_for_number(connection) != i) return 91;
        pauses.pause();
        send_number(connection, i);
    }
    wire.put(times_asleep());
    wire.wait();
    return 0;
}

TEST(Sleepers, are_woken_by_every_message_of_another_process) {
    Child child(answer);  // forked before this process has threads
    Context context(sleeping_config());
    Listener listener = context.listen("127.0.0.1:0");
    ASSERT_TRUE(child.wire().put(listener.port()));
    Connection connection = listener.accept(Deadline::after(30s));
    Pauses pauses(2);
    for (std::uint64_t i = 0; i < kMessages; ++i) {
        pauses.pause();
        send_number(connection, i);
        pauses.pause();
        ASSERT_EQ(wait_for_number(connection), i);
    }
    std::uint64_t asleep = 0;
    ASSERT_TRUE(child.wire().get(asleep));
    EXPECT_GT(asleep, kMessages / 20) << "it hardly ever slept";
    EXPECT_GT(times_asleep(), kMessages / 20);
    child.wire().signal();
    EXPECT_EQ(child.reap(), 0);
}

}  // namespace
}  // namespace verbatim
