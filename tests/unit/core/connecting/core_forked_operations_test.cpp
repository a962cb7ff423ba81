// Operations of a parent's connection in a forked child: prepared ones, outcomes, grants, senders.
#include <gtest/gtest.h>

#include <optional>

#include <verbatim/core/reconnecting.hpp>

#include "../remote/core_lent.hpp"
#include "core_fault.hpp"
#include "softnic_process.hpp"

namespace verbatim::test {
namespace {

using softnic::test::status_in_child;

constexpr Errc kRefused = Errc::permission_denied;

TEST(ForkedOperations, child_knows_the_state_of_a_connection_before_its_first_call) {
    ConnectedPair pair;
    EXPECT_EQ(status_in_child([&] {
                  if (pair.sender->state() != kRefused) return 1;
                  if (error_code_of([&] { pair.receiver->check(); }) != kRefused) return 2;
                  return 0;
              }),
              0);
    EXPECT_EQ(pair.sender->state(), Errc::ok);
}

TEST(ForkedOperations, child_is_refused_by_prepared_operations) {
    Lent<std::uint64_t> lent(4);
    const Local<std::uint64_t> here(lent.arena(), 2);
    OneSided one_sided(lent.connection());
    PreparedWrite<std::uint64_t> write(one_sided, here->first(1), lent.remote);
    PreparedFetchAdd add(one_sided, lent.remote, &here[1]);
    const RemoteRead read{lent.remote.extent(), reinterpret_cast<std::byte*>(&here[1])};
    PreparedReads reads(one_sided, std::span(&read, 1));
    ASSERT_EQ(write.execute(), Errc::ok);
    EXPECT_EQ(status_in_child([&] {
                  if (write.execute() != kRefused || write.valid()) return 1;
                  if (add.execute(1) != kRefused) return 2;
                  if (reads.execute() != kRefused || reads.set(0, read) != kRefused) return 3;
                  if (write.set_local(here->first(1)) != kRefused) return 4;
                  if (error_code_of([&] { PreparedReads more(one_sided, std::span(&read, 1)); }) !=
                      kRefused)
                      return 5;
                  write.free();
                  return 0;
              }),
              0);
    EXPECT_EQ(lent.wait_for(one_sided, write.last()), Errc::ok);
    here[0] = 12;
    ASSERT_EQ(write.execute(2), Errc::ok);
    EXPECT_EQ(lent.wait_for(one_sided, write.last()), Errc::ok);
    EXPECT_EQ(lent.there[2], 12u);
}

TEST(ForkedOperations, child_is_told_that_what_was_under_way_is_not_its_own) {
    Lent<std::uint64_t> lent(4);
    lent.stop_peer();
    const Local<std::uint64_t> here(lent.arena(), 1);
    OneSided one_sided(lent.connection());
    Operation written;
    ASSERT_EQ(one_sided.try_write(*here, lent.remote[0], written), Errc::ok);
    PreparedWrite<std::uint64_t> write(one_sided, *here, lent.remote);
    ASSERT_EQ(write.execute(), Errc::ok);
    EXPECT_EQ(
        status_in_child([&] {
            if (one_sided.result(written) != kRefused) return 1;
            if (error_code_of([&] { one_sided.wait(written, Deadline::never()); }) != kRefused)
                return 2;
            if (write.result() != kRefused) return 3;
            if (lent.connection().try_flush() != kRefused) return 4;
            return 0;
        }),
        0);
    EXPECT_EQ(lent.wait_for(one_sided, write.last()), Errc::ok);
}

TEST(ForkedOperations, child_lends_nothing_and_has_lent_nothing) {
    ConnectedPair pair;
    const Local<std::byte> memory(pair.sender->arena(), 4096);
    Grant grant(*pair.sender, *memory, Access::remote_write);
    EXPECT_EQ(status_in_child([&] {
                  if (error_code_of([&] {
                          (void)Grant::begin(*pair.sender, *memory, Access::remote_write);
                      }) != kRefused)
                      return 1;
                  if (grant.is_ready() || !grant.has_ended()) return 2;
                  grant.end();
                  grant.wait_end(Deadline::never());
                  grant = Grant();
                  return 0;
              }),
              0);
    EXPECT_TRUE(grant.is_ready());
    EXPECT_FALSE(grant.has_ended());
    grant.wait_end(soon());
}

TEST(ForkedOperations, child_is_refused_by_senders) {
    ConnectedPair pair;
    const Sender sender = pair.sender->sender();
    EXPECT_EQ(status_in_child([&] {
                  if (sender.try_send(1, {}) != kRefused) return 1;
                  if (sender.try_send(1, {}) != kRefused) return 2;
                  return 0;
              }),
              0);
    ASSERT_EQ(sender.try_send(1, {}), Errc::ok);  // waits for a poll of its lane
    EXPECT_EQ(status_in_child([&] {
                  Errc error = Errc::ok;
                  for (int i = 0; i < 1000 && error == Errc::ok; ++i)
                      error = sender.try_send(1, {});
                  return error == kRefused ? 0 : 1;
              }),
              0);
    (void)pair.sender->progress();
    EXPECT_EQ(pair.receiver->receive_message(soon()).channel(), 1);
}

TEST(ForkedOperations, child_does_not_dial_again) {
    Context context(small_config()), server(small_config());
    Listener listener = server.listen("127.0.0.1:0");
    Reconnecting client(context.lane(), local(listener.port()));
    const auto child_is_refused = [&] {
        return status_in_child([&] {
            if (client.poll() != kRefused) return 1;
            if (error_code_of([&] { client.wait(soon()); }) != kRefused) return 2;
            if (client.try_send(1, {}) != kRefused) return 3;
            return 0;
        });
    };
    EXPECT_EQ(child_is_refused(), 0);
    std::optional<Connection> accepted;
    std::thread accepting([&] { accepted.emplace(listener.accept(soon())); });
    client.wait(soon());
    accepting.join();
    EXPECT_EQ(child_is_refused(), 0);
    ASSERT_EQ(client.try_send(1, {}), Errc::ok);
    EXPECT_EQ(accepted->receive_message(soon()).channel(), 1);
}

}  // namespace
}  // namespace verbatim::test
