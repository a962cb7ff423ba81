// The control thread of a device: it keeps the links that peers opened, and watches the links that
// this process opened. It sleeps in poll() and touches no queue, but raises events for those who
// sleep, and hands queue pairs to the absent poller. All signals are blocked in it. Threads: the
// public members may be called from any thread.
#pragma once

#include <poll.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "../host/bell.hpp"
#include "../host/descriptor.hpp"
#include "../host/file_table.hpp"
#include "../keys/key_table.hpp"
#include "link.hpp"
#include "link_answers.hpp"

namespace verbatim::softnic {

struct ControlOptions {
    Nonce nonce{};
    bool same_user_only = true;
    Bell bell;  // of the device's engine thread, if it has one
};

class ControlThread {
  public:
    // Listens at the bound `listener` and starts the thread. Throws Error(device_error).
    ControlThread(ControlService& service, KeyTable& keys, FileTable& files,
                  const ControlOptions& options, Descriptor listener);
    ~ControlThread();
    ControlThread(const ControlThread&) = delete;
    ControlThread& operator=(const ControlThread&) = delete;

    // Peers may also come by this bound listener, to a device of that name.
    void listen(const Nonce& nonce, Descriptor listener);
    // Marks the link lost when its peer goes.
    void watch(std::shared_ptr<Link> link);
    void forget(const Link& link);

  private:
    // Another door, and the name of this device that a hello through it must give.
    struct Door {
        Nonce nonce{};
        Descriptor listener;
    };

    static void* entry(void* self);
    void run();
    void wake() noexcept;
    void wait_for_events();
    int poll_timeout_ms() const;
    void accept_sessions(int listener);
    void admit(Descriptor socket);
    void open_doors();
    void serve(LinkSession& session);
    void drop_finished_sessions();

    ControlService& service_;
    LinkAnswers answers_;
    const bool same_user_only_;
    Descriptor wake_;
    std::uint64_t generation_ = 0;
    pthread_t thread_{};
    std::atomic<bool> stop_{false};

    // Of the control thread alone. Members, because a forked child has no such thread and frees
    // them all the same.
    std::vector<pollfd> entries_;
    std::vector<LinkSession> sessions_;
    std::vector<Descriptor> doors_;  // where peers come in
    std::vector<std::shared_ptr<Link>> watched_now_;
    bool out_of_descriptors_ = false;

    std::mutex mutex_;  // guards what follows
    std::vector<std::shared_ptr<Link>> watched_;
    std::vector<Door> new_doors_;
};

}  // namespace verbatim::softnic
