// Revocation against a requester that does not get on: at each store of a one-sided request it is
// stopped, killed, or preempted, while the owner of the memory takes it away. After a revocation
// that succeeded nothing lands there; one that cannot succeed in time says so.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <optional>

#include "host/shared_store.hpp"
#include "softnic_end.hpp"
#include "softnic_process.hpp"
#include "softnic_store_faults.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

constexpr std::size_t kTarget = 65536, kMostBytes = std::size_t{5} << 18, kMemory = 2 << 20;
constexpr int kReused = 0xee;

// What the requester does to the owner's memory, at kTarget.
enum class Kind { quick_write, gathered_write, long_write, atomic, private_write, direct_access };
constexpr Kind kKinds[] = {Kind::quick_write, Kind::gathered_write, Kind::long_write,
                           Kind::atomic,      Kind::private_write,  Kind::direct_access};

struct Play {
    Kind kind = Kind::quick_write;
    bool barriers = true;
    std::chrono::milliseconds patience{20};
    bool window = false;  // the requester has a window's key

    EndOptions options() const {
        EndOptions options;
        options.memory_bytes = kMemory;
        options.access = kAllAccess | Access::window_bind;
        options.private_memory = kind == Kind::private_write;
        options.device.membarrier = barriers;
        options.device.strict_doorbells = kind != Kind::direct_access;
        options.device.revocation_timeout = patience;
        return options;
    }
};

// By the program itself. False: there is no way any more.
bool store_directly(End& end) {
    std::byte* const to =
        end.queue_pair->open_remote(end.peer.address + kTarget, 5000, end.peer.key);
    if (to == nullptr) return false;
    copy_bytes(to, end.at(0), 5000);
    end.queue_pair->close_remote();
    return true;
}

Errc post(End& end, Kind kind) {
    if (kind == Kind::direct_access)
        return store_directly(end) ? end.post_write(pattern(24), kTarget) : Errc::remote_access;
    const Element some = end.element(0, 5000), much = end.element(0, kMostBytes),
                  word = end.element(8, 8);
    if (kind == Kind::quick_write) return end.post_write(pattern(24), kTarget);
    WorkRequest request =
        end.request(kind == Kind::atomic ? Opcode::fetch_add : Opcode::write, kTarget);
    request.elements = std::span(kind == Kind::atomic       ? &word
                                 : kind == Kind::long_write ? &much
                                                            : &some,
                                 1);
    request.swap_or_add = 0x0101;
    return end.send->post(request);
}

// Arms `fault` for its nth store, and posts. Afterwards it says how many stores there were.
int requester(Wire& wire, const Play& play, void (*fault)(std::uint64_t), std::uint64_t nth) {
    End end(play.options());
    EndAddress peer;
    if (!wire.put(end.address()) || !wire.get(peer)) return 1;
    end.connect(peer);
    std::memset(end.at(0), 0x11, kMostBytes);
    // So that keys and mappings are known.
    if (post(end, play.kind) != Errc::ok || end.poll().size() != 1) return 3;
    fault(nth);
    static_cast<void>(post(end, play.kind));
    fault(0);
    wire.signal();
    return wire.wait() ? 0 : 2;
}

// The owner of the memory, and its requester in another process.
class Meeting {
  public:
    Meeting(const Play& play, void (*fault)(std::uint64_t), std::uint64_t nth)
        : child_([=](Wire& wire) { return requester(wire, play, fault, nth); }),
          owner_(play.options()) {
        EndAddress peer;
        EXPECT_TRUE(child_.wire().get(peer));
        owner_.connect(peer);
        EndAddress told = owner_.address();
        if (play.window) told.key = open_window();
        EXPECT_TRUE(child_.wire().put(told));
    }
    End& owner() { return owner_; }
    Child& child() { return child_; }
    // False: the request is over.
    bool stopped() {
        siginfo_t found{};
        for (;;) {
            if (waitid(P_PID, static_cast<id_t>(child_.pid()), &found,
                       WSTOPPED | WNOHANG | WNOWAIT) != 0)
                return false;
            if (found.si_pid != 0) return true;
            if (child_.wire().readable(1)) return false;
        }
    }
    void use_memory_again() { std::memset(owner_.at(0), kReused, kMemory); }
    bool memory_is_untouched() {
        return owner_.at(0)[0] == std::byte{kReused} &&
               std::memcmp(owner_.at(0), owner_.at(1), kMemory - 1) == 0;
    }
    void invalidate_window() {
        WorkRequest request;
        request.opcode = Opcode::local_invalidate;
        request.invalidated_key = window_key_;
        EXPECT_EQ(owner_.send->post(request), Errc::ok);
    }
    // How the owner's request ended; nothing: not within that time.
    std::optional<Errc> completion(std::chrono::milliseconds at_most) {
        const auto deadline = std::chrono::steady_clock::now() + at_most;
        do {
            const auto found = owner_.poll();
            if (!found.empty()) return found[0].status;
        } while (std::chrono::steady_clock::now() < deadline);
        return std::nullopt;
    }
    // Lets the requester end its request.
    void go_on() {
        child_.kill(SIGCONT);
        EXPECT_TRUE(child_.wire().wait());
    }

