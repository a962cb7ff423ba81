// What becomes of a device when its descriptor's number is closed, replaced or inherited, by every
// way that the C library has, and by bare system calls.
#include <fcntl.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <functional>

#include "../uverbs/verbs_pair.hpp"
#include "child_process.hpp"

namespace verbatim::interop {
namespace {

// Whether what is there takes bytes and says of itself what an ordinary file does.
bool is_ordinary(int descriptor) {
    struct stat facts {};
    return fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode) &&
           write(descriptor, "12345678", 8) == 8 && ioctl(descriptor, RDMA_VERBS_IOCTL) == -1 &&
           errno == ENOTTY;
}

int ordinary_file() { return memfd_create("ordinary", MFD_CLOEXEC); }

// One of that number, which is free.
bool take_number(int number) {
    const int file = ordinary_file();
    return file == number || fcntl(file, F_DUPFD, number) == number;
}

// A context's descriptor becomes an ordinary file. In a process of its own, since libibverbs cannot
// destroy a context without it.
struct Replaced : testing::TestWithParam<std::function<void(int file, int device)>> {};

TEST_P(Replaced, by_an_ordinary_file_that_is_written_as_such) {
    Child child([] {
        ibv_context* const context = open_device().release();
        GetParam()(ordinary_file(), context->cmd_fd);
        if (!is_ordinary(context->cmd_fd)) return 2;
        // The number may be a device's again.
        close(context->cmd_fd);
        const Context again = open_device();
        return works(again.get()) ? 0 : 3;
    });
    EXPECT_EQ(child.wait(), 0);
}

void by_close(int file, int device) {
    close(device);
    dup2(file, device);
}
void by_dup2(int file, int device) { dup2(file, device); }
void by_dup3(int file, int device) { dup3(file, device, O_CLOEXEC); }
void by_close_range(int file, int device) {
    close_range(static_cast<unsigned>(device), static_cast<unsigned>(device), 0);
    fcntl(file, F_DUPFD, device);
}
void by_system_calls(int file, int device) { syscall(SYS_dup2, file, device); }
INSTANTIATE_TEST_SUITE_P(All, Replaced,
                         testing::Values(by_close, by_dup2, by_dup3, by_close_range,
                                         by_system_calls));

TEST(Replaced, a_device_ends_with_its_number) {
    Child child([] {
        ibv_context* const context = open_device().release();
        auto* const target = new Side(context);
        const Context second = open_device();
        Side source(second.get());
        connect(source.pair.get(), target->pair->qp_num);
        connect(target->pair.get(), source.pair->qp_num);
        dup2(ordinary_file(), context->cmd_fd);
        source.request(IBV_WR_RDMA_WRITE, 0, 8)
            .to(target->memory.data(), target->region->rkey)
            .post(source.pair.get());
        return source.poll().status == IBV_WC_RETRY_EXC_ERR ? 0 : 2;
    });
    EXPECT_EQ(child.wait(std::chrono::seconds(30)), 0);
}

TEST(Duplicates, keep_a_device_until_the_last_is_closed) {
    Child child([] {
        ibv_context* const context = open_device().release();
        auto* const target = new Side(context);
        const Context second = open_device();
        Side source(second.get());
        connect(source.pair.get(), target->pair->qp_num);
        connect(target->pair.get(), source.pair->qp_num);
        const int duplicate = dup(context->cmd_fd);
        close(context->cmd_fd);
        const auto write = [&] {
            source.request(IBV_WR_RDMA_WRITE, 0, 8)
                .to(target->memory.data(), target->region->rkey)
                .post(source.pair.get());
            return source.poll().status;
        };
        if (write() != IBV_WC_SUCCESS) return 2;
        close(duplicate);
        return write() == IBV_WC_RETRY_EXC_ERR ? 0 : 3;
    });
    EXPECT_EQ(child.wait(std::chrono::seconds(30)), 0);
}

// A child that was forked while a device is open.
struct Inherited : testing::Test {
    Context context = open_device();
};

void close_range_of_all() { close_range(3, UINT_MAX, 0); }
void closefrom_three() { closefrom(3); }
void close_by_system_call() { syscall(SYS_close_range, 3, UINT_MAX, 0); }
void close_each() {
    for (int i = 3; i < 4096; ++i) close(i);
}

TEST_F(Inherited, its_number_is_an_ordinary_files_after_the_child_has_closed_it) {
    for (const auto close_all :
         {close_range_of_all, closefrom_three, close_by_system_call, close_each}) {
        Child child([&] {
            close_all();
            if (!take_number(context->cmd_fd)) return 2;
            if (!is_ordinary(context->cmd_fd)) return 3;
            const Context own = open_device();
            return works(own.get()) ? 0 : 4;
        });
        EXPECT_EQ(child.wait(), 0);
        EXPECT_TRUE(works(context.get()));
    }
}

TEST_F(Inherited, it_is_dead_in_the_child_and_says_so) {
    Child child([&] {
        if (ibv_alloc_pd(context.get()) != nullptr) return 2;
        const Context own = open_device();
        return works(own.get()) ? 0 : 3;
    });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(works(context.get()));
}

TEST_F(Inherited, a_child_of_vfork_closes_its_own_descriptor_only) {
    const int file = ordinary_file();
    for (const bool replaces : {false, true}) {
        const pid_t child = vfork();
        if (child == 0) {
            if (replaces)
                dup2(file, context->cmd_fd);
            else
                close_range(3, UINT_MAX, 0), close(context->cmd_fd);
            _exit(0);
        }
        ASSERT_GT(child, 0);
        ASSERT_EQ(waitpid(child, nullptr, 0), child);
        EXPECT_TRUE(works(context.get()));
    }
    close(file);
}

TEST_F(Inherited, a_spawned_program_leaves_the_device_alone) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclose(&actions, context->cmd_fd);
    posix_spawn_file_actions_adddup2(&actions, 2, context->async_fd);
    char name[] = "true";
    char* arguments[] = {name, nullptr};
    pid_t child = 0;
    ASSERT_EQ(posix_spawnp(&child, name, &actions, nullptr, arguments, environ), 0);
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    posix_spawn_file_actions_destroy(&actions);
    EXPECT_TRUE(works(context.get()));
}

