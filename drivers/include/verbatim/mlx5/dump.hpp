// A dump shows WQEs, CQEs and completions as text, for logs and tests. One line each; never reads
// beyond its arguments, for any contents. Allocates; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::mlx5 {

// A send WQE that lies in one piece, from its control segment on (more bytes than it has may
// follow), e.g.
// "#7 write qp 0x101 ds 3 signaled, to 0x7f00 key 0x2a, inline 8: 01 02 03 04 05 06 07 08".
// Only the queue pair knows its transport, which says how sends look.
std::string dump_wqe(std::span<const std::byte> wqe,
                     Transport transport = Transport::reliable_connection);

// A receive entry: its scatter list.
std::string dump_receive_entry(std::span<const std::byte> entry);

// An entry of a shared receive queue: its successor and its scatter list, e.g.
// "receive into {0x1000 +64 key 0x7}, then #3".
std::string dump_shared_receive_entry(std::span<const std::byte> entry);

// A CQE, errors included.
std::string dump_cqe(const Cqe& cqe);

// A completion as a sentence for users, e.g. "write 12 on queue pair 0x101 failed: a remote key
// does not cover the bytes or forbids it (syndrome 0x13, vendor 0x88)".
std::string describe(const Completion& completion);

// The opcode's name, or "opcode 0x2f".
std::string name(Opcode opcode);

// The meaning of a syndrome, as in the PRM. Static storage.
std::string_view describe_syndrome(std::uint8_t syndrome) noexcept;

}  // namespace verbatim::mlx5
