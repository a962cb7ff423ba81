// Why a queue pair failed, as one sentence. Written on the data path's error exit, so without
// allocation; the first reason wins, what follows from it is not news. Threads: any may set, any
// may read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <verbatim/mlx5/formats.hpp>

namespace verbatim::softnic {

// Failures are CQE syndromes; none is success.
inline constexpr mlx5::Syndrome kNoSyndrome{};

class FailureText {
  public:
    template <class... Args>
    void set(fmt::format_string<Args...> format, Args&&... args) noexcept {
        std::uint32_t expected = kEmpty;
        if (!state_.compare_exchange_strong(expected, kWriting, std::memory_order_acquire)) return;
        try {
            const auto end =
                fmt::format_to_n(text_.data(), text_.size(), format, std::forward<Args>(args)...);
            bytes_ = static_cast<std::size_t>(end.out - text_.data());
        } catch (...) {
            bytes_ = 0;
        }
        state_.store(kSet, std::memory_order_release);
    }
    // Empty until set.
    std::string_view view() const noexcept {
        return state_.load(std::memory_order_acquire) == kSet
                   ? std::string_view(text_.data(), bytes_)
                   : std::string_view();
    }
    // Control path; nobody may be inside set().
    void clear() noexcept { state_.store(kEmpty, std::memory_order_release); }

  private:
    static constexpr std::uint32_t kEmpty = 0, kWriting = 1, kSet = 2;
    std::atomic<std::uint32_t> state_{kEmpty};
    std::size_t bytes_ = 0;
    std::array<char, 160> text_;
};

}  // namespace verbatim::softnic
