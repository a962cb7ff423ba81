// The public face of the registration cache.
#include <verbatim/core/registration_cache.hpp>

#include <verbatim/core/context.hpp>

#include "../lane/lane_impl.hpp"
#include "cached_regions.hpp"
#include "copy_limit.hpp"

namespace verbatim {

namespace {

Device& own_device(Context& context) {
    refuse_inherited(*context.lane().impl(), "registration cache");
    return context.device();
}

}  // namespace

void Registered::release() noexcept {
    if (region_ != nullptr) regions_->release(*entry_);
    region_ = nullptr;
    regions_.reset();
}

RegistrationCache::RegistrationCache(Context& context)
    : RegistrationCache(context, context.config().foreign) {}

RegistrationCache::RegistrationCache(Context& context, const RegistrationOptions& options)
    : regions_(std::make_shared<CachedRegions>(own_device(context), options)) {}

Registered RegistrationCache::acquire(void* memory, std::size_t bytes, Access access) {
    Registered lease;
    lease.start_ = reinterpret_cast<std::uintptr_t>(memory);
    lease.bytes_ = bytes;
    lease.access_ = access;
    lease.entry_ = &regions_->acquire(lease.start_, bytes, access);
    lease.regions_ = regions_;
    lease.region_ = lease.entry_->region.get();
    return lease;
}

std::size_t RegistrationCache::copy_below() {
    return regions_->copy_below([this] {
        return measure_copy_limit(
            [this](void* memory, std::size_t bytes) { (void)acquire(memory, bytes); });
    });
}

void RegistrationCache::clear() noexcept { regions_->clear(); }
RegistrationUsage RegistrationCache::usage() const { return regions_->usage(); }

}  // namespace verbatim
