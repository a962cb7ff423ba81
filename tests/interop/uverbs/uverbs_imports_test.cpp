// Contexts that are imported from another one's descriptor, and objects that are imported into
// them, through unmodified libibverbs: what they share, what is their own, and that either side
// may go first.
#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <filesystem>

#include "child_process.hpp"
#include "descriptor_sending.hpp"
#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

Pair pair_of(ibv_pd* domain, ibv_cq* completions) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completions;
    wanted.cap = {8, 8, 1, 1, 0};
    wanted.qp_type = IBV_QPT_RC;
    return Pair(good(ibv_create_qp(domain, &wanted), "ibv_create_qp"));
}

Context import_context(const ibv_context* from) {
    return Context(good(ibv_import_device(dup(from->cmd_fd)), "ibv_import_device"));
}

struct Imports : testing::Test {
    Context first = open_device();
    Context second = import_context(first.get());
};

void connect_both(Side& one, Side& other) {
    connect(one.pair.get(), other.pair->qp_num);
    connect(other.pair.get(), one.pair->qp_num);
}

// Bytes from one to the other's memory, there and back.
void expect_traffic(Side& one, Side& other, int seed) {
    one.fill(0, 4096, seed);
    one.request(IBV_WR_RDMA_WRITE, 0, 4096)
        .to(other.memory.data(), other.region->rkey)
        .post(one.pair.get());
    ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(one.memory.data(), other.memory.data(), 4096), 0);
    one.receive(8192, 64);
    other.request(IBV_WR_SEND, 128, 64).post(other.pair.get());
    ASSERT_EQ(other.poll().status, IBV_WC_SUCCESS);
    ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(one.memory.data() + 8192, one.memory.data() + 128, 64), 0);
}

TEST_F(Imports, an_imported_context_is_the_same_device_with_descriptors_of_its_own) {
    EXPECT_EQ(second->device, first->device);
    EXPECT_NE(second->cmd_fd, first->cmd_fd);
    EXPECT_NE(second->async_fd, first->async_fd);
    EXPECT_EQ(second->num_comp_vectors, first->num_comp_vectors);
    ibv_device_attr one{}, other{};
    good(ibv_query_device(first.get(), &one), "ibv_query_device");
    good(ibv_query_device(second.get(), &other), "ibv_query_device");
    EXPECT_EQ(one.node_guid, other.node_guid);
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(second.get(), 1, &port), 0);
}

TEST_F(Imports, the_engine_runs_in_the_threads_that_poll_and_post_there) {
    EXPECT_EQ(second->ops.poll_cq, first->ops.poll_cq);
    EXPECT_EQ(second->ops.post_send, first->ops.post_send);
    EXPECT_EQ(second->ops.post_recv, first->ops.post_recv);
    EXPECT_EQ(second->ops.req_notify_cq, first->ops.req_notify_cq);
}

TEST_F(Imports, queue_pairs_of_both_contexts_talk_to_each_other) {
    Side one(first.get()), other(second.get()), third(second.get());
    connect_both(one, other);
    expect_traffic(one, other, 1);
    to_error(one.pair.get()), to_error(other.pair.get());
    Side fourth(second.get());
    connect_both(third, fourth);
    expect_traffic(third, fourth, 2);
}

TEST_F(Imports, an_imported_domain_and_its_regions_serve_queues_of_the_importing_context) {
    Side one(first.get()), other(first.get());
    ibv_pd* const domain = good(ibv_import_pd(second.get(), one.domain->handle), "ibv_import_pd");
    ibv_mr* const region = good(ibv_import_mr(domain, one.region->handle), "ibv_import_mr");
    EXPECT_EQ(region->lkey, one.region->lkey);
    EXPECT_EQ(region->rkey, one.region->rkey);
    EXPECT_EQ(region->length, Side::kBytes);
    {
        const Completions completions(
            good(ibv_create_cq(second.get(), 16, nullptr, nullptr, 0), "ibv_create_cq"));
        const Pair pair = pair_of(domain, completions.get());
        connect(pair.get(), other.pair->qp_num);
        connect(other.pair.get(), pair->qp_num);
        one.fill(0, 1000, 3);
        Request(IBV_WR_RDMA_WRITE, one.memory.data(), 1000, region->lkey)
            .to(other.memory.data(), other.region->rkey)
            .post(pair.get());
        ASSERT_EQ(poll(completions.get()).status, IBV_WC_SUCCESS);
        EXPECT_EQ(std::memcmp(other.memory.data(), one.memory.data(), 1000), 0);
        other.request(IBV_WR_RDMA_WRITE, 0, 1000)
            .to(one.memory.data() + 5000, region->rkey)
            .post(other.pair.get());
        ASSERT_EQ(other.poll().status, IBV_WC_SUCCESS);
        EXPECT_EQ(std::memcmp(one.memory.data() + 5000, one.memory.data(), 1000), 0);
    }
    ibv_unimport_mr(region);
    ibv_unimport_pd(domain);
    // What it comes from is as it was.
    Side third(first.get());
    connect_both(one, third);
    expect_traffic(one, third, 7);
}

