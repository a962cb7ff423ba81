#include "ucx_worker.hpp"

namespace verbatim::bench {
namespace {

ucp_context_h make_context(std::uint64_t features, const char* transports) {
    ucp_config_t* config = nullptr;
    require_ucx(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    require_ucx(ucp_config_modify(config, "TLS", transports), "UCX_TLS");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = features;
    ucp_context_h context = nullptr;
    const ucs_status_t status = ucp_init(&params, config, &context);
    ucp_config_release(config);
    require_ucx(status, "ucp_init");
    return context;
}

ucp_worker_h make_worker(ucp_context_h context) {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SINGLE;
    ucp_worker_h worker = nullptr;
    require_ucx(ucp_worker_create(context, &params, &worker), "ucp_worker_create");
    return worker;
}

std::string address_of(ucp_worker_h worker) {
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    require_ucx(ucp_worker_get_address(worker, &address, &bytes), "ucp_worker_get_address");
    const std::string text(reinterpret_cast<const char*>(address), bytes);
    ucp_worker_release_address(worker, address);
    return text;
}

}  // namespace

UcxWorker::UcxWorker(Side& side, std::uint64_t features, const char* transports)
    : side_(side), context_(make_context(features, transports)), worker_(make_worker(context_)) {}

void UcxWorker::connect() {
    const std::string theirs = side_.exchange(address_of(worker_));
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(theirs.data());
    require_ucx(ucp_ep_create(worker_, &params, &endpoint_), "ucp_ep_create");
    flush();
    (void)side_.exchange("connected", [this] { progress(); });
}

UcxWorker::~UcxWorker() {
    if (endpoint_ != nullptr) {
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_EP_CLOSE_FLAG_FORCE;
        void* request = ucp_ep_close_nbx(endpoint_, &param);
        if (!UCS_PTR_IS_ERR(request)) await(request);
    }
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
}

void UcxWorker::flush() {
    const ucp_request_param_t param{};
    await(ucp_ep_flush_nbx(endpoint_, &param));
}

void UcxWorker::sleep() {
    const ucs_status_t status = ucp_worker_wait(worker_);
    if (status != UCS_ERR_BUSY) require_ucx(status, "ucp_worker_wait");
}

void UcxWorker::cancel(void*& request) {
    if (request == nullptr || UCS_PTR_IS_ERR(request)) return;
    ucp_request_cancel(worker_, request);
    while (ucp_request_check_status(request) == UCS_INPROGRESS) progress();
    ucp_request_free(request);
    request = nullptr;
}

}  // namespace verbatim::bench
