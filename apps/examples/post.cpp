// The lowest layer: a prepared RDMA write, posted to a queue pair again and again with another
// address and payload. Two devices of one process, because a connection has two ends; the same code
// runs on a network card.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <verbatim/core/arena.hpp>
#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>
#include <verbatim/mlx5/send_queue.hpp>
#include <verbatim/softnic/softnic.hpp>

using namespace verbatim;

namespace {

// A device with one queue pair and 4 KiB that the other end may write.
struct End {
    Arena arena{{.name = "example"}};
    std::unique_ptr<Device> device = softnic::open_device({});
    std::byte* memory = static_cast<std::byte*>(arena.allocate(4096, 64));
    std::unique_ptr<MemoryRegion> region =
        device->register_memory(memory, 4096, Access::local_write | Access::remote_write,
                                {arena.segment(0).file, arena.segment(0).file_offset});
    std::unique_ptr<CompletionQueueHandle> completions = device->create_completion_queue(64);
    std::unique_ptr<QueuePairHandle> queue_pair = device->create_queue_pair(
        {.send_completions = completions.get(), .receive_completions = completions.get()});
};

}  // namespace

int main() try {
    End here, there;
    here.queue_pair->connect(there.queue_pair->address(), 5000);
    there.queue_pair->connect(here.queue_pair->address(), 5000);

    mlx5::SendQueue queue(here.queue_pair->view(), here.device->invalidation_epoch());
    mlx5::CompletionQueue completions(here.completions->view());
    completions.attach(&queue, nullptr);

    // Built once: opcode, key, and room for 8 bytes. Posting patches address and payload only.
    const auto target = reinterpret_cast<std::uint64_t>(there.memory);
    mlx5::PreparedWrite8 write(
        queue, {.opcode = mlx5::Opcode::write, .remote_key = there.region->remote_key()});
    for (std::uint64_t i = 0; i < 8; ++i) {
        if (const Errc code = write.post(/*id=*/i, target + i * sizeof i, i * i); code != Errc::ok)
            throw Error(code, "post", std::string(describe(code)));
    }
    std::array<mlx5::Completion, 8> finished;
    std::size_t count = 0;
    while (count < 8) count += completions.poll(finished);

    std::array<std::uint64_t, 8> squares;
    std::memcpy(squares.data(), there.memory, sizeof squares);
    for (const std::uint64_t square : squares) std::printf("%llu ", (unsigned long long)square);
    std::printf("\n");
} catch (const Error& error) {
    std::fprintf(stderr, "example-post: %s\n", error.what());
    return 1;
}
