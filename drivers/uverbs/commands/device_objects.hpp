// The objects of one device file, by kind: what its commands make, and the threads that serve them.
// Threads: changes under the device file's lock; looking up by handle takes none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "../../softnic/device.hpp"
#include "../objects/connector.hpp"
#include "../objects/device_memory_pool.hpp"
#include "../objects/event_channel.hpp"
#include "../objects/handle_table.hpp"
#include "../objects/key_handles.hpp"
#include "../objects/objects.hpp"
#include "../objects/xrc_objects.hpp"
#include "../progress/engine_thread.hpp"
#include "../progress/register_pages.hpp"
#include "../protocol/firmware.hpp"
#include "../tree/identity.hpp"

namespace verbatim::uverbs {

// A device as it was opened.
struct DeviceFacts {
    const Identity identity;
    const Firmware firmware;
    const bool parked;  // nothing executes its queues
    const std::uint32_t mtu;
    const bool packets;  // queue pairs send RoCE packets to any device
};

// The context that the program makes once, before anything else.
struct DeviceContext {
    AsyncEvents async_events;
    bool made = false;
};

// XRC domains that the program has open, and the targets that were made here.
struct XrcHandles {
    HandleTable<OpenXrcDomain> domains;
    std::vector<std::weak_ptr<XrcTarget>> targets;
};

struct DeviceObjects {
    // Throws Error(out_of_memory | device_error).
    DeviceObjects(const Identity& identity, bool parked);
    ~DeviceObjects();
    DeviceObjects(const DeviceObjects&) = delete;
    DeviceObjects& operator=(const DeviceObjects&) = delete;

    // Before queue pairs execute. Called again: nothing. Throws std::system_error.
    void start_threads();

    const DeviceFacts facts;
    RegisterPages registers;
    DeviceMemories memory;
    DeviceContext context;
    // Destroyed from the last to the first: the threads stop before what they touch goes, and each
    // object goes before those it uses.
    std::map<int, std::shared_ptr<EventChannel>> channels;  // by the program's descriptor
    HandleTable<Domain> domains;
    KeyHandles keys;
    HandleTable<Address> addresses;
    XrcHandles xrc;
    HandleTable<CompletionQueue> completion_queues;
    HandleTable<SharedQueue> shared_queues;
    EngineThread engine_thread;
    std::shared_ptr<softnic::DeviceCore> core;
    HandleTable<QueuePair> queue_pairs;
    Connector connector;

  private:
    void leave_xrc() noexcept;
};

}  // namespace verbatim::uverbs
