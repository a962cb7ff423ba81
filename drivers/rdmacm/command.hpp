// One command as librdmacm writes it (linux' uapi rdma/rdma_user_cm.h: struct rdma_ucm_cmd_hdr and
// what follows), and the reply it waits for. Threads: one.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace verbatim::rdmacm {

class Command {
  public:
    // Nothing if the header does not fit its bytes.
    static std::optional<Command> parse(std::span<const std::byte> bytes) noexcept {
        rdma_ucm_cmd_hdr header;
        if (bytes.size() < sizeof header) return std::nullopt;
        std::memcpy(&header, bytes.data(), sizeof header);
        if (header.in > bytes.size() - sizeof header) return std::nullopt;
        Command command;
        command.number_ = header.cmd;
        command.body_ = bytes.subspan(sizeof header, header.in);
        command.reply_bytes_ = header.out;
        return command;
    }

    std::uint32_t number() const noexcept { return number_; }
    // What the caller left out is zero: older libraries know fewer fields.
    template <class T>
    T body() const noexcept {
        static_assert(std::is_trivially_copyable_v<T>);
        T value{};
        std::memcpy(static_cast<void*>(&value), body_.data(), std::min(sizeof value, body_.size()));
        return value;
    }
    std::size_t reply_bytes() const noexcept { return reply_bytes_; }
    // To `address`, as much of it as the caller has room for, which is `least` bytes or more. 0 or
    // an errno.
    template <class T>
    int reply(std::uint64_t address, const T& value, std::size_t least = sizeof(T)) const noexcept {
        if (reply_bytes_ < least) return ENOSPC;
        if (address == 0) return EFAULT;
        std::memcpy(reinterpret_cast<void*>(address), &value, std::min(sizeof value, reply_bytes_));
        return 0;
    }

  private:
    std::uint32_t number_ = 0;
    std::span<const std::byte> body_;
    std::size_t reply_bytes_ = 0;
};

}  // namespace verbatim::rdmacm
