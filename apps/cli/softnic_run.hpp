// verbatim softnic run [--devices N] [--config F] [--share-memory]
// [--port udp|dpdk:DEVICE [--address A] [--peer-mac M] [--frame-mtu N] [--capture F]] --
// command...: runs a program of rdma-core, unmodified, on devices in software. They are there for
// the program and what it starts; nothing is left behind when it ends, however it ends.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace cli {

class SoftnicRun {
  public:
    void add_to(CLI::App& softnic);
    // Runs the command; its exit status, or 128 and the signal that ended it, as shells have it.
    // Throws verbatim::Error.
    int operator()() const;

  private:
    void check_wire() const;
    void set_wire() const;

    std::optional<int> devices_;
    std::string config_;
    bool shares_memory_ = false;
    struct {
        std::string port, address, peer_mac, frame_mtu, capture;  // empty: as the environment says
    } wire_;
    std::vector<std::string> command_;
};

}  // namespace cli
