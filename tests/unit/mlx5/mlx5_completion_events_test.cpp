// Arming a completion queue, and moving it to another buffer: what the device sees of it.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <vector>

#include <verbatim/driver/device.hpp>
#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/completion_wait.hpp>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

// A device with a register page for arming.
struct Arming {
    Arming() {
        CompletionQueueView view = device.completion_queue();
        view.doorbell_register = page;
        view.arm_hook = {[](void* self) noexcept { ++static_cast<Arming*>(self)->armed; }, this};
        record = view.doorbell_record;
        completions.emplace(view);
        completions->attach(&queue, nullptr);
    }
    // One completion, polled.
    void complete_one() {
        ASSERT_EQ(queue.post(inline_request(Opcode::write, 8).get()), Errc::ok);
        device.complete(device.fetch().at(0));
        Completion completion;
        ASSERT_EQ(completions->poll(std::span(&completion, 1)), 1u);
    }
    std::uint32_t armed_record() const { return be32toh(record[1]); }
    std::uint64_t armed_register() const {
        std::uint64_t words = 0;
        std::memcpy(&words, page + 0x20, sizeof words);
        return be64toh(words);
    }

    TestDevice device{DeviceOptions{.completion_entries = 8}};
    SendQueue queue{device.queue_pair()};
    alignas(64) std::byte page[256]{};
    volatile std::uint32_t* record = nullptr;
    int armed = 0;
    std::optional<CompletionQueue> completions;
};

TEST(CompletionEvents, arming_writes_record_and_register) {
    Arming arming;
    arming.record[1] = 0xffffffff;
    ASSERT_EQ(arming.completions->arm(), Errc::ok);
    EXPECT_EQ(arming.armed_record(), 0u);
    EXPECT_EQ(arming.armed_register(), 3u) << "the queue's number";
    ASSERT_EQ(arming.completions->arm(Notify::solicited), Errc::ok);
    EXPECT_EQ(arming.armed_record(), 1u << 24);
    EXPECT_EQ(arming.armed_register(), std::uint64_t{1} << 56 | 3);
    EXPECT_EQ(arming.armed, 2);
    for (std::size_t i = 0; i < sizeof arming.page; ++i)
        EXPECT_TRUE((i >= 0x20 && i < 0x28) || arming.page[i] == std::byte{0}) << i;
}

TEST(CompletionEvents, arming_names_what_was_polled_and_how_many_events_came) {
    Arming arming;
    for (std::uint32_t i = 0; i < 20; ++i) {
        ASSERT_EQ(arming.completions->arm(), Errc::ok);
        EXPECT_EQ(arming.armed_record(), (i & 3) << 28 | i);
        EXPECT_EQ(arming.armed_register() >> 32, (i & 3) << 28 | i);
        ASSERT_NO_FATAL_FAILURE(arming.complete_one());
        arming.completions->count_event();
    }
    EXPECT_EQ(be32toh(arming.record[0]), 20u) << "the consumer index is untouched";
}

// Events that were raised while nobody waited, and come all at once.
class Backlog final : public CompletionChannelHandle {
  public:
    explicit Backlog(unsigned events) : counter_(eventfd(events, EFD_SEMAPHORE)) {}
    ~Backlog() override { close(counter_); }
    int file() const noexcept override { return counter_; }
    CompletionQueueHandle* take_event() override {
        pollfd entry{counter_, POLLIN, 0};
        std::uint64_t one = 0;
        if (::poll(&entry, 1, 0) != 1 || read(counter_, &one, sizeof one) != sizeof one)
            return nullptr;
        return &of_;
    }

  private:
    class Of final : public CompletionQueueHandle {
      public:
        const CompletionQueueView& view() const noexcept override { return view_; }
        void resize(std::uint32_t) override {}

      private:
        CompletionQueueView view_;
    };
    int counter_;
    Of of_;
};

// The device takes no arming that looks like the one before.
TEST(CompletionEvents, whoever_waits_arms_anew_after_each_event_of_a_backlog) {
    Arming arming;
    struct Seen {
        Arming* arming;
        std::vector<std::uint32_t> words;
    } seen{&arming, {}};
    CompletionQueueView view = arming.device.completion_queue();
    view.doorbell_register = arming.page;
    view.arm_hook = {[](void* self) noexcept {
                         auto& all = *static_cast<Seen*>(self);
                         all.words.push_back(all.arming->armed_record());
                     },
                     &seen};
    CompletionQueue completions(view);
    Backlog backlog(4);
    Completion completion;
    EXPECT_EQ(wait_and_poll(completions, backlog, std::span(&completion, 1),
                            std::chrono::milliseconds(20)),
              0u);
    EXPECT_EQ(seen.words, (std::vector<std::uint32_t>{0, 1u << 28, 2u << 28, 3u << 28, 0}));
}

TEST(CompletionEvents, queue_without_a_register_is_not_armed) {
    TestDevice device;
    CompletionQueue completions(device.completion_queue());
    EXPECT_EQ(completions.arm(), Errc::unsupported);
}

