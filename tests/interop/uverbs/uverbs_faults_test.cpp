// Registered memory that goes away under the engine's feet is an error of the request, not the end
// of the program; and faults of the program's own stay its own.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>

#include "../processes/child_process.hpp"
#include "../processes/maps.hpp"
#include "place.hpp"
#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

constexpr std::size_t kBytes = 65536;

// A pointer of which the compiler knows nothing.
void* address_of(std::uintptr_t number) {
    const volatile std::uintptr_t hidden = number;
    return reinterpret_cast<void*>(hidden);
}
void fault_at(void* address) {
    *static_cast<volatile char*>(address_of(reinterpret_cast<std::uintptr_t>(address))) = 1;
}

struct Gone : testing::Test {
    Gone() {
        connect(one.pair.get(), other.pair->qp_num);
        connect(other.pair.get(), one.pair->qp_num);
    }
    // Registered for one of the sides, and unmapped.
    Region lost_memory(const Side& of, int more = 0) {
        memory =
            ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        Region region(
            good(ibv_reg_mr(of.domain.get(), memory, kBytes, static_cast<unsigned>(kAccess | more)),
                 "ibv_reg_mr"));
        lose(memory, kBytes);
        return region;
    }
    Context context = open_device();
    Side one{context.get()}, other{context.get()};
    void* memory = nullptr;
};

