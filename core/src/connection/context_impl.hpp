// What the connections of a context share. Kept alive by each of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <verbatim/core/config.hpp>
#include <verbatim/core/context.hpp>
#include <verbatim/driver/descriptor.hpp>
#include <verbatim/rdma/cm_streams.hpp>

#include "../arena/region_tables.hpp"
#include "../arena/sparse_blocks.hpp"
#include "../arrival/posted_lines.hpp"
#include "../authentication/secret_key.hpp"
#include "../generations/generations.hpp"
#include "../lane/device_events.hpp"
#include "../lane/quarantine.hpp"
#include "../telemetry/context_counts.hpp"

namespace verbatim {

// Requests of the connections that have ended. Each that was accepted must have retired, once.
struct EndedRequests {
    std::atomic<std::uint64_t> accepted{0}, retired{0};
};

// States of Verbatim's own layers, by a key of each. Any thread.
class SharedStates {
  public:
    std::shared_ptr<void> find_or_make(const void* key, LayerAccess::MakeState make,
                                       const Config& config);

  private:
    std::mutex mutex_;
    std::vector<std::pair<const void*, std::shared_ptr<void>>> states_;
};

struct Context::Impl {
    Impl(const Config& configuration, std::unique_ptr<Device> opened);

    const Config config;
    const std::shared_ptr<const SecretKey> key;  // of connections; null: none
    const std::unique_ptr<Device> device;
    RegionTables arenas;
    PostedLines posted;
    SparseBlocks rings;                            // that peers write
    SparseBlocks mirrors;                          // of peers' rings
    const std::shared_ptr<Quarantine> quarantine;  // goes before the arenas whose memory it holds
    DeviceEvents events;
    EndedRequests ended;
    telemetry::ContextCounts telemetry;
    SharedStates states;
    // Of callers that dial again.
    const std::shared_ptr<Generations> generations = std::make_shared<Generations>();

    // Streams of the connection manager, made when the first is asked for. Any thread. Throws Error
    // about `address`: unsupported (the device has none), no_device.
    rdma::CmStreams& streams(const std::string& address);

  private:
    std::mutex streams_mutex_;
    std::unique_ptr<rdma::CmStreams> streams_;
};

// An own object is shared by what keeps it, and deleted in the process that made it only. A forked
// child leaves its copy as it is: threads, locks and shared memory in it are the parent's.
template <class T, class... Arguments>
std::shared_ptr<T> make_own(Arguments&&... arguments) {
    count_forks();
    return std::shared_ptr<T>(new T(std::forward<Arguments>(arguments)...),
                              [generation = fork_generation()](T* object) {
                                  if (generation == fork_generation()) delete object;
                              });
}

// A lane of the context. Throws what the device throws.
std::shared_ptr<Lane::Impl> make_lane(const std::shared_ptr<Context::Impl>& context,
                                      const Config::LaneSection& section);

// Throws Error(invalid_argument) unless this context made the lane: queue pairs finish on its
// completion queue, which belongs to one device. Throws Error(permission_denied): the lane is that
// of the parent, and this process a forked child.
void check_lane(const Context::Impl& context, const Lane& lane);

// Throws Error(would_deadlock) in a handler of the lane. In the lane's thread.
void refuse_in_handler_of(const Lane::Impl& lane);

// Opens the device that the configuration asks for. Throws Error(no_device), Error(config_error)
// where faults are asked of a device that has none to make, and what the device says.
std::unique_ptr<Device> open_configured_device(const Config& config);

}  // namespace verbatim