  private:
    std::uint32_t open_window() {
        window_ = owner_.device->create_memory_window(WindowType::queue_pair);
        mlx5::WindowBinding binding;
        binding.window_key = window_->key();
        binding.new_key = window_key_ = mlx5::next_window_key(window_->key());
        binding.local_key = owner_.region->local_key();
        binding.address = reinterpret_cast<std::uint64_t>(owner_.at(0));
        binding.bytes = kMemory;
        binding.remote_write = binding.remote_atomic = true;
        WorkRequest request;
        request.opcode = Opcode::bind_window;
        request.window = &binding;
        EXPECT_EQ(owner_.send->post(request), Errc::ok);
        EXPECT_EQ(completion(kPatience), Errc::ok);
        return window_key_;
    }

    Child child_;
    End owner_;
    std::unique_ptr<MemoryWindow> window_;
    std::uint32_t window_key_ = 0;
};

// False: the memory is not free yet.
bool release(MemoryRegion& region) {
    try {
        region.release();
        return true;
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::timeout) << error.what();
        return false;
    }
}

const char* name_of(Kind kind) {
    constexpr const char* kNames[] = {"quick write", "gathered write", "long write",
                                      "atomic",      "private write",  "direct access"};
    return kNames[static_cast<std::size_t>(kind)];
}

// Runs `step` for the 1st, 2nd, ... store of the request until it says that there is no such store.
void at_every_store(Kind kind, const std::function<bool(std::uint64_t)>& step) {
    std::uint64_t nth = 1;
    for (; nth < 200; ++nth) {
        SCOPED_TRACE(std::string(name_of(kind)) + ", store " + std::to_string(nth));
        if (!step(nth) || testing::Test::HasFailure()) break;
    }
    EXPECT_GT(nth, 3u) << "stores are not counted";
    EXPECT_LT(nth, 200u);
}

class RevocationSteps : public testing::TestWithParam<bool> {};

TEST_P(RevocationSteps, a_stopped_requester_touches_nothing_that_was_released) {
    for (const Kind kind : kKinds) {
        std::uint64_t refused = 0;
        at_every_store(kind, [&](std::uint64_t nth) {
            Meeting meeting({.kind = kind, .barriers = GetParam()}, stop_before_store, nth);
            if (!meeting.stopped()) return false;
            const bool free = release(*meeting.owner().region);
            refused += free ? 0 : 1;
            if (free) meeting.use_memory_again();
            meeting.go_on();
            if (!free) {
                EXPECT_TRUE(release(*meeting.owner().region)) << "it has gone on";
                meeting.use_memory_again();
            }
            EXPECT_TRUE(meeting.memory_is_untouched());
            meeting.child().wire().signal();
            EXPECT_EQ(meeting.child().reap(), 0);
            return true;
        });
        EXPECT_GT(refused, 0u) << "never stopped inside";
    }
}

TEST_P(RevocationSteps, release_waits_for_a_preempted_requester) {
    for (const Kind kind : kKinds)
        at_every_store(kind, [&](std::uint64_t nth) {
            Meeting meeting({.kind = kind, .barriers = GetParam(), .patience = kPatience},
                            stop_before_store, nth);
            if (!meeting.stopped()) return false;
            std::future<bool> freed = std::async(std::launch::async, [&] {
                const bool free = release(*meeting.owner().region);
                meeting.use_memory_again();
                return free;
            });
            // It comes back at once only where the requester is outside.
            static_cast<void>(freed.wait_for(std::chrono::milliseconds(10)));
            meeting.go_on();
            EXPECT_TRUE(freed.get());
            EXPECT_TRUE(meeting.memory_is_untouched());
            meeting.child().wire().signal();
            EXPECT_EQ(meeting.child().reap(), 0);
            return true;
        });
}

TEST_P(RevocationSteps, release_does_not_wait_for_the_dead) {
    for (const Kind kind : kKinds)
        at_every_store(kind, [&](std::uint64_t nth) {
            Meeting meeting({.kind = kind, .barriers = GetParam(), .patience = 4 * kPatience},
                            die_before_store, nth);
            const auto start = std::chrono::steady_clock::now();
            // Killed, or through with it; then nothing is left to see.
            if (meeting.child().wire().wait()) return false;
            EXPECT_TRUE(release(*meeting.owner().region));
            EXPECT_LT(std::chrono::steady_clock::now() - start, kPatience);
            EXPECT_EQ(meeting.child().reap(), -SIGKILL);
            return true;
        });
}

