// Every form of posting, mixed at random on one queue, against a model of what the queue must do
// and what the memory of both ends must hold. A strict software NIC executes in the posting thread,
// so that each post is judged at once: doorbell, fences, the ring around it. Between the posts:
// key updates, arming, flushes and resets. VERBATIM_LONG: eight times as many.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include <verbatim/mlx5/prebuilt_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>

#include <sanitized.hpp>

#include "softnic_posting_model.hpp"

namespace verbatim::softnic {
namespace {

using namespace test;
using mlx5::Element;
using mlx5::Gather;
using mlx5::Inline;
using mlx5::Listed;
using mlx5::Opcode;
using mlx5::Prepared;
using mlx5::WorkRequest;

// A general queue: fresh requests and prepared operations.
class Mixed : public Run {
  public:
    Mixed(std::uint32_t blocks, bool words_only) : Run(blocks, words_only, blocks + words_only) {
        attach();
        window_ = a().device->create_memory_window(WindowType::queue_pair);
        window_key_ = window_->key();
        prepare();
    }
    std::uint64_t accepted() const { return account_.accepted(); }
    bool holds() { return ends_.holds(); }

    void step() {
        const std::uint32_t action = dice_.below(1000);
        if (action < 150)
            post_fresh();
        else if (action < 220)
            post_fresh_list();
        else if (action < 400)
            post_write8();
        else if (action < 480)
            post_write8_list();
        else if (action < 560)
            post_inline();
        else if (action < 640)
            post_gather();
        else if (action < 720)
            post_reads();
        else if (action < 760)
            post_atomics();
        else if (action < 800)
            update_key();
        else if (action < 999)
            account_.poll(*a().completions);
        else if (dice_.once_in(8))
            end_life();
        else
            arm();
    }

  private:
    void attach() { a().completions->attach(&queue_, a().receive.get()); }
    void prepare() {
        const WorkRequest write{.opcode = Opcode::write, .remote_key = a().peer.key};
        write8_.emplace(queue_, write);
        inline100_.emplace(queue_, write);
        const std::array<Element, 5> five{a().element(0, 8), a().element(8, 8), a().element(16, 8),
                                          a().element(24, 8), a().element(32, 8)};
        WorkRequest gather = write, read{.opcode = Opcode::read}, add = write, swap = write;
        gather.elements = five;
        read.elements = add.elements = swap.elements = std::span(five).first(1);
        add.opcode = Opcode::fetch_add;
        swap.opcode = Opcode::compare_swap;
        gather5_.emplace(queue_, gather);
        reads_.emplace(queue_, read);
        adds_.emplace(queue_, add);
        swaps_.emplace(queue_, swap);
    }
    bool signal(std::uint32_t blocks = 1) {
        return account_.must_signal(blocks) || dice_.once_in(4);
    }
    // True: accepted; then `model` runs and the memory is checked at times.
    template <class Model>
    void judge(Errc result, std::uint32_t count, std::uint32_t blocks, bool signaled,
               Model&& model) {
        ASSERT_EQ(result, account_.expected(std::uint64_t{count} * blocks));
        if (result == Errc::ok) {
            if (count != 0) account_.accept(count, blocks, signaled);
            model();
        }
        ASSERT_EQ(queue_.free_blocks(), account_.free());
        if (dice_.once_in(256)) {
            ASSERT_NO_FATAL_FAILURE(account_.poll(*a().completions));
            ASSERT_TRUE(ends_.holds()) << a().queue_pair->failure_text();
            ASSERT_EQ(queue_.outstanding(), account_.size());
        }
    }

