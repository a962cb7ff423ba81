// What a program makes on the device, as its commands and the engine see it. Each object is owned
// by the device file's table of its kind; objects in use by others cannot be destroyed.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "../../softnic/completion_queue.hpp"
#include "../../softnic/host/bell.hpp"
#include "../../softnic/queue_pair.hpp"
#include "../../softnic/xrc_domain.hpp"
#include "../../softqueue/shared_receive_list.hpp"
#include "completion_notifier.hpp"
#include "event_channel.hpp"
#include "shared_pages.hpp"

namespace verbatim::uverbs {

struct Domain {
    std::uint32_t number = 0;
    std::uint32_t users = 0;
};

// Memory as a program asks for it: `name` is the address that requests use for `start`.
struct Wanted {
    std::uint64_t start = 0, length = 0, name = 0;
    std::uint32_t access = 0;
};

// Pages of the device's own memory.
struct DeviceMemory {
    std::size_t first = 0, pages = 0;
    std::uint64_t bytes = 0;  // that were asked for
    std::uint32_t users = 0;
};

// A memory region or window: a key.
struct Key {
    Domain* domain;
    std::uint32_t key;
    bool window;
    Wanted made;                                 // of a region
    DeviceMemory* device_memory = nullptr;       // null: the program's own
    std::shared_ptr<RegisteredMemory> memory{};  // the program's own
    std::uint64_t file = 0;                      // number of the file in which it is shared
    bool revoked = false;                        // of a region: its key is dead
};

struct Address {
    Domain* domain;
};

// The program's own queue, with the events that its arming asks for.
class CompletionQueue {
  public:
    // `bell`: of the thread that comes back for events; it must stay.
    CompletionQueue(const mlx5::CompletionQueueView& view, std::shared_ptr<EventChannel> channel,
                    std::uint64_t user_handle, AsyncEvents& async_events, const softnic::Bell& bell)
        : engine_(view, softnic::EventHook{event_hook, this}),
          channel_(std::move(channel)),
          user_handle_(user_handle),
          async_events_(&async_events),
          bell_(&bell) {}

    softnic::CompletionQueue& engine() noexcept { return engine_; }
    // Raises the event if one is due. Any thread. True: one may be due later, and the thread that
    // comes back does not know.
    bool announce() noexcept { return raise(notifier_.look(engine_.ring())); }
    // The same when it may be later. Returns when it is next. Threads: one at a time.
    CompletionNotifier::Clock::time_point announce_late(
        CompletionNotifier::Clock::time_point now) noexcept {
        raise(notifier_.look_late(engine_.ring(), now));
        return notifier_.due();
    }
    void moderate(std::uint32_t completions, std::chrono::nanoseconds period) noexcept {
        notifier_.moderate(completions, period);
    }
    // No event comes any more: how many the program has read.
    std::uint32_t end_events();
    std::uint32_t end_async_events() {
        return async_events_->end_events(user_handle_, async_events_sent_);
    }

    std::uint32_t users = 0;

    const EventChannel* channel() const noexcept { return channel_.get(); }

  private:
    void written() noexcept {
        if (channel_ != nullptr && announce()) bell_->ring();
        if (engine_.ring().take_overrun()) [[unlikely]]
            async_events_->post(user_handle_, AsyncEvent::completion_queue_error,
                                async_events_sent_);
    }
    bool raise(const CompletionNotifier::Look& look) noexcept;
    static void event_hook(void* self) noexcept { static_cast<CompletionQueue*>(self)->written(); }

    softnic::CompletionQueue engine_;
    std::shared_ptr<EventChannel> channel_;
    std::uint64_t user_handle_;
    AsyncEvents* async_events_;
    const softnic::Bell* bell_;
    std::atomic<std::uint32_t> async_events_sent_{0};
    std::atomic<std::uint32_t> events_{0};  // sent so far
    CompletionNotifier notifier_;
};

class XrcDomain;
class XrcTarget;
struct OpenXrcDomain;

struct SharedQueue {
    SharedQueue(const mlx5::SharedReceiveQueueView& view, Domain* of, AsyncEvents& reporter,
                std::uint64_t programs_name)
        : list(view, of->number), domain(of), async_events(&reporter), user_handle(programs_name) {
        list.set_limit_hook({limit_reached, this});
    }
    ~SharedQueue() { leave_xrc(); }
    SharedQueue(const SharedQueue&) = delete;
    SharedQueue& operator=(const SharedQueue&) = delete;
    // Messages of the domain may be for this queue, and complete in `queue`. False: there is no
    // room for it in the domain.
    bool join_xrc(OpenXrcDomain& domain, CompletionQueue& queue, softnic::DeviceCore& device,
                  std::uint32_t index);
    // No target touches it any more.
    void leave_xrc() noexcept;
    static void limit_reached(void* self) noexcept;

    softnic::SharedReceiveList list;
    Domain* domain;
    AsyncEvents* async_events;
    std::uint64_t user_handle;
    std::atomic<std::uint32_t> async_events_sent{0};
    std::uint32_t max_requests = 0, max_elements = 0;
    std::uint32_t users = 0;
    // Of XRC; else null. The handle that it was made with, of which it is a user.
    OpenXrcDomain* open_domain = nullptr;
    std::shared_ptr<XrcDomain> xrc_domain;
    CompletionQueue* completions = nullptr;
    softnic::XrcQueue xrc;
};

class Connector;

// A queue pair; or a handle of an XRC target, which has the real one.
struct QueuePair {
    QueuePair() = default;
    ~QueuePair();
    QueuePair(const QueuePair&) = delete;
    QueuePair& operator=(const QueuePair&) = delete;

    // As QUERY_QP answers, but for what the engine knows better. Apart: it ends in an open array.
    std::unique_ptr<ib_uverbs_query_qp_resp> facts = std::make_unique<ib_uverbs_query_qp_resp>();
    std::uint8_t type = 0;
    Domain* domain = nullptr;
    CompletionQueue* send_completions = nullptr;
    CompletionQueue* receive_completions = nullptr;
    SharedQueue* shared_receives = nullptr;
    Connector* connector = nullptr;
    AsyncEvents* async_events = nullptr;
    std::uint64_t user_handle = 0;
    std::atomic<std::uint32_t> async_events_sent{0};
    // In RTR: while the way to the peer is looked for, the engine is behind the program's RTS.
    std::atomic<bool> only_receives{false};
    static void report(void* self, softnic::QueuePairEvent event) noexcept;
    void post(AsyncEvent event) noexcept;
    XrcTarget* opened_as = nullptr;        // of a target itself: whose handles hear of its events
    std::shared_ptr<XrcTarget> target;     // of a handle
    OpenXrcDomain* open_domain = nullptr;  // likewise: what it was opened with
    std::unique_ptr<softnic::QueuePair> engine;  // null of a target's handle
};

}  // namespace verbatim::uverbs