TEST_F(Imports, what_one_context_made_the_other_may_destroy) {
    ibv_pd* const made = good(ibv_alloc_pd(first.get()), "ibv_alloc_pd");
    std::vector<std::byte> memory(8192);
    ibv_mr* const region = good(
        ibv_reg_mr(made, memory.data(), memory.size(), int{IBV_ACCESS_LOCAL_WRITE}), "ibv_reg_mr");
    ibv_pd* const domain = good(ibv_import_pd(second.get(), made->handle), "ibv_import_pd");
    ibv_mr* const imported = good(ibv_import_mr(domain, region->handle), "ibv_import_mr");
    EXPECT_EQ(ibv_dealloc_pd(domain), EBUSY) << "a region is in it";
    const std::uint32_t handle = region->handle, domain_handle = made->handle;
    EXPECT_EQ(ibv_dereg_mr(imported), 0);
    EXPECT_EQ(ibv_import_mr(domain, handle), nullptr);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(ibv_dealloc_pd(domain), 0);
    EXPECT_EQ(ibv_import_pd(second.get(), domain_handle), nullptr);
    EXPECT_EQ(errno, ENOENT);
    ibv_unimport_mr(region);
    ibv_unimport_pd(made);
}

TEST_F(Imports, what_does_not_exist_or_is_no_region_is_not_imported) {
    const Domain domain(good(ibv_alloc_pd(first.get()), "ibv_alloc_pd"));
    EXPECT_EQ(ibv_import_pd(second.get(), 4711), nullptr);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(ibv_import_dm(second.get(), 4711), nullptr);
    EXPECT_EQ(errno, ENOENT);
    ibv_mw* const window = good(ibv_alloc_mw(domain.get(), IBV_MW_TYPE_2), "ibv_alloc_mw");
    EXPECT_EQ(ibv_import_mr(domain.get(), window->handle), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
}

TEST_F(Imports, imported_device_memory_is_the_same_memory) {
    ibv_alloc_dm_attr wanted{5000, 0, 0};
    ibv_dm* const memory = good(ibv_alloc_dm(first.get(), &wanted), "ibv_alloc_dm");
    ibv_dm* const imported = good(ibv_import_dm(second.get(), memory->handle), "ibv_import_dm");
    const std::uint64_t mark = 0x1122334455667788;
    std::uint64_t found = 0;
    ASSERT_EQ(ibv_memcpy_to_dm(memory, 4992, &mark, 8), 0);
    ASSERT_EQ(ibv_memcpy_from_dm(&found, imported, 4992, 8), 0);
    EXPECT_EQ(found, mark);
    EXPECT_NE(ibv_memcpy_from_dm(&found, imported, 4996, 8), 0) << "beyond its end";
    Side one(second.get()), other(second.get());
    connect_both(one, other);
    {
        const Region region(good(
            ibv_reg_dm_mr(one.domain.get(), imported, 0, 5000,
                          unsigned{IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE} | kAllAccess),
            "ibv_reg_dm_mr"));
        other.word(0) = 99;
        other.request(IBV_WR_RDMA_WRITE, 0, 8)
            .to(reinterpret_cast<const void*>(16), region->rkey)
            .post(other.pair.get());
        ASSERT_EQ(other.poll().status, IBV_WC_SUCCESS);
        ASSERT_EQ(ibv_memcpy_from_dm(&found, memory, 16, 8), 0);
        EXPECT_EQ(found, 99u);
        EXPECT_EQ(ibv_free_dm(memory), EBUSY);
    }
    ibv_unimport_dm(imported);
    EXPECT_EQ(ibv_free_dm(memory), 0);
}

TEST_F(Imports, the_importing_context_goes_and_the_other_works_on) {
    Side one(first.get());
    {
        Side other(second.get());
        connect_both(one, other);
        expect_traffic(one, other, 4);
    }
    second.reset();
    Side again(first.get()), other(first.get());
    connect_both(again, other);
    expect_traffic(again, other, 5);
}

TEST_F(Imports, the_first_context_goes_and_what_it_made_is_there_for_the_other) {
    std::vector<std::byte> memory(4096, std::byte{7});
    ibv_pd* const made = good(ibv_alloc_pd(first.get()), "ibv_alloc_pd");
    ibv_mr* const region = good(ibv_reg_mr(made, memory.data(), memory.size(),
                                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
                                "ibv_reg_mr");
    const std::uint32_t domain_handle = made->handle, handle = region->handle;
    ibv_unimport_mr(region);
    ibv_unimport_pd(made);
    first.reset();
    ibv_pd* const domain = good(ibv_import_pd(second.get(), domain_handle), "ibv_import_pd");
    ibv_mr* const imported = good(ibv_import_mr(domain, handle), "ibv_import_mr");
    Side one(second.get());
    {
        const Completions completions(
            good(ibv_create_cq(second.get(), 16, nullptr, nullptr, 0), "ibv_create_cq"));
        const Pair pair = pair_of(domain, completions.get());
        connect(pair.get(), one.pair->qp_num);
        connect(one.pair.get(), pair->qp_num);
        one.request(IBV_WR_RDMA_READ, 0, 4096)
            .to(memory.data(), imported->rkey)
            .post(one.pair.get());
        ASSERT_EQ(one.poll().status, IBV_WC_SUCCESS);
        EXPECT_EQ(one.memory[4095], std::byte{7});
    }
    EXPECT_EQ(ibv_dereg_mr(imported), 0);
    EXPECT_EQ(ibv_dealloc_pd(domain), 0);
}

TEST(ImportedDevice, a_duplicate_keeps_the_device_until_it_is_imported) {
    Context first = open_device();
    const int kept = dup(first->cmd_fd);
    ibv_pd* const made = good(ibv_alloc_pd(first.get()), "ibv_alloc_pd");
    const std::uint32_t handle = made->handle;
    ibv_unimport_pd(made);
    first.reset();
    const Context second(good(ibv_import_device(kept), "ibv_import_device"));
    EXPECT_EQ(ibv_dealloc_pd(good(ibv_import_pd(second.get(), handle), "ibv_import_pd")), 0);
}

TEST(ImportedDevice, a_descriptor_that_was_sent_to_oneself_is_imported) {
    const Context first = open_device();
    int ends[2];
    good(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
    send_descriptor(ends[0], first->cmd_fd);
    const Context second(good(ibv_import_device(receive_descriptor(ends[1])), "ibv_import_device"));
    Side one(first.get()), other(second.get());
    connect_both(one, other);
    expect_traffic(one, other, 6);
    close(ends[0]), close(ends[1]);
}

TEST(ImportedDevice, imported_again_and_again_it_leaves_no_descriptors) {
    const auto open_files = [] {
        const std::filesystem::directory_iterator all("/proc/self/fd");
        return std::distance(begin(all), end(all));
    };
    const Context first = open_device();
    {
        const Context second = import_context(first.get());
        const Side side(second.get());  // the first queue pair opens what traps doorbells
    }
    const auto before = open_files();
    for (int i = 0; i < 50; ++i) {
        const Context second = import_context(first.get());
        const Side side(second.get());
    }
    EXPECT_LE(open_files(), before);
}

TEST_F(Imports, completion_events_and_shared_receives_work_there) {
    Side one(first.get()), other(second.get(), {.events = true, .shared_receives = true});
    connect_both(one, other);
    good(ibv_req_notify_cq(other.completions.get(), 0), "ibv_req_notify_cq");
    other.receive(0, 64);
    one.fill(0, 64, 8);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get());
    pollfd entry{other.channel->fd, POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 10000), 1);
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    good(ibv_get_cq_event(other.channel.get(), &queue, &context), "ibv_get_cq_event");
    EXPECT_EQ(context, &other);
    ibv_ack_cq_events(queue, 1);
    EXPECT_EQ(other.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(other.memory.data(), one.memory.data(), 64), 0);
}

TEST_F(Imports, asynchronous_events_come_to_the_context_that_made_the_object) {
    const auto readable = [](const Context& context, int timeout_ms) {
        pollfd entry{context->async_fd, POLLIN, 0};
        return ::poll(&entry, 1, timeout_ms) == 1;
    };
    const auto refuse = [](Side& from, Side& at) {
        connect_both(from, at);
        from.request(IBV_WR_RDMA_WRITE, 0, 8)
            .to(at.memory.data(), at.region->rkey ^ 0x100)
            .post(from.pair.get());
        EXPECT_EQ(from.poll().status, IBV_WC_REM_ACCESS_ERR);
    };
    const auto expect_event = [&](const Context& at, const Context& not_at, const Side& of) {
        ASSERT_TRUE(readable(at, 10000));
        EXPECT_FALSE(readable(not_at, 0));
        ibv_async_event event{};
        good(ibv_get_async_event(at.get(), &event), "ibv_get_async_event");
        EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
        EXPECT_EQ(event.element.qp, of.pair.get());
        ibv_ack_async_event(&event);
    };
    Side one(first.get()), other(second.get());
    refuse(one, other);
    expect_event(second, first, other);
    Side third(first.get()), fourth(second.get());
    refuse(fourth, third);
    expect_event(first, second, third);
}

TEST_F(Imports, timestamps_and_extended_queue_pairs_are_made_there_too) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 16;
    wanted.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    ibv_cq_ex* const queue = good(ibv_create_cq_ex(second.get(), &wanted), "ibv_create_cq_ex");
    const Domain domain(good(ibv_alloc_pd(second.get()), "ibv_alloc_pd"));
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_type = IBV_QPT_RC;
    attributes.send_cq = attributes.recv_cq = ibv_cq_ex_to_cq(queue);
    attributes.cap = {8, 8, 1, 1, 32};
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attributes.pd = domain.get();
    attributes.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
    ibv_qp* const pair = good(ibv_create_qp_ex(second.get(), &attributes), "ibv_create_qp_ex");
    Side other(first.get());
    connect(pair, other.pair->qp_num);
    connect(other.pair.get(), pair->qp_num);
    ibv_qp_ex* const builder = ibv_qp_to_qp_ex(pair);
    std::uint64_t word = 4242;
    ibv_wr_start(builder);
    builder->wr_id = 1, builder->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(builder, other.region->rkey,
                      reinterpret_cast<std::uint64_t>(other.memory.data()));
    ibv_wr_set_inline_data(builder, &word, sizeof word);
    ASSERT_EQ(ibv_wr_complete(builder), 0);
    ibv_poll_cq_attr nothing{};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (ibv_start_poll(queue, &nothing) == ENOENT)
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    EXPECT_EQ(queue->status, IBV_WC_SUCCESS);
    EXPECT_NE(ibv_wc_read_completion_ts(queue), 0u);
    ibv_end_poll(queue);
    EXPECT_EQ(other.word(0), 4242u);
    EXPECT_EQ(ibv_destroy_qp(pair), 0);
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(queue)), 0);
}