    void post_fresh() {
        const bool signaled = signal(4);
        WorkRequest request = a().request(Opcode::write);
        request.id = account_.next_id();
        request.signaled = signaled;
        request.fence = dice_.once_in(8);
        if (dice_.once_in(3)) {
            request.opcode = Opcode::nop;
            return judge(queue_.post(request), 1, 1, signaled, [] {});
        }
        const std::uint32_t words = 1 + dice_.below(24), to = dice_.place(words);
        std::array<std::byte, 24 * 8> payload;
        dice_.fill(payload);
        request.remote_address = ends_.remote(to);
        request.inline_payload = std::span(payload).first(words * 8);
        judge(queue_.post(request), 1, mlx5::shape_of(request).blocks(), signaled,
              [&] { ends_.writes(to, payload.data(), words); });
    }
    void post_fresh_list() {
        const std::uint32_t count = list_length();
        const bool signaled = signal(count);
        std::vector<WorkRequest> list(count, a().request(Opcode::write));
        std::vector<Element> elements(count);
        std::vector<std::array<std::uint32_t, 2>> places(count);
        for (std::uint32_t i = 0; i < count; ++i) {
            places[i] = {dice_.place(3), dice_.place(3)};
            elements[i] = a().element(places[i][1] * 8, 24);
            list[i].remote_address = ends_.remote(places[i][0]);
            list[i].elements = std::span(&elements[i], 1);
            list[i].id = account_.next_id() + i;
            list[i].signaled = signaled && i == count - 1;
        }
        judge(queue_.post(list), count, 1, signaled, [&] {
            for (const auto& [to, from] : places) ends_.moves(to, from, 3);
        });
    }
    void post_write8() {
        const bool signaled = signal();
        const std::uint32_t to = dice_.place(1);
        const std::uint64_t payload = dice_.word();
        write8_->set_signaled(signaled);
        const std::uint64_t id = account_.next_id();
        const Errc result = dice_.once_in(4) ? write8_->post(id, remote(to), payload)
                                             : write8_->post(id, ends_.remote(to), payload);
        judge(result, 1, 1, signaled,
              [&] { ends_.writes(to, reinterpret_cast<const std::byte*>(&payload), 1); });
    }
    void post_write8_list() {
        const std::uint32_t count = list_length();
        const bool signaled = signal(count);
        write8_->set_signaled(signaled);
        const std::uint32_t to = dice_.place(kMost);
        const std::uint64_t first = dice_.word();
        const auto nth = [&](std::uint32_t i) { return Listed{ends_.remote(to + i), first + i}; };
        judge(write8_->post_list(account_.next_id(), count, nth), count, 1, signaled, [&] {
            for (std::uint64_t i = 0; i < count; ++i) {
                const std::uint64_t payload = first + i;
                ends_.writes(to + static_cast<std::uint32_t>(i),
                             reinterpret_cast<const std::byte*>(&payload), 1);
            }
        });
    }
    void post_inline() {
        const bool signaled = signal(3);
        const std::uint32_t to = dice_.place(13);
        std::array<std::byte, 104> payload;
        dice_.fill(payload);
        inline100_->set_signaled(signaled);
        inline100_->set_fence(dice_.once_in(4));
        judge(inline100_->post(account_.next_id(), ends_.remote(to), payload.data()), 1, 3,
              signaled, [&] { ends_.writes(to, payload.data(), 13); });
    }
    void post_gather() {
        const bool signaled = signal(2);
        const std::uint32_t to = dice_.place(5);
        std::array<std::uint32_t, 5> from;
        for (std::uint32_t& place : from) place = dice_.place(1);
        gather5_->set_signaled(signaled);
        const auto address = [&](std::uint32_t k) { return ends_.local(from[k]); };
        judge(gather5_->post(account_.next_id(), ends_.remote(to), address), 1, 2, signaled, [&] {
            for (std::uint32_t k = 0; k < 5; ++k) ends_.moves(to + k, from[k], 1);
        });
    }
    // An address, a key and an element for each.
    void post_reads() {
        const std::uint32_t count = list_length();
        const bool signaled = signal(count);
        reads_->set_signaled(signaled);
        const std::uint32_t from = dice_.place(2 * kMost), to = dice_.place(2 * kMost);
        const auto nth = [&](std::uint32_t i) {
            return Listed{remote(from + 2 * i), [this, i, to](std::uint32_t) {
                              return a().element((to + 2 * i) * 8, 16);
                          }};
        };
        judge(reads_->post_list(account_.next_id(), count, nth), count, 1, signaled, [&] {
            for (std::uint32_t i = 0; i < count; ++i) ends_.reads(from + 2 * i, to + 2 * i, 2);
        });
    }
    void post_atomics() {
        const bool signaled = signal();
        const std::uint32_t at = dice_.place(1);
        const std::uint64_t id = account_.next_id(), operand = dice_.word();
        if (dice_.once_in(2)) {
            adds_->set_signaled(signaled);
            return judge(adds_->post(id, ends_.remote(at), operand), 1, 1, signaled,
                         [&] { ends_.adds(at, operand, 0); });
        }
        const mlx5::Exchange::Values values{dice_.once_in(2) ? ends_.far_value(at) : operand,
                                            operand};
        swaps_->set_signaled(signaled);
        judge(swaps_->post(id, ends_.remote(at), values), 1, 1, signaled,
              [&] { ends_.exchanges(at, values, 0); });
    }
    // Opens or closes a window; whatever form comes next must wait for it.
    void update_key() {
        const bool signaled = signal(3);
        WorkRequest request;
        request.id = account_.next_id();
        request.signaled = signaled;
        mlx5::WindowBinding binding{.window_key = window_key_,
                                    .new_key = mlx5::next_window_key(window_key_),
                                    .local_key = a().region->local_key(),
                                    .address = ends_.local(0),
                                    .bytes = 64,
                                    .remote_read = true};
        request.opcode = window_open_ ? Opcode::local_invalidate : Opcode::bind_window;
        request.invalidated_key = window_key_;
        request.window = &binding;
        const std::uint32_t blocks = mlx5::shape_of(request).blocks();
        judge(queue_.post(request), 1, blocks, signaled, [&] {
            window_open_ = !window_open_;
            if (window_open_) window_key_ = binding.new_key;
        });
    }
    void end_life() {
        ASSERT_NO_FATAL_FAILURE(account_.poll(*a().completions));
        ASSERT_TRUE(ends_.holds()) << a().queue_pair->failure_text();
        a().queue_pair->fail();
        account_.fail();
        for (std::uint32_t i = dice_.below(5); i > 0; --i) {
            const Errc result = write8_->post(account_.next_id(), ends_.remote(0), dice_.word());
            ASSERT_EQ(result, account_.expected(1));
            if (result == Errc::ok) account_.accept(1, 1, true);
        }
        if (dice_.once_in(2)) {
            ASSERT_NO_FATAL_FAILURE(flush(account_));
        }
        queue_.reset();
        EXPECT_FALSE(write8_->valid() || gather5_->valid());
        EXPECT_EQ(write8_->post(1, ends_.remote(0), std::uint64_t{1}), Errc::invalid_prepared);
        ends_.start_over();
        account_.forget();
        prepare();
        // What a window was bound to stays bound, to a queue pair that forgot it: take another.
        window_ = a().device->create_memory_window(WindowType::queue_pair);
        window_key_ = window_->key();
        window_open_ = false;
    }

