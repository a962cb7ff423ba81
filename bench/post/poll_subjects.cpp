// Polling: thousands of completions lie in the queue when the clock starts; what is measured is
// taking them, sixteen at a time or one by one, and retiring what they complete. Posting and
// writing the entries, as a device would, happens before.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>

#include "libmlx5.hpp"
#include "operation.hpp"
#include "subjects.hpp"

namespace verbatim::bench {
namespace {

constexpr std::uint32_t kEntries = 8192;  // more than one run takes

void must_be(bool holds) {
    if (!holds) std::abort();
}

template <std::uint32_t kAtOnce>
class OursPolled final : public PostSubject {
  public:
    OursPolled() { completions_.attach(&queue_, nullptr); }
    void prepare() override {
        for (; queue_.free_blocks() != 0; ++posted_) {
            must_be(write_.post(posted_, remote_address(posted_), posted_) == Errc::ok);
            mlx5::Cqe& entry = entries_[posted_ % kEntries];
            entry.opcode_number =
                mlx5::be32(static_cast<std::uint32_t>(mlx5::Opcode::write) << 24 | kNumber);
            entry.wqe_counter = mlx5::be16(static_cast<std::uint16_t>(posted_));
            entry.op_own =
                mlx5::make_op_own(mlx5::CqeOpcode::requester,
                                  mlx5::owner_phase(static_cast<std::uint32_t>(posted_), kEntries));
        }
    }
    [[gnu::noinline]] void run(std::uint64_t count) override {
        std::array<mlx5::Completion, kAtOnce> taken;
        for (std::uint64_t done = 0; done != count; done += kAtOnce) {
            must_be(completions_.poll(taken) == kAtOnce);
            polled_ += kAtOnce;
            must_be(taken.back().id == polled_ - 1);
        }
    }

  private:
    static constexpr std::uint32_t kNumber = 0x101;
    mlx5::QueuePairView pair_view() {
        mlx5::QueuePairView view;
        view.send_buffer = ring_.data();
        view.send_blocks = kEntries;
        view.doorbell_record = record_.data();
        view.doorbell_register = register_page_.data() + 0x800;
        view.blueflame_bytes = mlx5::kBlueFlameBytes;
        view.number = kNumber;
        view.max_inline_bytes = 28;
        view.max_send_elements = 1;
        return view;
    }
    mlx5::CompletionQueueView view() {
        mlx5::CompletionQueueView view;
        view.buffer = reinterpret_cast<std::byte*>(entries_.data());
        view.entries = kEntries;
        view.entry_bytes = sizeof(mlx5::Cqe);
        view.doorbell_record = consumer_record_.data();
        return view;
    }

    alignas(4096) std::array<std::byte, std::size_t{kEntries} * 64> ring_{};
    alignas(4096) std::array<std::byte, 4096> register_page_{};
    alignas(64) std::array<mlx5::Cqe, kEntries> entries_{};
    alignas(64) std::array<std::uint32_t, 2> record_{};
    alignas(64) std::array<std::uint32_t, 2> consumer_record_{};
    mlx5::SendQueue queue_{pair_view()};
    mlx5::CompletionQueue completions_{view()};
    mlx5::Prepared<mlx5::Opcode::write, mlx5::Inline<8>> write_{
        queue_, {.opcode = mlx5::Opcode::write, .remote_key = kRemoteKey}};
    std::uint64_t posted_ = 0, polled_ = 0;
};

class LibPolled : public PostSubject {
  public:
    explicit LibPolled(bool extended)
        : queues_({.send_requests = kEntries,
                   .send_elements = 1,
                   .inline_bytes = 8,
                   .completions = kEntries - 1,
                   .extended = extended}) {
        must_be(queues_.completion_facts.cqe_cnt == kEntries);
    }
    void prepare() final {
        for (; posted_ - polled_ != kEntries - 1; ++posted_) post_one();
    }

  protected:
    std::uint64_t polled_ = 0;
    interop::LibQueues queues_;

