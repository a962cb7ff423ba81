// What takes the place of libmlx5's functions. It chooses them by the properties of a queue, so
// there are a few of each kind; those seen so far are kept by number, and for each number there is
// a function here that calls it.
#include "progress_hooks.hpp"

#include <sched.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <verbatim/driver/log.hpp>
#include <verbatim/uverbs/uverbs.hpp>

#include "../uverbs/files/open_files.hpp"

namespace verbatim::uverbs {
namespace {

// Null also for what a forked child inherited.
DeviceFile* file_of(const ibv_context* context) noexcept {
    OpenFile* const file = find_open_file(context->cmd_fd);
    return file == nullptr || file->device.inherited() ? nullptr : &file->device;
}

// Calls of this thread that the engine ran in.
struct Served {
    std::uint64_t polls = 0, posts = 0;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Served t_served;

// libmlx5's functions of one kind. Distinct replacements, so that the original need not be looked
// up by queue.
template <class Kind>
class Replacements {
    using Function = typename Kind::Function;

  public:
    // Puts ours where libmlx5's is. Nothing happens if it is ours already.
    void take_over(Function*& place) noexcept {
        Function* const found = place;
        if (found == nullptr) return;
        for (std::size_t i = 0; i < kCount; ++i) {
            if (found == replacements_[i]) return;
            Function* expected = nullptr;
            if (originals_[i].compare_exchange_strong(expected, found) || expected == found) {
                place = replacements_[i];
                return;
            }
        }
        log::warn(
            "software NIC under rdma-core: a function of libmlx5 is left to the engine thread");
    }
    Function* original(std::size_t i) const noexcept {
        return originals_[i].load(std::memory_order_acquire);
    }

