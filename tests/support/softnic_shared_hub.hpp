// Several connections of the software NIC that take their receives from one shared receive queue,
// for tests: the hub, whose queue pairs share, and one ordinary end for each of them.
#pragma once

#include <verbatim/mlx5/shared_receive_queue.hpp>

#include "softnic_end.hpp"

namespace verbatim::softnic::test {

struct HubOptions {
    Options device;
    std::function<std::unique_ptr<Device>()> open;  // another device than that, where it is set
    std::size_t peers = 2;
    std::uint32_t completions = 256;
    SharedReceiveQueueOptions receives{.entries = 15, .max_elements = 3};
};

class Hub {
  public:
    // One of the connections.
    struct Spoke {
        std::unique_ptr<QueuePairHandle> queue_pair;
        std::unique_ptr<mlx5::SendQueue> send;
        std::unique_ptr<End> peer;

        std::uint32_t number() const { return queue_pair->view().number; }
        // From the peer's memory at 0.
        Errc post_send(std::span<const std::byte> bytes, std::uint64_t id = 0) {
            std::memcpy(peer->at(0), bytes.data(), bytes.size());
            const mlx5::Element from = peer->element(0, bytes.size());
            return peer->post_send(std::span(&from, 1), id);
        }
    };

    explicit Hub(const HubOptions& options = {})
        : memory(1 << 20),
          device(options.open ? options.open() : open_device(options.device)),
          options_(options) {
        region =
            device->register_memory(memory.data(), memory.bytes(), kAllAccess, {memory.file(), 0});
        completion_queue = device->create_completion_queue(options.completions);
        send_completion_queue = device->create_completion_queue(options.completions);
        receive_queue = device->create_shared_receive_queue(options.receives);
        receives = std::make_unique<mlx5::SharedReceiveQueue>(receive_queue->view());
        completions = std::make_unique<mlx5::CompletionQueue>(completion_queue->view());
        for (std::size_t i = 0; i < options.peers; ++i) spokes.push_back(make_spoke());
    }

    mlx5::Element element(std::size_t offset, std::size_t bytes) const {
        return {reinterpret_cast<std::uint64_t>(memory.data() + offset),
                static_cast<std::uint32_t>(bytes), region->local_key()};
    }
    Errc post_receive(std::size_t offset, std::size_t bytes, std::uint64_t id = 0) {
        const mlx5::Element into = element(offset, bytes);
        return receives->post(mlx5::ReceiveRequest{id, std::span(&into, 1)});
    }
    // One poll of the hub; what it found since the start is in `seen`.
    std::size_t poll() {
        std::vector<mlx5::Completion> found(32);
        found.resize(completions->poll(found));
        seen.insert(seen.end(), found.begin(), found.end());
        return found.size();
    }
    // Polls everybody until the hub has seen `count` completions in total; false: patience ended.
    bool poll_for(std::size_t count) {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (seen.size() < count) {
            if (std::chrono::steady_clock::now() > deadline) return false;
            poll();
            for (Spoke& spoke : spokes) poll(spoke);
        }
        return true;
    }
    // Nothing comes, however often everybody polls.
    bool quiet() {
        const std::size_t before = seen.size();
        for (int i = 0; i < 50; ++i) {
            poll();
            for (Spoke& spoke : spokes) poll(spoke);
        }
        return seen.size() == before;
    }
    bool holds(std::size_t offset, std::span<const std::byte> bytes) const {
        return std::memcmp(memory.data() + offset, bytes.data(), bytes.size()) == 0;
    }

    SharedPages memory;
    std::unique_ptr<Device> device;
    std::unique_ptr<MemoryRegion> region;
    std::unique_ptr<CompletionQueueHandle> completion_queue, send_completion_queue;
    std::unique_ptr<SharedReceiveQueueHandle> receive_queue;
    std::unique_ptr<mlx5::SharedReceiveQueue> receives;
    std::unique_ptr<mlx5::CompletionQueue> completions;
    std::vector<Spoke> spokes;
    std::vector<mlx5::Completion> seen;           // by the hub
    std::vector<mlx5::Completion> seen_by_peers;  // by all of them

  private:
    Spoke make_spoke() {
        Spoke spoke;
        QueuePairOptions wanted{.send_blocks = 64};
        wanted.send_completions = send_completion_queue.get();
        wanted.receive_completions = completion_queue.get();
        wanted.shared_receives = receive_queue.get();
        spoke.queue_pair = device->create_queue_pair(wanted);
        spoke.send = std::make_unique<mlx5::SendQueue>(spoke.queue_pair->view(),
                                                       device->invalidation_epoch());
        completions->attach(spoke.number(), *receives);
        EndOptions for_peer;
        for_peer.device = options_.device;
        for_peer.open = options_.open;
        spoke.peer = std::make_unique<End>(for_peer);
        spoke.peer->connect({spoke.queue_pair->address(),
                             reinterpret_cast<std::uint64_t>(memory.data()), region->remote_key()});
        spoke.queue_pair->connect(spoke.peer->queue_pair->address(), 5000);
        return spoke;
    }
    void poll(Spoke& spoke) {
        if (spoke.peer == nullptr) return;
        for (const mlx5::Completion& one : spoke.peer->poll()) seen_by_peers.push_back(one);
    }

    HubOptions options_;
};

}  // namespace verbatim::softnic::test
