// libibverbs' and libmlx5's objects for tests: owned, made on the software NIC's device file (this
// program is linked with it), and what mlx5dv says of them. Nothing executes these queues: the test
// reads what libmlx5 wrote, and writes completions as a device would. Threads: one.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <verbatim/uverbs/uverbs.hpp>

namespace verbatim::interop {

template <auto Release>
struct Releasing {
    template <class T>
    void operator()(T* object) const {
        if (Release(object) != 0) std::abort();  // a fault of the test
    }
};

template <class T>
T* made(T* object, const char* what) {
    if (object == nullptr) throw std::runtime_error(std::string(what) + ": " + strerror(errno));
    return object;
}

using Context = std::unique_ptr<ibv_context, Releasing<ibv_close_device>>;
// ibv_dealloc_td is an inline function of each translation unit.
struct ReleasingThreadDomain {
    void operator()(ibv_td* domain) const {
        if (ibv_dealloc_td(domain) != 0) std::abort();
    }
};
using ThreadDomain = std::unique_ptr<ibv_td, ReleasingThreadDomain>;
using Domain = std::unique_ptr<ibv_pd, Releasing<ibv_dealloc_pd>>;
using Region = std::unique_ptr<ibv_mr, Releasing<ibv_dereg_mr>>;
using Window = std::unique_ptr<ibv_mw, Releasing<ibv_dealloc_mw>>;
using Queue = std::unique_ptr<ibv_cq, Releasing<ibv_destroy_cq>>;
using Pair = std::unique_ptr<ibv_qp, Releasing<ibv_destroy_qp>>;
using SharedQueue = std::unique_ptr<ibv_srq, Releasing<ibv_destroy_srq>>;
using Address = std::unique_ptr<ibv_ah, Releasing<ibv_destroy_ah>>;

inline Context open_device() {
    // libmlx5 prints every error completion; tests make hundreds.
    setenv("MLX5_DEBUG_FILE", "/dev/null", 1);
    if (uverbs::sysfs_root() == nullptr) throw std::runtime_error("no tree for libibverbs");
    uverbs::park_new_devices(true);
    int count = 0;
    ibv_device** const list = made(ibv_get_device_list(&count), "device list");
    if (count != 1) throw std::runtime_error("there is not just the software NIC");
    ibv_context* const context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    return Context(made(context, "ibv_open_device"));
}

struct PairOptions {
    std::uint32_t send_requests = 16;
    std::uint32_t receive_requests = 8;
    std::uint32_t send_elements = 8;
    std::uint32_t receive_elements = 2;
    std::uint32_t inline_bytes = 200;
    int completions = 64;
    std::uint32_t entry_bytes = 64;     // of completions
    bool extended = false;              // completions are read by ibv_start_poll and ibv_next_poll
    std::uint32_t shared_requests = 0;  // of a shared receive queue; 0: the pair has its own
    bool all_signaled = false;
    const char* variable = nullptr;   // of the environment, "1" when the device is opened
    std::uint32_t earlier_pairs = 0;  // made before and gone: registers are handed out in turn
    bool thread_domain = false;       // the pair has one, and so a register of its own
};

// libmlx5 takes some choices from the environment. Null: none.
class Variable {
  public:
    Variable(const char* name, const std::string& value) : name_(name) {
        if (name_ != nullptr) setenv(name_, value.c_str(), 1);
    }
    ~Variable() {
        if (name_ != nullptr) unsetenv(name_);
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

  private:
    const char* name_;
};

// The first queue pair of its context, so that libmlx5's index of it, which entries of completion
// queues carry, is 0.
struct LibQueues {
    static constexpr std::uint32_t kUserIndex = 0;

    explicit LibQueues(const PairOptions& options = {})
        : context(open_with(options.variable)),
          domain(made(ibv_alloc_pd(context.get()), "ibv_alloc_pd")),
          thread_domain(options.thread_domain ? make_thread_domain() : nullptr),
          parent_domain(options.thread_domain ? make_parent_domain() : nullptr),
          completions(make_completions(options)),
          shared(options.shared_requests == 0 ? nullptr : make_shared(options)),
          pair(make_pair(options)) {
        mlx5dv_obj object{};
        object.qp = {pair.get(), &facts};
        object.cq = {completions.get(), &completion_facts};
        object.srq = {shared.get(), &shared_facts};
        const std::uint64_t kinds = MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ;
        if (mlx5dv_init_obj(&object, kinds | (shared == nullptr ? 0 : MLX5DV_OBJ_SRQ)) != 0)
            throw std::runtime_error("mlx5dv_init_obj");
        to_ready();
    }

