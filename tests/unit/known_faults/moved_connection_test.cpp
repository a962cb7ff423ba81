// Known fault A6, for issue 15 (a handle owns its operation): an operation keeps a reference to its
// connection, which is movable; the next step after a move reads the empty one.
#include "known_fault.hpp"
#include "objects_pair.hpp"

namespace verbatim::test {
namespace {

using Numbers = std::vector<int>;
using softnic::test::Child;
using softnic::test::Wire;

int send_over_a_moved_connection() {
    Pair pair;
    const Numbers numbers(100'000, 1);
    SendOperation<Numbers> sending(*pair.sender, numbers);
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    sending.step();
    Connection moved = std::move(*pair.sender);
    bool sent = false, received = false;
    for (int i = 0; i < 1000 && !(sent && received); ++i) {
        sent = sent || sending.step();
        received = received || receiving.step();
    }
    return sent && received && *receiving.take() == numbers ? 0 : 2;
}

Fault crash_in_a_child() {
    if (kSanitized) return Fault::not_run;  // a sanitizer takes the signal
    Child child([](Wire&) { return send_over_a_moved_connection(); });
    const int code = child.reap();
    if (code == 0) return Fault::gone;
    return code == -SIGSEGV ? present("a step after its connection was moved reads address 0")
                            : other("it ended otherwise");
}

}  // namespace
}  // namespace verbatim::test

int main() { return verbatim::test::known_fault(verbatim::test::crash_in_a_child); }
