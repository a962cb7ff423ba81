// Generations remember, for each client that dials again, its newest generation and the connection
// that it has. A newer generation ends the older connection before its own begins.
// Threads: any, behind one lock. Control path.
#pragma once

#include <array>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <verbatim/core/client.hpp>

#include "../lane/lane_impl.hpp"

namespace verbatim {

class ClientSession;

class Generations : public std::enable_shared_from_this<Generations> {
  public:
    // Clients without a connection that are remembered: the least recently seen are forgotten.
    static constexpr std::size_t kMost = 4096;

    // A caller of this generation has said hello. The older connection of the client is asked to
    // end. Throws Error(protocol_error) about `object`: the generation is not newer than the
    // newest, so the hello was late.
    std::shared_ptr<ClientSession> admit(const ClientIdentity& who, const std::string& object);
    std::size_t size() const;

  private:
    friend class ClientSession;
    using Id = std::array<std::byte, 16>;
    struct Entry {
        Id id;
        std::uint64_t newest = 0;
        std::shared_ptr<ClientSession> live;  // has a connection
    };
    using Entries = std::list<Entry>;  // the least recently seen first
    Entry& entry_of(const Id& id);
    void forget_old();
    Entry* find(const Id& id);

    mutable std::mutex mutex_;
    Entries entries_;
    std::map<Id, Entries::iterator> by_id_;
};

// A session is one generation of a client at the accepting side.
class ClientSession : public std::enable_shared_from_this<ClientSession> {
  public:
    // The connection; `end` hands out no more of its messages. Called in its lane's thread.
    struct Ended {
        void* owner = nullptr;
        void (*end)(void* owner) noexcept = nullptr;
    };
    ClientSession(std::shared_ptr<Generations> of, const ClientIdentity& who)
        : of_(std::move(of)), who_(who) {}
    const ClientIdentity& client() const noexcept { return who_; }
    // The client has no older connection any more. Throws Error(protocol_error) about `object`: a
    // newer generation has come.
    bool may_connect(const std::string& object) const;
    // In the lane's thread, as the rest. Throws as may_connect(), also where that is false.
    void attach(const std::shared_ptr<Lane::Impl>& lane, Ended ended, const std::string& object);
    void moved_to(const std::shared_ptr<Lane::Impl>& lane);
    void detach() noexcept;

  private:
    friend class Generations;
    void ask_to_end();
    void end_on(const Lane::Impl* lane) noexcept;

    const std::shared_ptr<Generations> of_;
    const ClientIdentity who_;
    // Behind the lock of the generations:
    std::weak_ptr<Lane::Impl> lane_;
    Ended ended_;
    bool is_asked_ = false;
};

// What a connection holds of its session: the session is detached at its end.
class ClientTie {
  public:
    ClientTie() = default;
    ~ClientTie() { cut(); }
    ClientTie(const ClientTie&) = delete;
    ClientTie& operator=(const ClientTie&) = delete;
    // Throws as ClientSession::attach().
    void tie(std::shared_ptr<ClientSession> session, const std::shared_ptr<Lane::Impl>& lane,
             ClientSession::Ended ended, const std::string& object) {
        if (session == nullptr) return;
        session->attach(lane, ended, object);
        session_ = std::move(session);
    }
    // Nothing is handed out any more; who it was stays known.
    void cut() noexcept {
        if (session_ != nullptr) session_->detach();
    }
    ClientSession* session() const noexcept { return session_.get(); }

  private:
    std::shared_ptr<ClientSession> session_;
};

}  // namespace verbatim
