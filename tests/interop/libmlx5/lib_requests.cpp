// Opcodes, flags and operands, one by one.
#include "lib_requests.hpp"

#include <endian.h>

#include <stdexcept>

#include <verbatim/mlx5/encode.hpp>

namespace verbatim::interop {

using mlx5::Opcode;
using mlx5::WorkRequest;

namespace {

ibv_wr_opcode lib_opcode(Opcode opcode) {
    switch (opcode) {
        case Opcode::write:
            return IBV_WR_RDMA_WRITE;
        case Opcode::write_immediate:
            return IBV_WR_RDMA_WRITE_WITH_IMM;
        case Opcode::send:
            return IBV_WR_SEND;
        case Opcode::send_immediate:
            return IBV_WR_SEND_WITH_IMM;
        case Opcode::read:
            return IBV_WR_RDMA_READ;
        case Opcode::compare_swap:
            return IBV_WR_ATOMIC_CMP_AND_SWP;
        case Opcode::fetch_add:
            return IBV_WR_ATOMIC_FETCH_AND_ADD;
        case Opcode::send_invalidate:
            return IBV_WR_SEND_WITH_INV;
        case Opcode::local_invalidate:
            return IBV_WR_LOCAL_INV;
        case Opcode::bind_window:
            return IBV_WR_BIND_MW;
        default:
            throw std::logic_error("libmlx5 has no such opcode");
    }
}

}  // namespace

unsigned lib_flags(const WorkRequest& work) {
    return (work.signaled ? unsigned{IBV_SEND_SIGNALED} : 0u) |
           (work.fence ? unsigned{IBV_SEND_FENCE} : 0u) |
           (work.solicited ? unsigned{IBV_SEND_SOLICITED} : 0u) |
           (work.inline_payload.empty() ? 0u : unsigned{IBV_SEND_INLINE});
}

void fill(LibRequest& to, const WorkRequest& work) {
    for (const mlx5::Element& element : work.elements)
        to.elements.push_back({element.address, element.bytes, element.local_key});
    if (!work.inline_payload.empty())
        to.elements.push_back({reinterpret_cast<std::uint64_t>(work.inline_payload.data()),
                               static_cast<std::uint32_t>(work.inline_payload.size()), 0});
    to.wr.wr_id = work.id;
    to.wr.opcode = lib_opcode(work.opcode);
    to.wr.send_flags = lib_flags(work);
    to.wr.imm_data = htobe32(work.immediate);
    to.wr.sg_list = to.elements.data();
    to.wr.num_sge = static_cast<int>(to.elements.size());
    if (mlx5::is_atomic(work.opcode)) {
        to.wr.wr.atomic = {work.remote_address,
                           work.opcode == Opcode::fetch_add ? work.swap_or_add : work.compare,
                           work.swap_or_add, work.remote_key};
    } else if (work.opcode != Opcode::bind_window) {
        to.wr.wr.rdma = {work.remote_address, work.remote_key};
    }
    if (work.opcode == Opcode::send_invalidate || work.opcode == Opcode::local_invalidate)
        to.wr.invalidate_rkey = work.invalidated_key;
}

}  // namespace verbatim::interop
