// libibverbs calls an object by its address when it asks for one (user_handle).
#include "created_objects.hpp"

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include <cstdint>
#include <cstring>

#include "../softnic/host/fault_guard.hpp"
#include "../uverbs/files/open_files.hpp"
#include "../uverbs/protocol/command.hpp"
#include "progress_hooks.hpp"

namespace verbatim::uverbs {
namespace {

// A call of its own, as the guard needs.
[[gnu::noinline]] void read_context(const void* place, const ibv_context*& found) noexcept {
    std::memcpy(&found, place, sizeof found);
}

// Null: it is no object of this context. A program that writes commands by itself may call objects
// what it likes; those of libibverbs begin with their context.
template <class Object>
Object* object_of(const ibv_context* context, std::uint64_t user_handle) noexcept {
    if (context == nullptr || user_handle == 0) return nullptr;
    softnic::guard_against_faults();
    auto* const place = reinterpret_cast<void*>(user_handle);
    const ibv_context* found = nullptr;
    const void* missing = nullptr;
    const bool there = softnic::run_guarded([&] { read_context(place, found); }, missing);
    return there && found == context ? static_cast<Object*>(place) : nullptr;
}

template <class Plain, class Extended>
std::uint64_t user_handle(const Command& command) noexcept {
    return command.is_extended() ? std::uint64_t{command.core<Extended>().user_handle}
                                 : std::uint64_t{command.core<Plain>().user_handle};
}

void take_over_queue(OpenFile& file, const Command& command) noexcept {
    const auto name = user_handle<ib_uverbs_create_cq, ib_uverbs_ex_create_cq>(command);
    auto* const queue = object_of<ibv_cq_ex>(file.context.load(std::memory_order_acquire), name);
    if (queue == nullptr) return;
    take_over(*queue);
    // The kernel's interface is not told of it.
    const bool stamped = queue->read_completion_ts != nullptr;
    if (stamped) file.device.stamp(command.replied<ib_uverbs_create_cq_resp>().cq_handle);
}

void take_over_pair(OpenFile& file, const Command& command) noexcept {
    const auto name = user_handle<ib_uverbs_create_qp, ib_uverbs_ex_create_qp>(command);
    auto* const pair = object_of<ibv_qp_ex>(file.context.load(std::memory_order_acquire), name);
    if (pair != nullptr) take_over(*pair);
}

}  // namespace

void take_over_made(OpenFile& file, std::span<const std::byte> command) noexcept {
    const auto parsed = Command::parse(command);
    if (!parsed) return;
    if (parsed->number() == IB_USER_VERBS_CMD_CREATE_CQ) take_over_queue(file, *parsed);
    if (parsed->number() == IB_USER_VERBS_CMD_CREATE_QP) take_over_pair(file, *parsed);
}

}  // namespace verbatim::uverbs
