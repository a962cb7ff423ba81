// Channels of the connection manager in programs that cancel their threads, or put other files in
// a channel's place.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <stdexcept>
#include <string>

#include "../processes/child_process.hpp"
#include "cm_ids.hpp"

namespace verbatim::interop {
namespace {

// Two identifiers of this channel find each other.
void expect_works(const EventChannel& channel) {
    const Id listener = make_id(channel);
    const std::uint16_t port = listen_at(listener);
    const Id asker = make_id(channel);
    resolve(channel, asker, port);
}

std::atomic<int> g_thread{0};    // that waits; 0: it has not begun
std::atomic<int> g_commands{0};  // done so far

// Until it holds, at most ten seconds.
template <class Condition>
void await(Condition&& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!holds())
        if (std::chrono::steady_clock::now() > deadline)
            throw std::runtime_error("what the test waits for does not come");
}

bool sleeps(int thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string facts;
    std::getline(file, facts);
    const std::size_t name_end = facts.rfind(") ");
    return name_end != std::string::npos && facts[name_end + 2] == 'S';
}

// A thread with deferred cancellation, as threads have it by default.
class Thread {
  public:
    Thread(void* (*work)(void*), void* of) {
        done(pthread_create(&thread_, nullptr, work, of), "pthread_create");
    }
    // What the thread returned.
    void* cancel() {
        pthread_cancel(thread_);
        void* result = nullptr;
        pthread_join(thread_, &result);
        return result;
    }

  private:
    pthread_t thread_{};
};

void* wait_for_event(void* channel) {
    g_thread.store(gettid());
    rdma_cm_event* event = nullptr;
    rdma_get_cm_event(static_cast<rdma_event_channel*>(channel), &event);
    return nullptr;
}

// In a process of its own: it once ended the program.
TEST(CancelledThread, that_waits_for_an_event_ends_alone) {
    Child child([] {
        const EventChannel channel = open_channel();
        for (int i = 0; i < 20; ++i) {
            g_thread.store(0);
            Thread waiting(wait_for_event, channel.get());
            // It waits, or is on its way there: both end it.
            if (i % 2 == 0) await([] { return g_thread.load() != 0 && sleeps(g_thread.load()); });
            if (waiting.cancel() != PTHREAD_CANCELED) return 2;
        }
        expect_works(channel);
        return testing::Test::HasFailure() ? 3 : 0;
    });
    EXPECT_EQ(child.wait(std::chrono::seconds(30)), 0);
}

void* make_identifiers(void* channel) {
    for (;;) {
        rdma_cm_id* id = nullptr;
        if (rdma_create_id(static_cast<rdma_event_channel*>(channel), &id, nullptr, RDMA_PS_TCP) !=
            0)
            return nullptr;
        ++g_commands;
    }
}

// It holds no lock then.
TEST(CancelledThread, amid_commands_ends_alone) {
    Child child([] {
        const EventChannel channel = open_channel();
        for (int i = 0; i < 10; ++i) {
            Thread busy(make_identifiers, channel.get());
            await([before = g_commands.load()] { return g_commands.load() > before + 20; });
            if (busy.cancel() != PTHREAD_CANCELED) return 2;
        }
        expect_works(channel);
        return testing::Test::HasFailure() ? 3 : 0;
    });
    EXPECT_EQ(child.wait(std::chrono::seconds(30)), 0);
}

void* allocate_domains(void* context) {
    for (;;) {
        ibv_pd* const domain = ibv_alloc_pd(static_cast<ibv_context*>(context));
        if (domain == nullptr) return nullptr;
        ibv_dealloc_pd(domain);
        ++g_commands;
    }
}

TEST(CancelledThread, amid_commands_of_a_device_ends_alone) {
    Child child([] {
        const EventChannel channel = open_channel();
        int count = 0;
        ibv_context** const devices = rdma_get_devices(&count);
        if (devices == nullptr || count == 0) return 2;
        for (int i = 0; i < 10; ++i) {
            Thread busy(allocate_domains, devices[0]);
            await([before = g_commands.load()] { return g_commands.load() > before + 20; });
            if (busy.cancel() != PTHREAD_CANCELED) return 3;
        }
        return ibv_alloc_pd(devices[0]) != nullptr ? 0 : 4;
    });
    EXPECT_EQ(child.wait(std::chrono::seconds(30)), 0);
}

TEST(ReplacedChannel, is_an_ordinary_file_that_is_written_as_such) {
    Child child([] {
        const int number = open_channel().release()->fd;
        const int file = memfd_create("ordinary", MFD_CLOEXEC);
        dup2(file, number);
        if (write(number, "12345678", 8) != 8) return 2;
        const EventChannel again = open_channel();
        expect_works(again);
        return testing::Test::HasFailure() ? 3 : 0;
    });
    EXPECT_EQ(child.wait(std::chrono::seconds(30)), 0);
}

TEST(ReplacedChannel, gives_no_identifier_to_another_channel) {
    Child child([] {
        const EventChannel replaced = open_channel();
        rdma_cm_id* const id = make_id(replaced).release();
        const EventChannel other = open_channel();
        // The library notices it with the next use of the number.
        syscall(SYS_dup3, memfd_create("ordinary", MFD_CLOEXEC), replaced->fd, O_CLOEXEC);
        return rdma_migrate_id(id, other.get()) == -1 && errno == EINVAL ? 0 : 2;
    });
    EXPECT_EQ(child.wait(std::chrono::seconds(30)), 0);
}

TEST(InheritedChannel, is_dead_in_a_child_until_its_number_is_another_files) {
    const EventChannel channel = open_channel();
    Child child([&] {
        rdma_cm_id* id = nullptr;
        if (rdma_create_id(channel.get(), &id, nullptr, RDMA_PS_TCP) == 0 || errno != EIO) return 2;
        syscall(SYS_close_range, 3u, ~0u, 0);
        const int file = memfd_create("ordinary", MFD_CLOEXEC);
        if (file != channel->fd && fcntl(file, F_DUPFD, channel->fd) != channel->fd) return 3;
        if (write(channel->fd, "12345678", 8) != 8) return 4;
        const EventChannel own = open_channel();
        expect_works(own);
        return testing::Test::HasFailure() ? 5 : 0;
    });
    EXPECT_EQ(child.wait(std::chrono::seconds(30)), 0);
    expect_works(channel);
}

TEST(InheritedChannel, a_child_of_vfork_closes_its_own_descriptor_only) {
    const EventChannel channel = open_channel();
    const Id listener = make_id(channel);
    const std::uint16_t port = listen_at(listener);
    const pid_t child = vfork();
    if (child == 0) {
        close(channel->fd);
        _exit(0);
    }
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const Id asker = make_id(channel);
    resolve(channel, asker, port);
    make_queue_pair(asker);
    rdma_conn_param wanted = parameters();
    done(rdma_connect(asker.get(), &wanted), "rdma_connect");
    Id answerer;
    const Event request = take_event(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(request->listen_id, listener.get());
    answerer.reset(request->id);
}

}  // namespace
}  // namespace verbatim::interop
