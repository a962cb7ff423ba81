// Posting and checking of operations.
#include <endian.h>

#include <chrono>
#include <string>

#include "operations_end.hpp"

namespace verbatim::interop {
namespace {

bool poll_one(ibv_cq* queue, ibv_wc& completion) {
    const int count = ibv_poll_cq(queue, 1, &completion);
    must(count >= 0, "polling failed");
    must(count == 0 || completion.status == IBV_WC_SUCCESS,
         std::string("completion: ") + ibv_wc_status_str(completion.status));
    return count == 1;
}

ibv_wr_opcode opcode_of(Operation operation) {
    constexpr std::array kOpcodes{IBV_WR_SEND,
                                  IBV_WR_SEND_WITH_IMM,
                                  IBV_WR_RDMA_WRITE,
                                  IBV_WR_RDMA_WRITE_WITH_IMM,
                                  IBV_WR_RDMA_READ,
                                  IBV_WR_ATOMIC_CMP_AND_SWP,
                                  IBV_WR_ATOMIC_FETCH_AND_ADD};
    return kOpcodes[static_cast<std::size_t>(operation)];
}

std::uint64_t sum_before(std::uint32_t round) { return std::uint64_t{round} * (round + 1) / 2; }

std::string name_of(Operation operation, std::uint32_t round) {
    return "operation " + std::to_string(static_cast<unsigned>(operation)) + " of round " +
           std::to_string(round) + ": ";
}

}  // namespace

// The place at the peer that lies as this one does here.
std::uint64_t OperationsEnd::remote(const void* own) const {
    return peer_.address +
           (reinterpret_cast<std::uint64_t>(own) - reinterpret_cast<std::uint64_t>(memory_.get()));
}

ibv_sge OperationsEnd::local_of(Operation operation, Round& round, std::uint32_t number) const {
    const auto element = [this](const void* place, std::uint32_t bytes) {
        return ibv_sge{reinterpret_cast<std::uint64_t>(place), bytes, region_->lkey};
    };
    if (operation == Operation::compare_swap) return element(&round.swapped, sizeof round.swapped);
    if (operation == Operation::fetch_add) return element(&round.added, sizeof round.added);
    const std::uint32_t bytes = bytes_of(operation, number);
    if (operation == Operation::read) return element(&round.fetched, bytes);
    return element(&round.outgoing[offset_of(operation)], bytes);
}

void OperationsEnd::post(Operation operation, std::uint32_t number) {
    Round& round = memory_->rounds[number];
    ibv_sge element = local_of(operation, round, number);
    ibv_send_wr work{}, *bad = nullptr;
    work.wr_id = posted_;
    work.sg_list = &element;
    work.num_sge = 1;
    work.opcode = opcode_of(operation);
    work.send_flags = IBV_SEND_SIGNALED;
    work.imm_data = htobe32(number);
    const bool swaps = operation == Operation::compare_swap;
    if (swaps || operation == Operation::fetch_add)
        work.wr.atomic = {remote(swaps ? &memory_->swap_word : &memory_->sum_word),
                          swaps ? number : number + 1, number + 1, peer_.key};
    else if (operation == Operation::read)
        work.wr.rdma = {remote(&round.outgoing[offset_of(operation)]), peer_.key};
    else if (operation >= Operation::write)
        work.wr.rdma = {remote(&round.written[operation == Operation::write ? 0 : 1]), peer_.key};
    must(ibv_post_send(pair_.get(), &work, &bad) == 0, "ibv_post_send failed");
    ++posted_;
}

void OperationsEnd::run() {
    constexpr std::chrono::seconds kPatience{50};
    constexpr std::uint32_t kAll = kOperations * kRounds;
    auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (completed_ != kAll || received_ != kReceives * kRounds) {
        if (posted_ != kAll && posted_ - completed_ < kRoundsAtOnce * kOperations)
            post(static_cast<Operation>(posted_ % kOperations), posted_ / kOperations);
        if (take_request() || take_receive()) continue;
        must(std::chrono::steady_clock::now() < deadline,
             "in time " + std::to_string(completed_) + " requests and " +
                 std::to_string(received_) + " receives completed");
    }
}

// In the order of posting, each once.
bool OperationsEnd::take_request() {
    ibv_wc completion{};
    if (!poll_one(requests_.get(), completion)) return false;
    must(completion.wr_id == completed_, "request " + std::to_string(completed_) +
                                             " is completed as " +
                                             std::to_string(completion.wr_id));
    check_result(static_cast<Operation>(completed_ % kOperations), completed_ / kOperations);
    ++completed_;
    return true;
}

void OperationsEnd::check_result(Operation operation, std::uint32_t number) const {
    const Round& round = memory_->rounds[number];
    const std::string name = name_of(operation, number);
    if (operation == Operation::read)
        must(has_arrived(round.fetched, operation, number, 1 - number_), name + "wrong data");
    if (operation == Operation::compare_swap)
        must(round.swapped == number, name + "found " + std::to_string(round.swapped));
    if (operation == Operation::fetch_add)
        must(round.added == sum_before(number), name + "found " + std::to_string(round.added));
}

// Those of a round: a message, one with an immediate, and the notice of the writes before it.
bool OperationsEnd::take_receive() {
    ibv_wc completion{};
    if (!poll_one(receives_.get(), completion)) return false;
    constexpr std::array kKinds{Operation::send, Operation::send_immediate,
                                Operation::write_immediate};
    const std::uint32_t number = received_ / kReceives, nth = received_ % kReceives;
    const Operation operation = kKinds[nth];
    const Round& round = memory_->rounds[number];
    const std::string name = name_of(operation, number);
    const bool message = nth < round.messages.size();
    must(completion.wr_id == received_, name + "received by another work request");
    must(completion.opcode == (message ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM),
         name + "received as another operation");
    must(completion.byte_len == bytes_of(operation, number), name + "wrong length");
    must(((completion.wc_flags & IBV_WC_WITH_IMM) != 0) == (nth != 0), name + "wrong flags");
    must(nth == 0 || be32toh(completion.imm_data) == number, name + "wrong immediate");
    const auto came = [&](const Buffer& buffer, Operation by) {
        must(has_arrived(buffer, by, number, 1 - number_), name_of(by, number) + "wrong data");
    };
    if (message) came(round.messages[nth], operation);
    if (!message) came(round.written[0], Operation::write), came(round.written[1], operation);
    ++received_;
    return true;
}

void OperationsEnd::check_words() const {
    must(memory_->swap_word == kRounds, "compare and swap: " + std::to_string(memory_->swap_word));
    must(memory_->sum_word == sum_before(kRounds),
         "fetch and add: " + std::to_string(memory_->sum_word));
}

}  // namespace verbatim::interop
