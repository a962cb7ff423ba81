// A graph of text from one connection to another, for tests of the layers below graphs. Compiled
// once for all of them.
#pragma once

#include <verbatim/core/connection.hpp>
#include <verbatim/core/deadline.hpp>

namespace verbatim::test {

// Drives both ends from this thread. False: it did not arrive as it was sent by then.
bool graph_crosses(Connection& from, Connection& to, const Deadline& deadline);

}  // namespace verbatim::test
