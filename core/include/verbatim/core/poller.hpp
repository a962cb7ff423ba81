// A poller is a dedicated thread that drives lanes and calls their handlers. A context starts one
// for each [[poller]] section of its configuration: pinned to a core or a NUMA node, busy, adaptive
// or asleep.
//
// Connections on a poller's lane belong to its thread. Other threads hand it work: tasks by
// Lane::submit and Lane::call, messages by Connection::sender().
#pragma once

#include <memory>
#include <string>

#include <verbatim/core/config.hpp>
#include <verbatim/core/lane.hpp>

namespace verbatim {

// Threads: any, but not its own for adopt() and release(). These two wait for it as Lane::call()
// does, so a handler of another poller must not call them.
class Poller {
  public:
    class Impl;
    // Starts the thread. `lane`: its own, which it drives until it ends. Throws
    // Error(config_error): this process may not run on that core or node.
    Poller(const Config::PollerSection& section, Lane lane);
    // Ends the thread. Its lanes live on, driven by nobody.
    ~Poller();
    Poller(const Poller&) = delete;
    Poller& operator=(const Poller&) = delete;

    const std::string& name() const noexcept;
    // Its own lane: where its connections are made.
    Lane lane() const noexcept;

    // Drives one more lane. Whole lanes pass between pollers: release() here, adopt() there; what
    // arrives between waits in memory, and handlers lose nothing. Throws Error(invalid_argument):
    // another poller drives it.
    void adopt(const Lane& lane);
    // Drives it no more: since the return it belongs to the caller. Throws Error(invalid_argument):
    // it is not one of those that were adopted.
    void release(const Lane& lane);

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace verbatim
