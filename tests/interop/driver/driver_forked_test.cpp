// Devices of a parent in a forked child: nothing of the parent's is ended by it, or added to.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include <verbatim/rdma/cm_streams.hpp>
#include <verbatim/uverbs/uverbs.hpp>

#include "backend.hpp"
#include "softnic_process.hpp"

namespace {

// Calls of rdma-core by which a process ends what it has made.
int g_ends = 0;

template <class Object>
int end_by(const char* call, Object* object) {
    ++g_ends;
    return reinterpret_cast<int (*)(Object*)>(dlsym(RTLD_NEXT, call))(object);
}

}  // namespace

extern "C" {
int ibv_dereg_mr(ibv_mr* region) { return end_by("ibv_dereg_mr", region); }
int ibv_destroy_cq(ibv_cq* queue) { return end_by("ibv_destroy_cq", queue); }
int ibv_destroy_qp(ibv_qp* pair) { return end_by("ibv_destroy_qp", pair); }
int ibv_dealloc_pd(ibv_pd* domain) { return end_by("ibv_dealloc_pd", domain); }
int ibv_close_device(ibv_context* device) { return end_by("ibv_close_device", device); }
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
    return end_by("ibv_destroy_comp_channel", channel);
}
}

namespace verbatim::test {
namespace {

using softnic::test::status_in_child;

// A device and one of each thing that is made from it.
struct Made {
    explicit Made(const Backend& backend)
        : device(backend.open()),
          region(device->register_memory(memory, sizeof memory, Access::window_bind, {})),
          channel(device->create_completion_channel()),
          queue(device->create_completion_queue(16, channel.get())),
          pair(device->create_queue_pair(
              {.send_completions = queue.get(), .receive_completions = queue.get()})) {
        try {
            window = device->create_memory_window(WindowType::queue_pair);
        } catch (const Error&) {  // it has none
        }
    }
    alignas(4096) std::byte memory[4096];
    std::unique_ptr<Device> device;
    std::unique_ptr<MemoryRegion> region;
    std::unique_ptr<CompletionChannelHandle> channel;
    std::unique_ptr<CompletionQueueHandle> queue;
    std::unique_ptr<QueuePairHandle> pair;
    std::unique_ptr<MemoryWindow> window;
};

class DriverForked : public testing::TestWithParam<Backend> {};

TEST_P(DriverForked, child_ends_nothing_of_its_parents_device) {
    auto made = std::make_optional<Made>(GetParam());
    EXPECT_EQ(status_in_child([&] {
                  g_ends = 0;
                  made.reset();
                  return g_ends;
              }),
              0);
    made->region->release();
    EXPECT_EQ(made->pair->state(), QueuePairState::reset);
}

TEST_P(DriverForked, child_makes_nothing_on_its_parents_device) {
    Made made(GetParam());
    std::byte memory[64];
    const auto is_refused = [](const std::function<void()>& call) {
        try {
            call();
        } catch (const Error& error) {
            return error.code() == Errc::permission_denied;
        }
        return false;
    };
    EXPECT_EQ(status_in_child([&] {
                  Device& device = *made.device;
                  if (!is_refused([&] {
                          (void)device.register_memory(memory, 64, Access::local_write, {});
                      }))
                      return 1;
                  if (!is_refused([&] { (void)device.create_memory_window(WindowType::domain); }))
                      return 2;
                  if (!is_refused([&] {
                          (void)device.create_queue_pair({.send_completions = made.queue.get(),
                                                          .receive_completions = made.queue.get()});
                      }))
                      return 3;
                  const std::unique_ptr<Device> own = GetParam().open();
                  (void)own->register_memory(memory, 64, Access::local_write, {});
                  return 0;
              }),
              0);
}

TEST_P(DriverForked, child_waits_for_no_thread_that_takes_events) {
    auto made = std::make_optional<Made>(GetParam());
    std::atomic<bool> over{false};
    std::thread takes([&, channel = made->channel.get()] {
        while (!over) (void)channel->take_event();
    });
    const auto stop = [&](std::thread* thread) {
        over = true;
        thread->join();
    };
    const std::unique_ptr<std::thread, decltype(stop)> stops(&takes, stop);
    for (int i = 0; i < 50; ++i)
        ASSERT_EQ(status_in_child([&] {
                      (void)made->channel->take_event();
                      made.reset();
                      return 0;
                  }),
                  0);
}

// Threads of a child get the stacks of those of its parent.
TEST(DriverForkedStreams, child_ends_its_copy_of_the_connection_manager_and_not_its_own_threads) {
    ASSERT_NE(uverbs::sysfs_root(), nullptr);
    auto streams = std::make_optional<rdma::CmStreams>("mlx5_0", std::chrono::seconds(1));
    EXPECT_EQ(status_in_child([&] {
                  std::atomic<bool> over{false};
                  const auto wait = [&] { over.wait(false); };
                  std::thread one(wait), other(wait);
                  streams.reset();
                  over = true;
                  over.notify_all();
                  one.join();
                  other.join();
                  return 0;
              }),
              0);
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverForked, testing::ValuesIn(backends()), name_of);

}  // namespace
}  // namespace verbatim::test
