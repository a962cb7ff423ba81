// The control thread of a device: it answers the links of peers and watches the links this process
// opened. It sleeps in poll() and touches no queue, but raises events for those who sleep. All
// signals are blocked in it. Threads: the public members may be called from any thread.
#pragma once

#include <poll.h>
#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../host/bell.hpp"
#include "../host/descriptor.hpp"
#include "../host/file_table.hpp"
#include "../host/link_message.hpp"
#include "../host/peer_process.hpp"
#include "../keys/key_table.hpp"
#include "../rings/channel.hpp"
#include "link.hpp"
#include "link_peer.hpp"

namespace verbatim::softnic {

// What the control thread serves. Called from the control thread.
class ControlService {
  public:
    // The ring into queue pair `to`, for the peer's queue pair `from`. Throws Error: the peer gets
    // its code and text.
    virtual ChannelPlace open_channel(const LinkPeer& peer, std::uint32_t from,
                                      std::uint32_t to) = 0;
    // The session is over: its process ended, or needs this device no more.
    virtual void end_session(std::uint64_t session) = 0;
    // A peer says that queue pair `number` has something to do.
    virtual void wake(std::uint32_t number) = 0;
    // A link was lost: its queue pairs have something to do.
    virtual void wake_all() = 0;
    // The device in words. Throws Error.
    virtual std::string describe() = 0;

  protected:
    ~ControlService() = default;
};

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
    struct Door {
        Nonce nonce{};  // what a hello must name
        Descriptor listener;
    };
    struct Session {
        Descriptor socket;
        bool welcomed = false;
        bool may_attach = false;  // has proven it
        uid_t user = 0;
        Instant hello_by;
        LinkPeer peer;
    };

    static void* entry(void* self);
    void run();
    void wake() noexcept;
    void wait_for_events();
    int poll_timeout_ms() const;
    void accept_sessions(int listener);
    void admit(Descriptor socket);
    bool has_name(const Nonce& nonce) const;
    void open_doors();
    void serve(Session& session);
    void answer(Session& session, const LinkMessage& request);
    void answer_hello(Session& session, const LinkMessage& request);
    void answer_description(Session& session, const LinkMessage& request);
    void answer_proof(Session& session, const LinkMessage& request);
    void answer_keys(Session& session, const LinkMessage& request);
    void answer_files(Session& session, const LinkMessage& request,
                      const std::vector<std::uint64_t>& numbers);
    void answer_channel(Session& session, const LinkMessage& request);
    void reply(Session& session, const LinkMessage& request, LinkMessage& message,
               std::span<const int> files = {});
    void refuse(Session& session, const LinkMessage& request, Errc code, const std::string& why);
    void drop_finished_sessions();

    ControlService& service_;
    KeyTable& keys_;
    FileTable& files_;
    ControlOptions options_;
    Descriptor wake_;
    std::uint64_t generation_ = 0;
    const std::unique_ptr<const Nonce> secret_;  // stays where the welcome says
    pthread_t thread_{};
    std::atomic<bool> stop_{false};

    // Of the control thread alone. Members, because a forked child has no such thread and frees
    // them all the same.
    std::vector<pollfd> entries_;
    std::vector<Session> sessions_;
    std::vector<Door> doors_;
    std::uint64_t last_session_ = 0;
    std::vector<std::shared_ptr<Link>> watched_now_;
    bool out_of_descriptors_ = false;

    std::mutex mutex_;  // guards what follows
    std::vector<std::shared_ptr<Link>> watched_;
    std::vector<Door> new_doors_;
};

}  // namespace verbatim::softnic
