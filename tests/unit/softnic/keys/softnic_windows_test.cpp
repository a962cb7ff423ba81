// Memory windows: opened onto regions by work requests, used by peers, closed by invalidation from
// either side, by the owner, and by the release of what lies behind them.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <vector>

#include "softnic_end.hpp"
#include "softnic_process.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::CompletionKind;
using mlx5::next_window_key;
using mlx5::Opcode;
using mlx5::WindowBinding;
using mlx5::WorkRequest;

constexpr Access kWindowed = kAllAccess | Access::window_bind;

EndOptions windowed() {
    EndOptions options;
    options.access = kWindowed;
    return options;
}

// A window of an end and the key that it has now.
struct TestWindow {
    TestWindow(End& end, WindowType type)
        : owner(&end), handle(end.device->create_memory_window(type)), key(handle->key()) {}

    WindowBinding binding(std::size_t offset, std::uint32_t bytes) const {
        WindowBinding binding;
        binding.window_key = key;
        binding.new_key = next_window_key(key);
        binding.local_key = owner->region->local_key();
        binding.address = owner->peer_address_of(offset);
        binding.bytes = bytes;
        binding.remote_read = binding.remote_write = binding.remote_atomic = true;
        return binding;
    }
    Errc post(const WindowBinding& binding) {
        WorkRequest bind;
        bind.opcode = Opcode::bind_window;
        bind.window = &binding;
        const Errc posted = owner->send->post(bind);
        if (posted == Errc::ok) key = binding.new_key;
        return posted;
    }
    // Opens it; what the completion says.
    Completion open(const WindowBinding& binding) {
        EXPECT_EQ(post(binding), Errc::ok);
        const auto seen = owner->poll();
        EXPECT_EQ(seen.size(), 1u);
        return seen.empty() ? Completion{} : seen[0];
    }
    Completion open(std::size_t offset, std::uint32_t bytes) {
        return open(binding(offset, bytes));
    }
    Completion open_for_all(std::size_t offset, std::uint32_t bytes) {
        WindowBinding wanted = binding(offset, bytes);
        wanted.of_queue_pair = false;
        return open(wanted);
    }

    End* owner;
    std::unique_ptr<MemoryWindow> handle;
    std::uint32_t key;
};

Errc invalidate(End& end, std::uint32_t key) {
    WorkRequest request;
    request.opcode = Opcode::local_invalidate;
    request.invalidated_key = key;
    return end.send->post(request);
}

// Of one write of 8 bytes through `key`.
Errc write_through(End& end, std::uint32_t key, std::uint64_t address) {
    const auto payload = pattern(8);
    WorkRequest write;
    write.opcode = Opcode::write;
    write.inline_payload = payload;
    write.remote_key = key;
    write.remote_address = address;
    EXPECT_EQ(end.send->post(write), Errc::ok);
    const auto seen = end.poll();
    EXPECT_EQ(seen.size(), 1u);
    return seen.empty() ? Errc::timeout : seen[0].status;
}

class Windows : public testing::Test {
  protected:
    Pair pair{windowed()};
    End& a = pair.a;
    End& b = pair.b;

    std::uint64_t at_b(std::size_t offset) const { return b.peer_address_of(offset); }
    bool written(std::size_t offset) const {
        return std::memcmp(b.at(offset), pattern(8).data(), 8) == 0;
    }
};

TEST_F(Windows, open_a_part_of_a_region_and_nothing_around_it) {
    TestWindow window(b, WindowType::queue_pair);
    const Completion opened = window.open(4096, 64);
    EXPECT_EQ(opened.status, Errc::ok);
    EXPECT_EQ(opened.opcode, Opcode::bind_window);
    EXPECT_EQ(write_through(a, window.key, at_b(4096)), Errc::ok);
    EXPECT_TRUE(written(4096));
    EXPECT_EQ(write_through(a, window.key, at_b(4096 + 56)), Errc::ok);
    EXPECT_EQ(write_through(a, window.key, at_b(4096 + 57)), Errc::remote_access);
    EXPECT_NE(failure_text(*a.queue_pair).find("covers 64 bytes"), std::string::npos);
}

