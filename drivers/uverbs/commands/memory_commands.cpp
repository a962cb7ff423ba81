// Commands about protection domains, memory and addresses.
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "../../softnic/host/fault_guard.hpp"
#include "../../softnic/keys/revocation.hpp"
#include "../../softqueue/page.hpp"
#include "device_file.hpp"

namespace verbatim::uverbs {
namespace {

// Bits of ib_uverbs_reg_mr::access_flags (enum ibv_access_flags).
enum : std::uint32_t {
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
// Access that mlx5's kernel driver changes with the keys as they are.
constexpr std::uint32_t kChangedInPlace =
    kLocalWrite | kRemoteWrite | kRemoteRead | kRelaxedOrdering;
constexpr std::uint32_t kKeyAccess =
    kLocalWrite | kRemoteWrite | kRemoteRead | kRemoteAtomic | kWindowBind;
constexpr std::uint32_t kKnownAccess = kKeyAccess | kZeroBased | kOnDemand | kHugePages | kOptional;
// Linux pins memory for writing where any of these may be done.
constexpr std::uint32_t kWritable = kLocalWrite | kRemoteWrite | kRemoteAtomic | kWindowBind;
static_assert(static_cast<std::uint32_t>(Access::local_write) == kLocalWrite &&
              static_cast<std::uint32_t>(Access::remote_write) == kRemoteWrite &&
              static_cast<std::uint32_t>(Access::remote_read) == kRemoteRead &&
              static_cast<std::uint32_t>(Access::remote_atomic) == kRemoteAtomic &&
              static_cast<std::uint32_t>(Access::window_bind) == kWindowBind);
// ib_uverbs_alloc_mw::mw_type (enum ibv_mw_type).
enum : std::uint8_t { kDomainWindow = 1, kQueuePairWindow = 2 };

// False: there are none.
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

// A device pins the pages, which fails where there are none, unless it is to find them on demand.
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

}  // namespace

int DeviceFile::alloc_domain(const Command& command) {
    ib_uverbs_alloc_pd_resp reply{};
    reply.pd_handle = domains_.add(std::make_unique<Domain>());
    if (reply.pd_handle == 0) return ENOMEM;
    domains_.find(reply.pd_handle)->number = reply.pd_handle;
    command.reply(reply, mlx5_ib_alloc_pd_resp{reply.pd_handle});
    return 0;
}

int DeviceFile::dealloc_domain(const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_dealloc_pd>().pd_handle;
    const Domain* const domain = domains_.find(handle);
    if (domain == nullptr) return ENOENT;
    if (domain->users != 0) return EBUSY;
    domains_.remove(handle);
    return 0;
}

// 0: there are no more handles.
std::uint32_t DeviceFile::add_key(const Key& key) {
    const std::uint32_t handle = keys_.add(std::make_unique<Key>(key));
    if (handle == 0) return 0;
    ++key.domain->users;
    if (key.device_memory != nullptr) ++key.device_memory->users;
    return handle;
}

void DeviceFile::remove_key(std::uint32_t handle) {
    const Key& key = *keys_.find(handle);
    --key.domain->users;
    if (key.device_memory != nullptr) --key.device_memory->users;
    keys_.remove(handle);
}

// 0, or what is wrong with a registration.
int DeviceFile::check_access(std::uint32_t access) {
    if ((access & ~kKnownAccess) != 0) return EINVAL;
    if ((access & (kRemoteWrite | kRemoteAtomic)) != 0 && (access & kLocalWrite) == 0)
        return EINVAL;
    return 0;
}

int DeviceFile::check_memory(const Wanted& wanted) {
    if (const int error = check_access(wanted.access); error != 0) return error;
    if (wanted.length == 0 || wanted.start + wanted.length < wanted.start) return EINVAL;
    if (wanted.start % 4096 != wanted.name % 4096) return EINVAL;
    if (wanted.name + wanted.length < wanted.name) return EINVAL;
    return 0;
}

std::uint32_t DeviceFile::make_key(const Wanted& wanted, const Domain& domain, std::uint64_t file) {
    return core_->keys().add(registration_of(wanted, domain, file));
}

// Memory that peers find at another address: `name` is what they call `start`.
softnic::Registration DeviceFile::registration_of(const Wanted& wanted, const Domain& domain,
                                                  std::uint64_t file) {
    softnic::Registration registration{wanted.name, wanted.length,
                                       static_cast<Access>(wanted.access & kKeyAccess), file,
                                       file == 0 ? 0 : wanted.start};
    registration.origin = wanted.start - wanted.name;
    registration.domain = domain.number;
    return registration;
}

// Of memory that is the program's own; shared with peers where that can be.
Key DeviceFile::make_region(const Wanted& wanted, Domain& domain) {
    Key region{&domain, 0, false, wanted};
    const bool may_share = (wanted.access & kOnDemand) == 0;
    region.memory = std::make_shared<RegisteredMemory>(wanted.start, wanted.length, may_share);
    if (const int file = region.memory->file(); file >= 0)
        region.file = core_->files().acquire(file, region.memory->pages().end, softnic::kPageFile);
    try {
        region.key = make_key(wanted, domain, region.file);
    } catch (...) {
        core_->files().release(region.file);
        throw;
    }
    return region;
}

// False: a peer that is stopped in the middle of a copy may still touch the memory. The region's
// key is dead; the same call again later says more.
bool DeviceFile::revoke_region(Key& region) noexcept {
    if (!region.revoked) core_->keys().remove(region.key);
    region.revoked = true;
    return softnic::Revocation(core_->keys().accesses()).wait();
}

void DeviceFile::forget_region(Key& region) noexcept {
    if (!region.revoked) core_->keys().remove(region.key);
    if (region.file != 0) core_->files().release(region.file);
    region.memory.reset();
}

int DeviceFile::register_memory(const Command& command) {
    const auto given = command.core<ib_uverbs_reg_mr>();
    const Wanted wanted{given.start, given.length, given.hca_va, given.access_flags};
    if (const int error = check_memory(wanted); error != 0) return error;
    Domain* const domain = domains_.find(given.pd_handle);
    if (domain == nullptr) return EINVAL;
    if (!make_present(wanted)) return EFAULT;
    softnic::guard_against_faults();  // the program may have set handlers meanwhile
    ib_uverbs_reg_mr_resp reply{};
    Key region = make_region(wanted, *domain);
    reply.lkey = reply.rkey = region.key;
    reply.mr_handle = add_key(region);
    if (reply.mr_handle == 0) {
        forget_region(region);
        return ENOMEM;
    }
    command.reply(reply);
    return 0;
}

// 0, or an error. Where rights are taken away requests that began before are waited for; if a peer
// is stopped in one, the key dies.
int DeviceFile::change_in_place(Key& region, const Wanted& wanted, const Domain& domain) {
    softnic::KeyTable& keys = core_->keys();
    if (!keys.change(region.key, registration_of(wanted, domain, region.file))) return EBUSY;
    const bool taken = (region.made.access & ~wanted.access) != 0 || region.domain != &domain;
    region.made = wanted;
    if (!taken || softnic::Revocation(keys.accesses()).wait()) return 0;
    keys.remove(region.key);
    region.revoked = true;
    return EBUSY;
}

// The region gets a key of its own for what it is then; the one before is dead at once.
int DeviceFile::replace_region(Key& region, const Wanted& wanted, Domain& domain) {
    if (!core_->keys().retire(region.key)) return EBUSY;  // a window is open onto it
    Key changed = make_region(wanted, domain);
    if (!revoke_region(region)) {
        forget_region(changed);
        return EBUSY;
    }
    forget_region(region);
    changed.domain = region.domain;
    region = std::move(changed);
    return 0;
}

// The domain, and most access, change with the region's keys as they are.
int DeviceFile::reregister_memory(const Command& command) {
    constexpr std::uint32_t kTranslation = 1, kDomain = 2, kAccess = 4;  // ibv_rereg_mr_flags
    const auto change = command.core<ib_uverbs_rereg_mr>();
    const std::uint32_t flags = change.flags;
    if (flags == 0) return EINVAL;
    if ((flags & ~(kTranslation | kDomain | kAccess)) != 0) return EOPNOTSUPP;
    if ((flags & kTranslation) != 0 && (change.start == 0 || change.hca_va == 0)) return EINVAL;
    Key* const region = keys_.find(change.mr_handle);
    if (region == nullptr) return ENOENT;
    if (region->window || region->device_memory != nullptr) return EINVAL;
    Wanted wanted = region->made;
    if ((flags & kTranslation) != 0)
        wanted.start = change.start, wanted.length = change.length, wanted.name = change.hca_va;
    if ((flags & kAccess) != 0) wanted.access = change.access_flags;
    Domain* const domain =
        (flags & kDomain) != 0 ? domains_.find(change.pd_handle) : region->domain;
    if (domain == nullptr) return EINVAL;
    if (const int error = check_memory(wanted); error != 0) return error;
    if (!make_present(wanted)) return EFAULT;
    if (region->revoked) return EBUSY;  // a peer is inside
    const bool in_place = (flags & kTranslation) == 0 &&
                          ((wanted.access ^ region->made.access) & ~kChangedInPlace) == 0;
    const int error = in_place ? change_in_place(*region, wanted, *domain)
                               : replace_region(*region, wanted, *domain);
    if (error != 0) return error;
    --region->domain->users, ++domain->users;
    region->domain = domain;
    ib_uverbs_rereg_mr_resp reply{};
    reply.lkey = reply.rkey = region->key;
    command.reply(reply);
    return 0;
}

int DeviceFile::deregister_memory(const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_dereg_mr>().mr_handle;
    Key* const region = keys_.find(handle);
    if (region == nullptr) return ENOENT;
    if (region->window) return EINVAL;
    // A window is open onto it.
    if (!region->revoked && !core_->keys().retire(region->key)) return EBUSY;
    if (!revoke_region(*region)) return EBUSY;
    forget_region(*region);
    remove_key(handle);
    return 0;
}

// Memory on demand that will soon be used. A hint that nothing is the worse for, but for one whose
// end is waited for.
int DeviceFile::advise(const Domain& domain, std::uint64_t advice, bool flush,
                       const ib_uverbs_sge& range) {
    const bool writes = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    const Key* const region = keys_.find_if([&](const Key& key) {
        return key.key == range.lkey && (key.window || (key.made.access & kOnDemand) != 0);
    });
    if (region == nullptr) return ENOENT;
    if (region->window) return EINVAL;
    if (region->domain != &domain) return EPERM;
    if (writes && (region->made.access & kWritable) == 0) return EPERM;
    const Wanted& made = region->made;
    // The region's last page counts as a whole; nobody waits for what is not flushed.
    const std::uint64_t last = made.start + made.length,
                        rest = (softnic::kPageBytes - last % softnic::kPageBytes) %
                               softnic::kPageBytes;
    const std::uint64_t most = made.length + std::min(rest, ~made.length);
    if (range.addr < made.name || range.length > most ||
        range.addr - made.name > most - range.length || range.addr - made.name == most)
        return flush ? EFAULT : 0;
    if (advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || range.length == 0) return 0;
    const std::uint64_t start = range.addr - made.name + made.start,
                        first = start & ~(softnic::kPageBytes - 1);
    const bool there = madvise(reinterpret_cast<void*>(first), start + range.length - first,
                               writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
    return there || !flush ? 0 : EFAULT;
}

int DeviceFile::advise_memory(Method& method) {
    const Domain* const domain = domains_.find(method.handle(UVERBS_ATTR_ADVISE_MR_PD_HANDLE));
    const auto advice = method.value<std::uint64_t>(UVERBS_ATTR_ADVISE_MR_ADVICE);
    const auto flags = method.value<std::uint32_t>(UVERBS_ATTR_ADVISE_MR_FLAGS);
    std::span<const std::byte> list = method.bytes(UVERBS_ATTR_ADVISE_MR_SGE_LIST);
    if (domain == nullptr) return ENOENT;
    if (!advice || !flags || *flags > IB_UVERBS_ADVISE_MR_FLAG_FLUSH || list.empty() ||
        list.size() % sizeof(ib_uverbs_sge) != 0)
        return EINVAL;
    if (*advice > IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return EOPNOTSUPP;
    for (; !list.empty(); list = list.subspan(sizeof(ib_uverbs_sge))) {
        ib_uverbs_sge range;
        std::memcpy(&range, list.data(), sizeof range);
        if (const int error = advise(*domain, *advice, *flags != 0, range); error != 0)
            return error;
    }
    return 0;
}

// A window leads nowhere until it is bound.
int DeviceFile::alloc_window(const Command& command) {
    const auto wanted = command.core<ib_uverbs_alloc_mw>();
    const auto provider = command.provider<ib_uverbs_alloc_mw, mlx5_ib_alloc_mw>();
    Domain* const domain = domains_.find(wanted.pd_handle);
    if (domain == nullptr) return EINVAL;
    if (wanted.mw_type != kDomainWindow && wanted.mw_type != kQueuePairWindow) return EINVAL;
    if (provider.comp_mask != 0 || provider.reserved1 != 0 || provider.reserved2 != 0 ||
        !command.provider_ends<ib_uverbs_alloc_mw, mlx5_ib_alloc_mw>())
        return EOPNOTSUPP;
    ib_uverbs_alloc_mw_resp reply{};
    reply.rkey = core_->keys().add_window(
        wanted.mw_type == kDomainWindow ? WindowType::domain : WindowType::queue_pair,
        domain->number);
    reply.mw_handle = add_key({domain, reply.rkey, true, {}});
    if (reply.mw_handle == 0) {
        core_->keys().remove_window(reply.rkey);
        return ENOMEM;
    }
    command.reply(reply);
    return 0;
}

int DeviceFile::dealloc_window(const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_dealloc_mw>().mw_handle;
    const Key* const window = keys_.find(handle);
    if (window == nullptr) return ENOENT;
    if (!window->window) return EINVAL;
    core_->keys().remove_window(window->key);
    softnic::Revocation(core_->keys().accesses()).wait();
    remove_key(handle);
    return 0;
}

int DeviceFile::create_address(const Command& command) {
    const auto wanted = command.core<ib_uverbs_create_ah>();
    Domain* const domain = domains_.find(wanted.pd_handle);
    // Addresses over Ethernet have a global part.
    if (domain == nullptr || wanted.attr.port_num != 1 || wanted.attr.is_global == 0 ||
        wanted.attr.grh.sgid_index >= Identity::kGids)
        return EINVAL;
    ib_uverbs_create_ah_resp reply{};
    constexpr std::size_t kRoom =
        offsetof(mlx5_ib_create_ah_resp, dmac) + sizeof(mlx5_ib_create_ah_resp::dmac);
    if (command.reply_bytes() < sizeof reply + kRoom) return EINVAL;
    reply.ah_handle = addresses_.add(std::make_unique<Address>(Address{domain}));
    if (reply.ah_handle == 0) return ENOMEM;
    ++domain->users;
    mlx5_ib_create_ah_resp provider{};
    provider.response_length = sizeof provider;
    const auto mac = identity_.mac();
    std::copy(mac.begin(), mac.end(), provider.dmac);
    command.reply(reply, provider);
    return 0;
}

int DeviceFile::destroy_address(const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_destroy_ah>().ah_handle;
    const Address* const address = addresses_.find(handle);
    if (address == nullptr) return ENOENT;
    --address->domain->users;
    addresses_.remove(handle);
    return 0;
}

}  // namespace verbatim::uverbs
