// Register pages that a program asks for one by one, as importing contexts do: pages of the device
// file behind those with fixed places. Threads: under the device file's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace verbatim::uverbs {

// One of them, as an object of the program.
struct RegisterPage {
    std::uint32_t number = 0;
};

class RegisterPages {
  public:
    static constexpr std::size_t kPage = 4096;
    // Behind device memory (device_memory.hpp), up to the end of the file.
    static constexpr std::size_t kFileOffset = std::size_t{16} << 20;
    static constexpr std::uint32_t kPages = 12288;

    static constexpr std::uint64_t offset_of(std::uint32_t number) noexcept {
        return kFileOffset + std::uint64_t{number} * kPage;
    }
    // A page that nobody has; kPages: there is none.
    std::uint32_t take() {
        if (free_.empty()) return used_ == kPages ? kPages : used_++;
        const std::uint32_t number = free_.back();
        free_.pop_back();
        return number;
    }
    void give(std::uint32_t number) { free_.push_back(number); }

  private:
    std::uint32_t used_ = 0;
    std::vector<std::uint32_t> free_;
};

}  // namespace verbatim::uverbs
