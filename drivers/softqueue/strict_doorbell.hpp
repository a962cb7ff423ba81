// Strict doorbells, for tests of drivers: every register write is compared with the ring and the
// doorbell record, and what real hardware would punish (or silently misread) is refused with a
// sentence. Threads: the posting thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>

#include "failure_text.hpp"

namespace verbatim::softnic {

class StrictDoorbell {
  public:
    StrictDoorbell(const mlx5::QueuePairView& view, FailureText& failure) noexcept;
    // Checks one register write. True: everything before counter() may be executed.
    bool accept(const volatile void* register_half) noexcept;
    std::uint16_t counter() const noexcept { return counter_; }
    void reset() noexcept;

  private:
    struct Last {
        std::uint16_t index = 0;
        std::uint32_t blocks = 0;
        mlx5::ControlSegment control;
        bool updates_key = false;
    };

    bool check_half(const volatile std::byte* half) noexcept;
    bool walk(std::uint16_t record, Last& last) noexcept;
    bool check_fence(std::uint16_t index, Last& last) noexcept;
    bool check_register(const volatile std::byte* half, const Last& last) noexcept;
    bool check_copy(const volatile std::byte* half, const Last& last) noexcept;
    // How far into the half something was written.
    std::size_t copied_bytes(const volatile std::byte* half) const noexcept;
    void scrub() noexcept;

    mlx5::QueuePairView view_;
    FailureText* failure_;
    std::uint16_t counter_ = 0;  // record of the last accepted doorbell
    const volatile std::byte* previous_half_ = nullptr;
    bool copies_ = false;       // more than words were written: the halves must alternate
    bool updated_key_ = false;  // the last entry of that doorbell
};

}  // namespace verbatim::softnic
