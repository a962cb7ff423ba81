// One end of XRC through unmodified libibverbs: a domain, a target in it, a shared receive queue
// that completes into a queue of its own, and an initiator.
#pragma once

#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include <cstdlib>

#include "verbs_pair.hpp"

// Of leak sanitizers (sanitizer/lsan_interface.h); null without one.
extern "C" [[gnu::weak]] void __lsan_disable();
extern "C" [[gnu::weak]] void __lsan_enable();

namespace verbatim::interop {

using XrcDomain = std::unique_ptr<ibv_xrcd, Destroyer<ibv_close_xrcd>>;

inline ibv_xrcd* open_domain(ibv_context* context, int file = -1, int flags = O_CREAT) {
    ibv_xrcd_init_attr wanted{};
    wanted.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    wanted.fd = file;
    wanted.oflags = flags;
    return ibv_open_xrcd(context, &wanted);
}

inline ibv_srq* make_xrc_queue(ibv_pd* domain, ibv_xrcd* xrc_domain, ibv_cq* completions) {
    ibv_srq_init_attr_ex wanted{};
    wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                       IBV_SRQ_INIT_ATTR_CQ;
    wanted.attr = {32, 2, 0};
    wanted.srq_type = IBV_SRQT_XRC;
    wanted.pd = domain;
    wanted.xrcd = xrc_domain;
    wanted.cq = completions;
    return ibv_create_srq_ex(domain->context, &wanted);
}

inline ibv_qp* make_target(ibv_context* context, ibv_xrcd* xrc_domain) {
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_type = IBV_QPT_XRC_RECV;
    wanted.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    wanted.xrcd = xrc_domain;
    return ibv_create_qp_ex(context, &wanted);
}

inline ibv_qp* make_initiator(ibv_pd* domain, ibv_cq* completions, bool builds = false) {
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_type = IBV_QPT_XRC_SEND;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
    wanted.pd = domain;
    wanted.send_cq = completions;
    wanted.cap = {32, 0, 4, 0, 64};
    if (builds) {
        wanted.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        wanted.send_ops_flags =
            IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE;
    }
    return ibv_create_qp_ex(domain->context, &wanted);
}

// What libmlx5 allocated and nobody can give back. Found here it is no leak.
inline void keep_for_ever(void* object) {
    static std::vector<void*>& kept = *new std::vector<void*>;
    kept.push_back(object);
}

// What this thread allocates meanwhile is no leak: libmlx5 gives some of it back only object by
// object, not with the context.
class ClosedWithAll {
  public:
    ClosedWithAll() {
        if (__lsan_disable != nullptr) __lsan_disable();
    }
    ~ClosedWithAll() {
        if (__lsan_enable != nullptr) __lsan_enable();
    }
    ClosedWithAll(const ClosedWithAll&) = delete;
    ClosedWithAll& operator=(const ClosedWithAll&) = delete;
};

// libmlx5 44 takes a doorbell record away that such a queue pair has not got, and crashes. So it is
// destroyed as libibverbs would, past libmlx5.
struct DestroyOpened {
    void operator()(ibv_qp* pair) const {
        struct {
            ib_uverbs_cmd_hdr header;
            ib_uverbs_destroy_qp core;
        } command{};
        ib_uverbs_destroy_qp_resp reply{};
        command.header = {IB_USER_VERBS_CMD_DESTROY_QP, sizeof command / 4, sizeof reply / 4};
        command.core.response = reinterpret_cast<std::uint64_t>(&reply);
        command.core.qp_handle = pair->handle;
        EXPECT_EQ(write(pair->context->cmd_fd, &command, sizeof command),
                  static_cast<ssize_t>(sizeof command));
        keep_for_ever(pair);
    }
};
using OpenedTarget = std::unique_ptr<ibv_qp, DestroyOpened>;

inline ibv_qp* open_target(ibv_context* context, ibv_xrcd* xrc_domain, std::uint32_t number,
                           ibv_qp_type type = IBV_QPT_XRC_RECV) {
    ibv_qp_open_attr wanted{};
    wanted.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    wanted.qp_num = number;
    wanted.xrcd = xrc_domain;
    wanted.qp_type = type;
    return ibv_open_qp(context, &wanted);
}

inline std::uint32_t number_of(ibv_srq* queue) {
    std::uint32_t number = 0;
    good(ibv_get_srq_num(queue, &number), "ibv_get_srq_num");
    return number;
}

// A file that goes when the test ends.
class ScratchFile {
  public:
    ScratchFile() : fd(mkstemp(name_)) { unlink(name_); }
    ~ScratchFile() { close(fd); }
    ScratchFile(const ScratchFile&) = delete;
    ScratchFile& operator=(const ScratchFile&) = delete;

