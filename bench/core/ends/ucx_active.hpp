// UCX's active messages as an end. The handler keeps what UCX lets it keep and copies the rest.
#pragma once

#include <stdexcept>
#include <vector>

#include "../subject.hpp"
#include "ucx_worker.hpp"

namespace verbatim::bench {

class UcxActive {
  public:
    UcxActive(Side& side, const Case& of);
    ~UcxActive();
    UcxActive(const UcxActive&) = delete;
    UcxActive& operator=(const UcxActive&) = delete;

    std::byte* claim() {
        while (!worker_.done(sends_[next_out_])) worker_.progress();
        return out_.data() + next_out_ * bytes_;
    }
    void post() {
        sends_[next_out_] = ucp_am_send_nbx(worker_.endpoint(), kId, nullptr, 0,
                                            out_.data() + next_out_ * bytes_, bytes_, &param_);
        next_out_ = next_out_ + 1 == sends_.size() ? 0 : next_out_ + 1;
    }
    const std::byte* take() {
        Arrival& next = arrivals_[taken_ % arrivals_.size()];
        while (arrived_ == taken_ || !worker_.done(next.request)) progress();
        return next.data;
    }
    void release();
    void progress() {
        worker_.progress();
        if (error_ != nullptr) throw std::runtime_error(error_);
    }
    void finish();

  private:
    struct Arrival {
        const std::byte* data = nullptr;
        void* kept = nullptr;     // UCX's memory, to be given back
        void* request = nullptr;  // the data's way into ours
    };
    static constexpr unsigned kId = 1;
    static ucs_status_t handle(void* self, const void* header, std::size_t header_bytes, void* data,
                               std::size_t bytes, const ucp_am_recv_param_t* param);
    ucs_status_t arrive(void* data, std::size_t bytes, std::uint64_t attributes);
    ucs_status_t keep_or_copy(Arrival& next, std::byte* own, void* data, std::uint64_t attributes);

    UcxWorker worker_;
    std::size_t bytes_;
    std::vector<std::byte> out_, in_;
    std::vector<void*> sends_;
    std::vector<Arrival> arrivals_;
    std::size_t next_out_ = 0;
    std::uint64_t arrived_ = 0, taken_ = 0;
    const char* error_ = nullptr;
    const ucp_request_param_t param_{};
};

}  // namespace verbatim::bench