TEST_F(Inherited, its_marks_for_exec_do_not_end_it) {
    ASSERT_EQ(close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC), 0);
    EXPECT_TRUE(works(context.get()));
}

TEST(Numbers, of_devices_may_be_high) {
    Child child([] {
        constexpr int kHigh = 5000;
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        if (limit.rlim_max < 2 * kHigh) return Child::kSkipped;
        limit.rlim_cur = 2 * kHigh;
        setrlimit(RLIMIT_NOFILE, &limit);
        while (dup(0) < kHigh) {
        }
        const Context context = open_device();
        return context->cmd_fd > kHigh && works(context.get()) ? 0 : 2;
    });
    const int status = child.wait(std::chrono::seconds(30));
    if (status == Child::kSkipped) GTEST_SKIP() << "runs where the hard limit of files is 10000";
    EXPECT_EQ(status, 0);
}

TEST(Numbers, the_limit_is_raised_before_a_device_needs_it) {
    Child child([] {
        constexpr rlim_t kFew = 24, kSpare = 3;
        rlimit limit{};
        getrlimit(RLIMIT_NOFILE, &limit);
        if (limit.rlim_max < 1024) return Child::kSkipped;
        ibv_device** const list = ibv_get_device_list(nullptr);
        limit.rlim_cur = kFew;
        setrlimit(RLIMIT_NOFILE, &limit);
        while (dup(0) < static_cast<int>(kFew - kSpare - 1)) {
        }
        const Context context(ibv_open_device(list[0]));
        return context != nullptr && works(context.get()) ? 0 : 2;
    });
    const int status = child.wait(std::chrono::seconds(30));
    if (status == Child::kSkipped) GTEST_SKIP() << "runs where the hard limit of files is 1024";
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace verbatim::interop
