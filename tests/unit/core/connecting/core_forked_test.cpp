// Connections of a parent in a forked child: they have ended there, and go on here.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "core_fault.hpp"
#include "objects_pair.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using softnic::test::status_in_child;
using test::error_code_of;
using test::Pair;

constexpr Errc kRefused = Errc::permission_denied;
const std::string kText = "a text that is too long to be short";
std::span<const std::byte> bytes() { return std::as_bytes(std::span(kText)); }
Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

// The number of the first call that is not refused.
int first_call_that_goes_on(Connection& connection) {
    Message message;
    if (connection.try_send(1, bytes()) != kRefused) return 1;
    if (connection.try_batch(1, bytes()) != kRefused) return 2;
    if (connection.try_receive(message) != kRefused) return 3;
    if (connection.handle_all() != kRefused) return 4;
    if (connection.progress() != kRefused || connection.state() != kRefused) return 5;
    if (error_code_of([&] { connection.send_message(1, bytes(), {}, soon()); }) != kRefused)
        return 6;
    if (error_code_of([&] { (void)connection.receive_message(soon()); }) != kRefused) return 7;
    const Errc sent = error_code_of([&] { send(connection, kText, {soon()}); });
    if (sent != kRefused && sent != Errc::unsupported) return 8;  // by its arena
    if (error_code_of([&] { (void)receive<std::string>(connection, {soon()}); }) != kRefused)
        return 9;
    return 0;
}

TEST(Forked, child_is_refused_by_its_parents_connections) {
    Pair pair;
    pair.sender->send_message(1, bytes(), {}, soon());
    pair.sender->send_message(1, bytes(), {}, soon());
    std::optional<Message> held(pair.receiver->receive_message(soon()));
    EXPECT_EQ(status_in_child([&] {
                  (void)pair.receiver_context.lane().poll();
                  held.reset();
                  const int of_sender = first_call_that_goes_on(*pair.sender);
                  const int of_receiver = first_call_that_goes_on(*pair.receiver);
                  return of_sender != 0 ? of_sender : 10 * of_receiver;
              }),
              0);
    held.reset();
    EXPECT_EQ(pair.receiver->receive_message(soon()).payload().size(), kText.size());
    test::expect_usable(*pair.sender, *pair.receiver);
    test::expect_usable(*pair.receiver, *pair.sender);
}

TEST(Forked, child_ends_its_copies_and_its_parent_goes_on) {
    auto pair = std::make_unique<Pair>();
    auto graph = std::make_optional(pair->transfer(std::vector<int>(1'000'000, 7)));
    pair->sender->send_message(1, bytes(), {}, soon());
    EXPECT_EQ(status_in_child([&] {
                  graph.reset();
                  pair.reset();
                  return 0;
              }),
              0);
    EXPECT_EQ((**graph)[999'999], 7);
    EXPECT_EQ(pair->receiver->receive_message(soon()).payload().size(), kText.size());
    test::expect_usable(*pair->sender, *pair->receiver);
}

}  // namespace
}  // namespace verbatim
