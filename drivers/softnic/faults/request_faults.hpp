// Faults of a queue pair's requests, between the requester and its port: what a program sees of
// each is what it would see of a fabric and a peer that did it. Owner: the requester. Threads: the
// one inside the send gate, but for counted().
#pragma once

#include <cstdint>
#include <memory>

#include "../keys/pieces.hpp"
#include "../ports/port.hpp"
#include "../ports/send_request.hpp"
#include "../queue_pair/queue_pair_state.hpp"
#include "fault_injector.hpp"

namespace verbatim::softnic {

class RequestFaults {
  public:
    RequestFaults(std::unique_ptr<FaultInjector> injector, QueuePairShared& shared) noexcept
        : injector_(std::move(injector)), shared_(&shared) {}

    bool any() const noexcept { return injector_ != nullptr; }
    // Null without a fault policy.
    // How often an action was taken. Any thread.
    std::uint64_t counted(FaultAction action) const noexcept {
        return injector_ == nullptr ? 0 : injector_->counted(action);
    }

    // Gives the request at the head to `execute`, once, twice or not at all. Of a policy only.
    template <class Execute>
    PortAnswer strike(const SendRequest& request, Execute&& execute) noexcept {
        PortAnswer answer;
        switch (decide(request, answer)) {
            case Fate::ends:
                return answer;
            case Fate::arrives:
                return execute();
            case Fate::arrives_twice:
                break;
        }
        if (!injector_->arrived()) {
            answer = execute();
            if (answer.outcome != PortOutcome::done) return answer;
            injector_->set_arrived();
        }
        return execute();
    }
    // What the request sends arrives damaged, if that is its fate. The list's memory is not
    // touched.
    void damage(PieceList& list) noexcept;
    // The peer is as good as gone.
    bool peer_lost() const noexcept { return peer_lost_; }
    // Another request is at the head.
    void next_request() noexcept {
        if (any()) [[unlikely]]
            injector_->next_request();
    }
    void reset() noexcept {
        peer_lost_ = false;
        next_request();
    }

  private:
    enum class Fate : std::uint8_t { arrives, arrives_twice, ends };
    Fate decide(const SendRequest& request, PortAnswer& answer) noexcept;
    PortAnswer lose() noexcept;

    std::unique_ptr<FaultInjector> injector_;
    QueuePairShared* shared_;
    bool peer_lost_ = false;
    bool damages_ = false;  // what the current request sends
    std::byte damaged_byte_{};
};

}  // namespace verbatim::softnic
