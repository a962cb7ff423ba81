// Protection domains through unmodified libibverbs: what belongs to one is nothing to the queue
// pairs of another, as local key, as remote key, as memory window, in both directions.
#include <array>
#include <tuple>
#include <utility>

#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

using Window = std::unique_ptr<ibv_mw, Destroyer<ibv_dealloc_mw>>;

constexpr int kAllOf = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

// Two sides, a domain of nobody's queue pairs, and the memory of both registered in it.
struct Domains : testing::Test {
    Domains() {
        connect(one.pair.get(), other.pair->qp_num);
        connect(other.pair.get(), one.pair->qp_num);
    }
    Region registered(ibv_pd* domain, Side& side) {
        return Region(
            good(ibv_reg_mr(domain, side.memory.data(), Side::kBytes, kAllOf), "ibv_reg_mr"));
    }
    Context context = open_device();
    Side one{context.get()}, other{context.get()};
    Domain foreign{good(ibv_alloc_pd(context.get()), "ibv_alloc_pd")};
    Region ones_foreign = registered(foreign.get(), one);
    Region others_foreign = registered(foreign.get(), other);
};

// After which both ends are connected anew.
void reconnect(Side& one, Side& other) {
    for (ibv_qp* const pair : {one.pair.get(), other.pair.get()}) {
        ibv_qp_attr to = state(IBV_QPS_RESET);
        good(ibv_modify_qp(pair, &to, IBV_QP_STATE), "to RESET");
    }
    connect(one.pair.get(), other.pair->qp_num);
    connect(other.pair.get(), one.pair->qp_num);
}

TEST_F(Domains, a_remote_key_of_another_domain_is_a_remote_access_error) {
    for (const auto opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
        for (auto [from, to, key] : {std::tuple{&one, &other, others_foreign->rkey},
                                     std::tuple{&other, &one, ones_foreign->rkey}}) {
            to->word(4096) = 5;
            Request request = from->request(opcode, 0, 8);
            if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
                request.atomic(to->memory.data() + 4096, key, 1);
            else
                request.to(to->memory.data() + 4096, key);
            request.post(from->pair.get());
            EXPECT_EQ(from->poll().status, IBV_WC_REM_ACCESS_ERR) << "opcode " << opcode;
            EXPECT_EQ(to->word(4096), 5u);
            reconnect(one, other);
        }
    }
}

TEST_F(Domains, the_same_memory_by_a_key_of_the_right_domain_is_reached) {
    one.word(0) = 77;
    const std::array keys{other.region->rkey, others_foreign->rkey};
    const std::array wanted{IBV_WC_SUCCESS, IBV_WC_REM_ACCESS_ERR};
    for (std::size_t i = 0; i < 2; ++i) {
        one.request(IBV_WR_RDMA_WRITE, 0, 8)
            .to(other.memory.data() + 64 * i, keys[i])
            .flags(IBV_SEND_INLINE)
            .post(one.pair.get());
        EXPECT_EQ(one.poll().status, wanted[i]);
    }
    EXPECT_EQ(other.word(0), 77u);
    EXPECT_EQ(other.word(64), 0u);
}

TEST_F(Domains, a_local_key_of_another_domain_is_a_local_protection_error) {
    for (auto [side, key] :
         {std::pair{&one, ones_foreign->lkey}, std::pair{&other, others_foreign->lkey}}) {
        Side& peer = side == &one ? other : one;
        peer.receive(0, 64);
        Request(IBV_WR_SEND, side->memory.data(), 8, key).post(side->pair.get());
        EXPECT_EQ(side->poll().status, IBV_WC_LOC_PROT_ERR);
        reconnect(one, other);
        Request(IBV_WR_RDMA_READ, side->memory.data(), 8, key)
            .to(peer.memory.data(), peer.region->rkey)
            .post(side->pair.get());
        EXPECT_EQ(side->poll().status, IBV_WC_LOC_PROT_ERR);
        reconnect(one, other);
        ibv_wc flushed;
        while (ibv_poll_cq(peer.completions.get(), 1, &flushed) != 0) {
        }
    }
}

