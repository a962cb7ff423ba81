// Messages and their checks.
#include "datagram_end.hpp"

#include <endian.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

namespace verbatim::interop {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{50};
constexpr std::size_t kHeader = 40;
constexpr std::uint32_t kAnswer = std::uint32_t{1} << 31;  // of the immediate, beside the round

std::uint32_t bytes_of(std::uint32_t round, std::uint32_t most) {
    return round == 0 ? 0 : round * 37 % (most + 1);
}
// Of a question; its answer has all bits turned round.
std::uint8_t byte_of(std::uint32_t round, std::uint32_t at, bool answer) {
    const auto byte = static_cast<std::uint8_t>(round * 7 + at * 13);
    return answer ? static_cast<std::uint8_t>(~byte) : byte;
}

std::uint32_t round_of(const ibv_wc& completion) { return be32toh(completion.imm_data) & ~kAnswer; }
bool is_answer(const ibv_wc& completion) { return (be32toh(completion.imm_data) & kAnswer) != 0; }

}  // namespace

DatagramEnd::DatagramEnd(int gid) : gid_(gid), memory_((kReceives + 1) * kSlotBytes) {
    ibv_device** const devices = made(ibv_get_device_list(nullptr), "ibv_get_device_list");
    context_.reset(made(ibv_open_device(made(devices[0], "a device")), "ibv_open_device"));
    ibv_free_device_list(devices);
    domain_.reset(made(ibv_alloc_pd(context_.get()), "ibv_alloc_pd"));
    region_.reset(
        made(ibv_reg_mr(domain_.get(), memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE),
             "ibv_reg_mr"));
    make_pair();
    be_ready();
}

void DatagramEnd::make_pair() {
    const auto queue = [this](std::uint32_t entries) {
        return made(ibv_create_cq(context_.get(), static_cast<int>(entries), nullptr, nullptr, 0),
                    "ibv_create_cq");
    };
    requests_.reset(queue(1));
    receives_.reset(queue(kReceives));
    ibv_qp_init_attr wanted{};
    wanted.send_cq = requests_.get();
    wanted.recv_cq = receives_.get();
    wanted.cap = {1, kReceives, 1, 1, 0};
    wanted.qp_type = IBV_QPT_UD;
    pair_.reset(made(ibv_create_qp(domain_.get(), &wanted), "ibv_create_qp"));
    own_.number = pair_->qp_num;
    must(ibv_query_gid(context_.get(), 1, gid_, &own_.gid) == 0, "ibv_query_gid failed");
}

