// Imports of contexts (ibv_import_device) are refused: with one error, whichever way the descriptor
// came, and nothing of the device that it belongs to changes.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "../uverbs/verbs_pair.hpp"
#include "child_process.hpp"
#include "descriptor_sending.hpp"

namespace verbatim::interop {
namespace {

TEST(Import, of_a_duplicate_in_the_same_process_is_refused_in_one_logged_sentence) {
    const Context first = open_device();
    const int duplicate = dup(first->cmd_fd);
    testing::internal::CaptureStderr();
    EXPECT_EQ(ibv_import_device(duplicate), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    const std::string logged = testing::internal::GetCapturedStderr();
    EXPECT_NE(logged.find("ibv_import_device"), std::string::npos) << logged;
    EXPECT_EQ(std::count(logged.begin(), logged.end(), '\n'), 1) << logged;
    EXPECT_NE(fcntl(duplicate, F_GETFD), -1) << "it is still the caller's";
    close(duplicate);
    EXPECT_TRUE(works(first.get()));
}

TEST(Import, of_another_processs_device_is_refused) {
    int ends[2];
    good(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
    // Forked before the device is opened here: it inherits none.
    Child child([&] {
        const int received = receive_descriptor(ends[1]);
        const bool refused = ibv_import_device(received) == nullptr && errno == EOPNOTSUPP;
        const bool own = fcntl(received, F_GETFD) != -1 && open_device() != nullptr;
        return refused && own ? 0 : 1;
    });
    const Context first = open_device();
    send_descriptor(ends[0], first->cmd_fd);
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(works(first.get()));
    close(ends[0]), close(ends[1]);
}

TEST(Import, of_what_a_forked_child_inherited_is_refused) {
    const Context first = open_device();
    Child child([&] {
        return ibv_import_device(dup(first->cmd_fd)) == nullptr && errno == EOPNOTSUPP ? 0 : 1;
    });
    EXPECT_EQ(child.wait(), 0);
}

TEST(Import, of_a_descriptor_that_is_no_device_is_left_to_libibverbs) {
    int ends[2];
    good(pipe(ends), "pipe");
    EXPECT_EQ(ibv_import_device(ends[0]), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(ibv_import_device(-1), nullptr);
    EXPECT_EQ(errno, EINVAL);
    close(ends[0]), close(ends[1]);
}

TEST(Import, domains_and_regions_cannot_be_imported_either) {
    const Context context = open_device();
    const Side side(context.get());
    EXPECT_EQ(ibv_import_pd(context.get(), side.domain->handle), nullptr);
    EXPECT_EQ(ibv_import_mr(side.domain.get(), side.region->handle), nullptr);
}

}  // namespace
}  // namespace verbatim::interop