    mlx5::SendQueue queue_{ends_.view()};
    Account account_{queue_};
    std::unique_ptr<MemoryWindow> window_;
    std::uint32_t window_key_ = 0;
    bool window_open_ = false;
    std::optional<mlx5::PreparedWrite8> write8_;
    std::optional<Prepared<Opcode::write, Inline<104>>> inline100_;
    std::optional<Prepared<Opcode::write, Gather<5>>> gather5_;
    std::optional<Prepared<Opcode::read, Gather<1>>> reads_;
    std::optional<Prepared<Opcode::fetch_add, mlx5::Addend>> adds_;
    std::optional<Prepared<Opcode::compare_swap, mlx5::Exchange>> swaps_;
};

// A queue of prebuilt writes, with a no-op before each: of nine elements (three blocks).
class Prebuilt : public Run {
  public:
    Prebuilt(std::uint32_t blocks, bool words_only) : Run(blocks, words_only, blocks * 3) {
        a().completions->attach(&queue_, a().receive.get());
    }
    std::uint64_t accepted() const { return account_.accepted(); }
    bool holds() { return ends_.holds(); }

    void step() {
        const std::uint32_t action = dice_.below(1000);
        if (action < 500)
            post(1, false);
        else if (action < 700)
            post(list_length(), true);
        else if (action < 999)
            account_.poll(*a().completions);
        else if (dice_.once_in(8))
            end_life();
        else
            arm();
    }

  private:
    static constexpr std::uint32_t kElements = 9, kSlot = 4;
    using Queue = mlx5::PrebuiltQueue<Opcode::write, Gather<kElements>>;

