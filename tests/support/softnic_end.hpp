// One end of a connection over the software NIC, for tests: device, registered memory, queues; and
// the two ends of a connection within one process.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/receive_queue.hpp>
#include <verbatim/mlx5/send_queue.hpp>
#include <verbatim/softnic/softnic.hpp>

namespace verbatim::softnic::test {

inline constexpr std::chrono::seconds kPatience{20};
inline constexpr Access kAllAccess =
    Access::local_write | Access::remote_write | Access::remote_read | Access::remote_atomic;

// A sealed memory file and its mapping, as an arena segment is.
class SharedPages {
  public:
    explicit SharedPages(std::size_t bytes, unsigned seals = F_SEAL_SHRINK | F_SEAL_GROW)
        : file_(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)), bytes_(bytes) {
        if (ftruncate(file_, static_cast<off_t>(bytes)) != 0) std::abort();
        data_ = static_cast<std::byte*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file_, 0));
        if (seals != 0 && fcntl(file_, F_ADD_SEALS, seals) != 0) std::abort();
    }
    ~SharedPages() {
        munmap(data_, bytes_);
        ::close(file_);
    }
    SharedPages(const SharedPages&) = delete;
    SharedPages& operator=(const SharedPages&) = delete;
    std::byte* data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }
    int file() const noexcept { return file_; }

  private:
    int file_;
    std::size_t bytes_;
    std::byte* data_;
};

// What hardware would punish fails a test. The environment may say by which port
// (VERBATIM_TEST_PORT).
inline Options test_device() {
    Options options;
    options.strict_doorbells = true;
    options.absent_poller = false;  // nothing happens that the test does not do
    const char* const port = std::getenv("VERBATIM_TEST_PORT");
    if (port != nullptr && std::string(port) == "tcp") options.port = PortKind::tcp;
    if (port != nullptr && std::string(port) == "udp") options.port = PortKind::udp;
    if (port != nullptr && std::string(port).starts_with("dpdk:")) {
        options.port = PortKind::dpdk;
        options.packets.dpdk.device = std::string(port).substr(5);
    }
    return options;
}

struct EndOptions {
    Options device = test_device();
    std::function<std::unique_ptr<Device>()> open;  // another device than that, where it is set
    std::size_t memory_bytes = 1 << 20;
    Access access = kAllAccess;
    bool private_memory = false;  // registered without its file
    std::uint32_t completions = 256;
    bool channel = false;  // of the completion queue
    QueuePairOptions queues{.send_blocks = 64, .receive_entries = 16, .max_receive_elements = 3};
};

// What a peer must know.
struct EndAddress {
    QueuePairAddress queue_pair;
    std::uint64_t address = 0;
    std::uint32_t key = 0;
};

class End {
  public:
    explicit End(const EndOptions& options = {})
        : memory(options.memory_bytes),
          device(options.open ? options.open() : open_device(options.device)) {
        region = device->register_memory(memory.data(), memory.bytes(), options.access,
                                         {options.private_memory ? -1 : memory.file(), 0});
        if (options.channel) channel = device->create_completion_channel();
        completion_queue = device->create_completion_queue(options.completions, channel.get());
        QueuePairOptions wanted = options.queues;
        wanted.send_completions = wanted.receive_completions = completion_queue.get();
        queue_pair = device->create_queue_pair(wanted);
        send = std::make_unique<mlx5::SendQueue>(queue_pair->view(), device->invalidation_epoch());
        receive = std::make_unique<mlx5::ReceiveQueue>(queue_pair->view());
        completions = std::make_unique<mlx5::CompletionQueue>(completion_queue->view());
        completions->attach(send.get(), receive.get());
    }

    EndAddress address() const {
        return {queue_pair->address(), reinterpret_cast<std::uint64_t>(memory.data()),
                region->remote_key()};
    }
    void connect(const EndAddress& other, int timeout_ms = 5000) {
        queue_pair->connect(other.queue_pair, timeout_ms);
        peer = other;
    }