TEST_F(Gone, a_write_into_it_is_a_remote_access_error) {
    const Region region = lost_memory(other);
    one.request(IBV_WR_RDMA_WRITE, 0, 5000).to(memory, region->rkey).post(one.pair.get(), 1);
    one.request(IBV_WR_RDMA_WRITE, 0, 64).to(memory, region->rkey).post(one.pair.get(), 2);
    ibv_wc done = one.poll();
    EXPECT_EQ(done.status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(done.wr_id, 1u);
    done = one.poll();
    EXPECT_EQ(done.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(done.wr_id, 2u);
}

TEST_F(Gone, an_inline_write_into_it_is_a_remote_access_error) {
    const Region region = lost_memory(other);
    one.request(IBV_WR_RDMA_WRITE, 0, 8)
        .to(memory, region->rkey)
        .flags(IBV_SEND_INLINE)
        .post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Gone, a_read_or_an_atomic_of_it_is_a_remote_access_error) {
    const Region region = lost_memory(other);
    one.request(IBV_WR_RDMA_READ, 0, 5000).to(memory, region->rkey).post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_REM_ACCESS_ERR);
    Side third(context.get()), fourth(context.get());
    connect(third.pair.get(), fourth.pair->qp_num);
    connect(fourth.pair.get(), third.pair->qp_num);
    const Region another = lost_memory(fourth);
    third.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8)
        .atomic(memory, another->rkey, 1)
        .post(third.pair.get());
    EXPECT_EQ(third.poll().status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Gone, a_send_out_of_it_is_a_local_protection_error) {
    const Region region = lost_memory(one);
    other.receive(0, 64);
    Request(IBV_WR_SEND, memory, 64, region->lkey).post(one.pair.get(), 7);
    const ibv_wc done = one.poll();
    EXPECT_EQ(done.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(done.wr_id, 7u);
}

TEST_F(Gone, a_read_into_it_is_a_local_protection_error) {
    const Region region = lost_memory(one);
    Request(IBV_WR_RDMA_READ, memory, 64, region->lkey)
        .to(other.memory.data(), other.region->rkey)
        .post(one.pair.get(), 7);
    EXPECT_EQ(one.poll().status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(Gone, a_receive_into_it_fails_at_both_ends) {
    const Region region = lost_memory(other);
    ibv_sge element{reinterpret_cast<std::uint64_t>(memory), 64, region->lkey};
    ibv_recv_wr work{9, nullptr, &element, 1}, *bad = nullptr;
    good(ibv_post_recv(other.pair.get(), &work, &bad), "ibv_post_recv");
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    const ibv_wc done = other.poll();
    EXPECT_EQ(done.status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(done.wr_id, 9u);
    EXPECT_EQ(one.poll().status, IBV_WC_REM_OP_ERR);
}

TEST_F(Gone, memory_on_demand_is_found_when_it_is_mapped_again) {
    const Region region = lost_memory(other, IBV_ACCESS_ON_DEMAND);
    ASSERT_EQ(::mmap(memory, kBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              memory);
    one.fill(0, 64, 1);
    one.request(IBV_WR_RDMA_WRITE, 0, 64).to(memory, region->rkey).post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(memory, one.memory.data(), 64), 0);
    munmap(memory, kBytes);
}

TEST_F(Gone, all_memory_on_demand_is_one_region) {
    const Region all(
        good(ibv_reg_mr(other.domain.get(), nullptr, SIZE_MAX,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND),
             "ibv_reg_mr"));
    std::vector<std::byte> anywhere(100);
    one.fill(0, 100, 1);
    one.request(IBV_WR_RDMA_WRITE, 0, 100).to(anywhere.data(), all->rkey).post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(anywhere.data(), one.memory.data(), 100), 0);
}

sigjmp_buf g_back;
void own_handler(int, siginfo_t*, void*) { siglongjmp(g_back, 1); }

TEST_F(Gone, the_programs_handler_still_handles_its_own_faults) {
    struct sigaction own {
    }, before{};
    own.sa_sigaction = own_handler;
    own.sa_flags = SA_SIGINFO;
    ASSERT_EQ(sigaction(SIGSEGV, &own, &before), 0);
    const Region region = lost_memory(other);  // registering puts the guard before it
    // Again and again: nothing is left behind by a handler that does not return.
    volatile int handled = 0;
    while (handled != 3)
        if (sigsetjmp(g_back, 1) == 0)
            fault_at(memory);
        else
            handled = handled + 1;
    one.request(IBV_WR_RDMA_WRITE, 0, 64).to(memory, region->rkey).post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_REM_ACCESS_ERR);
    ASSERT_EQ(sigaction(SIGSEGV, &before, nullptr), 0);
}

// Programs that are sent the signal of a fault, by kill() or `kill -SEGV`, once memory is
// registered.
int registers_memory_and_gets(int signal, void (*handler)(int)) {
    Child child([&] {
        std::signal(signal, handler);
        const Context own = open_device();
        const Side side(own.get());
        kill(getpid(), signal);
        return 0;
    });
    return child.wait();
}

TEST(SentSignal, ends_the_program_as_before) {
    for (const int signal : {SIGSEGV, SIGBUS})
        EXPECT_EQ(registers_memory_and_gets(signal, SIG_DFL), 128 + signal);
}

TEST(SentSignal, is_ignored_as_before) {
    for (const int signal : {SIGSEGV, SIGBUS})
        EXPECT_EQ(registers_memory_and_gets(signal, SIG_IGN), 0);
}

TEST(SentSignal, comes_to_the_programs_handler) {
    for (const int signal : {SIGSEGV, SIGBUS})
        EXPECT_EQ(registers_memory_and_gets(signal, [](int) { _exit(55); }), 55);
}

// As it would without the software NIC: the signal is blocked while its handler runs.
TEST(FaultingHandler, ends_the_program) {
    Child child([] {
        std::signal(SIGSEGV, [](int) { fault_at(address_of(8)); });
        const Context own = open_device();
        const Side side(own.get());
        fault_at(address_of(16));
        return 0;
    });
    EXPECT_EQ(child.wait(), 128 + SIGSEGV);
}

TEST(SentSignal, in_mid_transfer_ends_the_program_too) {
    int ends[2];
    good(pipe(ends), "pipe");
    Child child([&] {
        std::signal(SIGSEGV, SIG_DFL);
        const Context own = open_device();
        Side one(own.get()), other(own.get());
        connect(one.pair.get(), other.pair->qp_num);
        connect(other.pair.get(), one.pair->qp_num);
        for (;;) {
            one.request(IBV_WR_RDMA_WRITE, 0, 1 << 19)
                .to(other.memory.data(), other.region->rkey)
                .post(one.pair.get());
            if (one.poll().status != IBV_WC_SUCCESS) return 2;
            tell(ends[1], 't');
        }
    });
    take<char>(ends[0]);
    child.send(SIGSEGV);
    EXPECT_EQ(child.wait(), 128 + SIGSEGV);
    close(ends[0]), close(ends[1]);
}

}  // namespace
}  // namespace verbatim::interop