TEST_F(Windows, have_an_access_of_their_own) {
    TestWindow window(b, WindowType::queue_pair);
    WindowBinding binding = window.binding(0, 64);
    binding.remote_write = binding.remote_atomic = false;
    ASSERT_EQ(window.open(binding).status, Errc::ok);
    const mlx5::Element into = a.element(0, 8);
    WorkRequest read = a.request(Opcode::read);
    read.remote_key = window.key;
    read.elements = std::span(&into, 1);
    std::memcpy(b.at(0), pattern(8).data(), 8);
    ASSERT_EQ(a.send->post(read), Errc::ok);
    ASSERT_EQ(a.poll().at(0).status, Errc::ok);
    EXPECT_EQ(std::memcmp(a.at(0), b.at(0), 8), 0);
    EXPECT_EQ(write_through(a, window.key, at_b(16)), Errc::remote_access);
    EXPECT_FALSE(written(16));
}

TEST_F(Windows, count_from_zero_where_asked) {
    TestWindow window(b, WindowType::queue_pair);
    WindowBinding binding = window.binding(8192, 4096);
    binding.zero_based = true;
    ASSERT_EQ(window.open(binding).status, Errc::ok);
    EXPECT_EQ(write_through(a, window.key, 80), Errc::ok);
    EXPECT_TRUE(written(8192 + 80));
    const mlx5::Element result = a.element(0, 8);
    WorkRequest add = a.request(Opcode::fetch_add);
    add.remote_address = 0;
    add.remote_key = window.key;
    add.elements = std::span(&result, 1);
    add.swap_or_add = 7;
    ASSERT_EQ(a.send->post(add), Errc::ok);
    EXPECT_EQ(a.poll().at(0).status, Errc::ok);
    EXPECT_EQ(b.value<std::uint64_t>(8192), 7u);
    EXPECT_EQ(write_through(a, window.key, at_b(8192)), Errc::remote_access);
}

TEST_F(Windows, key_before_the_opening_is_no_key_and_neither_is_a_local_one) {
    TestWindow window(b, WindowType::queue_pair);
    const std::uint32_t before = window.key;
    ASSERT_EQ(window.open(0, 64).status, Errc::ok);
    EXPECT_NE(window.key, before);
    EXPECT_EQ(write_through(a, before, at_b(0)), Errc::remote_access);
    // As a local key, although it is the owner's.
    Pair fresh(windowed());
    TestWindow local(fresh.b, WindowType::queue_pair);
    ASSERT_EQ(local.open(0, 64).status, Errc::ok);
    mlx5::Element from = fresh.b.element(0, 8);
    from.local_key = local.key;
    ASSERT_EQ(fresh.b.post_send(std::span(&from, 1)), Errc::ok);
    EXPECT_EQ(fresh.b.poll().at(0).status, Errc::local_protection);
}

TEST_F(Windows, local_invalidation_closes_at_once_whoever_has_used_it_before) {
    TestWindow window(b, WindowType::queue_pair);
    ASSERT_EQ(window.open(0, 64).status, Errc::ok);
    ASSERT_EQ(write_through(a, window.key, at_b(0)), Errc::ok);
    ASSERT_EQ(invalidate(b, window.key), Errc::ok);
    const auto seen = b.poll();
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_EQ(seen[0].status, Errc::ok);
    EXPECT_EQ(seen[0].opcode, Opcode::local_invalidate);
    std::memset(b.at(0), 0, 64);
    // The writer has the key in its cache.
    EXPECT_EQ(write_through(a, window.key, at_b(0)), Errc::remote_access);
    EXPECT_FALSE(written(0));
}

