// Bytes of a socket as messages of a queue pair, and back.
#include "cm_connection.hpp"

#include <sys/socket.h>

#include <cerrno>

#include "../messages.hpp"

namespace verbatim::rdma {
namespace {

constexpr const char* kCmObject = "connection manager";
constexpr std::uint64_t kSendSlot = CmConnection::kReceives;
constexpr std::uint8_t kForEver = 7;  // tries of a message that finds no receive
constexpr std::chrono::seconds kLinger{2};
constexpr int kCmQueueEntries = CmConnection::kReceives + 2;

bool can_be_read(int file) noexcept {
    pollfd entry{file, POLLIN, 0};
    return poll(&entry, 1, 0) == 1;
}

}  // namespace

CmConnection::CmConnection(rdma_cm_id& id, std::chrono::milliseconds probe_after)
    : id_(id), times_{probe_after} {
    try {
        make_queue_pair();
    } catch (...) {
        finish();
        throw;
    }
    for (std::uint64_t slot = 0; slot < kReceives; ++slot) post_receive(slot);
}

CmConnection::~CmConnection() { finish(); }

void CmConnection::make_queue_pair() {
    const auto check = [](bool is_made, const char* call) {
        if (!is_made) throw call_error(kCmObject, call, errno);
    };
    check((domain_ = ibv_alloc_pd(id_.verbs)) != nullptr, "ibv_alloc_pd");
    check((events_ = ibv_create_comp_channel(id_.verbs)) != nullptr, "ibv_create_comp_channel");
    completions_ = ibv_create_cq(id_.verbs, kCmQueueEntries, nullptr, events_, 0);
    check(completions_ != nullptr, "ibv_create_cq");
    check(ibv_req_notify_cq(completions_, 0) == 0, "ibv_req_notify_cq");
    const int access = IBV_ACCESS_LOCAL_WRITE;
    region_ = ibv_reg_mr(domain_, memory_.data(), memory_.size(), access);
    check(region_ != nullptr, "ibv_reg_mr");
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = completions_;
    attributes.cap = {1, kReceives, 1, 1, 0};
    attributes.qp_type = IBV_QPT_RC;
    attributes.sq_sig_all = 1;
    check(rdma_create_qp(&id_, domain_, &attributes) == 0, "rdma_create_qp");
}

// The identifier is the bridge's.
void CmConnection::finish() noexcept {
    if (id_.qp != nullptr) rdma_destroy_qp(&id_);
    if (region_ != nullptr) ibv_dereg_mr(region_);
    if (completions_ != nullptr) ibv_destroy_cq(completions_);
    if (events_ != nullptr) ibv_destroy_comp_channel(events_);
    if (domain_ != nullptr) ibv_dealloc_pd(domain_);
}

rdma_conn_param CmConnection::parameters() noexcept {
    rdma_conn_param wanted{};
    wanted.retry_count = wanted.rnr_retry_count = kForEver;
    return wanted;
}

Descriptor CmConnection::establish() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        throw call_error(kCmObject, "socketpair", errno);
    socket_ = Descriptor(ends[0]);
    count_silence();
    return Descriptor(ends[1]);
}

void CmConnection::post_receive(std::uint64_t slot) noexcept {
    ibv_sge place{reinterpret_cast<std::uint64_t>(slot_at(slot)), kPiece, region_->lkey};
    ibv_recv_wr request{};
    ibv_recv_wr* bad = nullptr;
    request.wr_id = slot;
    request.sg_list = &place;
    request.num_sge = 1;
    if (ibv_post_recv(id_.qp, &request, &bad) != 0) is_gone_ = true;
}

void CmConnection::post_send(std::uint32_t bytes) noexcept {
    ibv_sge place{reinterpret_cast<std::uint64_t>(slot_at(kSendSlot)), bytes, region_->lkey};
    ibv_send_wr request{};
    ibv_send_wr* bad = nullptr;
    request.wr_id = kSendSlot;
    request.opcode = IBV_WR_SEND;
    request.sg_list = &place;
    request.num_sge = bytes == 0 ? 0 : 1;
    is_sending_ = ibv_post_send(id_.qp, &request, &bad) == 0;
    is_gone_ = is_gone_ || !is_sending_;
}

