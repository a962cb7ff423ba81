// The subjects.
#include "small_operation.hpp"

#include "verbs_side.hpp"

namespace verbatim::bench {
namespace {

class Executed : public SmallOperation {
  public:
    explicit Executed(ibv_wr_opcode opcode) : opcode_(opcode), memory_(4 * kBatch) {
        connect(to_.get(), from_->qp_num);
        connect(from_.get(), to_->qp_num);
    }
    void run_batch() override {
        const bool received = opcode_ == IBV_WR_SEND;
        for (std::uint32_t i = 0; received && i < kBatch; ++i) memory_.receive(to_.get());
        for (std::uint32_t i = 0; i < kBatch; ++i) memory_.post(from_.get(), opcode_);
        memory_.await(received ? 2 * kBatch : kBatch);
    }

  private:
    ibv_wr_opcode opcode_;
    Memory memory_;
    interop::Pair from_ = make_pair(memory_.domain.get(), memory_.completions.get(), 2 * kBatch);
    interop::Pair to_ = make_pair(memory_.domain.get(), memory_.completions.get(), 2 * kBatch);
};

// Completions written by hand, as a device writes them.
class Parked : public SmallOperation {
  public:
    Parked() : memory_(4 * kBatch, nullptr, queues_.context.get()) {}
    void run_batch() override {
        for (std::uint32_t i = 0; i < kBatch; ++i) {
            memory_.post(queues_.pair.get(), IBV_WR_RDMA_WRITE);
            complete();
        }
        ibv_wc done[kBatch];
        if (ibv_poll_cq(queues_.completions.get(), kBatch, done) != kBatch)
            throw std::runtime_error("a completion is missing");
    }

  private:
    void complete() {
        const mlx5dv_cq& queue = queues_.completion_facts;
        auto* const entry =
            reinterpret_cast<mlx5_cqe64*>(static_cast<std::byte*>(queue.buf) +
                                          std::size_t{produced_ % queue.cqe_cnt} * queue.cqe_size);
        entry->srqn_uidx = htobe32(interop::LibQueues::kUserIndex);
        entry->sop_drop_qpn =
            htobe32(std::uint32_t{MLX5_OPCODE_RDMA_WRITE} << 24 | queues_.pair->qp_num);
        // The request has one block.
        entry->wqe_counter =
            htobe16(static_cast<std::uint16_t>(be32toh(queues_.facts.dbrec[1]) - 1));
        entry->op_own =
            static_cast<std::uint8_t>(MLX5_CQE_REQ << 4 | ((produced_ / queue.cqe_cnt) & 1));
        ++produced_;
    }

    interop::LibQueues queues_{{.send_requests = 2 * kBatch, .inline_bytes = 64}};
    Memory memory_;
    std::uint32_t produced_ = 0;
};

// Nothing comes.
class EmptyPoll : public SmallOperation {
  public:
    EmptyPoll(std::uint32_t pairs, std::uint32_t queues) : memory_(16) {
        for (std::uint32_t i = 0; i < queues; ++i)
            queues_.emplace_back(interop::made(
                ibv_create_cq(memory_.context, 16, nullptr, nullptr, 0), "ibv_create_cq"));
        for (std::uint32_t i = 0; i < pairs; ++i)
            pairs_.push_back(make_pair(memory_.domain.get(), queues_[i / 2 % queues].get(), 2));
        for (std::uint32_t i = 0; i < pairs; ++i) connect(pairs_[i].get(), pairs_[i ^ 1]->qp_num);
        // Each has done something.
        for (const interop::Pair& pair : pairs_)
            for (memory_.post(pair.get(), IBV_WR_RDMA_WRITE); poll_all() == 0;) continue;
        for (std::uint32_t i = 0; i < kCalm; ++i) poll_all();
    }
    void run_batch() override {
        for (std::uint32_t i = 0; i < kBatch; ++i) poll_all();
    }

  private:
    static constexpr std::uint32_t kCalm = 4096;
    std::uint32_t poll_all() {
        std::uint32_t found = 0;
        ibv_wc done[16];
        for (const interop::Queue& queue : queues_)
            found += static_cast<std::uint32_t>(ibv_poll_cq(queue.get(), 16, done));
        return found;
    }
    Memory memory_;
    std::vector<interop::Queue> queues_;
    std::vector<interop::Pair> pairs_;
};

template <std::uint32_t kPairs, std::uint32_t kQueues>
std::unique_ptr<SmallOperation> empty_poll() {
    return std::make_unique<EmptyPoll>(kPairs, kQueues);
}

}  // namespace

const NamedOperation kSmallOperations[8] = {
    {"empty_poll", "verbatim.2", empty_poll<2, 1>},
    {"empty_poll", "verbatim.100", empty_poll<100, 1>},
    {"empty_poll", "verbatim.1000", empty_poll<1000, 1>},
    {"empty_poll", "verbatim.10000", empty_poll<10000, 1>, false},
    {"empty_poll", "verbatim.10000_on_8", empty_poll<10000, 8>, false},
    {"operation_8", "verbatim.write",
     []() -> std::unique_ptr<SmallOperation> {
         return std::make_unique<Executed>(IBV_WR_RDMA_WRITE);
     }},
    {"operation_8", "verbatim.send",
     []() -> std::unique_ptr<SmallOperation> { return std::make_unique<Executed>(IBV_WR_SEND); }},
    {"operation_8", "floor",
     []() -> std::unique_ptr<SmallOperation> { return std::make_unique<Parked>(); }},
};

}  // namespace verbatim::bench
