// What executes the queues in the tests of the driver's behaviour. The same tests run on all of
// them; what one of them lacks must be refused there, and is listed in docs/development.md.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <verbatim/driver/device.hpp>

#include <softnic_end.hpp>

namespace verbatim::test {

namespace mlx5 = verbatim::mlx5;

struct Backend {
    std::string name;
    std::function<std::unique_ptr<Device>()> open;
    bool resizes = false;  // completion queues
};
inline void PrintTo(const Backend& backend, std::ostream* to) { *to << backend.name; }

// Of this program.
std::vector<Backend> backends();

inline std::string name_of(const testing::TestParamInfo<Backend>& info) { return info.param.name; }

using softnic::test::End;
using softnic::test::EndAddress;
using softnic::test::EndOptions;
using softnic::test::kAllAccess;
using softnic::test::kPatience;
using softnic::test::Pair;
using softnic::test::pattern;
using softnic::test::poll_until;

// Two connected ends of one backend. Nothing is assumed about when something happens: tests post,
// and poll until what they wait for has come.
class DriverTest : public testing::TestWithParam<Backend> {
  protected:
    static EndOptions options(bool channel = false) {
        EndOptions options;
        options.open = GetParam().open;
        options.access = kAllAccess | Access::window_bind;
        options.queues.max_receive_elements = 3;
        options.channel = channel;
        return options;
    }

    DriverTest() : DriverTest(options()) {}
    explicit DriverTest(const EndOptions& wanted) : pair(wanted) {}

    // `end`'s next completions, in order; fewer where the patience ended.
    std::vector<mlx5::Completion> wait(End& end, std::size_t count) {
        auto& seen = &end == &a ? pair.seen_a : pair.seen_b;
        std::size_t& taken = &end == &a ? taken_a_ : taken_b_;
        const bool came =
            &end == &a ? pair.poll_for(taken + count, 0) : pair.poll_for(0, taken + count);
        EXPECT_TRUE(came) << seen.size() - taken << " of " << count << " completions came";
        const std::size_t now = std::min(seen.size() - taken, count);
        const auto first = seen.begin() + static_cast<std::ptrdiff_t>(taken);
        taken += now;
        return {first, first + static_cast<std::ptrdiff_t>(now)};
    }
    mlx5::Completion wait_one(End& end) {
        const auto seen = wait(end, 1);
        return seen.empty() ? mlx5::Completion{.status = Errc::timeout} : seen[0];
    }
    // Posts at `a` and waits for the completion.
    mlx5::Completion finish(const mlx5::WorkRequest& request) {
        EXPECT_EQ(a.send->post(request), Errc::ok);
        return wait_one(a);
    }
    // Polls both a few times; completions that nobody waited for.
    std::size_t leftovers() {
        for (int i = 0; i < 20; ++i) {
            for (const auto& completion : a.poll()) pair.seen_a.push_back(completion);
            for (const auto& completion : b.poll()) pair.seen_b.push_back(completion);
        }
        return pair.seen_a.size() - taken_a_ + pair.seen_b.size() - taken_b_;
    }
    // Orders a after everything that it posted: an empty write behind it has completed.
    void drain(End& end) {
        mlx5::WorkRequest nop = end.request(mlx5::Opcode::nop);
        nop.id = 0xd;
        ASSERT_EQ(end.send->post(nop), Errc::ok);
        const auto done = wait_one(end);
        ASSERT_EQ(done.status, Errc::ok);
        ASSERT_EQ(done.id, 0xdU);
    }
    static bool holds(const End& end, std::size_t offset, std::span<const std::byte> bytes) {
        return std::equal(bytes.begin(), bytes.end(), end.at(offset));
    }

    Pair pair;
    End& a = pair.a;
    End& b = pair.b;

  private:
    std::size_t taken_a_ = 0, taken_b_ = 0;
};

}  // namespace verbatim::test
