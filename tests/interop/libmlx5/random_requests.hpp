// Random lists of requests, posted to both sides of a Twin.
#pragma once

#include <random>
#include <vector>

#include "twin.hpp"

namespace verbatim::interop {

// Requests with what they point to, random in everything that may vary.
class RandomRequests {
  public:
    // libmlx5's builder takes every window for one of type 2.
    RandomRequests(Twin& twin, std::uint64_t seed, bool for_builder)
        : twin_(twin),
          inline_bytes_(twin.lib().inline_bytes),
          for_builder_(for_builder),
          random_(seed) {
        windows_.reserve(64);
    }

    std::vector<Request> list(std::size_t count) {
        windows_.clear();
        std::vector<Request> all;
        for (std::size_t i = 0; i < count; ++i) all.push_back(one());
        return all;
    }

  private:
    std::uint32_t below(std::uint32_t bound) {
        return static_cast<std::uint32_t>(random_() % bound);
    }

    Request one() {
        constexpr Opcode kAll[] = {Opcode::write,
                                   Opcode::write_immediate,
                                   Opcode::send,
                                   Opcode::send_immediate,
                                   Opcode::send_invalidate,
                                   Opcode::local_invalidate,
                                   Opcode::bind_window,
                                   Opcode::read,
                                   Opcode::compare_swap,
                                   Opcode::fetch_add};
        const Opcode opcode = kAll[below(std::size(kAll))];
        Request made = shaped(opcode);
        made.work.id = random_();
        made.work.signaled = below(2) == 0;
        made.work.fence = below(4) == 0;
        made.work.solicited = below(4) == 0;
        made.work.remote_address = random_() & ~std::uint64_t{7};
        made.work.remote_key = below(1u << 31);
        made.work.immediate = below(1u << 31);
        made.work.invalidated_key = below(1u << 31);
        return made;
    }
    Request shaped(Opcode opcode) {
        if (opcode == Opcode::local_invalidate) return mlx5::test::request(opcode);
        if (opcode == Opcode::bind_window) return window();
        if (mlx5::is_atomic(opcode)) return mlx5::test::atomic_request(opcode);
        if (mlx5::takes_inline_payload(opcode) && below(2) == 0)
            return mlx5::test::inline_request(opcode, 1 + below(inline_bytes_), below(256));
        return mlx5::test::gather_request(opcode, 1 + below(8));
    }
    Request window() {
        mlx5::WindowBinding& made = windows_.emplace_back();
        made.window_key = below(1u << 24) << 8 | below(256);
        made.new_key = (made.window_key & ~0xffu) | below(256);
        made.local_key = twin_.region_key();
        made.address = twin_.region_address() + below(1024);
        made.of_queue_pair = for_builder_ || below(2) == 0;
        made.bytes = !made.of_queue_pair && below(4) == 0 ? 0 : 1 + below(1024);
        made.remote_read = below(2) == 0;
        made.remote_write = below(2) == 0;
        made.remote_atomic = below(2) == 0;
        made.zero_based = below(4) == 0;
        Request bind = mlx5::test::request(Opcode::bind_window);
        bind.work.window = &made;
        return bind;
    }

    const Twin& twin_;
    std::uint32_t inline_bytes_;
    bool for_builder_;
    std::mt19937_64 random_;
    std::vector<mlx5::WindowBinding> windows_;
};

// 3000 lists of one to six requests.
inline void expect_alike(const PairOptions& options, std::uint64_t seed, bool by_builder) {
    Twin twin(options);
    RandomRequests requests(twin, seed, by_builder);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 3000 && !testing::Test::HasFailure(); ++round) {
        std::vector<Request> list = requests.list(1 + random() % 6);
        list.back().work.signaled = true;
        if (by_builder)
            twin.post_by_builder(list);
        else
            twin.post(list);
        // One completion retires all before it.
        twin.complete(twin.last_first_block());
    }
}

}  // namespace verbatim::interop
