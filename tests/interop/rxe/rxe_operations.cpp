// Runs one end of a queue pair against another process of this program, maybe at another device.
// Arguments: index of the GID, TCP port, and the peer's address at the end that calls.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "operations_end.hpp"

int main(int count, char** arguments) try {
    using namespace verbatim::interop;
    must(count == 3 || count == 4, "usage: rxe_operations GID PORT [PEER]");
    const char* const address = count == 4 ? arguments[3] : nullptr;
    OperationsEnd end(std::atoi(arguments[1]), address != nullptr ? 1 : 0);
    SideChannel peer(static_cast<std::uint16_t>(std::atoi(arguments[2])), address);
    end.connect(peer);
    end.run();
    peer.exchange('d');  // the peer is done, too: it needs no answer any more
    end.check_words();
    return 0;
} catch (const std::exception& failure) {
    std::printf("%s\n", failure.what());
    return 1;
}