// A write without bytes touches no memory, and takes no receive: only the device's retries tell
// whether somebody is there.
void CmConnection::probe() noexcept {
    if (is_sending_ || is_gone_ || Clock::now() < times_.probes_at) return;
    ibv_send_wr request{};
    ibv_send_wr* bad = nullptr;
    request.wr_id = kSendSlot;
    request.opcode = IBV_WR_RDMA_WRITE;
    is_sending_ = ibv_post_send(id_.qp, &request, &bad) == 0;
    is_gone_ = is_gone_ || !is_sending_;
}

// From now on.
void CmConnection::count_silence() noexcept {
    if (times_.probe_after.count() != 0) times_.probes_at = Clock::now() + times_.probe_after;
}

void CmConnection::take_completions() noexcept {
    while (can_be_read(events_->fd)) {
        ibv_cq* queue = nullptr;
        void* context = nullptr;
        if (ibv_get_cq_event(events_, &queue, &context) != 0) break;
        ibv_ack_cq_events(queue, 1);
        (void)ibv_req_notify_cq(queue, 0);
    }
    ibv_wc completion{};
    while (ibv_poll_cq(completions_, 1, &completion) == 1) take(completion);
}

void CmConnection::take(const ibv_wc& completion) noexcept {
    if (completion.status != IBV_WC_SUCCESS) {
        is_gone_ = true;
        return;
    }
    count_silence();
    if (completion.wr_id == kSendSlot) {
        is_sending_ = false;
        return;
    }
    // After its end the peer has nothing to say.
    if (completion.byte_len != 0 && !has_peer_ended_)
        return incoming_.push_back({completion.wr_id, completion.byte_len});
    has_peer_ended_ = true;
    post_receive(completion.wr_id);
}

// False: the program's socket takes no more now.
bool CmConnection::deliver_front() noexcept {
    Piece& piece = incoming_.front();
    const ssize_t count = send(socket_.get(), slot_at(piece.slot) + piece.delivered,
                               piece.bytes - piece.delivered, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (count < 0 && errno == EINTR) return true;
    // What a program that has closed does not read is dropped.
    piece.delivered = count < 0 ? piece.bytes : piece.delivered + static_cast<std::uint32_t>(count);
    if (piece.delivered < piece.bytes) return true;
    if (!is_gone_) post_receive(piece.slot);
    incoming_.pop_front();
    return true;
}

void CmConnection::deliver() noexcept {
    while (!incoming_.empty())
        if (!deliver_front()) return;
    if ((has_peer_ended_ || is_gone_) && !std::exchange(has_told_end_, true))
        shutdown(socket_.get(), SHUT_WR);
}

void CmConnection::collect() noexcept {
    while (!is_sending_ && !has_read_end_ && !is_gone_) {
        const ssize_t count = recv(socket_.get(), slot_at(kSendSlot), kPiece, MSG_DONTWAIT);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        has_read_end_ = count <= 0;
        post_send(count > 0 ? static_cast<std::uint32_t>(count) : 0);
    }
}

void CmConnection::notice_hang_up() noexcept {
    if (has_hung_up_) return;
    pollfd entry{socket_.get(), 0, 0};
    has_hung_up_ = poll(&entry, 1, 0) == 1 && (entry.revents & (POLLHUP | POLLERR)) != 0;
    if (has_hung_up_) times_.gives_up_at = std::chrono::steady_clock::now() + kLinger;
}

void CmConnection::disconnected() noexcept {
    go_on();
    is_gone_ = true;
    go_on();
}

void CmConnection::go_on() noexcept {
    take_completions();
    if (!socket_) {
        is_over_ = is_gone_;
        return;
    }
    notice_hang_up();
    deliver();
    collect();
    probe();
    const bool has_said_all = has_read_end_ && !is_sending_;
    if (is_gone_)
        is_over_ = incoming_.empty();
    else
        is_over_ = has_said_all && (has_hung_up_ || has_peer_ended_) && incoming_.empty();
    if (Clock::now() >= times_.gives_up_at) is_over_ = true;
}

void CmConnection::add_to(std::vector<pollfd>& files) const {
    files.push_back({events_->fd, POLLIN, 0});
    if (!socket_ || has_hung_up_) return;
    const bool reads = !is_sending_ && !has_read_end_ && !is_gone_;
    const int events = (reads ? POLLIN : 0) | (incoming_.empty() ? 0 : POLLOUT);
    files.push_back({socket_.get(), static_cast<short>(events), 0});
}

}  // namespace verbatim::rdma
