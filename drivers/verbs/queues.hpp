// Queues that the data path sees as those of a software device: memory of our own, laid out as the
// software NIC's is, and the translators as hooks. What they are translated for is bound to them
// once it exists. Control path; threads: any.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>

#include <verbatim/driver/device.hpp>

#include "../softqueue/queue_memory.hpp"
#include "completion_translator.hpp"
#include "key_table.hpp"
#include "receive_translator.hpp"
#include "send_translator.hpp"

namespace verbatim::verbs {

class CompletionQueue {
  public:
    // Throws Error(invalid_argument | out_of_memory).
    explicit CompletionQueue(std::uint32_t entries);
    const mlx5::CompletionQueueView& view() const noexcept { return memory_.view(); }
    // `queue` has room for view().entries, and events only if it has a channel.
    void bind(ibv_cq* queue, bool has_channel);
    CompletionTranslator& translator() noexcept { return *translator_; }

  private:
    softnic::CompletionQueueMemory memory_;
    std::optional<CompletionTranslator> translator_;
};

class SharedReceiveQueue {
  public:
    // Throws Error(invalid_argument | out_of_memory).
    explicit SharedReceiveQueue(const SharedReceiveQueueOptions& options);
    const mlx5::SharedReceiveQueueView& view() const noexcept { return view_; }
    // `queue` has room for all but one of view().entries.
    void bind(ibv_srq* queue);

  private:
    softnic::SharedReceiveQueueMemory memory_;
    mlx5::SharedReceiveQueueView view_;
    std::optional<SharedReceiveTranslator> translator_;
};

class QueuePair {
  public:
    struct Parts {
        ibv_qp* queue_pair = nullptr;
        CompletionTranslator* send_completions = nullptr;
        CompletionTranslator* receive_completions = nullptr;
        const KeyTable* keys = nullptr;
        std::uint32_t ring_key = 0;  // of the send buffer, which the device must be able to read
        std::uint32_t inline_bytes = 0;  // that the device takes
        std::uint32_t max_elements = 0;  // that the device takes in one request
    };

    // `atomics`: whether the device has them. Throws Error(invalid_argument | out_of_memory).
    QueuePair(const QueuePairOptions& options, bool atomics);
    const mlx5::QueuePairView& view() const noexcept { return memory_.view(); }
    std::size_t send_bytes() const noexcept {
        return std::size_t{view().send_blocks} * mlx5::kBlockBytes;
    }
    // Where the device gathers fewer elements than were asked for; the view says how many.
    void limit_elements(std::uint32_t most) noexcept;
    // `queue_pair` has room for view().send_blocks requests and view().receive_entries receives.
    void bind(const Parts& parts);

    // Verbs' states: from now on it takes receives; and requests.
    void take_receives() noexcept;
    void take_requests() noexcept { send_->open(); }
    // Forgets everything. After the queue pair of verbs did.
    void reset() noexcept;

  private:
    softnic::QueuePairMemory memory_;
    std::optional<SendTranslator> send_;
    std::optional<ReceiveTranslator> receive_;  // none where receives are shared
};

}  // namespace verbatim::verbs
