// Registrations at the engine.
#include "memory_regions.hpp"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>

#include "../../softnic/keys/revocation.hpp"
#include "../../softqueue/page.hpp"

namespace verbatim::uverbs {
namespace {

// Access that mlx5's kernel driver changes with the keys as they are.
constexpr std::uint32_t kChangedInPlace =
    kLocalWrite | kRemoteWrite | kRemoteRead | kRelaxedOrdering;
constexpr std::uint32_t kKeyAccess =
    kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kWindowBind;
constexpr std::uint32_t kKnownAccess = kKeyAccess | kZeroBased | kOnDemand | kHugePages | kOptional;
static_assert(static_cast<std::uint32_t>(Access::local_write) == kLocalWrite &&
              static_cast<std::uint32_t>(Access::remote_write) == kRemoteWrite &&
              static_cast<std::uint32_t>(Access::remote_read) == kRemoteRead &&
              static_cast<std::uint32_t>(Access::remote_atomic) == kRemoteAtomic &&
              static_cast<std::uint32_t>(Access::window_bind) == kWindowBind);

// Whether the system gives these bytes to calls that go by address, as a card's driver would pin
// their pages. It does not give memory of other devices (VM_IO, VM_PFNMAP). True where such calls
// are forbidden.
bool can_be_pinned(std::uint64_t start, std::uint64_t bytes) noexcept {
    std::array<std::byte, 2> seen;
    const iovec local{seen.data(), seen.size()};
    const std::array<iovec, 2> ends{
        {{reinterpret_cast<void*>(start), 1}, {reinterpret_cast<void*>(start + bytes - 1), 1}}};
    const ssize_t read = process_vm_readv(getpid(), &local, 1, ends.data(), ends.size(), 0);
    return read == static_cast<ssize_t>(seen.size()) || (read < 0 && errno != EFAULT);
}

// Memory that peers find at another address: `name` is what they call `start`.
softnic::Registration registration_of(const Wanted& wanted, const Domain& domain,
                                      std::uint64_t file) {
    softnic::Registration registration{wanted.name, wanted.length,
                                       static_cast<Access>(wanted.access & kKeyAccess), file,
                                       file == 0 ? 0 : wanted.start};
    registration.origin = wanted.start - wanted.name;
    registration.domain = domain.number;
    return registration;
}

}  // namespace

int check_access(std::uint32_t access) noexcept {
    if ((access & ~kKnownAccess) != 0) return EINVAL;
    if ((access & (kRemoteWrite | kRemoteAtomic)) != 0 && (access & kLocalWrite) == 0)
        return EINVAL;
    return 0;
}

int check_memory(const Wanted& wanted) noexcept {
    if (const int error = check_access(wanted.access); error != 0) return error;
    if (wanted.length == 0 || wanted.start + wanted.length < wanted.start) return EINVAL;
    if (wanted.start % 4096 != wanted.name % 4096) return EINVAL;
    if (wanted.name + wanted.length < wanted.name) return EINVAL;
    return 0;
}

bool make_present(const Wanted& wanted) noexcept {
    if ((wanted.access & kOnDemand) != 0) return true;
    const std::uint64_t start = wanted.start, bytes = wanted.length;
    const bool writable = (wanted.access & kWritable) != 0;
    const std::uint64_t first = start & ~(softnic::kPageBytes - 1);
    const int advice = writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    if (madvise(reinterpret_cast<void*>(first), start + bytes - first, advice) == 0) return true;
    if (errno != EINVAL) return false;
    // What can be populated for reading only must not be written. Else it is memory of another
    // device, or an old system.
    if (writable &&
        madvise(reinterpret_cast<void*>(first), start + bytes - first, MADV_POPULATE_READ) == 0)
        return false;
    return bytes == 0 || can_be_pinned(start, bytes);
}

std::uint32_t make_key(softnic::DeviceCore& core, const Wanted& wanted, const Domain& domain,
                       std::uint64_t file) {
    return core.keys().add(registration_of(wanted, domain, file));
}

Key make_region(softnic::DeviceCore& core, const Wanted& wanted, Domain& domain) {
    Key region{&domain, 0, false, wanted};
    const bool may_share = (wanted.access & kOnDemand) == 0;
    region.memory = std::make_shared<RegisteredMemory>(wanted.start, wanted.length, may_share);
    if (const int file = region.memory->file(); file >= 0)
        region.file = core.files().acquire(file, region.memory->pages().end, softnic::kPageFile);
    try {
        region.key = make_key(core, wanted, domain, region.file);
    } catch (...) {
        core.files().release(region.file);
        throw;
    }
    return region;
}

bool revoke_region(softnic::DeviceCore& core, Key& region) noexcept {
    if (!region.revoked) core.keys().remove(region.key);
    region.revoked = true;
    return softnic::Revocation(core.keys().accesses()).wait();
}

void forget_region(softnic::DeviceCore& core, Key& region) noexcept {
    if (!region.revoked) core.keys().remove(region.key);
    if (region.file != 0) core.files().release(region.file);
    region.memory.reset();
}

bool changes_in_place(const Key& region, const Wanted& wanted) noexcept {
    return ((wanted.access ^ region.made.access) & ~kChangedInPlace) == 0;
}

int change_in_place(softnic::DeviceCore& core, Key& region, const Wanted& wanted,
                    const Domain& domain) {
    softnic::KeyTable& keys = core.keys();
    if (!keys.change(region.key, registration_of(wanted, domain, region.file))) return EBUSY;
    const bool taken = (region.made.access & ~wanted.access) != 0 || region.domain != &domain;
    region.made = wanted;
    if (!taken || softnic::Revocation(keys.accesses()).wait()) return 0;
    keys.remove(region.key);
    region.revoked = true;
    return EBUSY;
}

int replace_region(softnic::DeviceCore& core, Key& region, const Wanted& wanted, Domain& domain) {
    if (!core.keys().retire(region.key)) return EBUSY;  // a window is open onto it
    Key changed = make_region(core, wanted, domain);
    if (!revoke_region(core, region)) {
        forget_region(core, changed);
        return EBUSY;
    }
    forget_region(core, region);
    changed.domain = region.domain;
    region = std::move(changed);
    return 0;
}

}  // namespace verbatim::uverbs
