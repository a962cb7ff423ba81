// Owners of rdma-core's objects.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <memory>

namespace verbatim::rdma {

// One overload per kind of object: some of rdma-core's calls are static inline functions, which
// cannot be template arguments of types that several files share. A failing destroy leaves the
// object to the context's close.
struct Release {
    void operator()(ibv_context* object) const noexcept {
        static_cast<void>(ibv_close_device(object));
    }
    void operator()(ibv_pd* object) const noexcept { static_cast<void>(ibv_dealloc_pd(object)); }
    void operator()(ibv_td* object) const noexcept { static_cast<void>(ibv_dealloc_td(object)); }
    void operator()(ibv_mr* object) const noexcept { static_cast<void>(ibv_dereg_mr(object)); }
    void operator()(ibv_mw* object) const noexcept { static_cast<void>(ibv_dealloc_mw(object)); }
    void operator()(ibv_comp_channel* object) const noexcept {
        static_cast<void>(ibv_destroy_comp_channel(object));
    }
    void operator()(ibv_cq* object) const noexcept { static_cast<void>(ibv_destroy_cq(object)); }
    void operator()(ibv_srq* object) const noexcept { static_cast<void>(ibv_destroy_srq(object)); }
    void operator()(ibv_qp* object) const noexcept { static_cast<void>(ibv_destroy_qp(object)); }
    void operator()(ibv_device** list) const noexcept { ibv_free_device_list(list); }
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