    std::byte* at(std::size_t offset) const { return memory.data() + offset; }
    // What a peer calls it.
    std::uint64_t peer_address_of(std::size_t offset) const {
        return reinterpret_cast<std::uint64_t>(at(offset));
    }
    template <class T>
    T value(std::size_t offset) const {
        T result;
        std::memcpy(&result, at(offset), sizeof result);
        return result;
    }
    mlx5::Element element(std::size_t offset, std::size_t bytes) const {
        return {reinterpret_cast<std::uint64_t>(at(offset)), static_cast<std::uint32_t>(bytes),
                region->local_key()};
    }
    // A request on the peer's memory.
    mlx5::WorkRequest request(mlx5::Opcode opcode, std::size_t remote_offset = 0) const {
        mlx5::WorkRequest request;
        request.opcode = opcode;
        request.remote_address = peer.address + remote_offset;
        request.remote_key = peer.key;
        return request;
    }

    Errc post_write(std::span<const std::byte> payload, std::size_t remote_offset,
                    std::uint64_t id = 0, bool signaled = true) {
        mlx5::WorkRequest write = request(mlx5::Opcode::write, remote_offset);
        write.inline_payload = payload;
        write.id = id;
        write.signaled = signaled;
        return send->post(write);
    }
    Errc post_send(std::span<const mlx5::Element> elements, std::uint64_t id = 0) {
        mlx5::WorkRequest message = request(mlx5::Opcode::send);
        message.elements = elements;
        message.id = id;
        return send->post(message);
    }
    Errc post_receive(std::size_t offset, std::size_t bytes, std::uint64_t id = 0) {
        const mlx5::Element into = element(offset, bytes);
        return receive->post(mlx5::ReceiveRequest{id, std::span(&into, 1)});
    }

    // One poll; what it found.
    std::vector<mlx5::Completion> poll() {
        std::vector<mlx5::Completion> found(32);
        found.resize(completions->poll(found));
        return found;
    }

    SharedPages memory;
    std::unique_ptr<Device> device;
    std::unique_ptr<MemoryRegion> region;
    std::unique_ptr<CompletionChannelHandle> channel;
    std::unique_ptr<CompletionQueueHandle> completion_queue;
    std::unique_ptr<QueuePairHandle> queue_pair;
    std::unique_ptr<mlx5::SendQueue> send;
    std::unique_ptr<mlx5::ReceiveQueue> receive;
    std::unique_ptr<mlx5::CompletionQueue> completions;
    EndAddress peer;
};

// Polls `ends` in turn until `done` or the patience ends; false then.
template <class Done>
bool poll_until(std::initializer_list<End*> ends, std::vector<std::vector<mlx5::Completion>*> found,
                Done done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::size_t i = 0;
        for (End* end : ends) {
            for (const mlx5::Completion& completion : end->poll()) found[i]->push_back(completion);
            ++i;
        }
    }
    return true;
}

// Two devices of this process, connected.
struct Pair {
    explicit Pair(const EndOptions& options = {}) : Pair(options, options) {}
    Pair(const EndOptions& for_a, const EndOptions& for_b) : a(for_a), b(for_b) {
        a.connect(b.address());
        b.connect(a.address());
    }
    // Polls both until the ends have seen this many completions in total since the start.
    bool poll_for(std::size_t at_a, std::size_t at_b) {
        return poll_until({&a, &b}, {&seen_a, &seen_b},
                          [&] { return seen_a.size() >= at_a && seen_b.size() >= at_b; });
    }

    End a, b;
    std::vector<mlx5::Completion> seen_a, seen_b;
};

inline std::vector<std::byte> pattern(std::size_t bytes, unsigned seed = 1) {
    std::vector<std::byte> result(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        result[i] = static_cast<std::byte>((i * 31 + seed * 17 + (i >> 8)) & 0xff);
    return result;
}

}  // namespace verbatim::softnic::test
