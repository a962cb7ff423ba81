// Memory regions: the rules of a registration, and the key that the engine has for it. Threads:
// under the device file's lock.
#pragma once

#include <cstdint>

#include "../../softnic/device.hpp"
#include "objects.hpp"

namespace verbatim::uverbs {

// Bits of ib_uverbs_reg_mr::access_flags (enum ibv_access_flags).
enum MemoryAccess : std::uint32_t {
    kLocalWrite = 1u << 0,
    kRemoteWrite = 1u << 1,
    kRemoteRead = 1u << 2,
    kRemoteAtomic = 1u << 3,
    kWindowBind = 1u << 4,
    kZeroBased = 1u << 5,  // of device memory; elsewhere it says nothing
    kOnDemand = 1u << 6,
    kHugePages = 1u << 7,
    kRelaxedOrdering = 1u << 20,
    kOptional = 0x3ffu << 20,  // hints, relaxed ordering among them
};
// Linux pins memory for writing where any of these may be done.
inline constexpr std::uint32_t kWritable = kLocalWrite | kRemoteWrite | kRemoteAtomic | kWindowBind;

// 0, or what is wrong with a registration.
int check_access(std::uint32_t access) noexcept;
int check_memory(const Wanted& wanted) noexcept;
// False: the pages are not there. A device pins them, unless it is to find them on demand.
bool make_present(const Wanted& wanted) noexcept;

// The engine's new key for this memory. `file`: number of the file in which it is shared, or 0.
std::uint32_t make_key(softnic::DeviceCore& core, const Wanted& wanted, const Domain& domain,
                       std::uint64_t file = 0);
// A region of memory that is the program's own; shared with peers where that can be.
Key make_region(softnic::DeviceCore& core, const Wanted& wanted, Domain& domain);
// False: a peer that is stopped in the middle of a copy may still touch the memory. The region's
// key is dead; the same call again later says more.
bool revoke_region(softnic::DeviceCore& core, Key& region) noexcept;
// The region's key and its share of the memory go.
void forget_region(softnic::DeviceCore& core, Key& region) noexcept;

// Whether access and domain may become these with the region's keys as they are.
bool changes_in_place(const Key& region, const Wanted& wanted) noexcept;
// 0, or an error. Where rights are taken away requests that began before are waited for; if a peer
// is stopped in one, the key dies.
int change_in_place(softnic::DeviceCore& core, Key& region, const Wanted& wanted,
                    const Domain& domain);
// The region gets a key of its own for what it is then; the one before is dead at once. 0, or an
// error.
int replace_region(softnic::DeviceCore& core, Key& region, const Wanted& wanted, Domain& domain);

}  // namespace verbatim::uverbs
