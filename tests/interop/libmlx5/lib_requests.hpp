// Our work requests in libibverbs' words.
#pragma once

#include <infiniband/verbs.h>

#include <vector>

#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::interop {

// Owns what the request points at, so it stays where it is.
struct LibRequest {
    ibv_send_wr wr{};
    std::vector<ibv_sge> elements;
};

unsigned lib_flags(const mlx5::WorkRequest& work);
// Everything but windows.
void fill(LibRequest& to, const mlx5::WorkRequest& work);

}  // namespace verbatim::interop
