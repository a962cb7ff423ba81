// Latencies: a graph, or a message, there and back between two pinned processes. The other process
// answers until it is killed.
#pragma once

#include <optional>
#include <stdexcept>
#include <vector>

#include <verbatim/objects.hpp>

#include "../../support/cores.hpp"
#include "../subject.hpp"
#include "../workloads/workload.hpp"
#include "receiver_process.hpp"

namespace bench_graph {

inline constexpr unsigned kSenderCore = 0, kReceiverCore = 1;

// What a sender needs beside a graph in such a place.
class LeasesOf {
  public:
    LeasesOf(verbatim::Context& context, Place place) {
        if (place == Place::leased) cache_.emplace(context);
    }
    verbatim::RegistrationCache* cache() { return cache_ ? &*cache_ : nullptr; }

  private:
    std::optional<verbatim::RegistrationCache> cache_;
};

// Answers each graph with an equal one of its own. Ends if the first was not what was expected.
template <class W>
void answer_graphs(Channel& channel, const W& workload, std::size_t room) {
    verbatim::bench::pin_to(kReceiverCore);
    const auto context = make_context(room, room);
    const auto connection = accept_one(*context, channel);
    HeapMemory heap;
    const bool in_arena = workload.place == Place::arena;
    const auto* own =
        workload.make(in_arena ? static_cast<std::pmr::memory_resource&>(context->arena()) : heap);
    LeasesOf leases(*context, workload.place);
    for (bool is_first = true;; is_first = false) try {
            const auto received = verbatim::receive<typename W::Root>(*connection);
            if (is_first && sum_of(*received) != sum_of(*own))
                throw std::runtime_error("what arrived is not what was sent");
            verbatim::send(*connection, *own, {.foreign = leases.cache()});
        } catch (const verbatim::Error&) {
            if (is_first || connection->state() == verbatim::Errc::ok) throw;
            return;  // the peer is done
        }
}

template <class W>
class GraphLatency final : public Subject {
  public:
    using Root = typename W::Root;
    explicit GraphLatency(W workload) : workload_(std::move(workload)) {
        verbatim::bench::pin_to(kSenderCore);
    }
    std::uint64_t objects() const override { return workload_.objects(); }
    std::uint64_t bytes() const override { return 0; }
    void transfer() override {
        received_.reset();
        verbatim::send(*connection_, *root_, {.foreign = leases_.cache()});
        received_.emplace(verbatim::receive<Root>(*connection_));
    }
    bool verify() override { return sum_of(**received_) == sum_of(*root_); }

  private:
    std::pmr::memory_resource& source() {
        if (workload_.place != Place::arena) return heap_;
        return context_->arena();
    }
    std::size_t room() const { return 4 * workload_.bytes(); }

    W workload_;
    ReceiverProcess receiver_{
        [this](Channel& channel) { answer_graphs(channel, workload_, room()); }};
    std::unique_ptr<verbatim::Context> context_ = make_context(room(), room());
    std::unique_ptr<verbatim::Connection> connection_ = connect_to(*context_, receiver_.channel());
    HeapMemory heap_;
    LeasesOf leases_{*context_, workload_.place};
    const Root* root_ = workload_.make(source());
    std::optional<verbatim::Received<Root>> received_;
};

// Messages of `bytes` bytes there and back, each written afresh and copied out of the ring.
class Messages {
  public:
    explicit Messages(std::size_t bytes);
    void there_and_back();
    // Whether the last message came back as it went.
    bool verify() const { return back_ == there_; }

  private:
    std::vector<std::byte> there_, back_;
    ReceiverProcess receiver_;
    std::unique_ptr<verbatim::Context> context_ = make_context(0, 0);
    std::unique_ptr<verbatim::Connection> connection_ = connect_to(*context_, receiver_.channel());
};

class MessageLatency final : public Subject {
  public:
    explicit MessageLatency(std::size_t bytes) : messages_(bytes) {
        verbatim::bench::pin_to(kSenderCore);
    }
    std::uint64_t objects() const override { return 1; }
    std::uint64_t bytes() const override { return 0; }
    void transfer() override { messages_.there_and_back(); }
    bool verify() override { return messages_.verify(); }

  private:
    Messages messages_;
};

// Work in this process for each direction, and messages of `bytes` bytes: `rounds` there and back
// in two directions.
class WorkAndMessages final : public Subject {
  public:
    WorkAndMessages(std::unique_ptr<Subject> work, std::size_t bytes, unsigned rounds)
        : work_(std::move(work)), messages_(bytes), rounds_(rounds) {
        verbatim::bench::pin_to(kSenderCore);
    }
    std::uint64_t objects() const override { return work_->objects(); }
    std::uint64_t bytes() const override { return 0; }
    void transfer() override {
        work_->transfer();
        work_->transfer();
        for (unsigned round = 0; round < rounds_; ++round) messages_.there_and_back();
    }
    bool verify() override { return work_->verify() && messages_.verify(); }

  private:
    std::unique_ptr<Subject> work_;
    Messages messages_;
    unsigned rounds_;
};

}  // namespace bench_graph
