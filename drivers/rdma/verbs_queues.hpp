// Queues of a device that is posted to and polled through verbs. Their views show memory of our
// own, and hooks that translate: to the data path they are queues of a software device.
#pragma once

#include <memory>
#include <optional>

#include <verbatim/driver/device.hpp>

#include "../softnic/queue_memory.hpp"
#include "../verbs/completion_translator.hpp"
#include "../verbs/receive_translator.hpp"
#include "../verbs/send_translator.hpp"
#include "handles.hpp"
#include "port.hpp"
#include "queue_pair_states.hpp"

namespace verbatim::rdma {

class VerbsCompletionQueue final : public CompletionQueueHandle {
  public:
    VerbsCompletionQueue(std::shared_ptr<Port> port, std::uint32_t entries,
                         CompletionChannelHandle* channel);
    const mlx5::CompletionQueueView& view() const noexcept override { return memory_.view(); }
    // What no poll has taken lies in two queues, and only one can be told to move it.
    [[noreturn]] void resize(std::uint32_t entries) override;
    ibv_cq* get() const noexcept { return queue_.get(); }
    verbs::CompletionTranslator& translator() noexcept { return *translator_; }

  private:
    std::shared_ptr<Port> port_;
    softnic::CompletionQueueMemory memory_;
    CqHandle queue_;
    std::optional<verbs::CompletionTranslator> translator_;
};

class VerbsSharedReceiveQueue final : public SharedReceiveQueueHandle {
  public:
    VerbsSharedReceiveQueue(std::shared_ptr<Port> port, const SharedReceiveQueueOptions& options);
    const mlx5::SharedReceiveQueueView& view() const noexcept override { return view_; }
    ibv_srq* get() const noexcept { return queue_.get(); }

  private:
    std::shared_ptr<Port> port_;
    softnic::SharedReceiveQueueMemory memory_;
    mlx5::SharedReceiveQueueView view_;
    SrqHandle queue_;
    std::optional<verbs::SharedReceiveTranslator> translator_;
};

class VerbsQueuePair final : public QueuePairStates {
  public:
    VerbsQueuePair(std::shared_ptr<Port> port, const QueuePairOptions& options);
    ~VerbsQueuePair() override { queue_.reset(); }  // before the memory it was posted from

    const mlx5::QueuePairView& view() const noexcept override { return memory_.view(); }
    void fail() noexcept override;
    void reset() override;

  private:
    void initialized() override;
    void ready() override;
    void make_queue(const QueuePairOptions& options);
    void make_translators(const QueuePairOptions& options);

    softnic::QueuePairMemory memory_;
    RegionHandle ring_;  // the send buffer, as memory that the device reads
    std::uint32_t inline_bytes_ = 0, max_elements_ = 0;
    std::optional<verbs::SendTranslator> send_;
    std::optional<verbs::ReceiveTranslator> receive_;
};

}  // namespace verbatim::rdma
