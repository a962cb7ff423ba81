// How each subject posts. The loops are not inlined, so that callgrind sees the same code as the
// clock.
#include "subjects.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include <verbatim/mlx5/send_queue.hpp>

#include "fixed_subjects.hpp"
#include "operation.hpp"
#include "parked_device.hpp"

namespace verbatim::bench {
namespace {

// Runs batches: the last operation of each is signaled and retires all.
template <class Post>
[[gnu::always_inline]] inline void run_batches(std::uint64_t& posted, std::uint64_t count,
                                               mlx5::SendQueue& queue, std::uint32_t blocks,
                                               Post&& post) {
    for (const std::uint64_t end = posted + count; posted != end;) {
        const std::uint64_t last = std::min(posted + kBatch, end) - 1;
        for (; posted != last; ++posted) post(posted, false);
        post(posted++, true);
        retire_all(queue, posted, blocks);
    }
}

// Built from scratch.
class FreshSubject final : public PostSubject {
  public:
    explicit FreshSubject(const PostCase& of) : operation_(of) {}
    [[gnu::noinline]] void run(std::uint64_t count) override {
        run_batches(posted_, count, queue_, blocks_, [this](std::uint64_t i, bool signaled) {
            must(queue_.post(operation_.number(i, signaled)));
        });
    }

  private:
    ParkedDevice device_;
    mlx5::SendQueue queue_{device_.view()};
    Operation operation_;
    std::uint32_t blocks_ = operation_.blocks();
    std::uint64_t posted_ = 0;
};

// What no post can avoid: the WQE's blocks into the slot, the record, the blocks into the register,
// the two fences. Nothing is checked or remembered.
class Floor final : public PostSubject {
  public:
    explicit Floor(const PostCase& of) : blocks_(Operation(of).blocks()) {}
    void run(std::uint64_t count) override {
        if (blocks_ == 1) return store<1>(count);
        if (blocks_ == 2) return store<2>(count);
        store<3>(count);
    }

  private:
    template <std::uint32_t kBlocks>
    [[gnu::noinline]] void store(std::uint64_t count) {
        const mlx5::QueuePairView view = device_.view();
        auto* const record = view.doorbell_record + mlx5::kRecordSend;
        constexpr mlx5::UnitImage<std::size_t{kBlocks} * 4> image_of_any;
        constexpr std::size_t kSlots = ParkedDevice::kBlocks / kBlocks;
        for (const std::uint64_t end = posted_ + count; posted_ != end; ++posted_) {
            mlx5::Units<std::size_t{kBlocks} * 4> wqe(image_of_any);
            wqe.set_index(&posted_);
            wqe.store(view.send_buffer + posted_ % kSlots * kBlocks * mlx5::kBlockBytes);
            __atomic_store_n(record, static_cast<std::uint32_t>(posted_), __ATOMIC_RELEASE);
            mlx5::store_fence();
            mlx5::DoorbellUnits<std::size_t{kBlocks} * 4>{wqe}.write_blueflame(
                view.doorbell_register + posted_ % 2 * ParkedDevice::kHalfBytes);
            mlx5::store_fence();
        }
    }

    ParkedDevice device_;
    std::uint32_t blocks_;
    std::uint64_t posted_ = 0;
};

template <typename Subject>
std::unique_ptr<PostSubject> make(const PostCase& of) {
    if constexpr (std::is_constructible_v<Subject, const PostCase&>)
        return std::make_unique<Subject>(of);
    else
        return std::make_unique<Subject>();
}

using Make = std::unique_ptr<PostSubject> (*)(const PostCase&);
struct Strategy {
    Make one, list10, list32;
};
template <class Posting, class Payload>
constexpr Strategy strategy() {
    return {make<FixedSubject<Posting, Payload>>, make<FixedListSubject<Posting, Payload, 10>>,
            make<FixedListSubject<Posting, Payload, 32>>};
}
struct FixedSubjects {
    Strategy copied, in_place;
};
template <mlx5::Opcode kOpcode, class Payload>
constexpr FixedSubjects fixed() {
    return {strategy<Copied<kOpcode, Payload>, Payload>(),
            strategy<InPlace<kOpcode, Payload>, Payload>()};
}
// By kPostCases.
constexpr FixedSubjects kFixed[] = {
    fixed<mlx5::Opcode::write, mlx5::Inline<8>>(), fixed<mlx5::Opcode::write, mlx5::Inline<64>>(),
    fixed<mlx5::Opcode::write, mlx5::Gather<1>>(), fixed<mlx5::Opcode::read, mlx5::Elements<10>>(),
    fixed<mlx5::Opcode::read, mlx5::Gather<10>>(), fixed<mlx5::Opcode::send, mlx5::Inline<8>>(),
};
static_assert(std::size(kFixed) == std::size(kPostCases));

}  // namespace

std::vector<NamedSubject> subjects() {
    std::vector<NamedSubject> all;
    for (std::size_t i = 0; i < std::size(kPostCases); ++i) {
        const PostCase& of = kPostCases[i];
        // The strategy that docs/development.md recommends for this length is the one to look at.
        const bool longer = of.elements > 4;
        const Strategy& first = longer ? kFixed[i].in_place : kFixed[i].copied;
        const Strategy& second = longer ? kFixed[i].copied : kFixed[i].in_place;
        all.push_back({&of, "verbatim.prepared", first.one});
        all.push_back({&of, longer ? "verbatim.copied" : "verbatim.in_place", second.one});
        all.push_back({&of, "verbatim.list10", first.list10});
        all.push_back({&of, "verbatim.list32", first.list32});
        all.push_back(
            {&of, longer ? "verbatim.copied_list32" : "verbatim.in_place_list32", second.list32});
        all.push_back({&of, "verbatim.fresh", make<FreshSubject>});
        all.push_back({&of, "libmlx5.ibv_post_send", make_libmlx5_post_send});
        all.push_back({&of, "libmlx5.ibv_wr", make_libmlx5_builder});
        all.push_back({&of, "floor", make<Floor>});
    }
    add_poll_subjects(all);
    add_engine_subjects(all);
    return all;
}

}  // namespace verbatim::bench
