// Limits of memory are found before something is registered, locked or populated.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <verbatim/core/context.hpp>

#include "arena/system_memory.hpp"
#include "core_scripted_device.hpp"
#include "pair/connected_pair.hpp"

namespace verbatim::test {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kHuge = std::size_t{2} << 20;

// A tree of /proc and /sys with ten free huge pages.
class Tree : public ::testing::Test {
  protected:
    Tree() {
        write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "12");
        write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "11");
        write("sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "1");
    }
    ~Tree() override { fs::remove_all(root_); }
    void write(const std::string& file, const std::string& text) const {
        fs::create_directories((root_ / file).parent_path());
        std::ofstream(root_ / file) << text << '\n';
    }
    std::uint64_t free_pages() const { return system_memory::huge_pages(kHuge, root_).free; }
    std::string advice() const { return system_memory::huge_page_advice(kHuge, 8, root_); }

  private:
    fs::path root_ = [] {
        std::string name = (fs::temp_directory_path() / "verbatim-limits-XXXXXX").string();
        return fs::path(mkdtemp(name.data()));
    }();
};

TEST_F(Tree, pool_is_what_counts_without_a_control_group) {
    EXPECT_EQ(free_pages(), 10u);
    write("proc/self/cgroup", "0::/a/b");
    write("sys/fs/cgroup/a/b/hugetlb.2MB.max", "max");
    write("sys/fs/cgroup/a/b/hugetlb.2MB.current", "0");
    EXPECT_EQ(free_pages(), 10u);
    EXPECT_NE(advice().find("vm.nr_hugepages=12"), std::string::npos) << advice();
}

TEST_F(Tree, control_group_may_allow_fewer_huge_pages) {
    write("proc/self/cgroup", "0::/a/b");
    write("sys/fs/cgroup/a/hugetlb.2MB.max", std::to_string(5 * kHuge));
    write("sys/fs/cgroup/a/hugetlb.2MB.current", std::to_string(2 * kHuge));
    EXPECT_EQ(free_pages(), 3u) << "of the parent group";
    write("sys/fs/cgroup/a/b/hugetlb.2MB.rsvd.max", std::to_string(kHuge));
    write("sys/fs/cgroup/a/b/hugetlb.2MB.rsvd.current", "0");
    EXPECT_EQ(free_pages(), 1u) << "of reservations";
    EXPECT_NE(advice().find("allows 1 more; raise hugetlb.2MB.max"), std::string::npos) << advice();
}

TEST_F(Tree, control_group_of_version_1_counts) {
    write("proc/self/cgroup", "4:hugetlb:/c\n0::/");
    write("sys/fs/cgroup/hugetlb/c/hugetlb.2MB.limit_in_bytes", std::to_string(4 * kHuge));
    write("sys/fs/cgroup/hugetlb/c/hugetlb.2MB.usage_in_bytes", std::to_string(4 * kHuge));
    EXPECT_EQ(free_pages(), 0u);
}

TEST(FreeMemory, is_granted_up_to_what_the_machine_has) {
    EXPECT_TRUE(system_memory::can_take(4096));
    EXPECT_TRUE(system_memory::can_take(4096)) << "without another look";
    EXPECT_FALSE(system_memory::can_take(system_memory::available_bytes() + (1ull << 30)));
    EXPECT_FALSE(system_memory::can_take(~0ull));
}

void lower_memlock(rlim_t bytes) {
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_MEMLOCK, &limit);
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct rights[2]{};
    syscall(SYS_capget, &header, rights);
    for (auto* set : {&rights[0].effective, &rights[0].permitted, &rights[0].inheritable})
        *set &= ~(1u << CAP_IPC_LOCK);
    syscall(SYS_capset, &header, rights);
}

// Runs `body` in a process that may lock so many bytes, and returns its error stream.
template <class Body>
std::string with_memlock(rlim_t bytes, Body body) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        lower_memlock(bytes);
        body();
        _exit(0);
    }
    close(ends[1]);
    std::string text;
    char some[512];
    for (ssize_t got = 0; (got = read(ends[0], some, sizeof some)) > 0;)
        text.append(some, static_cast<std::size_t>(got));
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << text;
    return text;
}

void make_arena(std::size_t segment, std::size_t most) {
    try {
        const Arena arena({.name = "test",
                           .segment_bytes = segment,
                           .max_bytes = most,
                           .pages = PageChoice::base_4k,
                           .lock_memory = true});
    } catch (const Error& error) {
        fprintf(stderr, "%d %s", static_cast<int>(error.code()), error.what());
    }
}

TEST(MemoryLimits, arena_that_could_lock_no_segment_is_refused_at_once) {
    const std::string text = with_memlock(65536, [] { make_arena(1 << 20, 4 << 20); });
    EXPECT_EQ(text.find(std::to_string(static_cast<int>(Errc::permission_denied))), 0u) << text;
    EXPECT_NE(text.find("65536 bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("ulimit -l unlimited"), std::string::npos) << text;
}

TEST(MemoryLimits, arena_that_could_not_lock_all_segments_says_so_at_once) {
    const std::string text = with_memlock(1 << 20, [] { make_arena(1 << 20, 4 << 20); });
    EXPECT_NE(text.find("cannot grow beyond"), std::string::npos) << text;
    EXPECT_EQ(with_memlock(4 << 20, [] { make_arena(1 << 20, 4 << 20); }), "");
}

class PinningDevice final : public ScriptedDevice {
  public:
    explicit PinningDevice(bool pins) : info_(ScriptedDevice::info()) { info_.pins_memory = pins; }
    const DeviceInfo& info() const noexcept override { return info_; }

  private:
    DeviceInfo info_;
};

TEST(MemoryLimits, context_warns_of_a_low_memlock_on_devices_that_pin) {
    const auto make_context = [](bool pins) {
        return with_memlock(65536, [pins] {
            const Context context(small_config(), std::make_unique<PinningDevice>(pins));
        });
    };
    EXPECT_NE(make_context(true).find("RLIMIT_MEMLOCK is 65536 bytes"), std::string::npos);
    EXPECT_EQ(make_context(false), "");
}

}  // namespace
}  // namespace verbatim::test
