// Known fault A10, for issue 15 (a grant is a window of bounded size): ReceiveOperation::step() is
// said never to block, and populates the arena for the whole graph in one call.
#include "known_fault.hpp"
#include "objects_pair.hpp"

namespace verbatim::test {
namespace {

using Numbers = std::vector<std::uint64_t>;

Fault receive_a_large_graph() {
    Pair pair;
    const Numbers numbers(std::size_t{8} << 20, 3);  // 64 MiB
    SendOperation<Numbers> sending(*pair.sender, numbers);
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    const auto populated = [&] { return pair.receiver->receive_arena().usage().populated_bytes; };
    std::size_t most = 0;
    bool sent = false, received = false;
    for (const Deadline deadline = Deadline::after(std::chrono::seconds(15)); !sent || !received;) {
        if (deadline.passed()) return other("the graph did not arrive");
        sent = sent || sending.step();
        const std::size_t before = populated();
        received = received || receiving.step();
        most = std::max(most, populated() - before);
    }
    if (*receiving.take() != numbers) return other("another graph arrived");
    if (most <= 2 * pair.receiver->config().receive_arena.segment_bytes) return Fault::gone;
    return present("one step populated memory for the whole graph");
}

}  // namespace
}  // namespace verbatim::test

int main() { return verbatim::test::known_fault(verbatim::test::receive_a_large_graph); }
