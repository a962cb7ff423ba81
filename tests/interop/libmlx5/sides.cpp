// The same words for what libibverbs, its extended completion queues and our driver say.
#include "sides.hpp"

#include <algorithm>
#include <bit>
#include <ostream>

#include "lib_requests.hpp"

namespace verbatim::interop {

ibv_wc_opcode lib_opcode_of(mlx5::Opcode opcode) {
    using mlx5::Opcode;
    switch (opcode) {
        case Opcode::write:
        case Opcode::write_immediate:
            return IBV_WC_RDMA_WRITE;
        case Opcode::read:
            return IBV_WC_RDMA_READ;
        case Opcode::compare_swap:
            return IBV_WC_COMP_SWAP;
        case Opcode::fetch_add:
            return IBV_WC_FETCH_ADD;
        case Opcode::local_invalidate:
            return IBV_WC_LOCAL_INV;
        case Opcode::bind_window:
            return IBV_WC_BIND_MW;
        default:
            return IBV_WC_SEND;
    }
}

bool same_failure(ibv_wc_status theirs, Errc ours) {
    switch (theirs) {
        case IBV_WC_SUCCESS:
            return ours == Errc::ok;
        case IBV_WC_LOC_LEN_ERR:
            return ours == Errc::local_length;
        case IBV_WC_LOC_QP_OP_ERR:
        case IBV_WC_MW_BIND_ERR:
            return ours == Errc::local_queue_pair;
        case IBV_WC_LOC_PROT_ERR:
        case IBV_WC_LOC_ACCESS_ERR:
            return ours == Errc::local_protection;
        case IBV_WC_WR_FLUSH_ERR:
            return ours == Errc::flushed;
        case IBV_WC_REM_INV_REQ_ERR:
            return ours == Errc::remote_invalid;
        case IBV_WC_REM_ACCESS_ERR:
            return ours == Errc::remote_access;
        case IBV_WC_REM_OP_ERR:
        case IBV_WC_BAD_RESP_ERR:
            return ours == Errc::remote_operation;
        case IBV_WC_RETRY_EXC_ERR:
            return ours == Errc::retry_exceeded;
        case IBV_WC_RNR_RETRY_EXC_ERR:
            return ours == Errc::rnr_exceeded;
        case IBV_WC_REM_ABORT_ERR:
        case IBV_WC_GENERAL_ERR:
            return ours == Errc::aborted;
        default:
            return false;
    }
}

std::ostream& operator<<(std::ostream& out, const Answer& answer) {
    return out << "id " << answer.id << " status " << answer.status << " vendor " << answer.vendor
               << " number " << answer.number << " opcode " << answer.opcode << " immediate "
               << answer.has_immediate << answer.invalidated << ' ' << answer.immediate << " bytes "
               << answer.bytes;
}

void EntryWriter::write(RawEntry raw) {
    const bool owner = (produced_ & entries_) != 0;
    raw.cqe.op_own = static_cast<std::uint8_t>((raw.cqe.op_own & ~1u) | (owner ? 1u : 0u));
    std::byte* const entry = ring_ + std::size_t{produced_ % entries_} * entry_bytes_;
    if (entry_bytes_ == 128) std::memcpy(entry, raw.before.data(), raw.before.size());
    std::memcpy(entry + entry_bytes_ - sizeof raw.cqe, &raw.cqe, sizeof raw.cqe);
    ++produced_;
}

namespace {

// libibverbs says how many bytes for these only.
bool tells_bytes(ibv_wc_opcode opcode) {
    return (opcode & IBV_WC_RECV) != 0 || opcode == IBV_WC_RDMA_READ ||
           opcode == IBV_WC_COMP_SWAP || opcode == IBV_WC_FETCH_ADD;
}

bool received(const Answer& answer) { return (answer.opcode & IBV_WC_RECV) != 0; }

void tell(Answer& answer, unsigned flags, __be32 immediate, std::uint32_t bytes) {
    const bool received = interop::received(answer);
    answer.has_immediate = received && (flags & IBV_WC_WITH_IMM) != 0;
    answer.invalidated = received && (flags & IBV_WC_WITH_INV) != 0;
    if (answer.has_immediate) answer.immediate = be32toh(immediate);
    if (tells_bytes(answer.opcode)) answer.bytes = bytes;
}

}  // namespace

LibSide::LibSide(const PairOptions& options)
    : queues_(options),
      writer_(static_cast<std::byte*>(queues_.completion_facts.buf),
              queues_.completion_facts.cqe_cnt, queues_.completion_facts.cqe_size) {
    if (queues_.completion_facts.cqe_size != options.entry_bytes)
        throw std::runtime_error("libmlx5 chose another entry size");
}

int LibSide::receive(std::span<const Receive> list) {
    std::vector<ibv_recv_wr> requests(list.size());
    std::vector<std::vector<ibv_sge>> elements(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
        for (const mlx5::Element& element : list[i].elements)
            elements[i].push_back({element.address, element.bytes, element.local_key});
        requests[i].wr_id = list[i].id;
        requests[i].sg_list = elements[i].data();
        requests[i].num_sge = static_cast<int>(elements[i].size());
        if (i > 0) requests[i - 1].next = &requests[i];
    }
    ibv_recv_wr* bad = nullptr;
    return is_shared() ? ibv_post_srq_recv(queues_.shared.get(), requests.data(), &bad)
                       : ibv_post_recv(queues_.pair.get(), requests.data(), &bad);
}

int LibSide::send(mlx5::test::Request& request) {
    LibRequest theirs;
    fill(theirs, request.get());
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(queues_.pair.get(), &theirs.wr, &bad);
}

std::span<const std::byte> LibSide::receive_ring() const {
    const void* const ring = is_shared() ? queues_.shared_facts.buf : queues_.facts.rq.buf;
    return {static_cast<const std::byte*>(ring), std::size_t{receive_entries()} * receive_stride()};
}

std::uint32_t LibSide::receive_record() const {
    return be32toh(is_shared() ? *queues_.shared_facts.dbrec : queues_.facts.dbrec[0]);
}

std::optional<Answer> LibSide::poll() {
    const auto answers = queues_.extended != nullptr ? poll_extended(1) : poll_plain(1);
    return answers.empty() ? std::nullopt : std::optional(answers.front());
}

std::vector<Answer> LibSide::poll_all() {
    const std::size_t most = queues_.completion_facts.cqe_cnt;
    return queues_.extended != nullptr ? poll_extended(most) : poll_plain(most);
}

namespace {

Answer answer_of(const ibv_wc& completion) {
    Answer answer{.id = completion.wr_id, .status = completion.status, .number = completion.qp_num};
    if (completion.status != IBV_WC_SUCCESS) {
        answer.vendor = completion.vendor_err;
        return answer;
    }
    answer.opcode = completion.opcode;
    tell(answer, completion.wc_flags, completion.imm_data, completion.byte_len);
    if (answer.invalidated) answer.immediate = completion.invalidated_rkey;
    return answer;
}

// The entry that the queue stands at.
Answer answer_of(ibv_cq_ex* queue) {
    Answer answer{.id = queue->wr_id, .status = queue->status, .number = ibv_wc_read_qp_num(queue)};
    if (queue->status != IBV_WC_SUCCESS) {
        answer.vendor = ibv_wc_read_vendor_err(queue);
        return answer;
    }
    answer.opcode = ibv_wc_read_opcode(queue);
    const bool atomic = answer.opcode == IBV_WC_COMP_SWAP || answer.opcode == IBV_WC_FETCH_ADD;
    // What it reads is in the entry, which need not say 8.
    tell(answer, ibv_wc_read_wc_flags(queue), ibv_wc_read_imm_data(queue),
         atomic ? 8 : ibv_wc_read_byte_len(queue));
    if (answer.invalidated) answer.immediate = ibv_wc_read_invalidated_rkey(queue);
    return answer;
}

}  // namespace

std::vector<Answer> LibSide::poll_plain(std::size_t most) {
    std::vector<ibv_wc> completions(most);
    const int count =
        ibv_poll_cq(queues_.completions.get(), static_cast<int>(most), completions.data());
    std::vector<Answer> answers;
    for (int i = 0; i < count; ++i)
        answers.push_back(answer_of(completions[static_cast<std::size_t>(i)]));
    return answers;
}

std::vector<Answer> LibSide::poll_extended(std::size_t most) {
    std::vector<Answer> answers;
    ibv_poll_cq_attr attributes{};
    if (ibv_start_poll(queues_.extended, &attributes) != 0) return answers;
    do {
        answers.push_back(answer_of(queues_.extended));
    } while (answers.size() < most && ibv_next_poll(queues_.extended) == 0);
    ibv_end_poll(queues_.extended);
    return answers;
}

mlx5::QueuePairView OurSide::pair_view(LibSide& like, const PairOptions& options) {
    mlx5::QueuePairView made;
    made.send_buffer = send_ring_.data();
    made.send_blocks = like.queues().facts.sq.wqe_cnt;
    if (!like.is_shared()) {
        made.receive_buffer = receive_ring_.data();
        made.receive_entries = like.receive_entries();
        made.receive_stride_log2 =
            static_cast<std::uint32_t>(std::countr_zero(like.receive_stride()));
        made.max_receive_elements = like.receive_stride() / 16;
    }
    made.doorbell_record = records_.data();
    made.doorbell_register = register_.data();
    made.blueflame_bytes = 256;
    made.number = like.queues().pair->qp_num;
    made.max_inline_bytes = like.queues().inline_bytes;
    made.max_send_elements = options.send_elements;
    return made;
}

mlx5::SharedReceiveQueueView OurSide::shared_view(LibSide& like) {
    mlx5::SharedReceiveQueueView made;
    made.buffer = receive_ring_.data();
    made.entries = like.receive_entries();
    made.stride_log2 = static_cast<std::uint32_t>(std::countr_zero(like.receive_stride()));
    made.doorbell_record = &shared_record_;
    made.max_elements = like.receive_stride() / 16 - 1;
    return made;
}

mlx5::CompletionQueueView OurSide::completion_view(LibSide& like) {
    mlx5::CompletionQueueView made;
    made.buffer = completion_ring_.data();
    made.entries = like.queues().completion_facts.cqe_cnt;
    made.entry_bytes = like.queues().completion_facts.cqe_size;
    made.doorbell_record = completion_records_.data();
    std::memset(completion_ring_.data(), 0xf0, completion_ring_.size());
    return made;
}

OurSide::OurSide(LibSide& like, const PairOptions& options)
    : send_ring_(std::size_t{like.queues().facts.sq.wqe_cnt} * 64),
      receive_ring_(std::size_t{like.receive_entries()} * like.receive_stride()),
      completion_ring_(std::size_t{like.queues().completion_facts.cqe_cnt} *
                       like.queues().completion_facts.cqe_size),
      send_(pair_view(like, options)),
      completions_(completion_view(like)),
      writer_(completion_ring_.data(), like.queues().completion_facts.cqe_cnt,
              like.queues().completion_facts.cqe_size) {
    if (like.is_shared()) {
        shared_.emplace(shared_view(like));
        completions_.attach(send_, *shared_);
    } else {
        receive_.emplace(pair_view(like, options));
        completions_.attach(&send_, &*receive_);
    }
}

Errc OurSide::receive(std::span<const Receive> list) {
    std::vector<mlx5::ReceiveRequest> requests;
    for (const Receive& one : list) requests.push_back({one.id, one.elements});
    return shared_ ? shared_->post(requests) : receive_->post(requests);
}

namespace {

// In libibverbs' words, of which `status` is the one for this failure.
Answer answer_of(const mlx5::Completion& completion, ibv_wc_status status) {
    Answer answer{.id = completion.id, .status = status, .number = completion.queue_pair};
    if (completion.status != Errc::ok) {
        answer.vendor = completion.vendor_syndrome;
        return answer;
    }
    using mlx5::CompletionKind;
    answer.opcode = completion.kind == CompletionKind::send_side ? lib_opcode_of(completion.opcode)
                    : completion.kind == CompletionKind::receive ? IBV_WC_RECV
                                                                 : IBV_WC_RECV_RDMA_WITH_IMM;
    answer.has_immediate = completion.has_immediate;
    answer.invalidated = completion.invalidated;
    answer.immediate = completion.immediate;
    answer.bytes = completion.bytes;
    return answer;
}

}  // namespace

void OurSide::expect_same(std::span<const Answer> theirs) {
    std::vector<mlx5::Completion> ours(std::max<std::size_t>(theirs.size(), 1));
    ours.resize(completions_.poll(ours));
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
        EXPECT_TRUE(same_failure(theirs[i].status, ours[i].status))
            << theirs[i].status << " and " << static_cast<int>(ours[i].status);
        EXPECT_EQ(answer_of(ours[i], theirs[i].status), theirs[i]);
    }
}

}  // namespace verbatim::interop
