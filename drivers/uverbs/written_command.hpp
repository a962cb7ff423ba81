// A command of the older interface, made from what came by ioctl(), so that both ways of asking for
// a thing have one answer; and the room for its reply. Threads: one.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace verbatim::uverbs {

class WrittenCommand {
  public:
    // Of the extended form: `core` has no place for its reply's address.
    template <class Core>
    static WrittenCommand extended(std::uint32_t number, const Core& core,
                                   std::span<const std::byte> provider, std::size_t core_reply,
                                   std::size_t provider_reply) {
        WrittenCommand command(core_reply, provider_reply, 8);
        ib_uverbs_cmd_hdr header{};
        header.command = number | IB_USER_VERBS_CMD_FLAG_EXTENDED;
        header.in_words = words(sizeof core, 8);
        header.out_words = words(core_reply, 8);
        ib_uverbs_ex_cmd_hdr more{};
        more.response = reinterpret_cast<std::uint64_t>(command.reply_.data());
        more.provider_in_words = words(provider.size(), 8);
        more.provider_out_words = words(provider_reply, 8);
        command.append(header), command.append(more), command.append(core);
        command.append_padded(provider, 8);
        return command;
    }
    // Of the plain form, whose core begins with its reply's address.
    template <class Core>
    static WrittenCommand plain(std::uint32_t number, Core core,
                                std::span<const std::byte> provider, std::size_t core_reply,
                                std::size_t provider_reply) {
        WrittenCommand command(core_reply, provider_reply, 4);
        core.response = reinterpret_cast<std::uint64_t>(command.reply_.data());
        ib_uverbs_cmd_hdr header{};
        header.command = number;
        header.in_words = words(sizeof header + sizeof core + provider.size(), 4);
        header.out_words = words(command.reply_.size(), 4);
        command.append(header), command.append(core);
        command.append_padded(provider, 4);
        return command;
    }

    std::span<const std::byte> bytes() const noexcept { return bytes_; }
    template <class Core>
    Core reply() const noexcept {
        Core core;
        std::memcpy(static_cast<void*>(&core), reply_.data(), std::min(core_reply_, sizeof core));
        return core;
    }
    std::span<const std::byte> provider_reply() const noexcept {
        return std::span(reply_).subspan(core_reply_);
    }

  private:
    WrittenCommand(std::size_t core_reply, std::size_t provider_reply, std::size_t unit)
        : core_reply_(core_reply),
          reply_(core_reply + std::size_t{words(provider_reply, unit)} * unit) {}
    static std::uint16_t words(std::size_t bytes, std::size_t unit) noexcept {
        return static_cast<std::uint16_t>((bytes + unit - 1) / unit);
    }
    template <class T>
    void append(const T& value) {
        append_padded(std::as_bytes(std::span(&value, 1)), 1);
    }
    void append_padded(std::span<const std::byte> more, std::size_t unit) {
        bytes_.insert(bytes_.end(), more.begin(), more.end());
        bytes_.resize(bytes_.size() + words(more.size(), unit) * unit - more.size());
    }

    std::size_t core_reply_;
    std::vector<std::byte> bytes_;
    std::vector<std::byte> reply_;  // moved with the command: its bytes stay where they are
};

}  // namespace verbatim::uverbs
