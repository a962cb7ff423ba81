// Setting them up.
#include "engine_ends.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include <verbatim/softnic/softnic.hpp>

namespace verbatim::bench {

EngineEnds::End::End() : device(softnic::open_device()) {
    const int file = memfd_create("bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0 || ftruncate(file, kBytes) != 0 ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        std::abort();
    void* const at =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    if (at == MAP_FAILED) std::abort();
    memory = static_cast<std::byte*>(at);
    region = device->register_memory(
        memory, kBytes, Access::local_write | Access::remote_write | Access::remote_read,
        {file, 0});
    close(file);
    completion_queue = device->create_completion_queue(64);
    QueuePairOptions options{.send_blocks = kBlocks, .max_send_elements = 13};
    options.max_inline_bytes = 64;
    options.send_completions = options.receive_completions = completion_queue.get();
    queue_pair = device->create_queue_pair(options);
}

EngineEnds::End::~End() {
    region.reset();
    munmap(memory, kBytes);
}

EngineEnds::EngineEnds() : completions_(near_.completion_queue->view()) {
    constexpr int kPatienceMs = 5000;
    near_.queue_pair->connect(far_.queue_pair->address(), kPatienceMs);
    far_.queue_pair->connect(near_.queue_pair->address(), kPatienceMs);
}

void EngineEnds::retire(mlx5::SendRing& queue) {
    if (!attached_) completions_.attach(&queue, nullptr);
    attached_ = true;
    std::array<mlx5::Completion, 1> done;
    if (completions_.poll(done) != 1 || done[0].status != Errc::ok) std::abort();
}

}  // namespace verbatim::bench
