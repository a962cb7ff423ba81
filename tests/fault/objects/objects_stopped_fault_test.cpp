// A receiver that is stopped within a transfer: the sender's deadline is kept, and both go on
// later.
#include <sys/wait.h>

#include <csignal>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core_fault.hpp"
#include "objects_pair.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using softnic::test::Child;
using softnic::test::Wire;
using Texts = std::vector<std::string>;

Deadline soon() { return Deadline::after(60s); }

Config patient_config() {
    Config config = test::small_config();
    config.objects.timeout = 120s;
    return config;
}

// Receives graphs until one is empty.
int take_texts(Wire& wire) {
    std::uint16_t port = 0;
    if (!wire.get(port)) return 90;
    Context context(patient_config());
    Connection connection = context.connect(test::local(port));
    try {
        while (!receive<Texts>(connection, {soon()})->empty())
            if (!wire.signal()) return 91;
    } catch (const Error&) {
        return 92;
    }
    return 0;
}

TEST(StoppedReceiver, of_copies_holds_up_its_sender_no_longer_than_the_deadline) {
    Child child(take_texts);
    Context context(patient_config());
    Listener listener = context.listen("127.0.0.1:0");
    ASSERT_TRUE(child.wire().put(listener.port()));
    Connection connection = listener.accept(soon());
    send(connection, Texts{"small"}, {soon()});
    ASSERT_TRUE(child.wire().wait());
    child.kill(SIGSTOP);
    int status = 0;
    ASSERT_EQ(waitpid(child.pid(), &status, WUNTRACED), child.pid());
    ASSERT_TRUE(WIFSTOPPED(status));
    const Texts texts(100'000, std::string(100, 'x'));  // each is copied
    const Deadline in_time = soon();
    for (int i = 0; i < 5; ++i)
        EXPECT_EQ(test::error_of([&] { send(connection, texts, {Deadline::after(100ms)}); }).code(),
                  Errc::timeout);
    EXPECT_FALSE(in_time.passed()) << "objects.timeout was waited for";
    child.kill(SIGCONT);
    send(connection, texts, {soon()});
    ASSERT_TRUE(child.wire().wait());
    send(connection, Texts{}, {soon()});
    EXPECT_EQ(child.reap(), 0);
}

}  // namespace
}  // namespace verbatim
