// Who shares which domain and which target.
#include "xrc_objects.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "connector.hpp"

namespace verbatim::uverbs {
namespace {

// Device, file system, inode; and the generation of fork(), since a child's domains are its own.
using FileName = std::tuple<std::uint64_t, int, dev_t, ino_t>;
struct SharedDomains {
    std::mutex mutex;
    std::map<FileName, std::weak_ptr<XrcDomain>> by_file;
};
SharedDomains& shared_domains() {
    // Never destroyed: threads may end after it.
    static SharedDomains& domains = *new SharedDomains;
    return domains;
}

}  // namespace

void XrcTarget::add_opener(QueuePair& handle) {
    const std::lock_guard lock(openers_mutex_);
    openers_.push_back(&handle);
}

void XrcTarget::remove_opener(const QueuePair& handle) noexcept {
    if (generation_ != softnic::fork_generation()) return;  // locks may be held in the parent
    {
        const std::lock_guard lock(openers_mutex_);
        std::erase(openers_, &handle);
        if (!openers_.empty()) return;
    }
    end();
}

void XrcTarget::end() noexcept {
    const std::lock_guard lock(mutex);
    if (pair == nullptr) return;
    pair->connector->remove(*pair->engine);
    pair.reset();
}

void XrcTarget::post(AsyncEvent event) noexcept {
    const std::lock_guard lock(openers_mutex_);
    for (QueuePair* const handle : openers_) handle->post(event);
}

void XrcDomain::add_target(std::uint32_t number, const std::shared_ptr<XrcTarget>& target) {
    const std::lock_guard lock(mutex_);
    std::erase_if(targets_, [](const auto& entry) { return entry.second.expired(); });
    targets_[number] = target;
}

std::shared_ptr<XrcTarget> XrcDomain::find_target(std::uint32_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = targets_.find(number);
    return found == targets_.end() ? nullptr : found->second.lock();
}

int open_xrc_domain(int device, int file, int flags, std::shared_ptr<XrcDomain>& domain) {
    if (file == -1) {
        domain = std::make_shared<XrcDomain>();
        return 0;
    }
    struct stat facts {};
    if (fstat(file, &facts) != 0) return EBADF;
    const FileName name{softnic::fork_generation(), device, facts.st_dev, facts.st_ino};
    SharedDomains& shared = shared_domains();
    const std::lock_guard lock(shared.mutex);
    std::erase_if(shared.by_file, [](const auto& entry) { return entry.second.expired(); });
    const auto found = shared.by_file.find(name);
    domain = found == shared.by_file.end() ? nullptr : found->second.lock();
    if (domain == nullptr && (flags & O_CREAT) == 0) return EAGAIN;
    if (domain != nullptr) return (flags & O_EXCL) != 0 ? EINVAL : 0;
    softnic::Descriptor kept(softnic::out_of_the_way(fcntl(file, F_DUPFD_CLOEXEC, 0)));
    if (!kept) return EMFILE;
    domain = std::make_shared<XrcDomain>(std::move(kept));
    shared.by_file[name] = domain;
    return 0;
}

}  // namespace verbatim::uverbs