// The writer has two keys in its cache.
TEST_F(Windows, used_in_turn_are_told_apart_and_one_that_closes_is_closed_at_once) {
    constexpr std::size_t kWindows = 3;
    for (std::size_t closed = 0; closed < kWindows; ++closed) {
        Pair fresh(windowed());
        std::vector<TestWindow> windows;
        for (std::size_t i = 0; i < kWindows; ++i) {
            windows.emplace_back(fresh.b, WindowType::queue_pair);
            ASSERT_EQ(windows[i].open(i * 4096, 64).status, Errc::ok);
        }
        const auto write = [&](std::size_t i, std::size_t offset) {
            return write_through(fresh.a, windows[i].key, fresh.b.peer_address_of(offset));
        };
        for (const std::size_t i : {0u, 1u, 0u, 1u, 2u, 0u, 2u, 1u, 1u, 0u})
            ASSERT_EQ(write(i, i * 4096), Errc::ok) << i;
        ASSERT_EQ(invalidate(fresh.b, windows[closed].key), Errc::ok);
        ASSERT_EQ(fresh.b.poll().at(0).status, Errc::ok);
        for (std::size_t i = 0; i < kWindows; ++i) {
            if (i == closed) continue;
            ASSERT_EQ(write(i, i * 4096), Errc::ok) << i;
        }
        std::memset(fresh.b.at(closed * 4096), 0, 64);
        EXPECT_EQ(write(closed, closed * 4096), Errc::remote_access) << closed;
        EXPECT_EQ(fresh.b.value<std::uint64_t>(closed * 4096), 0u);
    }
}

TEST_F(Windows, one_does_not_cover_what_the_other_does) {
    TestWindow first(b, WindowType::queue_pair), second(b, WindowType::queue_pair);
    ASSERT_EQ(first.open(0, 64).status, Errc::ok);
    ASSERT_EQ(second.open(4096, 64).status, Errc::ok);
    ASSERT_EQ(write_through(a, first.key, at_b(0)), Errc::ok);
    ASSERT_EQ(write_through(a, second.key, at_b(4096)), Errc::ok);
    EXPECT_EQ(write_through(a, first.key, at_b(4096)), Errc::remote_access);
    EXPECT_NE(failure_text(*a.queue_pair).find("covers 64 bytes"), std::string::npos);
}

TEST_F(Windows, opened_again_have_a_new_key_and_the_old_one_stays_closed) {
    TestWindow window(b, WindowType::queue_pair);
    for (int i = 0; i < 300; ++i) {  // more often than there are low bytes
        const auto offset = static_cast<std::size_t>(i) * 64;
        ASSERT_EQ(window.open(offset, 64).status, Errc::ok) << i;
        ASSERT_EQ(write_through(a, window.key, at_b(offset)), Errc::ok) << i;
        ASSERT_EQ(invalidate(b, window.key), Errc::ok);
        ASSERT_EQ(b.poll().at(0).status, Errc::ok);
    }
    const std::uint32_t old = window.key;
    ASSERT_EQ(window.open(0, 64).status, Errc::ok);
    EXPECT_EQ(write_through(a, old, at_b(0)), Errc::remote_access);
}

TEST_F(Windows, send_with_invalidate_closes_the_receivers_window_and_names_it) {
    TestWindow window(b, WindowType::queue_pair);
    ASSERT_EQ(window.open(0, 64).status, Errc::ok);
    ASSERT_EQ(write_through(a, window.key, at_b(0)), Errc::ok);
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{200000}}) {
        ASSERT_EQ(b.post_receive(100000, 200000, 5), Errc::ok);
        WorkRequest message = a.request(Opcode::send_invalidate);
        const mlx5::Element from = a.element(0, bytes);
        message.elements = std::span(&from, 1);
        message.invalidated_key = window.key;
        message.id = 3;
        ASSERT_EQ(a.send->post(message), Errc::ok);
        ASSERT_TRUE(pair.poll_for(1, 1));
        EXPECT_EQ(pair.seen_a[0].status, Errc::ok);
        EXPECT_EQ(pair.seen_a[0].opcode, Opcode::send_invalidate);
        EXPECT_EQ(pair.seen_a[0].id, 3u);
        EXPECT_EQ(pair.seen_b[0].kind, CompletionKind::receive);
        EXPECT_TRUE(pair.seen_b[0].invalidated);
        EXPECT_FALSE(pair.seen_b[0].has_immediate);
        EXPECT_EQ(pair.seen_b[0].immediate, window.key);
        EXPECT_EQ(pair.seen_b[0].bytes, bytes);
        pair.seen_a.clear();
        pair.seen_b.clear();
        ASSERT_EQ(window.open(0, 64).status, Errc::ok) << "closed, or it could not be opened";
    }
    ASSERT_EQ(write_through(a, window.key, at_b(0)), Errc::ok);
}

