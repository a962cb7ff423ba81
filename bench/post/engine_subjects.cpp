// Posts that the software NIC's engine executes in the posting thread: what a post costs a program
// that runs on it, beside the same posts with the device parked (subjects.cpp).
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <verbatim/mlx5/prebuilt_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>
#include <verbatim/mlx5/send_queue.hpp>

#include "engine_ends.hpp"
#include "fixed_subjects.hpp"
#include "subjects.hpp"

namespace verbatim::bench {
namespace {

// Without sends: who takes those is the other end's thread.
constexpr PostCase kEngineCases[] = {
    {"write_inline_8_engine", mlx5::Opcode::write, 8, 0},
    {"write_inline_64_engine", mlx5::Opcode::write, 64, 0},
    {"write_gather_1_engine", mlx5::Opcode::write, 0, 1},
    {"read_gather_10_engine", mlx5::Opcode::read, 0, 10},
};

// One request of a case, with what stays.
class EngineRequest {
  public:
    EngineRequest(const PostCase& of, const EngineEnds& ends) {
        for (std::uint32_t k = 0; k < of.elements; ++k)
            memory_[k] = {ends.local_address(k), kElementBytes, ends.local_key()};
        work.opcode = of.opcode;
        work.remote_address = ends.remote_address(0);
        work.remote_key = ends.remote_key();
        work.inline_payload = std::span(payload_).first(of.inline_bytes);
        work.elements = std::span(memory_).first(of.elements);
    }
    EngineRequest(const EngineRequest&) = delete;
    EngineRequest& operator=(const EngineRequest&) = delete;

    void number(std::uint64_t i, const EngineEnds& ends) {
        work.id = i;
        work.remote_address = ends.remote_address(i);
        std::memcpy(payload_.data(), &i, sizeof i);
        for (std::uint32_t k = 0; k < work.elements.size(); ++k)
            memory_[k].address = ends.local_address(i + k);
    }
    mlx5::WorkRequest work;

  private:
    std::array<std::byte, 64> payload_{};
    std::array<mlx5::Element, 10> memory_{};
};

// What varies from operation to operation, in memory that the engine can reach.
template <class Payload>
struct Reachable : Varying<Payload> {
    using Varying<Payload>::number;
    [[gnu::always_inline]] auto number(std::uint64_t i, const EngineEnds&) { return number(i); }
};
template <std::uint32_t kCount>
struct Reachable<mlx5::Gather<kCount>> {
    [[gnu::always_inline]] auto number(std::uint64_t i, const EngineEnds& ends) {
        return [&ends, i](std::uint32_t k) { return ends.local_address(i + k); };
    }
};

template <mlx5::Opcode kOpcode, class Payload>
struct EngineCopied {
    EngineCopied(const EngineRequest& request, const EngineEnds& ends)
        : ring(ends.view(), ends.epoch()), prepared(ring, request.work) {}
    mlx5::SendQueue ring;
    mlx5::Prepared<kOpcode, Payload> prepared;
};
template <mlx5::Opcode kOpcode, class Payload>
struct EngineInPlace {
    EngineInPlace(const EngineRequest& request, const EngineEnds& ends)
        : ring(ends.view(), request.work) {}
    mlx5::PrebuiltQueue<kOpcode, Payload> ring;
    mlx5::PrebuiltQueue<kOpcode, Payload>& prepared = ring;
};

template <class Posting, class Payload>
class EngineFixed final : public PostSubject {
  public:
    explicit EngineFixed(const PostCase& of) : request_(of, ends_), posting_(request_, ends_) {}
    void run(std::uint64_t count) override {
        for (const std::uint64_t end = posted_ + count; posted_ != end;) {
            const std::uint64_t batch = std::min(kBatch, end - posted_);
            posting_.prepared.set_signaled(false);
            post(posted_, posted_ + batch - 1);
            posting_.prepared.set_signaled(true);
            post(posted_ + batch - 1, posted_ + batch);
            posted_ += batch;
            ends_.retire(posting_.ring);
        }
    }

