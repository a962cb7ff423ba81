// Numbers and mappings of register pages.
#include "register_pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <exception>
#include <utility>
#include <vector>

#include <verbatim/driver/error.hpp>

#include "../objects/device_memory_pool.hpp"
#include "../objects/memory_survey.hpp"
#include "engine_thread.hpp"

namespace verbatim::uverbs {
namespace {

int make_register_file() {
    const int file = memfd_create("verbatim-uverbs", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, RegisterPages::kFileBytes) == 0) return file;
    if (file >= 0) close(file);
    throw Error(Errc::out_of_memory, "software NIC under rdma-core",
                "no memory for its register pages", "free memory or file descriptors");
}

}  // namespace

RegisterPages::RegisterPages(EngineThread& engine_thread)
    : engine_thread_(engine_thread),
      file_(make_register_file()),
      identity_(softnic::inspect_file(file_, "register pages").identity) {}

// Once for each context, because a program with many queue pairs has many mappings
// and they take time to read; and for those of thread domains, which come later.
void RegisterPages::find(const mlx5_ib_create_qp& wanted) noexcept try {
    if (!engine_thread_.may_trap()) return;
    const bool new_one = (wanted.flags & MLX5_QP_FLAG_BFREG_INDEX) != 0 &&
                         thread_registers_.insert(wanted.bfreg_index).second;
    if (!std::exchange(changed_, false) && !new_one) return;
    // The system is asked, because programs and libraries that take the place of mmap(), as UCX
    // does, leave nobody else to see it.
    std::vector<Mapped> mapped;
    if (!mapped_for_writing(identity_.device, identity_.inode, mapped))
        return engine_thread_.forgo_traps("/proc/self/maps cannot be read; is /proc mounted?");
    for (const Mapped& pages : mapped) {
        const bool memory = pages.offset >= DeviceMemoryPool::kFileOffset &&
                            pages.offset < DeviceMemoryPool::kFileOffset + DeviceMemoryPool::kBytes;
        if (!memory) engine_thread_.add_registers(pages.range.first, pages.range.bytes());
    }
} catch (const std::exception& error) {
    engine_thread_.forgo_traps(error.what());
}

// libmlx5 has four registers per page, of which the first two are doorbells for posting. Number 0
// has no BlueFlame; those of the last two pages are used without a lock, so they go first.
std::uint32_t RegisterPages::next() noexcept {
    constexpr std::uint32_t kLast = 2 * kPages - 1;
    const std::uint32_t place = kLast - given_++ % kLast;
    return place / 2 * 4 + place % 2;
}

}  // namespace verbatim::uverbs
