// Texts of errors of the connection manager.
#include "cm_errors.hpp"

#include <cerrno>

#include <fmt/format.h>

#include <verbatim/driver/errno_text.hpp>

namespace verbatim::rdma {
namespace {

// Of the reasons for rejection: InfiniBand Architecture Specification, "REJ".
constexpr int kNoSuchService = 8;

}  // namespace

Error no_manager(int cause) {
    return Error(Errc::no_device, "connection manager",
                 fmt::format("rdma_create_event_channel: {}", errno_text(cause)),
                 "load the kernel module rdma_ucm and check the rights of /dev/infiniband/rdma_cm; "
                 "or use host:port instead of rdma://");
}

Error unreachable(const std::string& address, int cause) {
    return Error(
        Errc::connection_refused, address,
        fmt::format("the connection manager finds no way there ({})", errno_text(cause)),
        "give an address of an RDMA device's network, or use host:port instead of rdma://");
}

Error nobody_answers(const std::string& address) {
    return Error(Errc::timeout, address,
                 "the connection manager of the peer did not answer in time",
                 "check the address, or raise timeout of [connect]");
}

Error cannot_listen_by_manager(const std::string& address, int cause) {
    return Error(cause == EACCES ? Errc::permission_denied : Errc::device_error,
                 "listener rdma://" + address, errno_text(cause),
                 cause == EADDRINUSE
                     ? "another program listens there: choose another port, or 0 for any free one"
                     : "choose an address of an RDMA device of this machine");
}

Error other_device(const std::string& address, const std::string& found,
                   const std::string& wanted) {
    return Error(Errc::unsupported, address,
                 fmt::format("the address leads to {}, and this context uses {}",
                             found.empty() ? "no RDMA device" : "device " + found, wanted),
                 "choose an address of that device's network, or the other device by name in "
                 "[device]");
}

Error refusal_of_manager(const std::string& address, rdma_cm_event_type type, int status) {
    if (type == RDMA_CM_EVENT_REJECTED && status == kNoSuchService)
        return Error(Errc::connection_refused, address, "nobody listens there by rdma_cm",
                     "start the receiver first with an address rdma://, and check the port");
    if (type == RDMA_CM_EVENT_REJECTED)
        return Error(Errc::connection_refused, address,
                     fmt::format("the listener rejected the connection (status {})", status),
                     "see the listener's messages; it may have too many callers: try again");
    if (type == RDMA_CM_EVENT_UNREACHABLE && status == -ETIMEDOUT) return nobody_answers(address);
    if (type == RDMA_CM_EVENT_DEVICE_REMOVAL)
        return Error(Errc::device_error, address, "the device was removed",
                     "see the kernel's messages");
    return Error(
        Errc::connection_refused, address,
        fmt::format("the connection manager reports {} (status {})", rdma_event_str(type), status),
        "check the address, and that it is of an RDMA device's network");
}

}  // namespace verbatim::rdma