void DatagramEnd::be_ready() {
    ibv_qp_attr to{};
    const auto change = [&](ibv_qp_state state, int mask) {
        to.qp_state = state;
        const int error = ibv_modify_qp(pair_.get(), &to, IBV_QP_STATE | mask);
        must(error == 0, "state " + std::to_string(state) + ": " + std::strerror(error));
    };
    to.port_num = 1;
    to.qkey = kQueueKey;
    change(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    for (std::uint64_t slot = 0; slot != kReceives; ++slot) receive_at(slot);
    change(IBV_QPS_RTR, 0);
    change(IBV_QPS_RTS, IBV_QP_SQ_PSN);
}

void DatagramEnd::meet(SideChannel& peer) { peer_ = peer.exchange(own_); }

void DatagramEnd::receive_at(std::uint64_t slot) {
    ibv_sge element{reinterpret_cast<std::uint64_t>(memory_.data()) + slot * kSlotBytes, kSlotBytes,
                    region_->lkey};
    ibv_recv_wr work{slot, nullptr, &element, 1}, *bad = nullptr;
    must(ibv_post_recv(pair_.get(), &work, &bad) == 0, "ibv_post_recv failed");
}

// And waits until it is on its way.
void DatagramEnd::send(ibv_ah* to, std::uint32_t number, std::uint32_t round, bool asks) {
    std::uint8_t* const payload = memory_.data() + kReceives * kSlotBytes;
    const std::uint32_t bytes = bytes_of(round, kMostBytes);
    for (std::uint32_t i = 0; i != bytes; ++i) payload[i] = byte_of(round, i, !asks);
    ibv_sge element{reinterpret_cast<std::uint64_t>(payload), bytes, region_->lkey};
    ibv_send_wr work{}, *bad = nullptr;
    work.sg_list = &element;
    work.num_sge = 1;
    work.opcode = IBV_WR_SEND_WITH_IMM;
    work.send_flags = IBV_SEND_SIGNALED;
    work.imm_data = htobe32(round | (asks ? 0 : kAnswer));
    work.wr.ud = {to, number, kQueueKey};
    must(ibv_post_send(pair_.get(), &work, &bad) == 0, "ibv_post_send failed");
    ibv_wc completion{};
    for (const auto end = Clock::now() + kPatience;
         ibv_poll_cq(requests_.get(), 1, &completion) == 0;)
        must(Clock::now() < end, "a message was not sent");
    must(completion.status == IBV_WC_SUCCESS,
         std::string("a message: ") + ibv_wc_status_str(completion.status));
}

void DatagramEnd::check(const ibv_wc& completion, const std::uint8_t* slot) const {
    const std::uint32_t round = round_of(completion);
    const std::string name = "round " + std::to_string(round) + ": ";
    const std::uint32_t bytes = bytes_of(round, kMostBytes);
    must(completion.status == IBV_WC_SUCCESS, name + ibv_wc_status_str(completion.status));
    must((completion.wc_flags & IBV_WC_GRH) != 0, name + "no network header");
    must(completion.src_qp == peer_.number, name + "another sender");
    must(completion.byte_len == kHeader + bytes, name + "wrong length");
    must(slot[20] >> 4 == 4, name + "no IPv4 header");
    constexpr std::size_t kAddressInGid = 12, kFrom = 32, kTo = 36;
    must(std::memcmp(slot + kFrom, peer_.gid.raw + kAddressInGid, 4) == 0, name + "wrong source");
    must(std::memcmp(slot + kTo, own_.gid.raw + kAddressInGid, 4) == 0, name + "wrong target");
    for (std::uint32_t i = 0; i != bytes; ++i)
        must(slot[kHeader + i] == byte_of(round, i, is_answer(completion)), name + "wrong data");
}

// Of the other kind may be late ones: both ends have asked by then, and answered.
bool DatagramEnd::take(Message& message, ibv_wc& completion, bool answers) {
    const int count = ibv_poll_cq(receives_.get(), 1, &completion);
    must(count >= 0, "polling failed");
    if (count == 0) return false;
    must(completion.wr_id < kReceives && (completion.wc_flags & IBV_WC_WITH_IMM) != 0,
         "a completion of something else");
    check(completion, memory_.data() + completion.wr_id * kSlotBytes);
    message = {round_of(completion), completion.wr_id};
    if (answers == is_answer(completion)) return true;
    receive_at(message.slot);
    return false;
}

void DatagramEnd::ask() {
    constexpr std::chrono::milliseconds kPause{100};
    ibv_ah_attr where{};
    where.is_global = 1;
    where.port_num = 1;
    where.grh.hop_limit = 64;
    where.grh.sgid_index = static_cast<std::uint8_t>(gid_);
    where.grh.dgid = peer_.gid;
    const std::unique_ptr<ibv_ah, VerbsDestroyer<ibv_destroy_ah>> address(
        made(ibv_create_ah(domain_.get(), &where), "ibv_create_ah"));
    const auto end = Clock::now() + kPatience;
    for (std::uint32_t round = 0; round != kRounds;) {
        send(address.get(), peer_.number, round, true);
        bool answered = false;
        for (const auto again = Clock::now() + kPause; !answered && Clock::now() < again;) {
            Message message{};
            ibv_wc completion{};
            if (!take(message, completion, true)) continue;
            receive_at(message.slot);
            answered = message.round == round;  // others are answers to what was asked again
        }
        if (answered) ++round;
        must(Clock::now() < end, "in time " + std::to_string(round) + " rounds were done");
    }
}

// By the way that the question has come.
void DatagramEnd::answer(SideChannel& peer) {
    const auto end = Clock::now() + kPatience;
    while (!peer.has_word()) {
        must(Clock::now() < end, "the peer has not ended in time");
        Message message{};
        ibv_wc completion{};
        if (!take(message, completion, false)) continue;
        auto* const header = reinterpret_cast<ibv_grh*>(memory_.data() + message.slot * kSlotBytes);
        const std::unique_ptr<ibv_ah, VerbsDestroyer<ibv_destroy_ah>> back(made(
            ibv_create_ah_from_wc(domain_.get(), &completion, header, 1), "ibv_create_ah_from_wc"));
        receive_at(message.slot);
        send(back.get(), completion.src_qp, message.round, false);
    }
}

}  // namespace verbatim::interop
