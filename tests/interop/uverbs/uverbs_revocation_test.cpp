// Deregistration under a peer that is stopped while it writes, with unmodified libibverbs: memory
// whose deregistration succeeded is not written any more; else it says EBUSY, and succeeds later.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>

#include "../processes/child_process.hpp"
#include "place.hpp"

namespace verbatim::interop {
namespace {

constexpr std::size_t kBytes = 2 << 20;
constexpr int kMostRounds = 20;

class Pages {
  public:
    Pages()
        : data_(static_cast<std::byte*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0))) {}
    ~Pages() { munmap(data_, kBytes); }
    std::byte* data() const { return data_; }

  private:
    std::byte* data_;
};

Region register_all(ibv_pd* domain, const Pages& pages) {
    return Region(good(ibv_reg_mr(domain, pages.data(), kBytes,
                                  IBV_ACCESS_LOCAL_WRITE | static_cast<int>(kAllAccess)),
                       "ibv_reg_mr"));
}

struct Meeting {
    pid_t process;
    std::uint32_t number;
};

// Writes into the peer's pages until that is refused.
int write_for_ever(int from, int to) {
    const Context context = open_device();
    Side side(context.get());
    const Pages pages;
    std::fill_n(pages.data(), kBytes, std::byte{0x11});
    const Region region = register_all(side.domain.get(), pages);
    tell(to, Meeting{getpid(), side.pair->qp_num});
    const Place target = take<Place>(from);
    connect(side.pair.get(), target.number);
    for (;;) {
        Request request(IBV_WR_RDMA_WRITE, pages.data(), kBytes, region->lkey);
        request.to(reinterpret_cast<void*>(target.address), target.key);
        request.post(side.pair.get());
        if (poll(side.completions.get()).status != IBV_WC_SUCCESS) break;
    }
    tell(to, 'e');
    take<char>(from);
    return 0;
}

// 0, or an error: from then on no peer writes.
int deregister(ibv_mr* region) { return ibv_dereg_mr(region); }
int forbid_writes(ibv_mr* region) {
    const int access =
        IBV_ACCESS_LOCAL_WRITE | static_cast<int>(kAllAccess & ~unsigned{IBV_ACCESS_REMOTE_WRITE});
    const int error = ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access);
    return error == 0 ? 0 : errno;
}

struct Revocation : testing::TestWithParam<bool> {
    Revocation() {
        EXPECT_EQ(pipe(to_child) | pipe(to_parent), 0);
        setenv("VERBATIM_SOFTNIC_SHARE", GetParam() ? "1" : "0", 1);
    }
    ~Revocation() override {
        for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(fd);
    }

    // Whether the writer was stopped inside.
    bool stopped_inside(int (*revoke)(ibv_mr*)) {
        Child child([this] { return write_for_ever(to_child[0], to_parent[1]); });
        const Context context = open_device();
        Side side(context.get());
        const Pages pages;
        ibv_mr* const region = register_all(side.domain.get(), pages).release();
        const auto peer = take<Meeting>(to_parent[0]);
        connect(side.pair.get(), peer.number);
        tell(to_child[1],
             Place{side.pair->qp_num, region->rkey, reinterpret_cast<std::uint64_t>(pages.data())});
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        auto* const last = reinterpret_cast<std::uint64_t*>(pages.data() + kBytes) - 1;
        while (__atomic_load_n(last, __ATOMIC_ACQUIRE) == 0)
            if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("no write");
        kill(peer.process, SIGSTOP);
        waitpid(peer.process, nullptr, WUNTRACED);
        const int error = revoke(region);
        EXPECT_TRUE(error == 0 || error == EBUSY) << error;
        if (error == 0) std::fill_n(pages.data(), kBytes, std::byte{0xee});
        kill(peer.process, SIGCONT);
        EXPECT_EQ(take<char>(to_parent[0]), 'e');
        if (error != 0 || revoke != deregister) {
            EXPECT_EQ(ibv_dereg_mr(region), 0) << "the writer has gone on";
        }
        if (error != 0) std::fill_n(pages.data(), kBytes, std::byte{0xee});
        EXPECT_TRUE(std::all_of(pages.data(), pages.data() + kBytes,
                                [](std::byte one) { return one == std::byte{0xee}; }));
        tell(to_child[1], 'x');
        EXPECT_EQ(child.wait(), 0);
        return error != 0;
    }

    int to_child[2], to_parent[2];
};

TEST_P(Revocation, deregistered_memory_is_not_written_by_a_writer_that_was_stopped) {
    for (int round = 0; round < kMostRounds; ++round)
        if (stopped_inside(deregister) || HasFailure()) return;
    ADD_FAILURE() << "the writer was never inside";
}

TEST_P(Revocation, memory_that_peers_may_write_no_more_is_not_written_by_one_that_was_stopped) {
    for (int round = 0; round < kMostRounds; ++round)
        if (stopped_inside(forbid_writes) || HasFailure()) return;
    ADD_FAILURE() << "the writer was never inside";
}

INSTANTIATE_TEST_SUITE_P(Memory, Revocation, testing::Bool(), [](const auto& one) {
    return one.param ? "shared" : "private_to_its_process";
});

}  // namespace
}  // namespace verbatim::interop