// A device that gives another buffer, as it stands after `polled` of `produced` completions.
class Moving final : public CompletionQueueHandle {
  public:
    explicit Moving(TestDevice& device) : device_(device), view_(device.completion_queue()) {}
    const CompletionQueueView& view() const noexcept override { return view_; }
    void resize(std::uint32_t entries) override {
        memory_.emplace_back(std::make_unique<Pages>(std::size_t{entries} * view_.entry_bytes));
        view_.buffer = memory_.back()->data();
        const std::uint32_t old_entries = std::exchange(view_.entries, entries);
        for (std::uint32_t i = 0; i < entries; ++i) cqe_at(i).op_own = MLX5_CQE_INVALID << 4;
        const std::uint32_t consumed = device_.consumer_record();
        produced = device_.produced() + 1;
        if (device_.produced() - consumed < old_entries) device_.write(mlx5_cqe64{}, 5);
    }
    // In the new buffer.
    void complete(const SeenWqe& wqe, std::uint32_t number) {
        mlx5_cqe64& cqe = cqe_at(produced);
        cqe.sop_drop_qpn = htobe32(std::uint32_t{wqe.opcode} << 24 | number);
        cqe.wqe_counter = htobe16(wqe.index);
        cqe.op_own = (produced & view_.entries) != 0 ? 1 : 0;
        ++produced;
    }
    std::uint32_t produced = 0;

  private:
    mlx5_cqe64& cqe_at(std::uint32_t counter) const {
        return *reinterpret_cast<mlx5_cqe64*>(view_.buffer +
                                              (counter & (view_.entries - 1)) * view_.entry_bytes +
                                              view_.entry_bytes - sizeof(mlx5_cqe64));
    }
    TestDevice& device_;
    CompletionQueueView view_;
    std::vector<std::unique_ptr<Pages>> memory_;
};

struct Move {
    std::uint32_t entry_bytes, before, polled, unpolled, after;
};

// `polled` completions, `unpolled` more, the move, and a lap and a half in the new buffer.
void expect_whole(const Move& move) {
    TestDevice device(
        {.send_blocks = 64, .completion_entries = move.before, .entry_bytes = move.entry_bytes});
    Moving handle(device);
    SendQueue queue(device.queue_pair());
    CompletionQueue completions(handle.view());
    completions.attach(&queue, nullptr);
    std::uint64_t next = 0, seen = 0;
    std::vector<SeenWqe> posted;
    const auto post = [&] {
        Request asked = inline_request(Opcode::write, 8, next++);
        ASSERT_EQ(queue.post(asked.get()), Errc::ok);
        posted = device.fetch();
    };
    const auto poll = [&](std::uint64_t wanted) {
        std::vector<Completion> found(64);
        found.resize(completions.poll(found));
        ASSERT_EQ(found.size(), wanted);
        for (const Completion& completion : found) ASSERT_EQ(completion.id, seen++);
    };
    for (std::uint32_t i = 0; i < move.polled; ++i) {
        ASSERT_NO_FATAL_FAILURE(post());
        device.complete(posted.at(0));
        ASSERT_NO_FATAL_FAILURE(poll(1));
    }
    for (std::uint32_t i = 0; i < move.unpolled; ++i) {
        ASSERT_NO_FATAL_FAILURE(post());
        device.complete(posted.at(0));
    }
    completions.resize(handle, move.after);
    EXPECT_EQ(completions.entries(), move.after);
    EXPECT_EQ(device.consumer_record(), move.polled + 1);
    ASSERT_NO_FATAL_FAILURE(poll(move.unpolled));
    ASSERT_NO_FATAL_FAILURE(poll(0));
    for (std::uint32_t i = 0; i < move.after * 3 / 2; ++i) {
        ASSERT_NO_FATAL_FAILURE(post());
        handle.complete(posted.at(0), queue.number());
        ASSERT_NO_FATAL_FAILURE(poll(1));
    }
    EXPECT_EQ(completions.strays(), 0u);
    EXPECT_EQ(queue.outstanding(), 0u);
}

TEST(CompletionEvents, queue_goes_on_in_another_buffer_with_what_was_not_polled) {
    for (const std::uint32_t entry_bytes : {64u, 128u})
        for (const std::uint32_t before : {4u, 8u, 16u})
            for (const std::uint32_t after : {4u, 8u, 32u})
                for (std::uint32_t polled = 0; polled < 2 * before + 1; polled += 3)
                    for (std::uint32_t unpolled = 0; unpolled <= before && unpolled < after;
                         ++unpolled) {
                        SCOPED_TRACE(testing::Message() << before << " to " << after << ", polled "
                                                        << polled << ", unpolled " << unpolled);
                        ASSERT_NO_FATAL_FAILURE(
                            expect_whole({entry_bytes, before, polled, unpolled, after}));
                    }
}

TEST(CompletionEvents, another_queues_handle_is_refused) {
    TestDevice device, other;
    Moving handle(other);
    CompletionQueue completions(device.completion_queue());
    EXPECT_THROW(completions.resize(handle, 8), Error);
}

}  // namespace
}  // namespace verbatim::mlx5
