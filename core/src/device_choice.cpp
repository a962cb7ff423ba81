// Which device a configuration means.
#include <verbatim/driver/log.hpp>
#include <verbatim/softnic/softnic.hpp>

#include "context_impl.hpp"

namespace verbatim {

std::unique_ptr<Device> open_configured_device(const Config::DeviceSection& wanted) {
    softnic::Options options;
    options.strict_doorbells = wanted.strict_doorbells;
    options.same_user_only = wanted.same_user_only;
    return softnic::open_device(options);
}

}  // namespace verbatim
