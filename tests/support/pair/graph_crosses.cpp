#include "pair/graph_crosses.hpp"

#include <string>
#include <vector>

#include <verbatim/objects.hpp>

namespace verbatim::test {

bool graph_crosses(Connection& from, Connection& to, const Deadline& deadline) {
    const std::vector<std::string> graph{"one", "a string that is too long to be short"};
    SendOperation<std::vector<std::string>> sending(from, graph);
    ReceiveOperation<std::vector<std::string>> receiving(to);
    bool sent = false, received = false;
    while (!(sent && received) && !deadline.passed()) {
        sent = sent || sending.step();
        received = received || receiving.step();
    }
    return sent && received && *receiving.take() == graph;
}

}  // namespace verbatim::test
