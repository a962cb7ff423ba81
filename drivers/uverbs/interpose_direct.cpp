// mlx5dv_init_obj() in its place: only who writes to queues by itself asks where they are. Threads:
// any.
#include <infiniband/mlx5dv.h>

#include <cerrno>
#include <cstdint>

#include "device_file.hpp"
#include "next_function.hpp"
#include "progress_hooks.hpp"

namespace {

void distrust(const ibv_context* context) noexcept {
    verbatim::uverbs::DeviceFile* const file = verbatim::uverbs::find_device_file(context->cmd_fd);
    if (file != nullptr && !file->inherited()) file->distrust();
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int mlx5dv_init_obj(mlx5dv_obj* objects,
                                                              std::uint64_t kinds) {
    static auto* const real = verbatim::uverbs::next_in_library<int(mlx5dv_obj*, std::uint64_t)>(
        "libmlx5.so.1", "mlx5dv_init_obj");
    if (real == nullptr) return ENOSYS;
    const int result = real(objects, kinds);
    if (result != 0) return result;
    if ((kinds & MLX5DV_OBJ_QP) != 0) distrust(objects->qp.in->context);
    if ((kinds & MLX5DV_OBJ_CQ) != 0) distrust(objects->cq.in->context);
    return 0;
}
