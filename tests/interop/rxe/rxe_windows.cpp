// Runs one end of a queue pair against another process of this program, maybe at another device.
// Each opens a window, into which the other one writes, and which the other one invalidates by a
// message. Then the end that calls writes into the closed window, and is refused.
// Arguments: index of the GID, TCP port, and the peer's address at the end that calls.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "pair_states.hpp"

namespace verbatim::interop {
namespace {

constexpr std::uint64_t kPattern = 0x0123456789abcdef;

class WindowsEnd {
  public:
    explicit WindowsEnd(int gid);

    void connect(SideChannel& peer);
    // The peer may write into the window from now on.
    void open(SideChannel& peer);
    void write(std::uint64_t word, ibv_wc_status expected);
    std::uint64_t written() const { return memory_[kWritten]; }
    void invalidate_peers();
    // The peer has invalidated this end's.
    void await_invalidation();

  private:
    static constexpr std::size_t kWords = 512, kSource = 0, kWritten = 8;

    void make_pair();
    void post(ibv_send_wr& work);
    ibv_wc completion(ibv_cq& queue) const;

    struct Place {
        PeerPair pair;
        std::uint64_t address;
    };
    struct Window {
        std::uint32_t key;
        std::uint64_t address;
    };

    const int gid_;
    alignas(4096) std::array<std::uint64_t, kWords> memory_{};
    std::unique_ptr<ibv_context, VerbsDestroyer<ibv_close_device>> context_;
    std::unique_ptr<ibv_pd, VerbsDestroyer<ibv_dealloc_pd>> domain_;
    std::unique_ptr<ibv_mr, VerbsDestroyer<ibv_dereg_mr>> region_;
    std::unique_ptr<ibv_mw, VerbsDestroyer<ibv_dealloc_mw>> window_;
    std::unique_ptr<ibv_cq, VerbsDestroyer<ibv_destroy_cq>> requests_, receives_;
    std::unique_ptr<ibv_qp, VerbsDestroyer<ibv_destroy_qp>> pair_;
    Window peers_{};
};

WindowsEnd::WindowsEnd(int gid) : gid_(gid) {
    ibv_device** const devices = made(ibv_get_device_list(nullptr), "ibv_get_device_list");
    context_.reset(made(ibv_open_device(made(devices[0], "a device")), "ibv_open_device"));
    ibv_free_device_list(devices);
    domain_.reset(made(ibv_alloc_pd(context_.get()), "ibv_alloc_pd"));
    region_.reset(
        made(ibv_reg_mr(domain_.get(), memory_.data(), sizeof memory_,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND),
             "ibv_reg_mr"));
    window_.reset(made(ibv_alloc_mw(domain_.get(), IBV_MW_TYPE_2), "ibv_alloc_mw"));
    make_pair();
    to_init(*pair_);
    ibv_sge element{reinterpret_cast<std::uint64_t>(&memory_[kWords / 2]), 64, region_->lkey};
    ibv_recv_wr work{0, nullptr, &element, 1}, *bad = nullptr;
    must(ibv_post_recv(pair_.get(), &work, &bad) == 0, "ibv_post_recv failed");
}

void WindowsEnd::make_pair() {
    constexpr std::uint32_t kMost = 16;
    const auto queue = [this] {
        return made(ibv_create_cq(context_.get(), kMost, nullptr, nullptr, 0), "ibv_create_cq");
    };
    requests_.reset(queue());
    receives_.reset(queue());
    ibv_qp_init_attr wanted{};
    wanted.send_cq = requests_.get();
    wanted.recv_cq = receives_.get();
    wanted.cap = {kMost, kMost, 1, 1, 0};
    wanted.qp_type = IBV_QPT_RC;
    pair_.reset(made(ibv_create_qp(domain_.get(), &wanted), "ibv_create_qp"));
}

void WindowsEnd::connect(SideChannel& peer) {
    constexpr std::uint32_t kSequence = 0x123456;
    PeerPair own{pair_->qp_num, kSequence, {}};
    must(ibv_query_gid(context_.get(), 1, gid_, &own.gid) == 0, "ibv_query_gid failed");
    to_receive(*pair_, gid_, peer.exchange(own));
    to_send(*pair_, kSequence);
    peer.exchange('r');  // the peer receives, too
}

ibv_wc WindowsEnd::completion(ibv_cq& queue) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    ibv_wc found{};
    while (ibv_poll_cq(&queue, 1, &found) == 0)
        must(std::chrono::steady_clock::now() < deadline, "nothing completes");
    return found;
}

void WindowsEnd::post(ibv_send_wr& work) {
    ibv_send_wr* bad = nullptr;
    work.send_flags |= IBV_SEND_SIGNALED;
    const int error = ibv_post_send(pair_.get(), &work, &bad);
    must(error == 0, "ibv_post_send: " + std::string(std::strerror(error)));
}

void WindowsEnd::open(SideChannel& peer) {
    ibv_send_wr work{};
    work.opcode = IBV_WR_BIND_MW;
    work.bind_mw.mw = window_.get();
    work.bind_mw.rkey = ibv_inc_rkey(window_->rkey);
    work.bind_mw.bind_info = {region_.get(), reinterpret_cast<std::uint64_t>(memory_.data()),
                              sizeof memory_, IBV_ACCESS_REMOTE_WRITE};
    post(work);
    const ibv_wc opened = completion(*requests_);
    must(opened.status == IBV_WC_SUCCESS,
         std::string("the window: ") + ibv_wc_status_str(opened.status));
    window_->rkey = work.bind_mw.rkey;
    peers_ = peer.exchange(Window{window_->rkey, reinterpret_cast<std::uint64_t>(memory_.data())});
}

void WindowsEnd::write(std::uint64_t word, ibv_wc_status expected) {
    memory_[kSource] = word;
    ibv_sge element{reinterpret_cast<std::uint64_t>(&memory_[kSource]), sizeof word, region_->lkey};
    ibv_send_wr work{};
    work.opcode = IBV_WR_RDMA_WRITE;
    work.sg_list = &element;
    work.num_sge = 1;
    work.wr.rdma.remote_addr = peers_.address + kWritten * sizeof word;
    work.wr.rdma.rkey = peers_.key;
    post(work);
    const ibv_wc done = completion(*requests_);
    must(done.status == expected, std::string("a write: ") + ibv_wc_status_str(done.status));
}

void WindowsEnd::invalidate_peers() {
    ibv_sge element{reinterpret_cast<std::uint64_t>(&memory_[kSource]), 8, region_->lkey};
    ibv_send_wr work{};
    work.opcode = IBV_WR_SEND_WITH_INV;
    work.sg_list = &element;
    work.num_sge = 1;
    work.invalidate_rkey = peers_.key;
    post(work);
    const ibv_wc done = completion(*requests_);
    must(done.status == IBV_WC_SUCCESS, std::string("a send: ") + ibv_wc_status_str(done.status));
}

void WindowsEnd::await_invalidation() {
    const ibv_wc came = completion(*receives_);
    must(came.status == IBV_WC_SUCCESS && came.byte_len == 8, "the message is another");
    // rdma_rxe of Linux 6.1 hands out the kernel's own flag.
    constexpr unsigned kKernelsFlag = 1 << 2;
    must((came.wc_flags & (IBV_WC_WITH_INV | kKernelsFlag)) != 0,
         "the message invalidates nothing");
    must(came.invalidated_rkey == window_->rkey, "the message invalidates another key");
}

void run(int gid, std::uint16_t port, const char* address) {
    const auto end = std::make_unique<WindowsEnd>(gid);
    SideChannel peer(port, address);
    const std::uint64_t own = kPattern + (address != nullptr ? 1 : 0);
    end->connect(peer);
    end->open(peer);
    end->write(own, IBV_WC_SUCCESS);
    const std::uint64_t peers = peer.exchange(own);
    must(end->written() == peers, "the window has other bytes");
    end->invalidate_peers();
    end->await_invalidation();
    peer.exchange('i');
    if (address != nullptr) end->write(0, IBV_WC_REM_ACCESS_ERR);
    peer.exchange('d');
    must(end->written() == peers, "a closed window was written to");
}

}  // namespace
}  // namespace verbatim::interop

int main(int count, char** arguments) try {
    using namespace verbatim::interop;
    must(count == 3 || count == 4, "usage: rxe_windows GID PORT [PEER]");
    run(std::atoi(arguments[1]), static_cast<std::uint16_t>(std::atoi(arguments[2])),
        count == 4 ? arguments[3] : nullptr);
    return 0;
} catch (const std::exception& failure) {
    std::printf("%s\n", failure.what());
    return 1;
}
