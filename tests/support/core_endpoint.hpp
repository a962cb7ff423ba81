// Half of a connection with a device and a lane of its own, for peers that are made by hand.
#pragma once

#include <memory>

#include "connection/connection_impl.hpp"

namespace verbatim::test {

struct LoneEndpoint {
    explicit LoneEndpoint(const Config& config)
        : resources(std::make_shared<Context::Impl>(config)),
          lane(resources, *resources->device, resources->config.lane),
          reservation(lane.queue(), config),
          endpoint(*resources, {lane.queue().handle(), lane.mode()}, {}) {}

    std::shared_ptr<Context::Impl> resources;
    Lane::Impl lane;
    Reservation reservation;
    Endpoint endpoint;
};

}  // namespace verbatim::test
