// One command as libibverbs writes it to the device file, and the reply it waits for (linux'
// uapi rdma/ib_user_verbs.h: struct ib_uverbs_cmd_hdr, ib_uverbs_ex_cmd_hdr). Both forms: the old
// one has the address of its reply in its first field, the extended one in a header of its own;
// both have a part for the core and one for the provider (libmlx5) behind it. Nothing is read or
// written beyond the lengths that the header says. Threads: one.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace verbatim::uverbs {

// From the front of what a program wrote. False: there is less.
template <class T>
bool take(std::span<const std::byte>& bytes, T& value) noexcept {
    static_assert(std::is_trivially_copyable_v<T>);
    if (bytes.size() < sizeof value) return false;
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes = bytes.subspan(sizeof value);
    return true;
}
// Fields that came later and say nothing.
inline bool all_zero(std::span<const std::byte> bytes) noexcept {
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

class Command {
  public:
    // Nothing if the header does not fit its bytes.
    static std::optional<Command> parse(std::span<const std::byte> bytes) {
        Command command;
        ib_uverbs_cmd_hdr header;
        if (!take(bytes, header)) return std::nullopt;
        command.number_ = header.command & IB_USER_VERBS_CMD_COMMAND_MASK;
        command.extended_ = (header.command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0;
        return command.extended_ ? command.split_extended(header, bytes)
                                 : command.split_plain(header, bytes);
    }

    unsigned number() const noexcept { return number_; }
    bool is_extended() const noexcept { return extended_; }

    // The core's part; what the caller left out is zero.
    template <class T>
    T core() const noexcept {
        return read<T>(core_);
    }
    // The provider's part. T: the core's part before it.
    template <class Core, class T>
    T provider() const noexcept {
        return read<T>(provider_part<Core>());
    }

    // The whole reply: the core's part and the provider's.
    template <class Core, class Provider>
    void reply(const Core& core, const Provider& provider) const noexcept {
        const std::size_t used = write(reply_, core);
        write(extended_ ? provider_reply_ : reply_.subspan(used), provider);
    }
    template <class Core>
    void reply(const Core& core) const noexcept {
        write(reply_, core);
    }
    // The core's part of a reply that was made.
    template <class Core>
    Core replied() const noexcept {
        return read<Core>(reply_);
    }
    // How much of a provider's part there is, and whether nothing follows what is known of it.
    template <class Core>
    std::size_t provider_bytes() const noexcept {
        return provider_part<Core>().size();
    }
    template <class Core, class T>
    bool provider_ends() const noexcept {
        const auto part = provider_part<Core>();
        return part.size() <= sizeof(T) || all_zero(part.subspan(sizeof(T)));
    }
    std::size_t reply_bytes() const noexcept { return reply_.size(); }
    std::size_t provider_reply_bytes() const noexcept { return provider_reply_.size(); }

  private:
    template <class Core>
    std::span<const std::byte> provider_part() const noexcept {
        return extended_ ? provider_ : core_.subspan(std::min(sizeof(Core), core_.size()));
    }
    template <class T>
    static T read(std::span<const std::byte> from) noexcept {
        T value{};
        std::memcpy(static_cast<void*>(&value), from.data(), std::min(sizeof value, from.size()));
        return value;
    }
    template <class T>
    static std::size_t write(std::span<std::byte> to, const T& value) noexcept {
        const std::size_t bytes = std::min(sizeof value, to.size());
        std::memcpy(to.data(), &value, bytes);
        // What the caller has room for and nobody fills is zero.
        std::ranges::fill(to.subspan(bytes), std::byte{0});
        return bytes;
    }
    static std::span<std::byte> memory(std::uint64_t address, std::size_t bytes) noexcept {
        return {reinterpret_cast<std::byte*>(address), address == 0 ? 0 : bytes};
    }

    std::optional<Command> split_plain(const ib_uverbs_cmd_hdr& header,
                                       std::span<const std::byte> bytes) {
        if (header.in_words * std::size_t{4} != bytes.size() + sizeof header) return std::nullopt;
        core_ = bytes;
        std::uint64_t address = 0;
        if (header.out_words != 0 && !take(bytes, address)) return std::nullopt;
        reply_ = memory(address, header.out_words * std::size_t{4});
        return *this;
    }
    std::optional<Command> split_extended(const ib_uverbs_cmd_hdr& header,
                                          std::span<const std::byte> bytes) {
        ib_uverbs_ex_cmd_hdr more;
        if (!take(bytes, more)) return std::nullopt;
        const std::size_t core_bytes = header.in_words * std::size_t{8};
        if (core_bytes + more.provider_in_words * std::size_t{8} != bytes.size())
            return std::nullopt;
        core_ = bytes.first(core_bytes);
        provider_ = bytes.subspan(core_bytes);
        const std::size_t core_reply = header.out_words * std::size_t{8};
        reply_ = memory(more.response, core_reply);
        provider_reply_ = memory(more.response == 0 ? 0 : more.response + core_reply,
                                 more.provider_out_words * std::size_t{8});
        return *this;
    }

    unsigned number_ = 0;
    bool extended_ = false;
    std::span<const std::byte> core_, provider_;
    std::span<std::byte> reply_, provider_reply_;
};

}  // namespace verbatim::uverbs