TEST(RefusedImport, the_descriptor_of_another_processs_device) {
    int ends[2];
    good(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
    // Forked before the device is opened here: it inherits none.
    Child child([&] {
        const int received = receive_descriptor(ends[1]);
        const bool refused = ibv_import_device(received) == nullptr && errno == EOPNOTSUPP;
        // It is still the caller's, and its own device is another.
        const bool own = fcntl(received, F_GETFD) != -1 && open_device() != nullptr;
        return refused && own ? 0 : 1;
    });
    const Context first = open_device();
    send_descriptor(ends[0], first->cmd_fd);
    EXPECT_EQ(child.wait(), 0);
    Side one(first.get()), other(first.get());
    connect_both(one, other);
    expect_traffic(one, other, 9);
    close(ends[0]), close(ends[1]);
}

TEST(RefusedImport, what_a_forked_child_inherited) {
    const Context first = open_device();
    Child child(
        [&] { return ibv_import_device(dup(first->cmd_fd)) == nullptr && errno == EIO ? 0 : 1; });
    EXPECT_EQ(child.wait(), 0);
}

TEST(RefusedImport, a_descriptor_that_is_no_device) {
    int ends[2];
    good(pipe(ends), "pipe");
    EXPECT_EQ(ibv_import_device(ends[0]), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(ibv_import_device(-1), nullptr);
    EXPECT_EQ(errno, EINVAL);
    close(ends[0]), close(ends[1]);
}

TEST(RefusedImport, a_device_that_no_context_was_made_on) {
    const int file = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
    ASSERT_GE(file, 0);
    EXPECT_EQ(ibv_import_device(dup(file)), nullptr);
    EXPECT_EQ(errno, EINVAL);
    close(file);
}

}  // namespace
}  // namespace verbatim::interop