    Context context;
    Domain domain;
    ThreadDomain thread_domain;
    Domain parent_domain;
    ibv_cq_ex* extended = nullptr;  // the same as `completions`
    Queue completions;
    SharedQueue shared;
    std::uint32_t inline_bytes = 0;  // as many as the queue pair takes
    Pair pair;
    mlx5dv_qp facts{};
    mlx5dv_cq completion_facts{};
    mlx5dv_srq shared_facts{};

  private:
    static Context open_with(const char* variable) {
        const Variable set(variable, "1");
        return open_device();
    }
    ibv_td* make_thread_domain() {
        ibv_td_init_attr wanted{};
        return made(ibv_alloc_td(context.get(), &wanted), "ibv_alloc_td");
    }
    ibv_pd* make_parent_domain() {
        ibv_parent_domain_init_attr wanted{};
        wanted.pd = domain.get();
        wanted.td = thread_domain.get();
        return made(ibv_alloc_parent_domain(context.get(), &wanted), "ibv_alloc_parent_domain");
    }
    ibv_cq* make_completions(const PairOptions& options) {
        if (!options.extended) {
            const Variable size("MLX5_CQE_SIZE", std::to_string(options.entry_bytes));
            return made(ibv_create_cq(context.get(), options.completions, nullptr, nullptr, 0),
                        "ibv_create_cq");
        }
        ibv_cq_init_attr_ex wanted{};
        wanted.cqe = static_cast<std::uint32_t>(options.completions);
        wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
        mlx5dv_cq_init_attr more{};
        more.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
        more.cqe_size = static_cast<std::uint16_t>(options.entry_bytes);
        extended = made(mlx5dv_create_cq(context.get(), &wanted, &more), "mlx5dv_create_cq");
        return ibv_cq_ex_to_cq(extended);
    }
    ibv_srq* make_shared(const PairOptions& options) {
        ibv_srq_init_attr wanted{};
        wanted.attr.max_wr = options.shared_requests;
        wanted.attr.max_sge = options.receive_elements;
        return made(ibv_create_srq(domain.get(), &wanted), "ibv_create_srq");
    }
    ibv_qp* make_pair(const PairOptions& options) {
        ibv_qp_init_attr_ex wanted{};
        wanted.srq = shared.get();
        wanted.send_cq = wanted.recv_cq = completions.get();
        wanted.cap = {options.send_requests, options.receive_requests, options.send_elements,
                      options.receive_elements, options.inline_bytes};
        wanted.qp_type = IBV_QPT_RC;
        wanted.sq_sig_all = options.all_signaled ? 1 : 0;
        wanted.pd = parent_domain != nullptr ? parent_domain.get() : domain.get();
        wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        wanted.send_ops_flags =
            IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
            IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
            IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |
            IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
        for (std::uint32_t i = 0; i < options.earlier_pairs; ++i)
            Pair(made(ibv_create_qp_ex(context.get(), &wanted), "ibv_create_qp"));
        ibv_qp* const pair_made = made(ibv_create_qp_ex(context.get(), &wanted), "ibv_create_qp");
        inline_bytes = wanted.cap.max_inline_data;
        return pair_made;
    }

    void change(ibv_qp_attr& attributes, int mask) {
        if (const int error = ibv_modify_qp(pair.get(), &attributes, mask); error != 0)
            throw std::runtime_error(std::string("ibv_modify_qp: ") + strerror(error));
    }
    void to_ready() {
        ibv_qp_attr attributes{};
        attributes.qp_state = IBV_QPS_INIT;
        attributes.port_num = 1;
        attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
        change(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        attributes.qp_state = IBV_QPS_RTR;
        attributes.path_mtu = IBV_MTU_4096;
        attributes.dest_qp_num = pair->qp_num;
        attributes.ah_attr.is_global = 1;
        attributes.ah_attr.port_num = 1;
        if (ibv_query_gid(context.get(), 1, 1, &attributes.ah_attr.grh.dgid) != 0)
            throw std::runtime_error("ibv_query_gid");
        attributes.ah_attr.grh.sgid_index = 1;
        change(attributes, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
        attributes.qp_state = IBV_QPS_RTS;
        change(attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
    }
};

}  // namespace verbatim::interop