    WorkRequest request() {
        for (Element& element : elements_) element = a().element(0, 8);
        WorkRequest made{.opcode = Opcode::write, .remote_key = a().peer.key};
        made.elements = elements_;
        return made;
    }
    void post(std::uint32_t count, bool listed) {
        const bool signaled = account_.must_signal(count * kSlot) || dice_.once_in(4);
        const std::uint32_t to = dice_.place(kElements), from = dice_.place(2 * kMost);
        const auto address = [&](std::uint32_t i) {
            return [this, from, i](std::uint32_t k) { return ends_.local(from + i + k); };
        };
        queue_.set_signaled(signaled);
        const auto nth = [&](std::uint32_t i) { return Listed{ends_.remote(to), address(i)}; };
        const Errc result = listed ? queue_.post_list(account_.next_id(), count, nth)
                                   : queue_.post(account_.next_id(), ends_.remote(to), address(0));
        ASSERT_EQ(result, account_.expected(std::uint64_t{count} * kSlot));
        if (result == Errc::ok && count != 0) account_.accept(count, kSlot, signaled);
        if (result == Errc::ok)
            for (std::uint32_t i = 0; i < count; ++i)
                for (std::uint32_t k = 0; k < kElements; ++k) ends_.moves(to + k, from + i + k, 1);
        ASSERT_EQ(queue_.free_blocks(), account_.free());
        if (dice_.once_in(256)) {
            ASSERT_NO_FATAL_FAILURE(account_.poll(*a().completions));
            ASSERT_TRUE(ends_.holds()) << a().queue_pair->failure_text();
        }
    }
    void post_one() {
        const auto address = [&](std::uint32_t) { return ends_.local(0); };
        ASSERT_EQ(queue_.post(account_.next_id(), ends_.remote(0), address), Errc::ok);
        account_.accept(1, kSlot, true);
    }
    void end_life() {
        ASSERT_NO_FATAL_FAILURE(account_.poll(*a().completions));
        ASSERT_TRUE(ends_.holds()) << a().queue_pair->failure_text();
        a().queue_pair->fail();
        account_.fail();
        // Flushed with the no-op before it, of which nobody hears.
        if (account_.free() >= kSlot) {
            ASSERT_NO_FATAL_FAILURE(post_one());
        }
        const bool whole = dice_.once_in(2);
        if (whole) {
            ASSERT_NO_FATAL_FAILURE(flush(account_));
        }
        ends_.start_over();
        queue_.reset();
        account_.forget();
    }

    std::array<Element, kElements> elements_;
    Queue queue_{ends_.view(), request()};
    Account account_{queue_};
};

struct Geometry {
    const char* name;
    std::uint32_t blocks;
    bool words_only;
};
class EveryRegister : public testing::TestWithParam<Geometry> {};
INSTANTIATE_TEST_SUITE_P(
    PostingModel, EveryRegister,
    testing::Values(Geometry{"own_halves_4", 4, false}, Geometry{"words_4", 4, true},
                    Geometry{"own_halves_16", 16, false}, Geometry{"words_16", 16, true},
                    Geometry{"own_halves_64", 64, false}, Geometry{"own_halves_512", 512, false},
                    Geometry{"words_512", 512, true}),
    [](const auto& geometry) { return std::string(geometry.param.name); });

// Of all geometries together at least 2^20.
std::uint64_t enough() {
    const std::uint64_t all = std::uint64_t{1} << (verbatim::test::kSanitized ? 16 : 20);
    return all / 7 * (std::getenv("VERBATIM_LONG") != nullptr ? 8 : 1) + 1;
}

template <class Model>
void expect_agreement(Model&& model, std::uint64_t operations) {
    while (model.accepted() < operations) {
        model.step();
        if (testing::Test::HasFatalFailure())
            FAIL() << "after " << model.accepted() << " operations";
    }
    EXPECT_TRUE(model.holds());
}

TEST_P(EveryRegister, takes_every_form_in_any_order) {
    expect_agreement(Mixed(GetParam().blocks, GetParam().words_only), enough());
}

TEST_P(EveryRegister, takes_prebuilt_requests_alone_and_in_lists) {
    expect_agreement(Prebuilt(GetParam().blocks, GetParam().words_only), enough() / 4);
}

}  // namespace
}  // namespace verbatim::softnic
