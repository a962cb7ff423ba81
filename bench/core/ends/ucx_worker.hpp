// A UCX worker with one endpoint to the peer's worker, over shared memory, polled by its owner.
#pragma once

#include <ucp/api/ucp.h>

#include <stdexcept>
#include <string>

#include "../meeting.hpp"

namespace verbatim::bench {

inline void require_ucx(ucs_status_t status, const char* what) {
    if (status != UCS_OK)
        throw std::runtime_error(std::string(what) + ": " + ucs_status_string(status));
}

class UcxWorker {
  public:
    // `transports`: as UCX_TLS has them; by default those of shared memory.
    UcxWorker(Side& side, std::uint64_t features, const char* transports = "posix,sysv,self,cma");
    ~UcxWorker();
    UcxWorker(const UcxWorker&) = delete;
    UcxWorker& operator=(const UcxWorker&) = delete;

    ucp_context_h context() const noexcept { return context_; }
    ucp_worker_h worker() const noexcept { return worker_; }
    ucp_ep_h endpoint() const noexcept { return endpoint_; }
    void connect();  // when the worker can take what the peer sends

    void progress() { ucp_worker_progress(worker_); }
    // True once the request is done, which is then forgotten. None is done.
    bool done(void*& request) {
        if (request == nullptr) return true;
        if (UCS_PTR_IS_ERR(request)) require_ucx(UCS_PTR_STATUS(request), "UCX request");
        const ucs_status_t status = ucp_request_check_status(request);
        if (status == UCS_INPROGRESS) return false;
        ucp_request_free(request);
        request = nullptr;
        require_ucx(status, "UCX request");
        return true;
    }
    void await(void* request) {
        while (!done(request)) progress();
    }
    void flush();
    // Sleeps until there may be progress to make. Needs UCP_FEATURE_WAKEUP.
    void sleep();
    void cancel(void*& request);

  private:
    Side& side_;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    ucp_ep_h endpoint_ = nullptr;
};

}  // namespace verbatim::bench