  private:
    [[gnu::noinline]] void post(std::uint64_t from, std::uint64_t to) {
        for (std::uint64_t i = from; i != to; ++i)
            must(posting_.prepared.post(i, ends_.remote_address(i), varying_.number(i, ends_)));
    }
    EngineEnds ends_;
    EngineRequest request_;
    Posting posting_;
    Reachable<Payload> varying_;
    std::uint64_t posted_ = 0;
};

// Built from scratch.
class EngineFresh final : public PostSubject {
  public:
    explicit EngineFresh(const PostCase& of) : request_(of, ends_) {}
    [[gnu::noinline]] void run(std::uint64_t count) override {
        for (const std::uint64_t end = posted_ + count; posted_ != end;) {
            const std::uint64_t last = std::min(posted_ + kBatch, end) - 1;
            for (; posted_ <= last; ++posted_) {
                request_.number(posted_, ends_);
                request_.work.signaled = posted_ == last;
                must(queue_.post(request_.work));
            }
            ends_.retire(queue_);
        }
    }

  private:
    EngineEnds ends_;
    EngineRequest request_;
    mlx5::SendQueue queue_{ends_.view(), ends_.epoch()};
    std::uint64_t posted_ = 0;
};

// The bytes themselves, moved by memcpy in the same pieces.
class EngineFloor final : public PostSubject {
  public:
    explicit EngineFloor(const PostCase& of) : of_(of) {}
    [[gnu::noinline]] void run(std::uint64_t count) override {
        for (const std::uint64_t end = posted_ + count; posted_ != end; ++posted_) {
            auto* const far = reinterpret_cast<std::byte*>(ends_.remote_address(posted_));
            std::memcpy(payload_.data(), &posted_, sizeof posted_);
            if (of_.inline_bytes != 0) move(far, payload_.data(), of_.inline_bytes);
            for (std::uint32_t k = 0; k < of_.elements; ++k) {
                auto* const near = reinterpret_cast<std::byte*>(ends_.local_address(posted_ + k));
                if (of_.opcode == mlx5::Opcode::read)
                    move(near, far + k * kElementBytes, kElementBytes);
                else
                    move(far, near, kElementBytes);
            }
        }
    }

  private:
    static void move(std::byte* to, const std::byte* from, std::size_t bytes) {
        std::memcpy(to, from, bytes);
        asm volatile("" ::: "memory");
    }
    const PostCase& of_;
    EngineEnds ends_;
    std::array<std::byte, 64> payload_{};
    std::uint64_t posted_ = 0;
};

template <class Subject>
std::unique_ptr<PostSubject> make(const PostCase& of) {
    return std::make_unique<Subject>(of);
}

template <mlx5::Opcode kOpcode, class Payload>
void add(std::vector<NamedSubject>& all, const PostCase& of) {
    all.push_back(
        {&of, "verbatim.copied", make<EngineFixed<EngineCopied<kOpcode, Payload>, Payload>>});
    all.push_back(
        {&of, "verbatim.in_place", make<EngineFixed<EngineInPlace<kOpcode, Payload>, Payload>>});
    all.push_back({&of, "verbatim.fresh", make<EngineFresh>});
    all.push_back({&of, "floor", make<EngineFloor>});
}

}  // namespace

void add_engine_subjects(std::vector<NamedSubject>& all) {
    using mlx5::Opcode;
    add<Opcode::write, mlx5::Inline<8>>(all, kEngineCases[0]);
    add<Opcode::write, mlx5::Inline<64>>(all, kEngineCases[1]);
    add<Opcode::write, mlx5::Gather<1>>(all, kEngineCases[2]);
    add<Opcode::read, mlx5::Gather<10>>(all, kEngineCases[3]);
}

}  // namespace verbatim::bench
