// An opened device and one of its ports; shared by everything made from it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <verbatim/driver/device.hpp>
#include <verbatim/rdma/rdma.hpp>

#include <verbatim/rdma/gid_choice.hpp>
#include "../verbs/key_table.hpp"
#include "atomic_support.hpp"
#include "handles.hpp"

namespace verbatim::rdma {

struct Port {
    std::string name;  // of the device
    ContextHandle context;
    DomainHandle domain;
    ibv_device_attr attributes{};
    ibv_port_attr port_attributes{};
    std::uint8_t number = 1;
    Options options;             // as it was opened
    std::vector<GidEntry> gids;  // the port's table
    GidEntry gid;                // of queue pairs that know no address
    bool mlx5_queues = false;    // our data path writes them; else it goes through verbs
    AtomicSupport atomics;
    verbs::KeyTable keys;     // for verbs; destroyed after all that is in it
    std::uint64_t epoch = 0;  // Device::invalidation_epoch

    void count_invalidation() noexcept { __atomic_fetch_add(&epoch, 1, __ATOMIC_RELEASE); }
    // Of a queue pair at this address. Zeros: not known.
    GidEntry gid_for(const std::array<std::uint8_t, 16>& address) const noexcept {
        return choose_gid(gids, {options.gid_index, address}).value_or(gid);
    }
    // It is the parent's: a forked child has its descriptors, and must not use them.
    bool is_inherited() const noexcept { return context.get_deleter().is_inherited(); }
    // Throws Error(permission_denied) in a forked child.
    void check_own() const;
    bool is_infiniband() const noexcept {
        return port_attributes.link_layer == IBV_LINK_LAYER_INFINIBAND;
    }
};

// Finds, opens and describes the port that the options mean. Throws Error as open_device.
std::unique_ptr<Port> open_port(const Options& options);

}  // namespace verbatim::rdma
