// Little-endian fields of side-channel frames, written and read one after the other. The reader
// never looks past its bytes: what is missing makes it fail, once, for everything read after.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace verbatim {

class ByteWriter {
  public:
    template <class T>
    requires std::is_unsigned_v<T> ByteWriter& put(T value) {
        for (std::size_t i = 0; i < sizeof(T); ++i)
            bytes_.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
        return *this;
    }
    ByteWriter& put(std::span<const std::byte> bytes) {
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
        return *this;
    }
    ByteWriter& pad_to(std::size_t step) {
        bytes_.resize((bytes_.size() + step - 1) / step * step);
        return *this;
    }
    std::size_t size() const noexcept { return bytes_.size(); }
    std::vector<std::byte> take() noexcept { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

class ByteReader {
  public:
    explicit ByteReader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

    template <class T>
    requires std::is_unsigned_v<T> T get()
    noexcept {
        const auto bytes = get_bytes(sizeof(T));
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < bytes.size(); ++i)
            value |= std::uint64_t{std::to_integer<std::uint8_t>(bytes[i])} << (8 * i);
        return static_cast<T>(value);
    }
    template <class T, std::size_t N>
    void get(std::array<T, N>& out) noexcept {
        static_assert(sizeof(T) == 1);
        const auto bytes = get_bytes(N);
        if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), N);
    }
    // Empty if there are not that many.
    std::span<const std::byte> get_bytes(std::size_t count) noexcept {
        if (failed_ || count > rest_.size()) {
            failed_ = true;
            return {};
        }
        const auto bytes = rest_.first(count);
        rest_ = rest_.subspan(count);
        return bytes;
    }
    std::size_t left() const noexcept { return rest_.size(); }
    bool failed() const noexcept { return failed_; }

  private:
    std::span<const std::byte> rest_;
    bool failed_ = false;
};

}  // namespace verbatim
