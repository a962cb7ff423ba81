// One request by ioctl() as libibverbs makes it (linux' uapi rdma/rdma_user_ioctl_cmds.h): an
// object's kind, a method, and attributes by number. Values of up to eight bytes lie in the
// attribute, longer ones and all answers where it points; handles lie in it both ways. The header
// is the caller's own, and is written as the kernel writes it. Threads: one.
#pragma once

#include <rdma/rdma_user_ioctl_cmds.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace verbatim::uverbs {

class Method {
  public:
    explicit Method(ib_uverbs_ioctl_hdr& header) noexcept : header_(&header) {}

    // Whether the header says its own length.
    bool well_formed() const noexcept {
        return header_->length == sizeof *header_ + header_->num_attrs * sizeof(ib_uverbs_attr) &&
               header_->reserved1 == 0 && header_->reserved2 == 0;
    }
    std::uint16_t object() const noexcept { return header_->object_id; }
    std::uint16_t number() const noexcept { return header_->method_id; }

    // Whether nothing is asked for that is not among these attributes; what the caller calls
    // optional does not count.
    bool asks_only(std::span<const std::uint16_t> known) const noexcept {
        return std::ranges::all_of(attributes(), [&](const ib_uverbs_attr& attribute) {
            return (attribute.flags & UVERBS_ATTR_F_MANDATORY) == 0 ||
                   std::ranges::find(known, attribute.attr_id) != known.end();
        });
    }

    // Nothing if the attribute is missing or has another length.
    template <class T>
    std::optional<T> value(std::uint16_t id) const noexcept {
        static_assert(std::is_integral_v<T>);
        const ib_uverbs_attr* const attribute = find(id);
        if (attribute == nullptr || attribute->len != sizeof(T)) return std::nullopt;
        T value;
        std::memcpy(&value, &attribute->data, sizeof value);
        return value;
    }
    // A list, or what stands for it inside the attribute; empty if it is missing.
    std::span<const std::byte> bytes(std::uint16_t id) const noexcept {
        const ib_uverbs_attr* const attribute = find(id);
        if (attribute == nullptr) return {};
        return {attribute->len <= sizeof attribute->data
                    ? reinterpret_cast<const std::byte*>(&attribute->data)
                    : reinterpret_cast<const std::byte*>(attribute->data),
                attribute->len};
    }
    // What is missing at its end is zero.
    template <class T>
    T structure(std::uint16_t id) const noexcept {
        T value{};
        const std::span<const std::byte> given = bytes(id);
        if (!given.empty())
            std::memcpy(static_cast<void*>(&value), given.data(),
                        std::min(sizeof value, given.size()));
        return value;
    }
    // 0, which no object has, if it is missing.
    std::uint32_t handle(std::uint16_t id) const noexcept {
        const ib_uverbs_attr* const attribute = find(id);
        return attribute == nullptr ? 0 : static_cast<std::uint32_t>(attribute->data);
    }

    // Whether all these answers have room.
    template <class T>
    bool has_room(std::uint16_t id) const noexcept {
        const ib_uverbs_attr* const attribute = find(id);
        return attribute != nullptr && attribute->len >= sizeof(T) && attribute->data != 0;
    }
    std::span<std::byte> room(std::uint16_t id) const noexcept {
        const ib_uverbs_attr* const attribute = find(id);
        if (attribute == nullptr || attribute->data == 0) return {};
        return {reinterpret_cast<std::byte*>(attribute->data), attribute->len};
    }
    // As much as fits; nothing if it was not asked for.
    void answer(std::uint16_t id, std::span<const std::byte> from) noexcept {
        const std::span<std::byte> to = room(id);
        if (to.empty()) return;
        std::memcpy(to.data(), from.data(), std::min(to.size(), from.size()));
        mark(id);
    }
    template <class T>
    void answer(std::uint16_t id, const T& value) noexcept {
        answer(id, std::as_bytes(std::span(&value, 1)));
    }
    void answer_handle(std::uint16_t id, std::uint32_t handle) noexcept {
        if (ib_uverbs_attr* const attribute = find(id)) attribute->data = handle;
    }
    bool has(std::uint16_t id) const noexcept { return find(id) != nullptr; }
    void mark(std::uint16_t id) noexcept {
        if (ib_uverbs_attr* const attribute = find(id))
            attribute->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
    }

  private:
    std::span<ib_uverbs_attr> attributes() const noexcept {
        return {header_->attrs, header_->num_attrs};
    }
    ib_uverbs_attr* find(std::uint16_t id) const noexcept {
        const auto all = attributes();
        const auto found = std::ranges::find(all, id, &ib_uverbs_attr::attr_id);
        return found == all.end() ? nullptr : &*found;
    }

    ib_uverbs_ioctl_hdr* header_;
};

}  // namespace verbatim::uverbs
