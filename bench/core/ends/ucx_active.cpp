#include "ucx_active.hpp"

#include <algorithm>
#include <cstring>

#include "../data.hpp"

namespace verbatim::bench {
namespace {

// One progress may bring more messages than a window of short ones.
std::size_t room(const Case& of) {
    return std::max<std::size_t>(of.window, of.bytes > 1024 ? 1 : 1024);
}

}  // namespace

UcxActive::UcxActive(Side& side, const Case& of)
    : worker_(side, UCP_FEATURE_AM),
      bytes_(of.bytes),
      out_(of.window * of.bytes),
      in_(room(of) * of.bytes),
      sends_(of.window),
      arrivals_(room(of)) {
    ucp_am_handler_param_t param{};
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
    param.id = kId;
    param.cb = handle;
    param.arg = this;
    require_ucx(ucp_worker_set_am_recv_handler(worker_.worker(), &param), "handler");
    worker_.connect();
}

UcxActive::~UcxActive() = default;

ucs_status_t UcxActive::handle(void* self, const void*, std::size_t, void* data, std::size_t bytes,
                               const ucp_am_recv_param_t* param) {
    return static_cast<UcxActive*>(self)->arrive(data, bytes, param->recv_attr);
}

ucs_status_t UcxActive::arrive(void* data, std::size_t bytes, std::uint64_t attributes) {
    if (bytes != bytes_ || arrived_ - taken_ == arrivals_.size()) {
        error_ = "a message that there is no room for";
        return UCS_OK;
    }
    const std::size_t place = arrived_++ % arrivals_.size();
    std::byte* own = in_.data() + place * bytes_;
    arrivals_[place] = {own, nullptr, nullptr};
    return keep_or_copy(arrivals_[place], own, data, attributes);
}

ucs_status_t UcxActive::keep_or_copy(Arrival& next, std::byte* own, void* data,
                                     std::uint64_t attributes) {
    if ((attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
        next.request = ucp_am_recv_data_nbx(worker_.worker(), data, own, bytes_, &param_);
        return UCS_INPROGRESS;
    }
    if ((attributes & UCP_AM_RECV_ATTR_FLAG_DATA) != 0) {
        next.data = static_cast<const std::byte*>(next.kept = data);
        return UCS_INPROGRESS;
    }
    std::memcpy(own, data, bytes_);
    return UCS_OK;
}

void UcxActive::release() {
    Arrival& done = arrivals_[taken_ % arrivals_.size()];
    if (done.kept != nullptr) ucp_am_data_release(worker_.worker(), done.kept);
    done.kept = nullptr;
    ++taken_;
}

void UcxActive::finish() {
    for (void*& request : sends_)
        while (!worker_.done(request)) worker_.progress();
}

}  // namespace verbatim::bench
