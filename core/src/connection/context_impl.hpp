// What the connections of a context share. Kept alive by each of them.
#pragma once

#include <memory>

#include <verbatim/core/config.hpp>
#include <verbatim/core/context.hpp>

#include "../arena/sparse_blocks.hpp"
#include "posted_lines.hpp"
#include "region_table.hpp"

namespace verbatim {

struct Context::Impl {
    explicit Impl(const Config& configuration);

    const Config config;
    const std::unique_ptr<Device> device;
    RegionTable objects;   // arena(): sent from where they lie, never written by peers
    RegionTable received;  // receive_arena(): lent to peers
    PostedLines posted;
    SparseBlocks rings;    // that peers write
    SparseBlocks mirrors;  // of peers' rings
};

// Throws Error(invalid_argument) unless this context made the lane: queue pairs finish on its
// completion queue, which belongs to one device.
void check_lane(const Context::Impl& context, const Lane& lane);

// Throws Error(would_deadlock) in a handler of the lane. In the lane's thread.
void refuse_in_handler_of(const Lane::Impl& lane);

// Opens the device that the configuration asks for. Throws Error(no_device), Error(config_error)
// where faults are asked of a device that has none to make, and what the device says.
std::unique_ptr<Device> open_configured_device(const Config& config);

}  // namespace verbatim
