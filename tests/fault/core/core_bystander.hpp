// A bystander is an honest peer on the lane of a connection that a test treats badly: it answers
// every message, in a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include "pair/connected_pair.hpp"

namespace verbatim::test {

// Rings and queues that are often full, and a lane that polls one connection only.
inline Config narrow_config() {
    Config config = small_config();
    config.ring.bytes = 4096;
    config.ring.send_blocks = 16;
    config.lane.hot = 1;
    return config;
}

class Bystander {
  public:
    // Calls a context whose default lane this thread drives.
    explicit Bystander(Context& serving, const Config& config = small_config()) {
        Listener listener = serving.listen("127.0.0.1:0");
        thread_ = std::thread([port = listener.port(), config] { answer(port, config); });
        connection_.emplace(listener.accept(soon()));
    }
    ~Bystander() {
        connection_.reset();
        thread_.join();
    }
    Bystander(const Bystander&) = delete;
    Bystander& operator=(const Bystander&) = delete;

    // One message there, and its answer.
    void expect_answer() {
        const std::string text = "message " + std::to_string(count_++);
        connection_->send_message(1, std::as_bytes(std::span(text)), {}, soon());
        const Message message = connection_->receive_message(soon());
        ASSERT_EQ(message.payload().size(), text.size());
        ASSERT_EQ(std::memcmp(message.payload().data(), text.data(), text.size()), 0);
    }
    void expect_answers(int count) {
        while (count-- > 0 && !testing::Test::HasFatalFailure()) expect_answer();
    }

  private:
    static Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }
    static void answer(std::uint16_t port, const Config& config) try {
        Context context(config);
        Connection connection = context.connect("127.0.0.1:" + std::to_string(port));
        while (true) {
            const Message message = connection.receive_message(soon());
            connection.send_message(1, message.payload(), {}, soon());
        }
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::peer_lost) << error.what();
    }

    std::thread thread_;
    std::optional<Connection> connection_;
    int count_ = 0;
};

}  // namespace verbatim::test