// Only an open window of type 2 of the receiving queue pair may be closed from outside.
TEST_F(Windows, invalidation_of_anything_else_fails_on_both_sides) {
    enum class Which { region, domain, closed, stale, nonsense };
    for (const Which which :
         {Which::region, Which::domain, Which::closed, Which::stale, Which::nonsense}) {
        Pair fresh(windowed());
        TestWindow window(fresh.b,
                          which == Which::domain ? WindowType::domain : WindowType::queue_pair);
        if (which == Which::domain) {
            ASSERT_EQ(window.open_for_all(0, 64).status, Errc::ok);
        }
        if (which == Which::stale) {
            ASSERT_EQ(window.open(0, 64).status, Errc::ok);
        }
        WorkRequest message = fresh.a.request(Opcode::send_invalidate);
        message.invalidated_key = which == Which::region     ? fresh.b.region->remote_key()
                                  : which == Which::stale    ? window.key ^ 1
                                  : which == Which::nonsense ? 0xfffffff0
                                                             : window.key;
        ASSERT_EQ(fresh.b.post_receive(0, 64, 1), Errc::ok);
        ASSERT_EQ(fresh.b.post_receive(0, 64, 2), Errc::ok);
        ASSERT_EQ(fresh.a.send->post(message), Errc::ok);
        ASSERT_TRUE(fresh.poll_for(1, 2));
        EXPECT_EQ(fresh.seen_a[0].status, Errc::remote_access);
        EXPECT_EQ(fresh.seen_b[0].status, Errc::local_protection);
        EXPECT_EQ(fresh.seen_b[0].id, 1u);
        EXPECT_EQ(fresh.seen_b[1].status, Errc::flushed);
        EXPECT_EQ(fresh.b.queue_pair->state(), QueuePairState::error);
        if (which == Which::region) {
            EXPECT_TRUE(fresh.b.device->register_memory(fresh.b.at(0), 64, kAllAccess, {}));
        }
    }
}

TEST_F(Windows, misuse_by_the_owner_is_a_bind_error) {
    struct Case {
        const char* says;
        std::function<void(End&, TestWindow&, WindowBinding&)> spoil;
        Access region = kWindowed;
    };
    const Case cases[] = {
        {"it is open",
         [](End&, TestWindow& window, WindowBinding& binding) {
             ASSERT_EQ(window.open(0, 64).status, Errc::ok);
             binding = window.binding(0, 64);
         }},
        {"no memory window",
         [](End& end, TestWindow&, WindowBinding& binding) {
             binding.window_key = binding.new_key = end.region->remote_key();
         }},
        {"no region's",
         [](End&, TestWindow& window, WindowBinding& binding) { binding.local_key = window.key; }},
        {"no memory window of this type",
         [](End&, TestWindow&, WindowBinding& binding) { binding.of_queue_pair = false; }},
        {"bytes at",
         [](End& end, TestWindow&, WindowBinding& binding) {
             binding.address = end.peer_address_of(end.memory.bytes() - 63);
         }},
        {"no windows", [](End&, TestWindow&, WindowBinding&) {}, kAllAccess},
        {"none that can be written", [](End&, TestWindow&, WindowBinding&) {},
         Access::remote_read | Access::remote_write | Access::window_bind},
    };
    for (const Case& c : cases) {
        EndOptions options = windowed();
        options.access = c.region;
        Pair fresh(options);
        TestWindow window(fresh.b, WindowType::queue_pair);
        WindowBinding binding = window.binding(0, 64);
        ASSERT_NO_FATAL_FAILURE(c.spoil(fresh.b, window, binding));
        const Completion completion = window.open(binding);
        EXPECT_EQ(completion.syndrome, static_cast<std::uint8_t>(mlx5::Syndrome::window_bind))
            << c.says;
        EXPECT_EQ(completion.opcode, Opcode::bind_window);
        EXPECT_NE(failure_text(*fresh.b.queue_pair).find(c.says), std::string::npos)
            << failure_text(*fresh.b.queue_pair);
    }
    ASSERT_EQ(invalidate(b, b.region->remote_key()), Errc::ok);
    EXPECT_EQ(b.poll().at(0).syndrome, static_cast<std::uint8_t>(mlx5::Syndrome::window_bind));
}

