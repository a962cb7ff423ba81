// Errors of the connection manager, put together from plain facts.
#pragma once

#include <rdma/rdma_cma.h>

#include <string>

#include <verbatim/driver/error.hpp>

namespace verbatim::rdma {

Error no_manager(int cause);
Error unreachable(const std::string& address, int cause);
Error nobody_answers(const std::string& address);
Error cannot_listen_by_manager(const std::string& address, int cause);
Error other_device(const std::string& address, const std::string& found, const std::string& wanted);
// What an event that ends the making of a connection means.
Error refusal_of_manager(const std::string& address, rdma_cm_event_type type, int status);

}  // namespace verbatim::rdma
