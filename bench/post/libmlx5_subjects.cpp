// libmlx5 posting the same operations: its own queues, made on the software NIC's device file (this
// program is linked with it) and executed by nobody. A completion for every batch, written as a
// device writes it and read by ibv_poll_cq, retires it; that is counted, too.
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "libmlx5.hpp"
#include "operation.hpp"

namespace verbatim::bench {
namespace {

void must_be(bool holds) {
    if (!holds) std::abort();
}

class LibSubject : public PostSubject {
  public:
    explicit LibSubject(const PostCase& of) : of_(of), blocks_(Operation(of).blocks()) {
        for (std::uint32_t k = 0; k < elements_.size(); ++k)
            elements_[k] = {local_address(k), kElementBytes, kLocalKey};
    }
    void run(std::uint64_t count) final {
        for (const std::uint64_t end = posted_ + count; posted_ != end;) {
            const std::uint64_t last = std::min(posted_ + kBatch, end) - 1;
            post(posted_, last);
            posted_ = last + 1;
            retire();
        }
    }

  protected:
    // Operations [from, last], the last one signaled.
    virtual void post(std::uint64_t from, std::uint64_t last) = 0;

    void patch(std::uint64_t i) {
        std::memcpy(payload_.data(), &i, sizeof i);
        if (of_.moves)
            for (std::uint32_t k = 0; k < of_.elements; ++k)
                elements_[k].addr = local_address(i + k);
    }

    const PostCase& of_;
    interop::LibQueues queues_{{.send_requests = 128, .send_elements = 10, .inline_bytes = 64}};
    std::array<std::byte, 64> payload_{};
    std::array<ibv_sge, 10> elements_{};

  private:
    void retire() {
        const mlx5dv_cq& queue = queues_.completion_facts;
        auto* const entry =
            reinterpret_cast<mlx5_cqe64*>(static_cast<std::byte*>(queue.buf) +
                                          std::size_t{produced_ % queue.cqe_cnt} * queue.cqe_size);
        const std::uint32_t next = be32toh(queues_.facts.dbrec[1]);
        entry->srqn_uidx = htobe32(interop::LibQueues::kUserIndex);
        entry->sop_drop_qpn =
            htobe32(static_cast<std::uint32_t>(of_.opcode) << 24 | queues_.pair->qp_num);
        entry->wqe_counter = htobe16(static_cast<std::uint16_t>(next - blocks_));
        entry->op_own =
            static_cast<std::uint8_t>(MLX5_CQE_REQ << 4 | ((produced_ / queue.cqe_cnt) & 1));
        ++produced_;
        ibv_wc completion;
        must_be(ibv_poll_cq(queues_.completions.get(), 1, &completion) == 1 &&
                completion.status == IBV_WC_SUCCESS && completion.wr_id == posted_ - 1);
    }
    std::uint32_t blocks_;
    std::uint64_t posted_ = 0;
    std::uint32_t produced_ = 0;
};

class PostSendSubject final : public LibSubject {
  public:
    explicit PostSendSubject(const PostCase& of) : LibSubject(of) {
        request_.opcode = of.opcode == mlx5::Opcode::write  ? IBV_WR_RDMA_WRITE
                          : of.opcode == mlx5::Opcode::read ? IBV_WR_RDMA_READ
                                                            : IBV_WR_SEND;
        request_.wr.rdma.rkey = kRemoteKey;
        inline_ = {reinterpret_cast<std::uint64_t>(payload_.data()), of.inline_bytes, 0};
        request_.sg_list = of.inline_bytes != 0 ? &inline_ : elements_.data();
        request_.num_sge = of.inline_bytes != 0 ? 1 : static_cast<int>(of.elements);
        flags_ = of.inline_bytes != 0 ? unsigned{IBV_SEND_INLINE} : 0u;
    }

  private:
    [[gnu::noinline]] void post(std::uint64_t from, std::uint64_t last) override {
        for (std::uint64_t i = from; i <= last; ++i) {
            patch(i);
            request_.wr_id = i;
            request_.wr.rdma.remote_addr = remote_address(i);
            request_.send_flags = flags_ | (i == last ? unsigned{IBV_SEND_SIGNALED} : 0u);
            ibv_send_wr* bad = nullptr;
            must_be(ibv_post_send(queues_.pair.get(), &request_, &bad) == 0);
        }
    }

    ibv_send_wr request_{};
    ibv_sge inline_{};
    unsigned flags_ = 0;
};

class BuilderSubject final : public LibSubject {
  public:
    using LibSubject::LibSubject;

  private:
    [[gnu::noinline]] void post(std::uint64_t from, std::uint64_t last) override {
        ibv_qp_ex* const pair = ibv_qp_to_qp_ex(queues_.pair.get());
        for (std::uint64_t i = from; i <= last; ++i) {
            patch(i);
            ibv_wr_start(pair);
            pair->wr_id = i;
            pair->wr_flags = i == last ? unsigned{IBV_SEND_SIGNALED} : 0u;
            if (of_.opcode == mlx5::Opcode::write)
                ibv_wr_rdma_write(pair, kRemoteKey, remote_address(i));
            else if (of_.opcode == mlx5::Opcode::read)
                ibv_wr_rdma_read(pair, kRemoteKey, remote_address(i));
            else
                ibv_wr_send(pair);
            if (of_.inline_bytes != 0)
                ibv_wr_set_inline_data(pair, payload_.data(), of_.inline_bytes);
            else
                ibv_wr_set_sge_list(pair, of_.elements, elements_.data());
            must_be(ibv_wr_complete(pair) == 0);
        }
    }
};

}  // namespace

std::unique_ptr<PostSubject> make_libmlx5_post_send(const PostCase& of) {
    return std::make_unique<PostSendSubject>(of);
}
std::unique_ptr<PostSubject> make_libmlx5_builder(const PostCase& of) {
    return std::make_unique<BuilderSubject>(of);
}

}  // namespace verbatim::bench
