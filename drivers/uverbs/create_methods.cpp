// Queues that are asked for by ioctl(), as importing contexts must: the commands of the older
// interface answer, but for what only an ioctl() can say, which is the descriptor that has the
// object's asynchronous events. Contexts whose descriptor is the device's first keep to the older
// interface.
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include <cerrno>
#include <utility>

#include "device_file.hpp"
#include "written_command.hpp"

namespace verbatim::uverbs {
namespace {

// Until it goes, new objects report elsewhere.
class Redirection {
  public:
    Redirection(AsyncEvents*& place, AsyncEvents& to) noexcept
        : place_(&place), before_(std::exchange(place, &to)) {}
    ~Redirection() { *place_ = before_; }
    Redirection(const Redirection&) = delete;
    Redirection& operator=(const Redirection&) = delete;

  private:
    AsyncEvents** place_;
    AsyncEvents* before_;
};

std::size_t provider_room(const Method& method) noexcept {
    return method.room(UVERBS_ATTR_UHW_OUT).size();
}

void answer_provider(Method& method, const WrittenCommand& command) noexcept {
    if (method.has(UVERBS_ATTR_UHW_OUT))
        method.answer(UVERBS_ATTR_UHW_OUT, command.provider_reply());
}

}  // namespace

// Under mutex_.
int DeviceFile::dispatch_creations(Method& method) {
    using D = DeviceFile;
    static constexpr MethodEntry kEntries[] = {
        {UVERBS_OBJECT_CQ,
         UVERBS_METHOD_CQ_CREATE,
         &D::create_completion_queue_by_method,
         {UVERBS_ATTR_CREATE_CQ_HANDLE, UVERBS_ATTR_CREATE_CQ_CQE,
          UVERBS_ATTR_CREATE_CQ_USER_HANDLE, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL,
          UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, UVERBS_ATTR_CREATE_CQ_FLAGS,
          UVERBS_ATTR_CREATE_CQ_RESP_CQE, UVERBS_ATTR_CREATE_CQ_EVENT_FD, UVERBS_ATTR_UHW_IN,
          UVERBS_ATTR_UHW_OUT}},
        {UVERBS_OBJECT_QP,
         UVERBS_METHOD_QP_CREATE,
         &D::create_queue_pair_by_method,
         {UVERBS_ATTR_CREATE_QP_HANDLE, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE,
          UVERBS_ATTR_CREATE_QP_PD_HANDLE, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE,
          UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE,
          UVERBS_ATTR_CREATE_QP_USER_HANDLE, UVERBS_ATTR_CREATE_QP_CAP, UVERBS_ATTR_CREATE_QP_TYPE,
          UVERBS_ATTR_CREATE_QP_FLAGS, UVERBS_ATTR_CREATE_QP_EVENT_FD,
          UVERBS_ATTR_CREATE_QP_RESP_CAP, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, UVERBS_ATTR_UHW_IN,
          UVERBS_ATTR_UHW_OUT}},
        {UVERBS_OBJECT_SRQ,
         UVERBS_METHOD_SRQ_CREATE,
         &D::create_shared_queue_by_method,
         {UVERBS_ATTR_CREATE_SRQ_HANDLE, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE,
          UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE,
          UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, UVERBS_ATTR_CREATE_SRQ_MAX_WR,
          UVERBS_ATTR_CREATE_SRQ_MAX_SGE, UVERBS_ATTR_CREATE_SRQ_LIMIT, UVERBS_ATTR_CREATE_SRQ_TYPE,
          UVERBS_ATTR_CREATE_SRQ_EVENT_FD, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR,
          UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM,
          UVERBS_ATTR_UHW_IN, UVERBS_ATTR_UHW_OUT}},
    };
    return dispatch(method, kEntries);
}

// Null: of the first context, or not said.
AsyncEvents* DeviceFile::other_events(int descriptor) const noexcept {
    for (const auto& events : imported_events_)
        if (events->programs_end() == descriptor && !events->closed()) return events.get();
    return nullptr;
}

// Executes the command; new objects report to `descriptor`.
int DeviceFile::create_for(int descriptor, const WrittenCommand& command) {
    AsyncEvents* const events = other_events(descriptor);
    if (events == nullptr)
        return descriptor == -1 || descriptor == async_events_.programs_end() ? EPROTONOSUPPORT
                                                                              : EBADF;
    const Redirection redirection(reports_to_, *events);
    return dispatch(command.bytes());
}

int DeviceFile::create_completion_queue_by_method(Method& method) {
    const auto entries = method.value<std::uint32_t>(UVERBS_ATTR_CREATE_CQ_CQE);
    const auto user_handle = method.value<std::uint64_t>(UVERBS_ATTR_CREATE_CQ_USER_HANDLE);
    const auto vector = method.value<std::uint32_t>(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR);
    if (!entries || !user_handle || !vector || !method.has(UVERBS_ATTR_CREATE_CQ_HANDLE) ||
        !method.has_room<std::uint32_t>(UVERBS_ATTR_CREATE_CQ_RESP_CQE))
        return EINVAL;
    ib_uverbs_ex_create_cq wanted{};
    wanted.user_handle = *user_handle;
    wanted.cqe = *entries;
    wanted.comp_vector = *vector;
    wanted.comp_channel = method.descriptor(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL);
    wanted.flags = method.value<std::uint32_t>(UVERBS_ATTR_CREATE_CQ_FLAGS).value_or(0);
    const auto command = WrittenCommand::extended(
        IB_USER_VERBS_CMD_CREATE_CQ, wanted, method.bytes(UVERBS_ATTR_UHW_IN),
        sizeof(ib_uverbs_ex_create_cq_resp), provider_room(method));
    const int error = create_for(method.descriptor(UVERBS_ATTR_CREATE_CQ_EVENT_FD), command);
    if (error != 0) return error;
    const auto reply = command.reply<ib_uverbs_ex_create_cq_resp>().base;
    method.answer_handle(UVERBS_ATTR_CREATE_CQ_HANDLE, reply.cq_handle);
    method.answer(UVERBS_ATTR_CREATE_CQ_RESP_CQE, reply.cqe);
    answer_provider(method, command);
    return 0;
}

int DeviceFile::create_queue_pair_by_method(Method& method) {
    const auto user_handle = method.value<std::uint64_t>(UVERBS_ATTR_CREATE_QP_USER_HANDLE);
    const auto type = method.value<std::uint64_t>(UVERBS_ATTR_CREATE_QP_TYPE);
    if (!user_handle || !type || !method.has(UVERBS_ATTR_CREATE_QP_HANDLE) ||
        method.bytes(UVERBS_ATTR_CREATE_QP_CAP).size() < sizeof(ib_uverbs_qp_cap) ||
        !method.has_room<ib_uverbs_qp_cap>(UVERBS_ATTR_CREATE_QP_RESP_CAP) ||
        !method.has_room<std::uint32_t>(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM))
        return EINVAL;
    const auto sizes = method.structure<ib_uverbs_qp_cap>(UVERBS_ATTR_CREATE_QP_CAP);
    const auto flags = method.value<std::uint32_t>(UVERBS_ATTR_CREATE_QP_FLAGS).value_or(0);
    ib_uverbs_ex_create_qp wanted{};
    wanted.user_handle = *user_handle;
    // Those that receive by XRC have its domain in this place.
    wanted.pd_handle = method.has(UVERBS_ATTR_CREATE_QP_PD_HANDLE)
                           ? method.handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE)
                           : method.handle(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE);
    wanted.send_cq_handle = method.handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE);
    wanted.recv_cq_handle = method.handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE);
    wanted.srq_handle = method.handle(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE);
    wanted.is_srq = method.has(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE) ? 1 : 0;
    wanted.max_send_wr = sizes.max_send_wr;
    wanted.max_recv_wr = sizes.max_recv_wr;
    wanted.max_send_sge = sizes.max_send_sge;
    wanted.max_recv_sge = sizes.max_recv_sge;
    wanted.max_inline_data = sizes.max_inline_data;
    wanted.sq_sig_all = (flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL) != 0 ? 1 : 0;
    wanted.qp_type = static_cast<std::uint8_t>(*type);
    wanted.create_flags = flags & ~std::uint32_t{IB_UVERBS_QP_CREATE_SQ_SIG_ALL};
    const auto command = WrittenCommand::extended(
        IB_USER_VERBS_CMD_CREATE_QP, wanted, method.bytes(UVERBS_ATTR_UHW_IN),
        sizeof(ib_uverbs_ex_create_qp_resp), provider_room(method));
    const int error = create_for(method.descriptor(UVERBS_ATTR_CREATE_QP_EVENT_FD), command);
    if (error != 0) return error;
    const auto reply = command.reply<ib_uverbs_ex_create_qp_resp>().base;
    method.answer_handle(UVERBS_ATTR_CREATE_QP_HANDLE, reply.qp_handle);
    method.answer(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, reply.qpn);
    method.answer(UVERBS_ATTR_CREATE_QP_RESP_CAP,
                  ib_uverbs_qp_cap{reply.max_send_wr, reply.max_recv_wr, reply.max_send_sge,
                                   reply.max_recv_sge, reply.max_inline_data});
    answer_provider(method, command);
    return 0;
}