  private:
    void post_one() {
        std::uint64_t payload = posted_;
        ibv_sge element{reinterpret_cast<std::uint64_t>(&payload), sizeof payload, 0};
        ibv_send_wr request{}, *bad = nullptr;
        request.wr_id = posted_;
        request.sg_list = &element;
        request.num_sge = 1;
        request.opcode = IBV_WR_RDMA_WRITE;
        request.send_flags = unsigned{IBV_SEND_INLINE} | unsigned{IBV_SEND_SIGNALED};
        request.wr.rdma = {remote_address(posted_), kRemoteKey};
        const std::uint32_t counter = be32toh(queues_.facts.dbrec[1]);
        must_be(ibv_post_send(queues_.pair.get(), &request, &bad) == 0);
        auto* const entry =
            reinterpret_cast<mlx5_cqe64*>(static_cast<std::byte*>(queues_.completion_facts.buf) +
                                          posted_ % kEntries * queues_.completion_facts.cqe_size);
        entry->srqn_uidx = htobe32(interop::LibQueues::kUserIndex);
        entry->sop_drop_qpn =
            htobe32(std::uint32_t{MLX5_OPCODE_RDMA_WRITE} << 24 | queues_.pair->qp_num);
        entry->wqe_counter = htobe16(static_cast<std::uint16_t>(counter));
        entry->op_own = static_cast<std::uint8_t>(MLX5_CQE_REQ << 4 | ((posted_ / kEntries) & 1));
    }
    std::uint64_t posted_ = 0;
};

template <std::uint32_t kAtOnce>
class PollCq final : public LibPolled {
  public:
    PollCq() : LibPolled(false) {}
    [[gnu::noinline]] void run(std::uint64_t count) override {
        std::array<ibv_wc, kAtOnce> taken;
        for (std::uint64_t done = 0; done != count; done += kAtOnce) {
            must_be(ibv_poll_cq(queues_.completions.get(), kAtOnce, taken.data()) == kAtOnce);
            polled_ += kAtOnce;
            must_be(taken.back().wr_id == polled_ - 1 && taken.back().status == IBV_WC_SUCCESS);
        }
    }
};

template <std::uint32_t kAtOnce>
class StartPoll final : public LibPolled {
  public:
    StartPoll() : LibPolled(true) {}
    [[gnu::noinline]] void run(std::uint64_t count) override {
        ibv_cq_ex* const queue = queues_.extended;
        for (std::uint64_t done = 0; done != count; done += kAtOnce) {
            ibv_poll_cq_attr attributes{};
            must_be(ibv_start_poll(queue, &attributes) == 0);
            for (std::uint32_t i = 1; i != kAtOnce; ++i) {
                must_be(queue->status == IBV_WC_SUCCESS);
                must_be(ibv_next_poll(queue) == 0);
            }
            polled_ += kAtOnce;
            must_be(queue->wr_id == polled_ - 1);
            ibv_end_poll(queue);
        }
    }
};

// What no poll can avoid: a look at each entry's owner and at what it completes, the record once a
// batch.
template <std::uint32_t kAtOnce>
class PollFloor final : public PostSubject {
  public:
    void prepare() override {}
    [[gnu::noinline]] void run(std::uint64_t count) override {
        for (std::uint64_t done = 0; done != count; done += kAtOnce) {
            for (std::uint32_t i = 0; i != kAtOnce; ++i, ++at_) {
                const mlx5::Cqe& entry = entries_[at_ % kEntries];
                must_be(__atomic_load_n(&entry.op_own, __ATOMIC_ACQUIRE) == 0);
                sum_ += entry.wqe_counter.raw();
            }
            __atomic_store_n(&record_, static_cast<std::uint32_t>(at_), __ATOMIC_RELEASE);
        }
    }

  private:
    alignas(64) std::array<mlx5::Cqe, kEntries> entries_{[] {
        std::array<mlx5::Cqe, kEntries> all{};
        for (mlx5::Cqe& entry : all) entry.op_own = 0;
        return all;
    }()};
    std::uint64_t at_ = 0, sum_ = 0;
    std::uint32_t record_ = 0;
};

template <class Subject>
std::unique_ptr<PostSubject> make(const PostCase&) {
    return std::make_unique<Subject>();
}

template <std::uint32_t kAtOnce>
void add(const PostCase& of, std::vector<NamedSubject>& all) {
    all.push_back({&of, "verbatim.poll", make<OursPolled<kAtOnce>>});
    all.push_back({&of, "libmlx5.ibv_poll_cq", make<PollCq<kAtOnce>>});
    all.push_back({&of, "libmlx5.ibv_start_poll", make<StartPoll<kAtOnce>>});
    all.push_back({&of, "floor", make<PollFloor<kAtOnce>>});
}
}  // namespace

void add_poll_subjects(std::vector<NamedSubject>& all) {
    add<16>(kPollCases[0], all);
    add<1>(kPollCases[1], all);
}

}  // namespace verbatim::bench
