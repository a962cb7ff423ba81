// The function that the loader of this library looks for.
#include <algorithm>
#include <new>

#include "dpdk_device.hpp"
#include "eal.hpp"

namespace verbatim::softnic {
namespace {

template <std::size_t count>
void tell(std::array<char, count>& place, const std::string& text) noexcept {
    place.fill(0);
    std::copy_n(text.begin(), std::min(text.size(), count - 1), place.begin());
}

}  // namespace

extern "C" [[gnu::visibility("default")]] EthernetDevice* verbatim_dpdk_open_2(
    const EthernetSettings& settings, EthernetFailure& failure) {
    try {
        need_eal(settings);
        return new DpdkDevice(settings);
    } catch (const EthernetProblem& problem) {
        tell(failure.object, problem.object);
        tell(failure.cause, problem.cause);
        tell(failure.remedy, problem.remedy);
    } catch (const std::bad_alloc&) {
        tell(failure.object, "DPDK device");
        tell(failure.cause, "out of memory");
    }
    return nullptr;
}

}  // namespace verbatim::softnic
