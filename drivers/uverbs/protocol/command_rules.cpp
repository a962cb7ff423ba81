// Sizes of commands, and whether one has them.
#include "command_rules.hpp"

#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "command.hpp"

namespace verbatim::uverbs {
namespace {

// Core parts, in bytes. What is behind a request's is the provider's, or must be zero.
struct Sizes {
    unsigned number;
    bool extended;
    std::size_t least;  // of the request
    std::size_t whole;
    std::size_t reply;
    bool provider;
};

constexpr bool kProvider = true;

template <class Request, class Reply>
constexpr Sizes plain(unsigned number, bool provider = false) {
    return {number, false, sizeof(Request), sizeof(Request), sizeof(Reply), provider};
}
template <class Request>
constexpr Sizes silent(unsigned number, bool provider = false) {
    return {number, false, sizeof(Request), sizeof(Request), 0, provider};
}
// Extended ones may be shorter: fields came later. Their provider's part is told apart.
template <class Request, class Reply>
constexpr Sizes extended(unsigned number, std::size_t least, std::size_t reply = sizeof(Reply)) {
    return {number, true, least, sizeof(Request), reply, false};
}

constexpr Sizes kSizes[] = {
    plain<ib_uverbs_get_context, ib_uverbs_get_context_resp>(IB_USER_VERBS_CMD_GET_CONTEXT,
                                                             kProvider),
    plain<ib_uverbs_query_device, ib_uverbs_query_device_resp>(IB_USER_VERBS_CMD_QUERY_DEVICE),
    plain<ib_uverbs_query_port, ib_uverbs_query_port_resp>(IB_USER_VERBS_CMD_QUERY_PORT),
    plain<ib_uverbs_alloc_pd, ib_uverbs_alloc_pd_resp>(IB_USER_VERBS_CMD_ALLOC_PD, kProvider),
    silent<ib_uverbs_dealloc_pd>(IB_USER_VERBS_CMD_DEALLOC_PD),
    plain<ib_uverbs_create_ah, ib_uverbs_create_ah_resp>(IB_USER_VERBS_CMD_CREATE_AH, kProvider),
    silent<ib_uverbs_destroy_ah>(IB_USER_VERBS_CMD_DESTROY_AH),
    plain<ib_uverbs_reg_mr, ib_uverbs_reg_mr_resp>(IB_USER_VERBS_CMD_REG_MR, kProvider),
    plain<ib_uverbs_rereg_mr, ib_uverbs_rereg_mr_resp>(IB_USER_VERBS_CMD_REREG_MR, kProvider),
    silent<ib_uverbs_dereg_mr>(IB_USER_VERBS_CMD_DEREG_MR),
    plain<ib_uverbs_alloc_mw, ib_uverbs_alloc_mw_resp>(IB_USER_VERBS_CMD_ALLOC_MW, kProvider),
    silent<ib_uverbs_dealloc_mw>(IB_USER_VERBS_CMD_DEALLOC_MW),
    plain<ib_uverbs_create_comp_channel, ib_uverbs_create_comp_channel_resp>(
        IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL),
    plain<ib_uverbs_create_cq, ib_uverbs_create_cq_resp>(IB_USER_VERBS_CMD_CREATE_CQ, kProvider),
    plain<ib_uverbs_resize_cq, ib_uverbs_resize_cq_resp>(IB_USER_VERBS_CMD_RESIZE_CQ, kProvider),
    plain<ib_uverbs_destroy_cq, ib_uverbs_destroy_cq_resp>(IB_USER_VERBS_CMD_DESTROY_CQ),
    plain<ib_uverbs_create_qp, ib_uverbs_create_qp_resp>(IB_USER_VERBS_CMD_CREATE_QP, kProvider),
    plain<ib_uverbs_query_qp, ib_uverbs_query_qp_resp>(IB_USER_VERBS_CMD_QUERY_QP),
    silent<ib_uverbs_modify_qp>(IB_USER_VERBS_CMD_MODIFY_QP),
    plain<ib_uverbs_destroy_qp, ib_uverbs_destroy_qp_resp>(IB_USER_VERBS_CMD_DESTROY_QP),
    plain<ib_uverbs_create_srq, ib_uverbs_create_srq_resp>(IB_USER_VERBS_CMD_CREATE_SRQ, kProvider),
    plain<ib_uverbs_create_xsrq, ib_uverbs_create_srq_resp>(IB_USER_VERBS_CMD_CREATE_XSRQ,
                                                            kProvider),
    silent<ib_uverbs_modify_srq>(IB_USER_VERBS_CMD_MODIFY_SRQ, kProvider),
    plain<ib_uverbs_query_srq, ib_uverbs_query_srq_resp>(IB_USER_VERBS_CMD_QUERY_SRQ),
    plain<ib_uverbs_destroy_srq, ib_uverbs_destroy_srq_resp>(IB_USER_VERBS_CMD_DESTROY_SRQ),
    plain<ib_uverbs_open_xrcd, ib_uverbs_open_xrcd_resp>(IB_USER_VERBS_CMD_OPEN_XRCD, kProvider),
    silent<ib_uverbs_close_xrcd>(IB_USER_VERBS_CMD_CLOSE_XRCD),
    plain<ib_uverbs_open_qp, ib_uverbs_create_qp_resp>(IB_USER_VERBS_CMD_OPEN_QP, kProvider),
    extended<ib_uverbs_ex_query_device, ib_uverbs_ex_query_device_resp>(
        IB_USER_VERBS_EX_CMD_QUERY_DEVICE, sizeof(ib_uverbs_ex_query_device),
        offsetof(ib_uverbs_ex_query_device_resp, response_length) + sizeof(std::uint32_t)),
    extended<ib_uverbs_ex_create_cq, ib_uverbs_ex_create_cq_resp>(IB_USER_VERBS_EX_CMD_CREATE_CQ,
                                                                  sizeof(ib_uverbs_ex_create_cq)),
    Sizes{IB_USER_VERBS_EX_CMD_MODIFY_CQ, true, sizeof(ib_uverbs_ex_modify_cq),
          sizeof(ib_uverbs_ex_modify_cq), 0, false},
    extended<ib_uverbs_ex_create_qp, ib_uverbs_ex_create_qp_resp>(
        IB_USER_VERBS_EX_CMD_CREATE_QP,
        offsetof(ib_uverbs_ex_create_qp, comp_mask) + sizeof(std::uint32_t)),
    extended<ib_uverbs_ex_modify_qp, ib_uverbs_ex_modify_qp_resp>(IB_USER_VERBS_EX_CMD_MODIFY_QP,
                                                                  sizeof(ib_uverbs_modify_qp)),
};

const Sizes* sizes_of(unsigned number, bool extended) noexcept {
    const auto* const found = std::ranges::find_if(kSizes, [&](const Sizes& sizes) {
        return sizes.number == number && sizes.extended == extended;
    });
    return found == std::end(kSizes) ? nullptr : found;
}

// The core's part of a request, without headers.
int check_request(std::span<const std::byte> core, const Sizes& sizes) noexcept {
    if (core.size() < sizes.least) return ENOSPC;
    if (sizes.provider || core.size() <= sizes.whole) return 0;
    return all_zero(core.subspan(sizes.whole)) ? 0 : EOPNOTSUPP;
}

int check_plain(const ib_uverbs_cmd_hdr& header, std::span<const std::byte> core) noexcept {
    if (header.in_words * std::size_t{4} != core.size() + sizeof header) return EINVAL;
    const Sizes* const sizes = sizes_of(header.command, false);
    if (sizes == nullptr) return 0;
    if (const int error = check_request(core, *sizes); error != 0) return error;
    if (sizes->reply == 0) return 0;
    if (header.out_words * std::size_t{4} < sizes->reply) return ENOSPC;
    std::uint64_t address = 0;
    return take(core, address) && address != 0 ? 0 : EFAULT;
}

int check_extended(const ib_uverbs_cmd_hdr& header, std::span<const std::byte> bytes) noexcept {
    ib_uverbs_ex_cmd_hdr more;
    if (!take(bytes, more)) return EINVAL;
    const std::size_t core = header.in_words * std::size_t{8};
    if (core + more.provider_in_words * std::size_t{8} != bytes.size()) return EINVAL;
    const Sizes* const sizes = sizes_of(header.command & IB_USER_VERBS_CMD_COMMAND_MASK, true);
    if (sizes == nullptr) return 0;
    if (core < sizes->least) return ENOSPC;
    const bool answers = header.out_words != 0 || more.provider_out_words != 0;
    if (more.cmd_hdr_reserved != 0 || (more.response != 0) != answers) return EINVAL;
    if (more.response != 0 && header.out_words * std::size_t{8} < sizes->reply) return ENOSPC;
    return check_request(bytes.first(core), *sizes);
}

}  // namespace

int check_command(std::span<const std::byte> bytes) noexcept {
    constexpr std::uint32_t kKnownBits =
        IB_USER_VERBS_CMD_COMMAND_MASK | IB_USER_VERBS_CMD_FLAG_EXTENDED;
    ib_uverbs_cmd_hdr header;
    if (!take(bytes, header) || (header.command & ~kKnownBits) != 0) return EINVAL;
    return (header.command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0 ? check_extended(header, bytes)
                                                                   : check_plain(header, bytes);
}

}  // namespace verbatim::uverbs