TEST_F(Domains, a_receive_of_another_domain_fails_at_both_ends) {
    ibv_sge element{reinterpret_cast<std::uint64_t>(other.memory.data()), 64, others_foreign->lkey};
    ibv_recv_wr work{3, nullptr, &element, 1}, *bad = nullptr;
    good(ibv_post_recv(other.pair.get(), &work, &bad), "ibv_post_recv");
    one.request(IBV_WR_SEND, 0, 8).post(one.pair.get());
    EXPECT_EQ(other.poll().status, IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(one.poll().status, IBV_WC_REM_OP_ERR);
}

TEST_F(Domains, a_shared_receive_queue_has_the_domain_of_its_receives) {
    for (const bool right : {true, false}) {
        Side side(context.get());
        ibv_srq_init_attr wanted{nullptr, {8, 1, 0}};
        const SharedReceives shared(good(ibv_create_srq(foreign.get(), &wanted), "ibv_create_srq"));
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = side.completions.get();
        attributes.srq = shared.get();
        attributes.cap = {8, 0, 1, 0, 0};
        attributes.qp_type = IBV_QPT_RC;
        const Pair pair(good(ibv_create_qp(side.domain.get(), &attributes), "ibv_create_qp"));
        reconnect(one, other);
        ibv_qp_attr reset = state(IBV_QPS_RESET);
        good(ibv_modify_qp(one.pair.get(), &reset, IBV_QP_STATE), "to RESET");
        connect(one.pair.get(), pair->qp_num);
        connect(pair.get(), one.pair->qp_num);
        const Region in_foreign = registered(foreign.get(), side);
        ibv_sge element{reinterpret_cast<std::uint64_t>(side.memory.data()), 64,
                        right ? in_foreign->lkey : side.region->lkey};
        ibv_recv_wr work{3, nullptr, &element, 1}, *bad = nullptr;
        good(ibv_post_srq_recv(shared.get(), &work, &bad), "ibv_post_srq_recv");
        one.request(IBV_WR_SEND, 0, 8).post(one.pair.get());
        EXPECT_EQ(side.poll().status, right ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
        EXPECT_EQ(one.poll().status, right ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
    }
}

// A window in `windows`, bound by other's queue pair onto a region of `regions`.
struct Binding {
    const char* what;
    bool own_window, own_region;
    ibv_wc_status outcome;
};
constexpr Binding kBindings[] = {
    {"all of the queue pair's", true, true, IBV_WC_SUCCESS},
    {"window of another", false, true, IBV_WC_MW_BIND_ERR},
    {"region of another", true, false, IBV_WC_MW_BIND_ERR},
    {"both of another", false, false, IBV_WC_MW_BIND_ERR},
};

TEST_F(Domains, a_window_opens_only_where_window_region_and_queue_pair_share_one) {
    const Region bindable = registered(other.domain.get(), other);
    for (const auto type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2})
        for (const Binding& binding : kBindings) {
            ibv_pd* const of = binding.own_window ? other.domain.get() : foreign.get();
            Window window(good(ibv_alloc_mw(of, type), "ibv_alloc_mw"));
            ibv_send_wr work{}, *bad = nullptr;
            work.opcode = IBV_WR_BIND_MW;
            work.send_flags = IBV_SEND_SIGNALED;
            const ibv_mw_bind_info info{binding.own_region ? bindable.get() : others_foreign.get(),
                                        reinterpret_cast<std::uint64_t>(other.memory.data()), 4096,
                                        kAllAccess};
            std::uint32_t key = ibv_inc_rkey(window->rkey);
            if (type == IBV_MW_TYPE_2) {
                work.bind_mw = {window.get(), key, info};
                good(ibv_post_send(other.pair.get(), &work, &bad), "ibv_post_send");
            } else {
                ibv_mw_bind bind{0, IBV_SEND_SIGNALED, info};
                const int result = ibv_bind_mw(other.pair.get(), window.get(), &bind);
                // What libibverbs sees itself it refuses itself.
                if (result != 0) {
                    EXPECT_NE(binding.outcome, IBV_WC_SUCCESS) << binding.what;
                    continue;
                }
                key = window->rkey;
            }
            EXPECT_EQ(other.poll().status, binding.outcome) << binding.what << ", type " << type;
            if (binding.outcome == IBV_WC_SUCCESS) {
                one.request(IBV_WR_RDMA_WRITE, 0, 8)
                    .to(other.memory.data(), key)
                    .post(one.pair.get());
                EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
            } else {
                reconnect(one, other);
            }
        }
}

// Windows of type 1 are open to every queue pair of their domain, and to no other.
TEST_F(Domains, a_window_is_open_to_queue_pairs_of_its_domain) {
    Side binder(context.get()), peer(context.get());
    connect(binder.pair.get(), peer.pair->qp_num);
    connect(peer.pair.get(), binder.pair->qp_num);
    const Region bindable = registered(binder.domain.get(), binder);
    Window window(good(ibv_alloc_mw(binder.domain.get(), IBV_MW_TYPE_1), "ibv_alloc_mw"));
    ibv_mw_bind bind{
        0,
        IBV_SEND_SIGNALED,
        {bindable.get(), reinterpret_cast<std::uint64_t>(binder.memory.data()), 4096, kAllAccess}};
    good(ibv_bind_mw(binder.pair.get(), window.get(), &bind), "ibv_bind_mw");
    ASSERT_EQ(binder.poll().status, IBV_WC_SUCCESS);
    for (auto [from, wanted] :
         {std::pair{&peer, IBV_WC_SUCCESS}, std::pair{&one, IBV_WC_REM_ACCESS_ERR}}) {
        from->request(IBV_WR_RDMA_WRITE, 0, 8)
            .to(binder.memory.data(), window->rkey)
            .post(from->pair.get());
        EXPECT_EQ(from->poll().status, wanted);
    }
}

TEST_F(Domains, a_region_that_changes_its_domain_serves_the_new_one_only) {
    const Region region = registered(other.domain.get(), other);
    const auto write = [&] {
        one.request(IBV_WR_RDMA_WRITE, 0, 8)
            .to(other.memory.data(), region->rkey)
            .post(one.pair.get());
        return one.poll().status;
    };
    EXPECT_EQ(write(), IBV_WC_SUCCESS);
    ASSERT_EQ(ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_PD, foreign.get(), nullptr, 0, 0), 0);
    EXPECT_EQ(write(), IBV_WC_REM_ACCESS_ERR);
    reconnect(one, other);
    ASSERT_EQ(ibv_rereg_mr(region.get(), IBV_REREG_MR_CHANGE_PD, other.domain.get(), nullptr, 0, 0),
              0);
    EXPECT_EQ(write(), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace verbatim::interop