  private:
    static constexpr std::size_t kCount = 16;
    template <std::size_t... I>
    static constexpr std::array<Function*, kCount> make(std::index_sequence<I...>) noexcept {
        return {&Kind::template replacement<I>...};
    }
    std::array<std::atomic<Function*>, kCount> originals_{};
    static constexpr std::array<Function*, kCount> replacements_ =
        make(std::make_index_sequence<kCount>{});
};

template <class Kind>
constinit Replacements<Kind> g_replacements;

// Where processes share a core, one that polls for ever keeps the other from answering. After so
// many polls in vain, some 20 us, the core is offered now and then. Measured with ib_send_lat on 2
// cores beside compilers, when both ends land on one core: 25 us typical, 2500 us without this.
void count_poll(bool in_vain) noexcept {
    constexpr std::uint32_t kPatience = 256, kEvery = 16;
    [[gnu::tls_model("initial-exec")]] thread_local std::uint32_t polls_in_vain = 0;
    polls_in_vain = in_vain ? polls_in_vain + 1 : 0;
    if (polls_in_vain > kPatience && polls_in_vain % kEvery == 0) sched_yield();
}

// After a poll that took something: an event may have waited for it.
void tell_polled(const ibv_cq* queue) noexcept {
    if (queue->channel == nullptr) return;
    if (DeviceFile* const file = file_of(queue->context)) file->announce(queue->handle);
}

// The engine's work before a second poll, which takes what it made.
template <class Poll>
int progress_and_poll(ibv_cq* queue, Poll&& poll) noexcept {
    if (DeviceFile* const file = file_of(queue->context)) {
        ++t_served.polls;
        file->progress(queue->handle);
    }
    return poll();
}

struct PollQueue {
    using Function = int(ibv_cq*, int, ibv_wc*);
    template <std::size_t I>
    static int replacement(ibv_cq* queue, int entries, ibv_wc* completions) {
        Function* const original = g_replacements<PollQueue>.original(I);
        const int found = original(queue, entries, completions);
        if (found != 0) return count_poll(false), tell_polled(queue), found;
        const int found_now =
            progress_and_poll(queue, [&] { return original(queue, entries, completions); });
        count_poll(found_now == 0);
        if (found_now != 0) tell_polled(queue);
        return found_now;
    }
};

struct StartPoll {
    using Function = int(ibv_cq_ex*, ibv_poll_cq_attr*);
    template <std::size_t I>
    static int replacement(ibv_cq_ex* queue, ibv_poll_cq_attr* attributes) {
        Function* const original = g_replacements<StartPoll>.original(I);
        int found = original(queue, attributes);
        if (found == ENOENT) {
            found = progress_and_poll(ibv_cq_ex_to_cq(queue),
                                      [&] { return original(queue, attributes); });
        }
        count_poll(found == ENOENT);
        return found;
    }
};

// What was taken since start_poll() is recorded as consumed only now.
struct EndPoll {
    using Function = void(ibv_cq_ex*);
    template <std::size_t I>
    static void replacement(ibv_cq_ex* queue) {
        g_replacements<EndPoll>.original(I)(queue);
        tell_polled(ibv_cq_ex_to_cq(queue));
    }
};

struct ArmQueue {
    using Function = int(ibv_cq*, int);
    template <std::size_t I>
    static int replacement(ibv_cq* queue, int solicited_only) {
        DeviceFile* const file = file_of(queue->context);
        if (file != nullptr) file->arming(queue->handle);
        const int result = g_replacements<ArmQueue>.original(I)(queue, solicited_only);
        if (file != nullptr) file->announce(queue->handle);
        return result;
    }
};

// Around a call of libmlx5's that rings a doorbell.
template <class Call>
int post(const ibv_qp& pair, Call&& call) noexcept {
    DeviceFile* const file = file_of(pair.context);
    if (file == nullptr) return call();
    ++t_served.posts;
    file->posting();
    const int result = call();
    file->requests_posted(pair.handle);
    return result;
}

struct PostSend {
    using Function = int(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
    template <std::size_t I>
    static int replacement(ibv_qp* pair, ibv_send_wr* requests, ibv_send_wr** bad) {
        return post(*pair,
                    [&] { return g_replacements<PostSend>.original(I)(pair, requests, bad); });
    }
};

struct PostReceive {
    using Function = int(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**);
    template <std::size_t I>
    static int replacement(ibv_qp* pair, ibv_recv_wr* requests, ibv_recv_wr** bad) {
        const int result = g_replacements<PostReceive>.original(I)(pair, requests, bad);
        if (DeviceFile* const file = file_of(pair->context)) file->receives_posted(pair->handle);
        return result;
    }
};

struct CompleteRequests {
    using Function = int(ibv_qp_ex*);
    template <std::size_t I>
    static int replacement(ibv_qp_ex* pair) {
        return post(pair->qp_base,
                    [&] { return g_replacements<CompleteRequests>.original(I)(pair); });
    }
};

// libmlx5 sets wr_complete anew with changes of state, so it is looked at here.
struct StartRequests {
    using Function = void(ibv_qp_ex*);
    template <std::size_t I>
    static void replacement(ibv_qp_ex* pair) {
        g_replacements<CompleteRequests>.take_over(pair->wr_complete);
        g_replacements<StartRequests>.original(I)(pair);
    }
};

}  // namespace

void take_over(OpenFile& file, ibv_context& context) noexcept {
    if (file.device.inherited() || file.device.parked()) return;
    file.context.store(&context, std::memory_order_release);
    g_replacements<PollQueue>.take_over(context.ops.poll_cq);
    g_replacements<ArmQueue>.take_over(context.ops.req_notify_cq);
    g_replacements<PostSend>.take_over(context.ops.post_send);
    g_replacements<PostReceive>.take_over(context.ops.post_recv);
}

void take_over(ibv_cq_ex& queue) noexcept {
    g_replacements<StartPoll>.take_over(queue.start_poll);
    g_replacements<EndPoll>.take_over(queue.end_poll);
}

void take_over(ibv_qp_ex& pair) noexcept { g_replacements<StartRequests>.take_over(pair.wr_start); }

}  // namespace verbatim::uverbs

extern "C" [[gnu::visibility("default")]] void verbatim_uverbs_served(
    std::uint64_t* polls, std::uint64_t* posts) noexcept {
    *polls = verbatim::uverbs::t_served.polls;
    *posts = verbatim::uverbs::t_served.posts;
}