TEST_F(Windows, of_type_one_are_opened_again_and_closed_by_their_owner) {
    TestWindow window(b, WindowType::domain);
    ASSERT_EQ(window.open_for_all(0, 64).status, Errc::ok);
    const std::uint32_t first = window.key;
    ASSERT_EQ(write_through(a, first, at_b(0)), Errc::ok);
    ASSERT_EQ(window.open_for_all(4096, 64).status, Errc::ok);
    ASSERT_EQ(write_through(a, window.key, at_b(4096)), Errc::ok);
    ASSERT_EQ(window.open_for_all(0, 0).status, Errc::ok);  // nothing: closed
    EXPECT_EQ(write_through(a, window.key, at_b(4096)), Errc::remote_access);
}

// Two connections between the same devices.
TEST_F(Windows, of_type_two_serve_the_queue_pair_that_opened_them_only) {
    const auto second_pair = [](End& end) {
        QueuePairOptions options{.send_blocks = 16, .receive_entries = 4};
        options.send_completions = options.receive_completions = end.completion_queue.get();
        return end.device->create_queue_pair(options);
    };
    const auto other_a = second_pair(a), other_b = second_pair(b);
    mlx5::SendQueue send(other_a->view());
    a.completions->attach(&send, nullptr);
    other_a->connect(other_b->address(), 5000);
    other_b->connect(other_a->address(), 5000);
    const auto through = [&](std::uint32_t key, std::size_t offset) {
        const auto payload = pattern(8);
        WorkRequest write = a.request(Opcode::write, offset);
        write.inline_payload = payload;
        write.remote_key = key;
        EXPECT_EQ(send.post(write), Errc::ok);
        return a.poll().at(0).status;
    };
    TestWindow for_all(b, WindowType::domain), for_one(b, WindowType::queue_pair);
    ASSERT_EQ(for_all.open_for_all(0, 64).status, Errc::ok);
    ASSERT_EQ(for_one.open(4096, 64).status, Errc::ok);
    EXPECT_EQ(through(for_all.key, 0), Errc::ok);
    EXPECT_EQ(write_through(a, for_one.key, at_b(4096)), Errc::ok);
    std::memset(b.at(4096), 0, 8);
    EXPECT_EQ(through(for_one.key, 4096), Errc::remote_access);
    EXPECT_FALSE(written(4096));
    EXPECT_NE(failure_text(*other_a).find("another queue pair"), std::string::npos);
    a.completions->detach(send.number());
}

TEST_F(Windows, region_behind_an_open_window_is_not_released_by_request) {
    TestWindow window(b, WindowType::queue_pair);
    auto region = b.device->register_memory(b.at(0), 4096, kWindowed, {b.memory.file(), 0});
    WindowBinding binding = window.binding(0, 64);
    binding.local_key = region->local_key();
    ASSERT_EQ(window.open(binding).status, Errc::ok);
    EXPECT_THROW(region->release(), Error);
    EXPECT_EQ(write_through(a, window.key, at_b(0)), Errc::ok) << "nothing happened";
    EXPECT_TRUE(region->alive()->load());
    ASSERT_EQ(invalidate(b, window.key), Errc::ok);
    ASSERT_EQ(b.poll().at(0).status, Errc::ok);
    EXPECT_NO_THROW(region->release());
    EXPECT_FALSE(region->alive()->load());
    // And no window is opened onto it any more.
    binding.window_key = window.key;
    binding.new_key = next_window_key(window.key);
    EXPECT_EQ(window.open(binding).status, Errc::local_queue_pair);
}

