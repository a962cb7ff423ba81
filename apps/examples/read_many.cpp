// A queue pair that does one thing: every slot of its send queue holds the same read into ten
// pieces of memory, built once. A post changes where the read begins, and nothing is copied.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <verbatim/core/arena.hpp>
#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/prebuilt_queue.hpp>
#include <verbatim/softnic/softnic.hpp>

using namespace verbatim;

namespace {

constexpr std::uint32_t kPieces = 10;
using Reads = mlx5::PrebuiltQueue<mlx5::Opcode::read, mlx5::Elements<kPieces>>;

// A device with one queue pair and 4 KiB that the other end may read.
struct End {
    Arena arena{{.name = "example"}};
    std::unique_ptr<Device> device = softnic::open_device({});
    std::byte* memory = static_cast<std::byte*>(arena.allocate(4096, 64));
    std::unique_ptr<MemoryRegion> region =
        device->register_memory(memory, 4096, Access::local_write | Access::remote_read,
                                {arena.segment(0).file, arena.segment(0).file_offset});
    std::unique_ptr<CompletionQueueHandle> completions = device->create_completion_queue(256);
    std::unique_ptr<QueuePairHandle> queue_pair = device->create_queue_pair(
        {.send_completions = completions.get(), .receive_completions = completions.get()});
};

// Pieces of 8 bytes, 64 bytes apart.
std::array<mlx5::Element, kPieces> pieces_of(const End& end) {
    std::array<mlx5::Element, kPieces> pieces;
    for (std::uint32_t i = 0; i < kPieces; ++i)
        pieces[i] = {reinterpret_cast<std::uint64_t>(end.memory) + i * 64, 8,
                     end.region->local_key()};
    return pieces;
}

}  // namespace

int main() try {
    End here, there;
    here.queue_pair->connect(there.queue_pair->address(), 5000);
    there.queue_pair->connect(here.queue_pair->address(), 5000);
    for (std::uint64_t i = 0; i < 512; ++i) std::memcpy(there.memory + i * 8, &i, sizeof i);

    const auto pieces = pieces_of(here);
    const MemoryRegion* regions[kPieces];
    for (const MemoryRegion*& region : regions) region = here.region.get();
    mlx5::WorkRequest read;
    read.opcode = mlx5::Opcode::read;
    read.remote_key = there.region->remote_key();
    read.elements = pieces;
    Reads reads(here.queue_pair->view(), read, regions, here.device->invalidation_epoch());
    mlx5::CompletionQueue completions(here.completions->view());
    completions.attach(&reads, nullptr);

    for (std::uint64_t row = 0; row < 4; ++row) {
        const auto from = reinterpret_cast<std::uint64_t>(there.memory) + row * 100 * 8;
        if (const Errc code = reads.post(/*id=*/row, from, mlx5::kUnchanged); code != Errc::ok)
            throw Error(code, "post", std::string(describe(code)));
        std::array<mlx5::Completion, 1> finished;
        while (completions.poll(finished) == 0) {
        }
        if (finished[0].status != Errc::ok)
            throw Error(finished[0].status, "read", std::string(describe(finished[0].status)));
        for (std::uint32_t i = 0; i < kPieces; ++i) {
            std::uint64_t value;
            std::memcpy(&value, here.memory + i * 64, sizeof value);
            std::printf("%llu ", static_cast<unsigned long long>(value));
        }
        std::printf("\n");
    }
} catch (const Error& error) {
    std::fprintf(stderr, "example-read-many: %s\n", error.what());
    return 1;
}