  private:
    char name_[32] = "/tmp/verbatim-xrc-XXXXXX";

  public:
    const int fd;
};

// A shared receive queue with completions, and memory of its own.
struct XrcReceiver {
    static constexpr std::size_t kBytes = 256 * 1024;
    static constexpr int kAllOf = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

    XrcReceiver(ibv_context* context, ibv_xrcd* xrc_domain, bool events = false)
        : domain(good(ibv_alloc_pd(context), "ibv_alloc_pd")), memory(kBytes) {
        region.reset(good(ibv_reg_mr(domain.get(), memory.data(), kBytes, kAllOf), "ibv_reg_mr"));
        if (events)
            channel.reset(good(ibv_create_comp_channel(context), "ibv_create_comp_channel"));
        completions.reset(
            good(ibv_create_cq(context, 64, this, channel.get(), 0), "ibv_create_cq"));
        queue.reset(
            good(make_xrc_queue(domain.get(), xrc_domain, completions.get()), "ibv_create_srq_ex"));
        number = number_of(queue.get());
    }
    void receive(std::size_t at, std::uint32_t bytes, std::uint64_t id = 0) {
        ibv_sge element{reinterpret_cast<std::uint64_t>(memory.data() + at), bytes, region->lkey};
        ibv_recv_wr work{id, nullptr, &element, 1}, *bad = nullptr;
        good(ibv_post_srq_recv(queue.get(), &work, &bad), "ibv_post_srq_recv");
    }
    ibv_wc poll() { return interop::poll(completions.get()); }
    std::uint64_t& word(std::size_t at) {
        return *reinterpret_cast<std::uint64_t*>(memory.data() + at);
    }

    Domain domain;
    std::vector<std::byte> memory;
    Region region;
    Channel channel;
    Completions completions;
    SharedReceives queue;
    std::uint32_t number = 0;
};

// An initiator with memory, connected with a target.
struct XrcSender {
    static constexpr std::size_t kBytes = 256 * 1024;

    explicit XrcSender(ibv_context* context, bool builds = false)
        : domain(good(ibv_alloc_pd(context), "ibv_alloc_pd")), memory(kBytes) {
        region.reset(good(ibv_reg_mr(domain.get(), memory.data(), kBytes, XrcReceiver::kAllOf),
                          "ibv_reg_mr"));
        completions.reset(good(ibv_create_cq(context, 64, this, nullptr, 0), "ibv_create_cq"));
        pair.reset(good(make_initiator(domain.get(), completions.get(), builds), "initiator"));
    }
    Request request(ibv_wr_opcode opcode, std::size_t at, std::uint32_t bytes,
                    std::uint32_t queue) {
        Request made(opcode, memory.data() + at, bytes, region->lkey);
        made.work.qp_type.xrc.remote_srqn = queue;
        return made;
    }
    ibv_wc poll() { return interop::poll(completions.get()); }
    std::uint64_t& word(std::size_t at) {
        return *reinterpret_cast<std::uint64_t*>(memory.data() + at);
    }

    Domain domain;
    std::vector<std::byte> memory;
    Region region;
    Completions completions;
    Pair pair;
};

}  // namespace verbatim::interop
