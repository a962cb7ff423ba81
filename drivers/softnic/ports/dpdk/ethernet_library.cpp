// The search for the library.
#include "ethernet_library.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include <verbatim/driver/error.hpp>

namespace verbatim::softnic {
namespace {

constexpr const char* kLibraryName = "libverbatim-dpdk.so";
constexpr const char* kLibraryVariable = "VERBATIM_DPDK_LIBRARY";

// The one that the environment names; else that of the loader's path; else the one beside this
// code. It stays: DPDK's threads do.
void* load_library() {
    constexpr int kFlags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    if (const char* const named = std::getenv(kLibraryVariable)) return dlopen(named, kFlags);
    if (void* const found = dlopen(kLibraryName, kFlags)) return found;
    Dl_info here{};
    if (dladdr(reinterpret_cast<void*>(&open_ethernet_device), &here) == 0) return nullptr;
    std::string path = here.dli_fname;
    path.erase(path.rfind('/') + 1);
    return dlopen((path + kLibraryName).c_str(), kFlags);
}

OpenEthernet* find_opener() {
    void* const library = load_library();
    void* const function = library != nullptr ? dlsym(library, kOpenEthernet) : nullptr;
    if (function == nullptr) {
        const char* const cause = dlerror();
        throw Error(Errc::device_error, kLibraryName,
                    cause != nullptr ? cause : "it could not be loaded",
                    "install it and DPDK (build with libdpdk-dev), or name it in "
                    "VERBATIM_DPDK_LIBRARY");
    }
    return reinterpret_cast<OpenEthernet*>(function);
}

}  // namespace

// Behind the device come arguments of the EAL.
std::unique_ptr<EthernetDevice> open_ethernet_device(const DpdkOptions& options) {
    const std::size_t end = options.device.find(' ');
    const std::string device = options.device.substr(0, end);
    const std::string arguments = end == std::string::npos ? "" : options.device.substr(end + 1);
    const bool ipv6 = options.address.empty() || options.address.find(':') != std::string::npos;
    EthernetFailure failure;
    std::unique_ptr<EthernetDevice> opened(find_opener()(
        {device.c_str(), arguments.c_str(), options.host_eal, options.mtu, ipv6}, failure));
    if (opened == nullptr)
        throw Error(Errc::device_error, failure.object.data(), failure.cause.data(),
                    failure.remedy.data());
    return opened;
}

}  // namespace verbatim::softnic