TEST_F(Windows, end_with_their_region) {
    TestWindow window(b, WindowType::queue_pair), other(b, WindowType::queue_pair);
    auto region = b.device->register_memory(b.at(0), 4096, kWindowed, {b.memory.file(), 0});
    WindowBinding binding = window.binding(0, 64);
    binding.local_key = region->local_key();
    ASSERT_EQ(window.open(binding).status, Errc::ok);
    ASSERT_EQ(other.open(4096, 64).status, Errc::ok);
    ASSERT_EQ(write_through(a, window.key, at_b(0)), Errc::ok);
    region.reset();
    EXPECT_EQ(write_through(a, other.key, at_b(4096)), Errc::ok) << "of another region";
    // Closed, so it can be opened onto something else.
    const std::uint32_t old = window.key;
    ASSERT_EQ(window.open(8192, 64).status, Errc::ok);
    EXPECT_EQ(write_through(a, old, at_b(0)), Errc::remote_access);
}

TEST_F(Windows, that_are_freed_are_closed_and_their_key_does_not_come_back) {
    std::optional<TestWindow> window(std::in_place, b, WindowType::queue_pair);
    ASSERT_EQ(window->open(0, 64).status, Errc::ok);
    const std::uint32_t key = window->key;
    ASSERT_EQ(write_through(a, key, at_b(0)), Errc::ok);
    window.reset();
    for (int i = 0; i < 1000; ++i)
        ASSERT_NE(b.device->create_memory_window(WindowType::queue_pair)->key(), key);
    EXPECT_NO_THROW(b.region->release()) << "nothing is open onto it any more";
    EXPECT_EQ(write_through(a, key, at_b(0)), Errc::remote_access);
}

// In the queue's order: what is posted behind an invalidation finds the key gone.
TEST_F(Windows, key_updates_take_their_place_in_the_queue) {
    End& self = b;
    TestWindow window(self, WindowType::queue_pair);
    const WindowBinding first = window.binding(0, 64);
    WindowBinding second = first;
    second.window_key = first.new_key;
    second.new_key = next_window_key(first.new_key);
    WorkRequest chain[3];
    chain[0].opcode = chain[2].opcode = Opcode::bind_window;
    chain[0].window = &first;
    chain[1].opcode = Opcode::local_invalidate;
    chain[1].invalidated_key = first.new_key;
    chain[2].window = &second;
    ASSERT_EQ(self.send->post(chain), Errc::ok);
    const auto seen = self.poll();
    ASSERT_EQ(seen.size(), 3u);
    for (const Completion& completion : seen) EXPECT_EQ(completion.status, Errc::ok);
    EXPECT_EQ(write_through(a, second.new_key, at_b(0)), Errc::ok);
    EXPECT_EQ(write_through(a, first.new_key, at_b(0)), Errc::remote_access);
}

TEST(WindowProcesses, windows_lead_into_the_owners_file) {
    Child child([](Wire& wire) {
        End end(windowed());
        EndAddress peer;
        if (!wire.put(end.address()) || !wire.get(peer)) return 1;
        end.connect(peer);
        TestWindow window(end, WindowType::queue_pair);
        WindowBinding binding = window.binding(12345, 1000);
        binding.zero_based = true;
        if (window.open(binding).status != Errc::ok) return 2;
        if (!wire.put(window.key) || !wire.wait()) return 3;
        if (std::memcmp(end.at(12345 + 100), pattern(8).data(), 8) != 0) return 4;
        if (invalidate(end, window.key) != Errc::ok) return 5;
        if (end.poll().at(0).status != Errc::ok) return 6;
        return wire.signal() && wire.wait() ? 0 : 7;
    });
    End end(windowed());
    ASSERT_TRUE(child.wire().put(end.address()));
    EndAddress peer;
    ASSERT_TRUE(child.wire().get(peer));
    end.connect(peer);
    std::uint32_t key = 0;
    ASSERT_TRUE(child.wire().get(key));
    EXPECT_EQ(write_through(end, key, 100), Errc::ok);
    child.wire().signal();
    ASSERT_TRUE(child.wire().wait());
    EXPECT_EQ(write_through(end, key, 100), Errc::remote_access);
    child.wire().signal();
    EXPECT_EQ(child.reap(), 0);
}

}  // namespace
}  // namespace verbatim::softnic::test
