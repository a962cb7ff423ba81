// A port whose peer is the test: it answers when it is told to, refuses by its own judgement of
// keys, has receives or none, takes no more than so many requests at once, and can be lost. One
// thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "ports/port.hpp"

namespace verbatim::softnic::test {

class TestPort final : public Port {
  public:
    static constexpr std::uint32_t kKey = 0x1234;
    // The peer's memory; its key counts from 0.
    explicit TestPort(std::size_t memory_bytes) : memory(memory_bytes) {}

    std::vector<std::byte> memory;
    std::size_t room = 1000;            // requests on their way at once
    std::size_t piece_bytes = 1 << 20;  // of a result, that come at once
    std::size_t receives = 0;
    std::vector<std::vector<std::byte>> messages;  // received
    std::chrono::nanoseconds one_try{0};
    bool given_up = false;
    std::uint64_t posts = 0;  // calls, those that had to wait too

    // The peer takes the oldest request. False: there is none, or it cannot be answered.
    bool answer() {
        if (lost_ || given_up || refused_ != kNoSyndrome || on_their_way_.empty()) return false;
        const Taken taken = on_their_way_.front();
        if (!judge(taken)) return false;
        on_their_way_.pop_front();
        acknowledged_ = taken.ticket;
        return true;
    }
    void answer_all() {
        while (answer()) {
        }
    }
    void lose() { lost_ = true; }
    std::size_t on_their_way() const { return on_their_way_.size(); }

    PortAnswer post(const PortRequest& request, const PieceList& bytes) noexcept override {
        ++posts;
        if (on_their_way_.size() >= room) return kPortWaits;
        Taken taken;
        taken.request = request;
        if (request.atomic != nullptr) taken.atomic = *request.atomic;
        taken.bytes.resize(bytes.total);
        if (!fetches(request)) {
            std::byte* to = taken.bytes.data();
            for_each_part(bytes, 0, bytes.total, [&](const std::byte* from, std::size_t part) {
                std::memcpy(to, from, part);
                to += part;
            });
        }
        taken.ticket = ++tickets_;
        on_their_way_.push_back(taken);
        return {PortOutcome::accepted, kNoSyndrome, taken.ticket};
    }
    void begin_turn() noexcept override {}
    void end_turn() noexcept override {}
    Ticket acknowledged() const noexcept override { return acknowledged_; }
    mlx5::Syndrome refused() const noexcept override { return refused_; }
    bool has_result(Ticket ticket) const noexcept override {
        return !results_.empty() && results_.front().ticket == ticket;
    }
    bool take_result(const PieceList& into) noexcept override {
        Result& result = results_.front();
        const std::size_t piece = std::min(piece_bytes, result.bytes.size() - result.taken);
        scatter(into, result.taken, result.bytes.data() + result.taken, piece);
        result.taken += piece;
        if (result.taken != result.bytes.size()) return false;
        results_.pop_front();
        return true;
    }
    bool waits_for_receive(Ticket ticket) const noexcept override { return waiting_ == ticket; }
    std::uint64_t tries(std::chrono::nanoseconds waited) const noexcept override {
        return tries_in(waited, one_try);
    }
    void give_up() noexcept override { given_up = true; }
    bool message_waits() const noexcept override { return waiting_ != 0; }
    bool silent() const noexcept override { return lost_; }

  private:
    struct Taken {
        PortRequest request;
        RemoteAtomic atomic;
        std::vector<std::byte> bytes;  // sent; of what fetches: as many as that
        Ticket ticket = 0;
    };
    struct Result {
        Ticket ticket = 0;
        std::vector<std::byte> bytes;
        std::size_t taken = 0;
    };
    static bool fetches(const PortRequest& request) {
        return request.opcode == mlx5::Opcode::read || request.atomic != nullptr;
    }
    static bool is_write(const PortRequest& request) {
        return request.opcode == mlx5::Opcode::write ||
               request.opcode == mlx5::Opcode::write_immediate;
    }
    bool refuse(mlx5::Syndrome syndrome) {
        refused_ = syndrome;
        return false;
    }
    bool judge(const Taken& taken) {
        const PortRequest& request = taken.request;
        if (fetches(request) || is_write(request)) {
            const std::uint32_t key = request.atomic != nullptr ? taken.atomic.key : request.key;
            const std::uint64_t at =
                request.atomic != nullptr ? taken.atomic.address : request.address;
            if (key != kKey || at + taken.bytes.size() > memory.size())
                return refuse(mlx5::Syndrome::remote_access);
            execute(taken, memory.data() + at);
            if (request.opcode != mlx5::Opcode::write_immediate) return true;
        }
        waiting_ = receives == 0 ? taken.ticket : 0;
        if (receives == 0) return false;
        --receives;
        messages.push_back(taken.bytes);
        return true;
    }
    void execute(const Taken& taken, std::byte* at) {
        if (is_write(taken.request)) {
            std::memcpy(at, taken.bytes.data(), taken.bytes.size());
            return;
        }
        Result result{taken.ticket, taken.bytes, 0};
        if (taken.request.atomic != nullptr) {
            const std::uint64_t before = softnic::execute(taken.atomic, at);
            std::memcpy(result.bytes.data(), &before, result.bytes.size());
        } else {
            std::memcpy(result.bytes.data(), at, result.bytes.size());
        }
        results_.push_back(result);
    }

    std::deque<Taken> on_their_way_;
    std::deque<Result> results_;
    Ticket tickets_ = 0, acknowledged_ = 0, waiting_ = 0;
    mlx5::Syndrome refused_ = kNoSyndrome;
    bool lost_ = false;
};

}  // namespace verbatim::softnic::test
