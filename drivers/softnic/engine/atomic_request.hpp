// Reads an atomic operation out of a send queue's entry.
#pragma once

#include <cstddef>

#include "../ports/send_request.hpp"
#include "../rings/remote_atomic.hpp"

namespace verbatim::softnic {

struct AtomicRequest {
    RemoteAtomic operation;       // bytes = 0: the entry makes no sense
    std::size_t result_unit = 0;  // where the elements for the result start
};
// `first_unit`: of the remote address.
AtomicRequest read_atomic(const SendRequest& request, std::size_t first_unit) noexcept;

}  // namespace verbatim::softnic
