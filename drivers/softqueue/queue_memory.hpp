// The memory of one queue pair, shared receive queue or completion queue, laid out as the mlx5
// driver lays it out: private to the process, pages of zeros. Control path.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbatim/driver/device.hpp>
#include <verbatim/driver/queue_view.hpp>

namespace verbatim::softnic {

// Owns anonymous pages. Copied into a forked child like all private memory, where the queues are
// dead.
class Pages {
  public:
    // Throws Error(out_of_memory).
    explicit Pages(std::size_t bytes);
    ~Pages();
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    std::byte* data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }
    void clear() noexcept;

  private:
    std::byte* data_;
    std::size_t bytes_;
};

// The size of each half of the BlueFlame register, as on ConnectX.
inline constexpr std::uint32_t kBlueFlameBytes = 256;

// Receive queue (none where receives are shared), send queue, doorbell record, register. Throws
// Error(invalid_argument) where the options exceed what the formats can express.
class QueuePairMemory {
  public:
    QueuePairMemory(const QueuePairOptions& options, std::uint32_t number);
    const mlx5::QueuePairView& view() const noexcept { return view_; }
    mlx5::QueuePairView& view() noexcept { return view_; }
    void clear() noexcept { pages_.clear(); }

  private:
    mlx5::QueuePairView view_;
    Pages pages_;
};

// Entries, then the doorbell record. Throws Error(invalid_argument).
class SharedReceiveQueueMemory {
  public:
    SharedReceiveQueueMemory(const SharedReceiveQueueOptions& options, std::uint32_t number);
    const mlx5::SharedReceiveQueueView& view() const noexcept { return view_; }

  private:
    mlx5::SharedReceiveQueueView view_;
    Pages pages_;
};

// Entries, then the doorbell record, then the register page. All entries in the device's hands.
class CompletionQueueMemory {
  public:
    CompletionQueueMemory(std::uint32_t entries, std::uint32_t entry_bytes, std::uint32_t number);
    const mlx5::CompletionQueueView& view() const noexcept { return view_; }
    mlx5::CompletionQueueView& view() noexcept { return view_; }

  private:
    mlx5::CompletionQueueView view_;
    Pages pages_;
};

}  // namespace verbatim::softnic
