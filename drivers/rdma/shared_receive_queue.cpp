// Creation of shared receive queues through rdma-core.
#include "shared_receive_queue.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

#include <fmt/format.h>

#include "messages.hpp"

namespace verbatim::rdma {

SharedReceiveQueue::SharedReceiveQueue(std::shared_ptr<Port> port,
                                       const SharedReceiveQueueOptions& options)
    : port_(std::move(port)) {
    const std::string object = port_->name + " shared receive queue";
    ibv_srq_init_attr attributes{};
    attributes.attr.max_wr = std::max(options.entries, 1U);
    attributes.attr.max_sge = std::max(options.max_elements, 1U);
    queue_.reset(ibv_create_srq(port_->domain.get(), &attributes));
    if (queue_ == nullptr) throw call_error(object, "ibv_create_srq", errno);
    mlx5dv_srq facts{};
    facts.comp_mask = MLX5DV_SRQ_MASK_SRQN;
    mlx5dv_obj object_out{};
    object_out.srq.in = queue_.get();
    object_out.srq.out = &facts;
    if (const int cause = mlx5dv_init_obj(&object_out, MLX5DV_OBJ_SRQ); cause != 0)
        throw call_error(object, "mlx5dv_init_obj", cause);
    // The buffer may be longer than the list: rdma-core keeps entries back for page faults, which
    // this library does not use.
    if (facts.head != 0)
        throw Error(Errc::unsupported, object,
                    fmt::format("its list starts at entry {}", facts.head),
                    "set data_path = \"verbs\" in [device], which does without its layout");
    view_.buffer = static_cast<std::byte*>(facts.buf);
    view_.entries = facts.tail + 1;
    view_.stride_log2 = static_cast<std::uint32_t>(std::countr_zero(facts.stride));
    view_.doorbell_record = reinterpret_cast<volatile std::uint32_t*>(facts.dbrec);
    view_.number = facts.srqn;
    view_.max_elements = std::max(options.max_elements, 1U);
}

}  // namespace verbatim::rdma
