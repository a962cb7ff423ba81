// The device in a thread of its own: what must be visible when, for ThreadSanitizer to judge.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

constexpr std::uint64_t kRequests = 20'000;

// Executes what is rung for until told to stop; counts the requests whose payload is not their
// number.
class DeviceThread {
  public:
    explicit DeviceThread(TestDevice& device) : device_(device), thread_([this] { run(); }) {}
    ~DeviceThread() { stop(); }
    void stop() {
        stop_ = true;
        if (thread_.joinable()) thread_.join();
    }
    // After stop().
    std::uint64_t executed() const { return executed_; }
    std::uint64_t wrong() const { return wrong_; }

  private:
    void run() {
        while (!stop_) {
            const auto wqes = device_.fetch();
            for (const SeenWqe& wqe : wqes) execute(wqe);
            if (wqes.empty()) std::this_thread::yield();
        }
    }
    void execute(const SeenWqe& wqe) {
        std::uint64_t payload = ~std::uint64_t{0};
        if (wqe.inline_payload.size() == sizeof payload) {
            std::memcpy(&payload, wqe.inline_payload.data(), sizeof payload);
        }
        if (payload != executed_++) ++wrong_;
        if (wqe.signaled()) device_.complete(wqe);
    }

    TestDevice& device_;
    std::uint64_t executed_ = 0, wrong_ = 0;
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

TEST(Threads, a_device_beside_the_poster_sees_whole_requests_and_is_seen_in_turn) {
    // As many completion entries as requests can be outstanding: the device need not look for room.
    TestDevice device({.send_blocks = 16, .completion_entries = 16});
    SendQueue queue(device.queue_pair());
    CompletionQueue completions(device.completion_queue());
    completions.attach(&queue, nullptr);
    PreparedWrite8 write(queue, {.opcode = Opcode::write, .remote_key = 1});
    DeviceThread thread(device);
    std::array<Completion, 4> polled;
    std::uint64_t retired = 0;
    for (std::uint64_t posted = 0; retired < kRequests;) {
        Errc result = Errc::would_block;
        if (posted < kRequests) {
            write.set_signaled(posted % 4 == 3);
            WorkRequest fresh;
            fresh.opcode = Opcode::write;
            fresh.id = posted;
            fresh.signaled = posted % 4 == 3;
            fresh.inline_payload = std::as_bytes(std::span(&posted, 1));
            result = posted % 3 == 0 ? queue.post(fresh) : write.post(posted, posted * 8, posted);
        }
        if (result == Errc::ok) ++posted;
        const std::size_t count = completions.poll(polled);
        for (std::size_t i = 0; i < count; ++i) {
            ASSERT_EQ(polled[i].id, retired + 3);
            retired += 4;
        }
        if (result != Errc::ok && count == 0) std::this_thread::yield();
    }
    thread.stop();
    EXPECT_EQ(thread.executed(), kRequests);
    EXPECT_EQ(thread.wrong(), 0U);
    EXPECT_EQ(queue.outstanding(), 0U);
    EXPECT_EQ(completions.strays(), 0U);
}

}  // namespace
}  // namespace verbatim::mlx5
