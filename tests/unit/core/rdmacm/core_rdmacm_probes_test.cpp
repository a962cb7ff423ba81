// Streams of the connection manager that are silent. Nobody answers the tenth write of a queue pair
// (VERBATIM_SOFTNIC_FAULTS), and the only writes are probes.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string>

#include <verbatim/rdma/cm_streams.hpp>

#include "core_fault.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;

constexpr int kPatienceMs = 20000;
constexpr auto kSilence = 20ms;
constexpr int kProbes = 10;  // the last one is struck

bool is_readable(int file, int milliseconds) {
    pollfd entry{file, POLLIN, 0};
    return poll(&entry, 1, milliseconds) == 1;
}

class Silent : public testing::Test {
  protected:
    struct Ends {
        rdma::CmStream caller, accepted;
    };
    Ends meet(rdma::CmStreams& calling) {
        const sockaddr_in to = test::RawSocket::address(listener_->port());
        rdma::CmPending pending = calling.call(reinterpret_cast<const sockaddr&>(to), 20s);
        EXPECT_TRUE(is_readable(pending.file(), kPatienceMs));
        EXPECT_TRUE(is_readable(listener_->file(), kPatienceMs));
        return {*pending.take(), *listener_->accept()};
    }
    // A byte crosses.
    static void expect_carried(const rdma::CmStream& from, const rdma::CmStream& to) {
        EXPECT_EQ(::send(from.socket.get(), "x", 1, MSG_NOSIGNAL), 1);
        EXPECT_TRUE(is_readable(to.socket.get(), kPatienceMs));
        char byte = 0;
        EXPECT_EQ(::recv(to.socket.get(), &byte, 1, MSG_DONTWAIT), 1);
        EXPECT_EQ(byte, 'x');
    }

    Context context_{test::small_config()};
    const std::string device_ = context_.device().info().name;
    rdma::CmStreams unprobed_{device_}, probing_{device_, kSilence};
    const sockaddr_in at_ = test::RawSocket::address(0);
    std::unique_ptr<rdma::CmListener> listener_ =
        unprobed_.listen(reinterpret_cast<const sockaddr&>(at_), 20s);
};

TEST_F(Silent, streams_end_by_a_probe_that_nobody_answers_and_by_no_other) {
    const Ends quiet = meet(unprobed_);
    const auto start = std::chrono::steady_clock::now();
    const Ends probed = meet(probing_);
    expect_carried(probed.caller, probed.accepted);
    ASSERT_TRUE(is_readable(probed.caller.socket.get(), kPatienceMs));
    char byte = 0;
    EXPECT_EQ(::recv(probed.caller.socket.get(), &byte, 1, MSG_DONTWAIT), 0);
    EXPECT_GE(std::chrono::steady_clock::now() - start, kProbes * kSilence) << "an earlier one";
    EXPECT_FALSE(is_readable(quiet.caller.socket.get(), 0));
    expect_carried(quiet.caller, quiet.accepted);
    expect_carried(quiet.accepted, quiet.caller);
}

}  // namespace
}  // namespace verbatim
