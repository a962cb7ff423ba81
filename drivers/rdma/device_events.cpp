// Asynchronous events of verbs (ibv_get_async_event(3)), acknowledged at once: destroying a queue
// waits for events of it that were read and not acknowledged.
#include "device_events.hpp"

#include <fcntl.h>

#include <cerrno>

#include <fmt/format.h>

#include "messages.hpp"

namespace verbatim::rdma {
namespace {

using Kind = DeviceEventKind;

Kind kind_of(ibv_event_type type) noexcept {
    switch (type) {
        case IBV_EVENT_DEVICE_FATAL:
            return Kind::device_failed;
        case IBV_EVENT_PORT_ERR:
            return Kind::port_down;
        case IBV_EVENT_PORT_ACTIVE:
            return Kind::port_up;
        case IBV_EVENT_LID_CHANGE:
        case IBV_EVENT_PKEY_CHANGE:
        case IBV_EVENT_GID_CHANGE:
        case IBV_EVENT_SM_CHANGE:
        case IBV_EVENT_CLIENT_REREGISTER:
            return Kind::addresses_changed;
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_PATH_MIG_ERR:
            return Kind::queue_pair_failed;
        case IBV_EVENT_CQ_ERR:
            return Kind::completion_queue_failed;
        default:
            return Kind::other;
    }
}

bool is_of_port(ibv_event_type type) noexcept {
    const Kind kind = kind_of(type);
    return kind == Kind::port_down || kind == Kind::port_up || kind == Kind::addresses_changed;
}

bool is_of_queue_pair(ibv_event_type type) noexcept {
    return kind_of(type) == Kind::queue_pair_failed || type == IBV_EVENT_COMM_EST ||
           type == IBV_EVENT_SQ_DRAINED || type == IBV_EVENT_PATH_MIG ||
           type == IBV_EVENT_QP_LAST_WQE_REACHED;
}

// Before it is acknowledged: then the queue may be destroyed.
DeviceEvent event_of(const Port& port, const ibv_async_event& raw) {
    DeviceEvent event;
    event.kind = kind_of(raw.event_type);
    std::string object = port.name;
    if (is_of_port(raw.event_type)) {
        object = fmt::format("{} port {}", port.name, raw.element.port_num);
    } else if (is_of_queue_pair(raw.event_type)) {
        event.number = raw.element.qp->qp_num;
        object = fmt::format("{} queue pair {}", port.name, event.number);
    } else if (raw.event_type == IBV_EVENT_CQ_ERR) {
        const auto* const queue = static_cast<CompletionQueueHandle*>(raw.element.cq->cq_context);
        event.number = queue->view().number;
        object = fmt::format("{} completion queue {}", port.name, event.number);
    }
    event.text = fmt::format("{}: {}", object, ibv_event_type_str(raw.event_type));
    return event;
}

}  // namespace

void make_nonblocking(const Port& port) {
    const int file = port.context->async_fd;
    const int flags = fcntl(file, F_GETFL);
    if (flags < 0 || fcntl(file, F_SETFL, flags | O_NONBLOCK) != 0)
        throw call_error(port.name + " events", "fcntl", errno);
}

std::optional<DeviceEvent> take_event(const Port& port) {
    ibv_async_event raw{};
    while (ibv_get_async_event(port.context.get(), &raw) == 0) {
        std::optional<DeviceEvent> event;
        if (!is_of_port(raw.event_type) || raw.element.port_num == port.number)
            event = event_of(port, raw);
        ibv_ack_async_event(&raw);
        if (event) return event;
    }
    return std::nullopt;
}

}  // namespace verbatim::rdma
