// The register pages of a device file: the file that the program maps, the doorbell register of
// each queue pair, and the mappings, for the traps. Threads: under the device file's lock.
#pragma once

#include <rdma/mlx5-abi.h>

#include <cstdint>
#include <set>

#include "../../softnic/host/shared_memory.hpp"

namespace verbatim::uverbs {

class EngineThread;

class RegisterPages {
  public:
    // `engine_thread`: sets the traps; it must stay. Throws Error(out_of_memory).
    explicit RegisterPages(EngineThread& engine_thread);

    // Register page i is mapped from offset i * 4096. The program closes it.
    int file() const noexcept { return file_; }
    // libmlx5 is about to map pages.
    void expect_mappings() noexcept { changed_ = true; }
    // Finds the pages that are mapped now, before this queue pair rings.
    void find(const mlx5_ib_create_qp& wanted) noexcept;
    // The register of the next queue pair that is made, as libmlx5 numbers them.
    std::uint32_t next() noexcept;

    static constexpr std::uint32_t kPages = 8;
    // The descriptor's file: how long it is, and what the system calls it. libmlx5 maps registers
    // for thread domains from offsets of 6 MiB on; pages that nobody touches cost nothing.
    static constexpr std::int64_t kFileBytes = 64 << 20;
    static constexpr const char* kLinkName = "/memfd:verbatim-uverbs";
    // In each page two doorbell registers of this size, two halves each, from kFirstRegister on.
    static constexpr std::uint32_t kRegisterBytes = 512, kFirstRegister = 0x800;

  private:
    EngineThread& engine_thread_;
    const int file_;
    const softnic::FileIdentity identity_;
    bool changed_ = false;  // libmlx5 has mapped others since they were looked for
    std::set<std::uint32_t> thread_registers_;  // of thread domains, that queue pairs have used
    std::uint32_t given_ = 0;                   // numbers so far
};

}  // namespace verbatim::uverbs
