// Receives and completions of libmlx5 and of our driver, each on queues of its own of the same
// geometry: the test posts the same to all, is the device that writes the same raw completion
// entries for all, and compares what they wrote and what they answer. Threads: one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <verbatim/mlx5/completion_queue.hpp>

#include <gtest/gtest.h>

#include "libmlx5.hpp"
#include "mlx5_requests.hpp"

namespace verbatim::interop {

// What a poll says of one entry, in words that all sides have. Of an error only what libibverbs
// promises for one: whose it is and why.
struct Answer {
    std::uint64_t id = 0;
    ibv_wc_status status = IBV_WC_SUCCESS;
    std::uint32_t vendor = 0;
    std::uint32_t number = 0;
    ibv_wc_opcode opcode = IBV_WC_SEND;
    bool has_immediate = false, invalidated = false;
    std::uint32_t immediate = 0;  // host byte order; the key, if invalidated
    std::uint32_t bytes = 0;      // received, read, or fetched

    bool operator==(const Answer&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Answer& answer);

// libibverbs' word for what a request was.
ibv_wc_opcode lib_opcode_of(mlx5::Opcode opcode);
// Its word for a failure; several of ours can be one of its, and the other way round.
bool same_failure(ibv_wc_status theirs, Errc ours);

// A raw entry without its owner phase; `before` are the 64 bytes that a 128-byte entry has first.
struct RawEntry {
    std::array<std::byte, 64> before{};
    mlx5_cqe64 cqe{};
};

// The device's place in a completion queue.
class EntryWriter {
  public:
    EntryWriter(std::byte* ring, std::uint32_t entries, std::uint32_t entry_bytes)
        : ring_(ring), entries_(entries), entry_bytes_(entry_bytes) {}
    // Adds the owner phase.
    void write(RawEntry raw);
    std::uint32_t produced() const { return produced_; }

  private:
    std::byte* ring_;
    std::uint32_t entries_, entry_bytes_;
    std::uint32_t produced_ = 0;
};

// What a receive is to hold.
struct Receive {
    std::uint64_t id = 0;
    std::vector<mlx5::Element> elements;
};

// libmlx5's queues. Polls as its options say: ibv_poll_cq, or ibv_start_poll and its company.
class LibSide {
  public:
    explicit LibSide(const PairOptions& options);

    // An errno, or 0.
    int receive(std::span<const Receive> list);
    int send(mlx5::test::Request& request);
    std::optional<Answer> poll();
    // All there are, by one call or one round of ibv_start_poll, ibv_next_poll and ibv_end_poll.
    std::vector<Answer> poll_all();
    void write(const RawEntry& raw) { writer_.write(raw); }

    LibQueues& queues() { return queues_; }
    bool is_shared() const { return queues_.shared != nullptr; }
    // Entries of the receive queue, or of the list of the shared one that is in use.
    std::uint32_t receive_entries() const {
        return is_shared() ? queues_.shared_facts.tail + 1 : queues_.facts.rq.wqe_cnt;
    }
    std::uint32_t receive_stride() const {
        return is_shared() ? queues_.shared_facts.stride : queues_.facts.rq.stride;
    }
    std::span<const std::byte> receive_ring() const;
    std::uint32_t receive_record() const;
    std::uint32_t consumer_record() const { return be32toh(queues_.completion_facts.dbrec[0]); }

  private:
    std::vector<Answer> poll_plain(std::size_t most);
    std::vector<Answer> poll_extended(std::size_t most);

    LibQueues queues_;
    EntryWriter writer_;
};

// Ours, of the geometry of a LibSide.
class OurSide {
  public:
    OurSide(LibSide& like, const PairOptions& options);

    Errc receive(std::span<const Receive> list);
    Errc send(mlx5::test::Request& request) { return send_.post(request.get()); }
    // Polls once and compares with what libmlx5 said of the same entries.
    void expect_same(std::span<const Answer> theirs);
    void expect_same(const std::optional<Answer>& theirs) {
        expect_same(theirs ? std::span(&*theirs, 1) : std::span<const Answer>());
    }
    void write(const RawEntry& raw) { writer_.write(raw); }

    mlx5::SharedReceiveQueue& shared() { return *shared_; }
    mlx5::CompletionQueue& completions() { return completions_; }
    std::span<const std::byte> receive_ring() const {
        return {receive_ring_.data(), receive_ring_.size()};
    }
    std::uint32_t receive_record() const { return be32toh(shared_ ? shared_record_ : records_[0]); }
    std::uint32_t consumer_record() const { return be32toh(completion_records_[0]); }

  private:
    mlx5::QueuePairView pair_view(LibSide& like, const PairOptions& options);
    mlx5::SharedReceiveQueueView shared_view(LibSide& like);
    mlx5::CompletionQueueView completion_view(LibSide& like);

    mlx5::test::Pages send_ring_, receive_ring_, completion_ring_;
    std::array<std::uint32_t, 2> records_{}, completion_records_{};
    std::uint32_t shared_record_ = 0;
    alignas(64) std::array<std::byte, 512> register_{};
    mlx5::SendQueue send_;
    std::optional<mlx5::ReceiveQueue> receive_;
    std::optional<mlx5::SharedReceiveQueue> shared_;
    mlx5::CompletionQueue completions_;
    EntryWriter writer_;
};

}  // namespace verbatim::interop
