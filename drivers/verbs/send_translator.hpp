// Executes a send queue by ibv_post_send: reads the work requests that mlx5::SendQueue and prepared
// operations wrote into the ring, translates each, and posts those of one doorbell in one call. The
// ring is this process's memory, registered, so that payload inside a request stays there until the
// request retires. Threads: the ringing one; if two do, one executes for both.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>

#include <verbatim/driver/queue_view.hpp>

#include "../softqueue/gate.hpp"
#include "completion_translator.hpp"
#include "key_table.hpp"
#include "tag.hpp"

namespace verbatim::verbs {

class SendTranslator {
  public:
    struct Parts {
        mlx5::QueuePairView view;
        ibv_qp* queue_pair = nullptr;
        CompletionTranslator* completions = nullptr;
        const KeyTable* keys = nullptr;
        std::uint32_t ring_key = 0;      // of the send buffer
        std::uint32_t inline_bytes = 0;  // that the device takes; more is read from the ring
        std::uint32_t max_elements = 0;  // that the device takes in one request
    };
    explicit SendTranslator(const Parts& parts);

    // From now on requests are executed, those that wait in the ring too. Before that verbs takes
    // none.
    void open() noexcept;
    // After a doorbell.
    void run() noexcept;
    // Nothing is executed any more, and what is in the ring is forgotten.
    void reset() noexcept;

  private:
    // What can be done with a request.
    enum class Way {
        listed,      // it is part of a list
        alone,       // it has a call of its own in verbs: type 1 windows
        impossible,  // verbs has no such request, or it names what is not there
    };
    static constexpr std::uint32_t kBatch = 16;

    void execute() noexcept;
    std::uint16_t target() const noexcept;
    // Translates and links what can go in one list; how many. 0: `first` is the way of the first.
    std::uint32_t translate_list(Way& first) noexcept;
    Way translate(std::uint16_t counter, std::uint32_t place) noexcept;
    bool post_list(std::uint32_t count) noexcept;
    bool bind_domain_window() noexcept;
    // The device does not take the next request: the queue pair fails, and with it whatever is
    // posted from there on, in order.
    void refuse() noexcept;
    // Of a request whose failing the device cannot even tell.
    void tell_failure() noexcept;
    void step_over_first() noexcept { executed_ = behind_[0]; }

    const Parts parts_;
    softnic::Gate gate_;
    Life life_;
    std::uint16_t executed_ = 0;  // counter of the first block not executed yet
    bool open_ = false;           // under the gate
    bool refusing_ = false;       // a request was refused
    bool tells_refusal_ = false;  // the next one is that request
    // Room for one list.
    std::array<ibv_send_wr, kBatch> work_;
    std::array<std::uint16_t, kBatch> behind_;  // counter behind each request's last block
    std::unique_ptr<ibv_sge[]> elements_;       // max_elements for each request
};

}  // namespace verbatim::verbs
