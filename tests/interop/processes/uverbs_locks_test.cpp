// Programs that lock memory (mlock, mlockall): locked memory stays locked when it is registered,
// used by peers and deregistered, whether memory is shared or not.
#include <sys/mman.h>

#include <cstdlib>
#include <string>

#include "../uverbs/verbs_pair.hpp"
#include "child_process.hpp"
#include "maps.hpp"

namespace verbatim::interop {
namespace {

constexpr std::size_t kBytes = 64 * 4096;
constexpr unsigned kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

bool is_locked(const void* address) {
    return mapping_at(address, true).find(" lo ") != std::string::npos;
}

std::byte* new_pages() {
    void* const data =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw std::runtime_error("mmap");
    return static_cast<std::byte*>(data);
}

// A write from one queue pair into `data`, registered for another one.
bool is_reached(Side& one, std::byte* data, std::uint32_t key) {
    one.fill(0, 4096, 3);
    one.request(IBV_WR_RDMA_WRITE, 0, 4096).to(data + 4096, key).post(one.pair.get());
    return one.poll().status == IBV_WC_SUCCESS &&
           std::memcmp(one.memory.data(), data + 4096, 4096) == 0;
}

// 0, or where it went wrong.
int register_locked(std::byte* data) {
    const Context context = open_device();
    Side one(context.get()), other(context.get());
    connect(one.pair.get(), other.pair->qp_num);
    connect(other.pair.get(), one.pair->qp_num);
    Region region(good(ibv_reg_mr(other.domain.get(), data, kBytes, kAccess), "ibv_reg_mr"));
    if (!is_locked(data) || !is_locked(data + kBytes - 1)) return 2;
    if (!is_reached(one, data, region->rkey)) return 3;
    region.reset();
    if (!is_locked(data) || !is_locked(data + kBytes - 1)) return 4;
    return std::memcmp(one.memory.data(), data + 4096, 4096) == 0 ? 0 : 5;
}

// With memory shared, and without.
class Locks : public testing::TestWithParam<const char*> {
  protected:
    // Sanitizers have locks that do nothing, and a machine may allow none.
    void expect_kept(bool (*lock)(std::byte* data)) {
        Child child([&] {
            setenv("VERBATIM_SOFTNIC_SHARE", GetParam(), 1);
            std::byte* const data = new_pages();
            if (!lock(data) || !is_locked(data)) return Child::kSkipped;
            return register_locked(data);
        });
        const int status = child.wait(std::chrono::seconds(30));
        if (status == Child::kSkipped) GTEST_SKIP() << "runs where memory can be locked";
        EXPECT_EQ(status, 0);
    }
};

TEST_P(Locks, of_the_memory_itself_are_kept) {
    expect_kept([](std::byte* data) { return mlock(data, kBytes) == 0; });
}

TEST_P(Locks, that_wait_for_the_first_touch_are_kept) {
    expect_kept([](std::byte* data) { return mlock2(data, kBytes, MLOCK_ONFAULT) == 0; });
}

TEST_P(Locks, of_all_memory_there_is_and_will_be_are_kept) {
    expect_kept([](std::byte*) { return mlockall(MCL_CURRENT | MCL_FUTURE) == 0; });
}

INSTANTIATE_TEST_SUITE_P(Memory, Locks, testing::Values("0", "1"));

}  // namespace
}  // namespace verbatim::interop
