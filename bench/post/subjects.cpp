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

#include <verbatim/mlx5/prebuilt_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>
#include <verbatim/mlx5/send_queue.hpp>

#include "operation.hpp"
#include "parked_device.hpp"

namespace verbatim::bench {
namespace {

// A refused post would be measured as a fast one.
void must(Errc error) {
    if (error != Errc::ok) std::abort();
}

// What the completion of the last operation of a batch, of `blocks` blocks, does.
void retire_all(mlx5::SendQueue& queue, std::uint64_t posted, std::uint32_t blocks) {
    if (!queue.retire(static_cast<std::uint16_t>((posted - 1) * blocks))) std::abort();
}

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

// What varies from operation to operation of a case, as fixed shapes take it.
template <class Payload>
struct Varying;
template <std::uint32_t kBytes>
struct Varying<mlx5::Inline<kBytes>> {
    std::array<std::byte, kBytes> payload{};
    [[gnu::always_inline]] auto number(std::uint64_t i) {
        if constexpr (kBytes == 8) {
            return i;
        } else {
            std::memcpy(payload.data(), &i, sizeof i);
            return static_cast<const std::byte*>(payload.data());
        }
    }
};
template <std::uint32_t kCount>
struct Varying<mlx5::Gather<kCount>> {
    [[gnu::always_inline]] auto number(std::uint64_t i) {
        return [first = local_address(i)](std::uint32_t k) { return first + k * kElementBytes; };
    }
};

template <std::uint32_t kCount>
struct Varying<mlx5::Elements<kCount>> {
    [[gnu::always_inline]] mlx5::Unchanged number(std::uint64_t) { return {}; }
};

// A shape known at compile time, by either copy strategy.
template <class Prepared, class Payload>
class FixedSubject : public PostSubject {
  public:
    explicit FixedSubject(const PostCase& of) : operation_(of) {}
    void run(std::uint64_t count) final {
        for (const std::uint64_t end = posted_ + count; posted_ != end;) {
            const std::uint64_t batch = std::min(kBatch, end - posted_);
            Prepared& prepared = prepared_();
            prepared.set_signaled(false);
            post(prepared, posted_, posted_ + batch - 1);
            prepared.set_signaled(true);
            post(prepared, posted_ + batch - 1, posted_ + batch);
            posted_ += batch;
            retire(posted_ - 1);
        }
    }

  protected:
    virtual Prepared& prepared_() = 0;
    virtual void retire(std::uint64_t last) = 0;
    ParkedDevice device_;
    Operation operation_;

  private:
    [[gnu::noinline]] void post(Prepared& prepared, std::uint64_t from, std::uint64_t to) {
        for (std::uint64_t i = from; i != to; ++i)
            if constexpr (requires { prepared.post(i, remote_address(i), varying_.number(i)); })
                must(prepared.post(i, remote_address(i), varying_.number(i)));
            else
                must(prepared.post(i, varying_.number(i)));
    }
    Varying<Payload> varying_;
    std::uint64_t posted_ = 0;
};

template <mlx5::Opcode kOpcode, class Payload>
class CopiedSubject final : public FixedSubject<mlx5::PreparedFixed<kOpcode, Payload>, Payload> {
    using Prepared = mlx5::PreparedFixed<kOpcode, Payload>;

  public:
    using FixedSubject<Prepared, Payload>::FixedSubject;

  private:
    Prepared& prepared_() override { return write_; }
    void retire(std::uint64_t last) override {
        retire_all(queue_, last + 1, mlx5::FixedShape<kOpcode, Payload>::kBlocks);
    }
    mlx5::SendQueue queue_{this->device_.view()};
    Prepared write_{queue_, this->operation_.number(0, true)};
};

template <mlx5::Opcode kOpcode, class Payload>
class InPlaceSubject final
    : public FixedSubject<mlx5::PrebuiltSendQueue<kOpcode, Payload>, Payload> {
    using Prepared = mlx5::PrebuiltSendQueue<kOpcode, Payload>;

  public:
    using FixedSubject<Prepared, Payload>::FixedSubject;

  private:
    static constexpr std::uint32_t kBlocks = mlx5::FixedShape<kOpcode, Payload>::kBlocks;
    static constexpr std::uint32_t kSlot = std::bit_ceil(kBlocks);
    Prepared& prepared_() override { return queue_; }
    void retire(std::uint64_t last) override {
        const std::uint64_t counter = last * kSlot + (kSlot - kBlocks);
        if (!queue_.retire(static_cast<std::uint16_t>(counter))) std::abort();
    }
    Prepared queue_{this->device_.view(), this->operation_.number(0, true)};
};

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

[[gnu::always_inline]] inline Errc set_memory(mlx5::Prepared& prepared, std::uint32_t element,
                                              std::uint64_t address) {
    return prepared.set_element(element, address, kElementBytes);
}
[[gnu::always_inline]] inline Errc set_memory(mlx5::WqeImage& image, std::uint32_t element,
                                              std::uint64_t address) {
    return image.set_element(element, {address, kElementBytes, kLocalKey});
}
// Makes operation number `i` of what was prepared.
template <class Prepared>
[[gnu::always_inline]] inline void patch(Prepared& prepared, Operation& operation,
                                         std::uint64_t i) {
    if (operation.has_remote_address()) must(prepared.set_remote_address(remote_address(i)));
    if (operation.has_payload()) must(prepared.set_inline_payload(operation.payload(i)));
    for (std::uint32_t k = 0; k < operation.moving_elements(); ++k)
        must(set_memory(prepared, k, local_address(i + k)));
}

// Prepared once, patched before each post.
class PreparedSubject final : public PostSubject {
  public:
    explicit PreparedSubject(const PostCase& of) : operation_(of) {}
    [[gnu::noinline]] void run(std::uint64_t count) override {
        run_batches(posted_, count, queue_, blocks_, [this](std::uint64_t i, bool signaled) {
            patch(prepared_, operation_, i);
            prepared_.set_signaled(signaled);
            must(prepared_.post(i));
        });
    }

