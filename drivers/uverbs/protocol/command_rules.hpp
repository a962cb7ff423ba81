// What linux demands of a command's header and sizes before it looks at what the command says
// (drivers/infiniband/core/uverbs_main.c, verify_hdr; the sizes: the table at the end of
// uverbs_cmd.c). Threads: any.
#pragma once

#include <cstddef>
#include <span>

namespace verbatim::uverbs {

// 0, or an errno: EINVAL for lengths that contradict each other, ENOSPC for requests and replies
// that are too short, EOPNOTSUPP for requests that say more than is known, EFAULT for no reply's
// address. Commands that are not known here pass.
int check_command(std::span<const std::byte> bytes) noexcept;

}  // namespace verbatim::uverbs
