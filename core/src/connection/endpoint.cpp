// Builds the local half of a connection.
#include "endpoint.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <verbatim/driver/deadline.hpp>

namespace verbatim {
namespace {

constexpr std::size_t kPage = 4096;  // the credit word has the first one
constexpr std::uint32_t kReceiveEntries = 16;

ArenaOptions block_arena(const RegisteredBlock::Options& options) {
    return {.name = options.name,
            .segment_bytes = kPage,
            .max_bytes = options.bytes,
            .initial_bytes = options.bytes,
            .pages = PageChoice::base_4k,
            .lock_memory = options.lock_memory,
            .numa_node = options.numa_node};
}

std::unique_ptr<QueuePairHandle> make_queue_pair(Device& device, const Config& config,
                                                 CompletionQueueHandle& completions,
                                                 const std::array<std::uint8_t, 16>& address) {
    QueuePairOptions options;
    options.local_address = address;
    options.send_completions = options.receive_completions = &completions;
    options.send_blocks = config.ring.send_blocks;
    options.receive_entries = kReceiveEntries;
    return device.create_queue_pair(options);
}

std::uint64_t draw_key() {
    std::uint64_t key = 0;
    if (getrandom(&key, sizeof key, 0) != sizeof key)
        throw Error(Errc::device_error, "connection", "the kernel gives no random bytes",
                    "allow getrandom(2) where the process is confined (seccomp)");
    return key;
}

}  // namespace

RegisteredBlock::RegisteredBlock(Device& device, const Options& options)
    : arena_(block_arena(options)) {
    void* place = arena_.allocate(options.bytes, kPage);
    region_ = device.register_memory(static_cast<std::byte*>(place), options.bytes, options.access,
                                     {arena_.segment(0).file, 0});
}

Endpoint::Endpoint(Device& device, const Config& config,
                   const std::array<std::uint8_t, 16>& local_address)
    : device_(device),
      config_(config),
      // Every request outstanding may be flushed with an entry of its own.
      completions_(device.create_completion_queue(config.ring.send_blocks + kReceiveEntries)),
      queue_pair_(make_queue_pair(device, config, *completions_, local_address)),
      incoming_(device, {.name = "message ring",
                         .bytes = kPage + config.ring.bytes,
                         .access = Access::local_write | Access::remote_write,
                         .lock_memory = config.receive_arena.lock_memory,
                         .numa_node = config.receive_arena.numa_node}),
      tag_key_(draw_key()) {}

Hello Endpoint::hello() const {
    const MemoryRegion& region = incoming_.region();
    Hello hello;
    hello.page_bytes = static_cast<std::uint32_t>(sysconf(_SC_PAGESIZE));
    hello.pointer_bytes = sizeof(void*);
    hello.queue_pair = queue_pair_->address();
    hello.credit_address = reinterpret_cast<std::uint64_t>(region.address());
    hello.ring_address = hello.credit_address + kPage;
    hello.ring_bytes = config_.ring.bytes;
    hello.ring_key = hello.credit_key = region.remote_key();
    hello.tag_key = tag_key_;
    hello.user = geteuid();
    hello.process = static_cast<std::uint32_t>(getpid());
    hello.device_name = device_.info().name;
    return hello;
}

void Endpoint::connect(const Hello& peer, Deadline deadline) {
    // First, because it tells the peer's user: no memory of the size that the peer asks for before.
    queue_pair_->connect(peer.queue_pair, milliseconds_until(deadline.when));
    check_order();
    mirror_.emplace(device_, RegisteredBlock::Options{.name = "message mirror",
                                                      .bytes = peer.ring_bytes,
                                                      .access = Access::local_read,
                                                      .lock_memory = config_.arena.lock_memory,
                                                      .numa_node = config_.arena.numa_node});
    path_.emplace(*queue_pair_, *completions_, device_.invalidation_epoch());
    const RemoteRing remote{.address = peer.ring_address,
                            .bytes = peer.ring_bytes,
                            .remote_key = peer.ring_key,
                            .tag_key = peer.tag_key,
                            .mirror = mirror_->address(),
                            .mirror_key = mirror_->region().local_key()};
    const LocalRing local{
        .memory = incoming_.address() + kPage,
        .bytes = config_.ring.bytes,
        .tag_key = tag_key_,
        .credit_word = reinterpret_cast<const std::uint64_t*>(incoming_.address())};
    ring_.emplace(*path_, local, remote, RemoteWord{peer.credit_address, peer.credit_key});
}

// Rings and images are found complete by polling their last bytes.
void Endpoint::check_order() const {
    if (config_.device.assume_in_order || queue_pair_->data_in_order()) return;
    throw Error(Errc::unsupported, device_.info().name,
                "it does not promise that the bytes of a write appear in memory in order, and "
                "messages are found by polling memory",
                "update its firmware and rdma-core; or, where adaptive routing and relaxed "
                "ordering are off, set assume_in_order = true in [device]");
}

}  // namespace verbatim
