// A program that is linked with nothing of rdma-core and opens it by dlopen(), as NCCL and brpc do,
// with the software NIC preloaded: its own posts and polls execute its requests, of queue pairs and
// queues made by every function that makes them.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

// What libibverbs' header makes of it is more than a function.
#undef ibv_reg_mr

namespace {

constexpr int kRequests = 1000;
constexpr auto kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

class Library {
  public:
    Library(const char* name, int mode) : handle_(dlopen(name, RTLD_NOW | mode)) {
        if (handle_ == nullptr) throw std::runtime_error(dlerror());
    }
    template <class Function>
    Function* get(const char* name) const {
        void* const found = dlsym(handle_, name);
        if (found == nullptr) throw std::runtime_error(std::string("no ") + name);
        return reinterpret_cast<Function*>(found);
    }

  private:
    void* handle_;  // never closed: libibverbs cannot be
};

struct Calls {
    std::uint64_t polls = 0, posts = 0;
};
// Of this thread, that the software NIC's engine ran in.
Calls calls_served() {
    using Served = void(std::uint64_t*, std::uint64_t*);
    auto* const served = reinterpret_cast<Served*>(dlsym(RTLD_DEFAULT, "verbatim_uverbs_served"));
    if (served == nullptr) throw std::runtime_error("the software NIC is not preloaded");
    Calls calls;
    served(&calls.polls, &calls.posts);
    return calls;
}

template <class T>
T* good(T* object, const char* what) {
    if (object == nullptr) throw std::runtime_error(std::string(what) + " failed");
    return object;
}
void good(int error, const char* what) {
    if (error != 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(error));
}

// Two queue pairs of one context, each connected with the other.
class Dlopened : public testing::Test {
  protected:
    void open(int mode) {
        verbs_ = std::make_unique<Library>("libibverbs.so.1", mode);
        using List = ibv_device**(int*);
        ibv_device** const list = good(verbs_->get<List>("ibv_get_device_list")(nullptr), "list");
        using Open = ibv_context*(ibv_device*);
        context_ = good(verbs_->get<Open>("ibv_open_device")(good(list[0], "device")), "open");
        domain_ = good(verbs_->get<ibv_pd*(ibv_context*)>("ibv_alloc_pd")(context_), "domain");
        using Register = ibv_mr*(ibv_pd*, void*, std::size_t, int);
        region_ = good(verbs_->get<Register>("ibv_reg_mr")(domain_, words_.data(), sizeof words_,
                                                           int{kAccess}),
                       "region");
    }
    ibv_cq* make_queue() {
        using Create = ibv_cq*(ibv_context*, int, void*, ibv_comp_channel*, int);
        return good(verbs_->get<Create>("ibv_create_cq")(context_, 64, nullptr, nullptr, 0), "cq");
    }
    ibv_qp_init_attr attributes(ibv_cq* queue) const {
        ibv_qp_init_attr made{};
        made.send_cq = made.recv_cq = queue;
        made.cap = {32, 32, 1, 1, 64};
        made.qp_type = IBV_QPT_RC;
        return made;
    }
    ibv_qp_init_attr_ex extended(ibv_cq* queue) const {
        ibv_qp_init_attr_ex made{};
        made.send_cq = made.recv_cq = queue;
        made.cap = {32, 32, 1, 1, 64};
        made.qp_type = IBV_QPT_RC;
        made.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        made.pd = domain_;
        made.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
        return made;
    }
    ibv_qp* make_pair(ibv_cq* queue) {
        ibv_qp_init_attr wanted = attributes(queue);
        using Create = ibv_qp*(ibv_pd*, ibv_qp_init_attr*);
        return good(verbs_->get<Create>("ibv_create_qp")(domain_, &wanted), "qp");
    }
    void connect(ibv_qp* pair, std::uint32_t peer) {
        using Modify = int(ibv_qp*, ibv_qp_attr*, int);
        auto* const modify = verbs_->get<Modify>("ibv_modify_qp");
        ibv_qp_attr to{};
        to.qp_state = IBV_QPS_INIT, to.port_num = 1, to.qp_access_flags = unsigned{kAccess};
        good(
            modify(pair, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            "INIT");
        to.qp_state = IBV_QPS_RTR, to.path_mtu = IBV_MTU_1024, to.dest_qp_num = peer;
        to.ah_attr.is_global = 1, to.ah_attr.port_num = 1;
        using Query = int(ibv_context*, std::uint8_t, int, ibv_gid*);
        good(verbs_->get<Query>("ibv_query_gid")(context_, 1, 0, &to.ah_attr.grh.dgid), "gid");
        good(modify(pair, &to,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
             "RTR");
        to.qp_state = IBV_QPS_RTS, to.timeout = 14, to.retry_cnt = to.rnr_retry = 7;
        good(modify(pair, &to,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
             "RTS");
    }
    void connect_both(ibv_qp* one, ibv_qp* other) {
        connect(one, other->qp_num);
        connect(other, one->qp_num);
    }

    std::uint64_t target() const { return reinterpret_cast<std::uint64_t>(&words_[1]); }
    void post_write(ibv_qp* pair, std::uint64_t value) {
        words_[0] = value;
        ibv_sge element{reinterpret_cast<std::uint64_t>(&words_[0]), 8, region_->lkey};
        ibv_send_wr work{}, *bad = nullptr;
        work.sg_list = &element, work.num_sge = 1, work.opcode = IBV_WR_RDMA_WRITE;
        work.send_flags = IBV_SEND_SIGNALED;
        work.wr.rdma = {target(), region_->rkey};
        good(ibv_post_send(pair, &work, &bad), "post");
    }
    void build_write(ibv_qp_ex* pair, std::uint64_t value) {
        ibv_wr_start(pair);
        pair->wr_id = value, pair->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_rdma_write(pair, region_->rkey, target());
        ibv_wr_set_inline_data(pair, &value, sizeof value);
        good(ibv_wr_complete(pair), "complete");
    }
    static void poll(ibv_cq* queue) {
        ibv_wc completion{};
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (ibv_poll_cq(queue, 1, &completion) == 0)
            if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("no answer");
        EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    }
    static void poll(ibv_cq_ex* queue) {
        ibv_poll_cq_attr nothing{};
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (ibv_start_poll(queue, &nothing) == ENOENT)
            if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("no answer");
        EXPECT_EQ(queue->status, IBV_WC_SUCCESS);
        ibv_end_poll(queue);
    }
    // Posts are executed before they return, but for those that find the engine thread inside just
    // then, which executes them. Another thread alone would hardly ever be so quick.
    template <class Queue, class Post>
    void expect_served_by_posts(Queue* queue, Post&& post) {
        post(1);
        poll(queue);  // the way to the peer is open from now on
        const Calls before = calls_served();
        int at_once = 0;
        for (std::uint64_t i = 2; i < 2 + kRequests; ++i) {
            post(i);
            at_once += std::atomic_ref(words_[1]).load() == i ? 1 : 0;
            poll(queue);
        }
        EXPECT_GE(at_once, kRequests * 9 / 10);
        EXPECT_EQ(calls_served().posts, before.posts + kRequests);
    }
    // A poll in vain runs the engine, too.
    template <class Queue>
    void expect_served_by_polls(Queue&& poll_in_vain) {
        const Calls before = calls_served();
        for (int i = 0; i < kRequests; ++i) poll_in_vain();
        EXPECT_EQ(calls_served().polls, before.polls + kRequests);
    }

    std::unique_ptr<Library> verbs_;
    ibv_context* context_ = nullptr;
    ibv_pd* domain_ = nullptr;
    ibv_mr* region_ = nullptr;
    std::array<std::uint64_t, 2> words_{};
};

class ByMode : public Dlopened, public testing::WithParamInterface<int> {};

TEST_P(ByMode, its_own_posts_and_polls_serve_it) {
    open(GetParam());
    ibv_cq* const queue = make_queue();
    ibv_qp* const one = make_pair(queue);
    connect_both(one, make_pair(queue));
    expect_served_by_posts(queue, [&](std::uint64_t value) { post_write(one, value); });
    expect_served_by_polls([&] {
        ibv_wc completion{};
        EXPECT_EQ(ibv_poll_cq(queue, 1, &completion), 0);
    });
}
INSTANTIATE_TEST_SUITE_P(All, ByMode, testing::Values(RTLD_LOCAL, RTLD_GLOBAL));

TEST_F(Dlopened, extended_queues_and_queue_pairs_serve_it) {
    open(RTLD_LOCAL);
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 64, wanted.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    ibv_cq_ex* const queue = good(ibv_create_cq_ex(context_, &wanted), "cq_ex");
    verbs_context* const extended_context = good(verbs_get_ctx(context_), "extended context");
    ibv_qp_init_attr_ex its = extended(ibv_cq_ex_to_cq(queue));
    ibv_qp* const one = good(extended_context->create_qp_ex(context_, &its), "qp_ex");
    connect_both(one, make_pair(ibv_cq_ex_to_cq(queue)));
    auto* const builder = reinterpret_cast<ibv_qp_ex*>(one);
    expect_served_by_posts(queue, [&](std::uint64_t value) { build_write(builder, value); });
    ibv_poll_cq_attr nothing{};
    expect_served_by_polls([&] { EXPECT_EQ(ibv_start_poll(queue, &nothing), ENOENT); });
    build_write(builder, 1);
    while (ibv_start_poll(queue, &nothing) != 0) {
    }
    EXPECT_NE(ibv_wc_read_completion_ts(queue), 0u);
    ibv_end_poll(queue);
}

TEST_F(Dlopened, those_that_libmlx5_makes_serve_it) {
    open(RTLD_LOCAL);
    const Library mlx5("libmlx5.so.1", RTLD_LOCAL);
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 64;
    using CreateQueue = ibv_cq_ex*(ibv_context*, ibv_cq_init_attr_ex*, mlx5dv_cq_init_attr*);
    mlx5dv_cq_init_attr more{};
    ibv_cq_ex* const queue =
        good(mlx5.get<CreateQueue>("mlx5dv_create_cq")(context_, &wanted, &more), "dv cq");
    using CreatePair = ibv_qp*(ibv_context*, ibv_qp_init_attr_ex*, mlx5dv_qp_init_attr*);
    auto* const create = mlx5.get<CreatePair>("mlx5dv_create_qp");
    mlx5dv_qp_init_attr its_more{};
    ibv_qp_init_attr_ex its = extended(ibv_cq_ex_to_cq(queue));
    ibv_qp* const one = good(create(context_, &its, &its_more), "dv qp");
    ibv_qp* const other = good(create(context_, &its, &its_more), "dv qp");
    connect_both(one, other);
    auto* const builder = reinterpret_cast<ibv_qp_ex*>(one);
    expect_served_by_posts(queue, [&](std::uint64_t value) { build_write(builder, value); });
    ibv_poll_cq_attr nothing{};
    expect_served_by_polls([&] { EXPECT_EQ(ibv_start_poll(queue, &nothing), ENOENT); });
}

// Commands that a program writes by itself may call its objects anything.
TEST_F(Dlopened, names_that_are_no_objects_of_libibverbs_are_left_alone) {
    open(RTLD_LOCAL);
    std::array<std::uint64_t, 256> mine{};
    for (const std::uint64_t name : {std::uint64_t{0}, std::uint64_t{42}, ~std::uint64_t{0},
                                     reinterpret_cast<std::uint64_t>(mine.data())}) {
        alignas(4096) static std::array<std::byte, 8192> memory;
        std::array<std::uint32_t, 4> reply{};  // of libibverbs and of libmlx5, two words each
        ib_uverbs_create_cq core{};
        core.response = reinterpret_cast<std::uint64_t>(reply.data());
        core.user_handle = name;
        core.cqe = 63, core.comp_channel = -1;
        mlx5_ib_create_cq provider{};
        provider.buf_addr = reinterpret_cast<std::uint64_t>(memory.data());
        provider.db_addr = provider.buf_addr + 4096;
        provider.cqe_size = 64;
        std::array<std::byte, sizeof(ib_uverbs_cmd_hdr) + sizeof core + sizeof provider> command;
        const ib_uverbs_cmd_hdr header{IB_USER_VERBS_CMD_CREATE_CQ, command.size() / 4,
                                       sizeof reply / 4};
        std::memcpy(command.data(), &header, sizeof header);
        std::memcpy(command.data() + sizeof header, &core, sizeof core);
        std::memcpy(command.data() + sizeof header + sizeof core, &provider, sizeof provider);
        EXPECT_EQ(write(context_->cmd_fd, command.data(), command.size()),
                  static_cast<ssize_t>(command.size()))
            << std::strerror(errno);
        EXPECT_EQ(reply[1], 63u);
    }
    EXPECT_EQ(mine, (std::array<std::uint64_t, 256>{}));
}

}  // namespace
