// Known fault A10, for issue 15 (`const char*` as text): of a C string only the first character is
// sent, without a word.
#include <cstring>

#include "known_fault.hpp"
#include "objects_pair.hpp"

namespace verbatim::test {
namespace {

struct Named {
    const char* name;
    int number;
};

Fault send_a_c_string() {
    Pair pair;
    static constexpr char kName[] = "twelve chars";  // shorter than an image's granule
    const auto received = pair.transfer(Named{kName, 7});
    if (received->number != 7 || received->name == nullptr || received->name[0] != kName[0])
        return other("not even the first character arrived");
    if (std::memcmp(received->name, kName, sizeof kName) == 0) return Fault::gone;
    return present("one character of a C string arrived");
}

}  // namespace
}  // namespace verbatim::test

int main() { return verbatim::test::known_fault(verbatim::test::send_a_c_string); }
