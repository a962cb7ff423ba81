// ZeroMQ over ipc: a pair of sockets. Its thread for input and output may run on either core.
#include <unistd.h>
#include <zmq.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "../subject.hpp"
#include "../workloads.hpp"

namespace verbatim::bench {
namespace {

void require_zeromq(bool fine, const char* what) {
    if (!fine) throw std::runtime_error(std::string(what) + ": " + zmq_strerror(zmq_errno()));
}

void* make_context() {
    void* context = zmq_ctx_new();
    for (const int core : {0, 1}) zmq_ctx_set(context, ZMQ_THREAD_AFFINITY_CPU_ADD, core);
    return context;
}

template <bool sleeps>
class ZeromqEnd {
  public:
    ZeromqEnd(Side& side, const Case& of) : bytes_(of.bytes) {
        const std::string name = "ipc://@bench_core_" + std::to_string(getpid());
        const int linger = 0;
        zmq_setsockopt(socket_.get(), ZMQ_LINGER, &linger, sizeof linger);
        if (side.first()) require_zeromq(zmq_bind(socket_.get(), name.c_str()) == 0, "zmq_bind");
        const std::string theirs = side.exchange(name);
        if (!side.first())
            require_zeromq(zmq_connect(socket_.get(), theirs.c_str()) == 0, "zmq_connect");
    }

    std::byte* claim() {
        require_zeromq(zmq_msg_init_size(&out_, bytes_) == 0, "zmq_msg_init_size");
        return static_cast<std::byte*>(zmq_msg_data(&out_));
    }
    void post() {
        while (zmq_msg_send(&out_, socket_.get(), kFlags) < 0) refuse_but_again("zmq_msg_send");
    }
    const std::byte* take() {
        zmq_msg_init(&in_);
        while (zmq_msg_recv(&in_, socket_.get(), kFlags) < 0) refuse_but_again("zmq_msg_recv");
        if (zmq_msg_size(&in_) != bytes_) refuse_data();
        return static_cast<const std::byte*>(zmq_msg_data(&in_));
    }
    void release() { zmq_msg_close(&in_); }
    void progress() {}
    void finish() {}

  private:
    static constexpr int kFlags = sleeps ? 0 : ZMQ_DONTWAIT;
    struct Close {
        void operator()(void* socket) const { zmq_close(socket); }
    };
    struct Terminate {
        void operator()(void* context) const { zmq_ctx_term(context); }
    };
    static void refuse_but_again(const char* what) {
        require_zeromq(zmq_errno() == EAGAIN || zmq_errno() == EINTR, what);
    }

    std::size_t bytes_;
    std::unique_ptr<void, Terminate> context_{make_context()};
    std::unique_ptr<void, Close> socket_{zmq_socket(context_.get(), ZMQ_PAIR)};
    zmq_msg_t out_{}, in_{};
};

}  // namespace

void add_zeromq(Subjects& all) {
    add(all, "zeromq", run_case<ZeromqEnd<true>>, kMessageCases);
    add(all, "zeromq", run_case<ZeromqEnd<true>>, {&kWake});
    add(all, "zeromq_polled", run_case<ZeromqEnd<false>>, kMessageCases);
}

}  // namespace verbatim::bench
