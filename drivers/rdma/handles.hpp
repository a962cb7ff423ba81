// Owners of rdma-core's objects.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include <verbatim/driver/descriptor.hpp>

namespace verbatim::rdma {

// One overload per kind of object: some of rdma-core's calls are static inline functions, which
// cannot be template arguments of types that several files share. A failing destroy leaves the
// object to the context's close. A forked child has the parent's descriptor still, by which the
// kernel would end the parent's object: it leaves its copy as it is.
class Release {
  public:
    template <class Object>
    void operator()(Object* object) const noexcept {
        if (!is_inherited()) end(object);
    }
    bool is_inherited() const noexcept { return generation_ != fork_generation(); }

  private:
    static void end(ibv_context* object) noexcept { static_cast<void>(ibv_close_device(object)); }
    static void end(ibv_pd* object) noexcept { static_cast<void>(ibv_dealloc_pd(object)); }
    static void end(ibv_td* object) noexcept { static_cast<void>(ibv_dealloc_td(object)); }
    static void end(ibv_mr* object) noexcept { static_cast<void>(ibv_dereg_mr(object)); }
    static void end(ibv_mw* object) noexcept { static_cast<void>(ibv_dealloc_mw(object)); }
    static void end(ibv_comp_channel* object) noexcept {
        static_cast<void>(ibv_destroy_comp_channel(object));
    }
    static void end(ibv_cq* object) noexcept { static_cast<void>(ibv_destroy_cq(object)); }
    static void end(ibv_srq* object) noexcept { static_cast<void>(ibv_destroy_srq(object)); }
    static void end(ibv_qp* object) noexcept { static_cast<void>(ibv_destroy_qp(object)); }
    static void end(ibv_device** list) noexcept { ibv_free_device_list(list); }

    std::uint64_t generation_ = fork_generation();
};

using ContextHandle = std::unique_ptr<ibv_context, Release>;
using DomainHandle = std::unique_ptr<ibv_pd, Release>;
using ThreadDomainHandle = std::unique_ptr<ibv_td, Release>;
using RegionHandle = std::unique_ptr<ibv_mr, Release>;
using WindowHandle = std::unique_ptr<ibv_mw, Release>;
using ChannelHandle = std::unique_ptr<ibv_comp_channel, Release>;
using CqHandle = std::unique_ptr<ibv_cq, Release>;
using SrqHandle = std::unique_ptr<ibv_srq, Release>;
using QpHandle = std::unique_ptr<ibv_qp, Release>;
using DeviceList = std::unique_ptr<ibv_device*[], Release>;

}  // namespace verbatim::rdma