  private:
    ParkedDevice device_;
    mlx5::SendQueue queue_{device_.view()};
    Operation operation_;
    std::uint32_t blocks_ = operation_.blocks();
    mlx5::Prepared prepared_{queue_, operation_.number(0, true)};
    std::uint64_t posted_ = 0;
};

// Lists of `Size` prepared operations under one doorbell; the last one is signaled.
template <std::uint64_t Size>
class ListSubject final : public PostSubject {
  public:
    explicit ListSubject(const PostCase& of) : operation_(of), list_(queue_, requests()) {}
    [[gnu::noinline]] void run(std::uint64_t count) override {
        std::array<std::uint64_t, Size> ids;
        for (const std::uint64_t end = posted_ + count; posted_ < end;) {
            for (std::uint64_t k = 0; k < Size; ++k) {
                ids[k] = posted_ + k;
                patch(list_[k], operation_, posted_ + k);
            }
            must(list_.post(ids));
            posted_ += Size;
            retire_all(queue_, posted_, blocks_);
        }
    }

  private:
    std::vector<mlx5::WorkRequest> requests() {
        std::vector<mlx5::WorkRequest> all;
        for (std::uint64_t k = 0; k < Size; ++k) all.push_back(operation_.number(0, k == Size - 1));
        return all;
    }

    ParkedDevice device_;
    mlx5::SendQueue queue_{device_.view()};
    Operation operation_;
    std::uint32_t blocks_ = operation_.blocks();
    mlx5::PreparedList list_;
    std::uint64_t posted_ = 0;
};

// Lists of `Size` of the operation made for the smallest write.
template <std::uint32_t Size>
class Write8ListSubject final : public PostSubject {
  public:
    [[gnu::noinline]] void run(std::uint64_t count) override {
        for (const std::uint64_t end = posted_ + count; posted_ < end; posted_ += Size) {
            must(write_.post_list(posted_, Size, [first = posted_](std::uint32_t i) {
                return mlx5::PreparedWrite8::Write{remote_address(first + i), first + i};
            }));
            retire_all(queue_, posted_ + Size, 1);
        }
    }

  private:
    ParkedDevice device_;
    mlx5::SendQueue queue_{device_.view()};
    mlx5::PreparedWrite8 write_{queue_, {kRemoteAddress, kRemoteKey}};
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

struct FixedSubjects {
    std::unique_ptr<PostSubject> (*copied)(const PostCase&);
    std::unique_ptr<PostSubject> (*in_place)(const PostCase&);
};
template <mlx5::Opcode kOpcode, class Payload>
constexpr FixedSubjects fixed() {
    return {make<CopiedSubject<kOpcode, Payload>>, make<InPlaceSubject<kOpcode, Payload>>};
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
        all.push_back({&of, "verbatim.prepared", longer ? kFixed[i].in_place : kFixed[i].copied});
        all.push_back({&of, longer ? "verbatim.copied" : "verbatim.in_place",
                       longer ? kFixed[i].copied : kFixed[i].in_place});
        all.push_back({&of, "verbatim.any_shape", make<PreparedSubject>});
        const bool smallest = i == 0;
        all.push_back({&of, "verbatim.list10",
                       smallest ? make<Write8ListSubject<10>> : make<ListSubject<10>>});
        all.push_back({&of, "verbatim.list32",
                       smallest ? make<Write8ListSubject<32>> : make<ListSubject<32>>});
        all.push_back({&of, "verbatim.fresh", make<FreshSubject>});
        all.push_back({&of, "libmlx5.ibv_post_send", make_libmlx5_post_send});
        all.push_back({&of, "libmlx5.ibv_wr", make_libmlx5_builder});
        all.push_back({&of, "floor", make<Floor>});
    }
    add_poll_subjects(all);
    return all;
}

}  // namespace verbatim::bench