int DeviceFile::create_shared_queue_by_method(Method& method) {
    const auto user_handle = method.value<std::uint64_t>(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE);
    const auto type = method.value<std::uint64_t>(UVERBS_ATTR_CREATE_SRQ_TYPE);
    const auto requests = method.value<std::uint32_t>(UVERBS_ATTR_CREATE_SRQ_MAX_WR);
    const auto elements = method.value<std::uint32_t>(UVERBS_ATTR_CREATE_SRQ_MAX_SGE);
    const auto limit = method.value<std::uint32_t>(UVERBS_ATTR_CREATE_SRQ_LIMIT);
    if (!user_handle || !type || !requests || !elements || !limit ||
        !method.has(UVERBS_ATTR_CREATE_SRQ_HANDLE) ||
        !method.has_room<std::uint32_t>(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR) ||
        !method.has_room<std::uint32_t>(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE))
        return EINVAL;
    ib_uverbs_create_xsrq wanted{};
    wanted.user_handle = *user_handle;
    wanted.srq_type = static_cast<std::uint32_t>(*type);
    wanted.pd_handle = method.handle(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE);
    wanted.max_wr = *requests;
    wanted.max_sge = *elements;
    wanted.srq_limit = *limit;
    wanted.xrcd_handle = method.handle(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE);
    wanted.cq_handle = method.handle(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE);
    const auto written = [&](std::uint32_t number, const auto& core) {
        return WrittenCommand::plain(number, core, method.bytes(UVERBS_ATTR_UHW_IN),
                                     sizeof(ib_uverbs_create_srq_resp), provider_room(method));
    };
    // What is not basic has a command of its own.
    const ib_uverbs_create_srq basic{.response = 0,
                                     .user_handle = wanted.user_handle,
                                     .pd_handle = wanted.pd_handle,
                                     .max_wr = wanted.max_wr,
                                     .max_sge = wanted.max_sge,
                                     .srq_limit = wanted.srq_limit};
    const auto command = *type == IB_UVERBS_SRQT_BASIC
                             ? written(IB_USER_VERBS_CMD_CREATE_SRQ, basic)
                             : written(IB_USER_VERBS_CMD_CREATE_XSRQ, wanted);
    const int error = create_for(method.descriptor(UVERBS_ATTR_CREATE_SRQ_EVENT_FD), command);
    if (error != 0) return error;
    const auto reply = command.reply<ib_uverbs_create_srq_resp>();
    method.answer_handle(UVERBS_ATTR_CREATE_SRQ_HANDLE, reply.srq_handle);
    method.answer(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, reply.max_wr);
    method.answer(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, reply.max_sge);
    method.answer(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, reply.srqn);
    answer_provider(method, command);
    return 0;
}

}  // namespace verbatim::uverbs