// Its ring goes, but a thread inside still counts for the region.
TEST_P(RevocationSteps, a_requester_stopped_under_a_destroyed_queue_pair_still_counts) {
    for (const Kind kind : {Kind::quick_write, Kind::gathered_write, Kind::direct_access})
        at_every_store(kind, [&](std::uint64_t nth) {
            Meeting meeting({.kind = kind, .barriers = GetParam()}, stop_before_store, nth);
            if (!meeting.stopped()) return false;
            End& owner = meeting.owner();
            owner.queue_pair.reset();
            const bool free = release(*owner.region);
            if (free) meeting.use_memory_again();
            meeting.go_on();
            if (!free) {
                EXPECT_TRUE(release(*owner.region));
                meeting.use_memory_again();
            }
            EXPECT_TRUE(meeting.memory_is_untouched());
            meeting.child().wire().signal();
            EXPECT_EQ(meeting.child().reap(), 0);
            return true;
        });
}

// Nothing comes through a queue pair that is gone, although the memory is registered still.
TEST_P(RevocationSteps, destruction_and_reset_of_a_queue_pair_wait_for_a_preempted_requester) {
    for (const bool reset : {false, true})
        for (const Kind kind :
             {Kind::quick_write, Kind::gathered_write, Kind::atomic, Kind::direct_access})
            at_every_store(kind, [&](std::uint64_t nth) {
                Meeting meeting({.kind = kind, .barriers = GetParam(), .patience = kPatience},
                                stop_before_store, nth);
                if (!meeting.stopped()) return false;
                std::future<void> gone = std::async(std::launch::async, [&] {
                    if (reset)
                        meeting.owner().queue_pair->reset();
                    else
                        meeting.owner().queue_pair.reset();
                    meeting.use_memory_again();
                });
                static_cast<void>(gone.wait_for(std::chrono::milliseconds(10)));
                meeting.go_on();
                gone.get();
                EXPECT_TRUE(meeting.memory_is_untouched());
                meeting.child().wire().signal();
                EXPECT_EQ(meeting.child().reap(), 0);
                return true;
            });
}

TEST_P(RevocationSteps, an_invalidation_completes_when_a_preempted_requester_has_left) {
    int completed = 0;
    for (const Kind kind :
         {Kind::quick_write, Kind::gathered_write, Kind::atomic, Kind::direct_access})
        at_every_store(kind, [&](std::uint64_t nth) {
            Meeting meeting(
                {.kind = kind, .barriers = GetParam(), .patience = kPatience, .window = true},
                stop_before_store, nth);
            if (!meeting.stopped()) return false;
            meeting.invalidate_window();
            auto status = meeting.completion(std::chrono::milliseconds(10));
            if (status) meeting.use_memory_again();
            const bool at_once = status.has_value();
            meeting.child().kill(SIGCONT);
            if (!at_once) {
                status = meeting.completion(kPatience);
                meeting.use_memory_again();
            }
            // A requester that comes too late has broken the connection perhaps.
            if (status != Errc::ok) {
                EXPECT_EQ(status, Errc::retry_exceeded);
                meeting.owner().queue_pair.reset();
                meeting.use_memory_again();
            }
            completed += status == Errc::ok ? 1 : 0;
            EXPECT_TRUE(meeting.child().wire().wait());
            EXPECT_TRUE(meeting.memory_is_untouched());
            meeting.child().wire().signal();
            EXPECT_EQ(meeting.child().reap(), 0);
            return true;
        });
    EXPECT_GT(completed, 3);
}

TEST_P(RevocationSteps, an_invalidation_under_a_stopped_requester_fails_in_time) {
    std::uint64_t failed = 0;
    at_every_store(Kind::gathered_write, [&](std::uint64_t nth) {
        Meeting meeting({.kind = Kind::gathered_write, .barriers = GetParam(), .window = true},
                        stop_before_store, nth);
        if (!meeting.stopped()) return false;
        meeting.invalidate_window();
        const auto status = meeting.completion(kPatience);
        EXPECT_TRUE(status.has_value());
        if (status != Errc::ok) ++failed;
        if (status == Errc::ok) meeting.use_memory_again();
        meeting.go_on();
        if (status == Errc::ok) {
            EXPECT_TRUE(meeting.memory_is_untouched());
        }
        meeting.child().wire().signal();
        EXPECT_EQ(meeting.child().reap(), 0);
        return true;
    });
    EXPECT_GT(failed, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, RevocationSteps, testing::Bool(), [](const auto& one) {
    return one.param ? "with_barriers" : "with_fences";
});

}  // namespace
}  // namespace verbatim::softnic::test
