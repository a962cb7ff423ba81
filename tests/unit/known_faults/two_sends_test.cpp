// Known fault A6, for issue 15 (operations are keyed, several at a time): two sends at once on one
// connection share the receiver's answer and the staging buffer; the second takes the first one's
// answer away.
#include "known_fault.hpp"
#include "objects_pair.hpp"

namespace verbatim::test {
namespace {

using Numbers = std::vector<int>;

Fault send_two_at_once() {
    Pair pair;
    const Numbers first(1000, 1), second(2000, 2);
    SendOperation<Numbers> one(*pair.sender, first), two(*pair.sender, second);
    std::vector<Numbers> received;
    bool sent_one = false, sent_two = false;
    for (int i = 0; i < 1000 && !(sent_one && sent_two && received.size() == 2); ++i) {
        std::optional<ReceiveOperation<Numbers>> receiving(*pair.receiver);
        for (int k = 0; k < 4; ++k) {
            sent_one = sent_one || one.step();
            sent_two = sent_two || two.step();
            if (!receiving->step()) continue;
            received.push_back(*receiving->take());
            break;
        }
    }
    if (sent_one && sent_two && received == std::vector<Numbers>{first, second}) return Fault::gone;
    if (!sent_one && received.empty())
        return present("the first of two sends at once never gets its answer");
    return other("graphs arrived otherwise than expected");
}

}  // namespace
}  // namespace verbatim::test

int main() { return verbatim::test::known_fault(verbatim::test::send_two_at_once); }
