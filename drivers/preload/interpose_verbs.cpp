// Takes the place of functions of rdma-core. verbs_set_ops() is the one by which libmlx5 fills the
// tables of every context, however the program came to libibverbs, by dlopen() too: the dynamic
// linker looks for what libmlx5 calls in preloaded libraries first. Threads: any.
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>

#include "../uverbs/commands/device_commands.hpp"
#include "../uverbs/files/open_files.hpp"
#include "../uverbs/tree/next_function.hpp"
#include "progress_hooks.hpp"

using namespace verbatim::uverbs;

namespace {

void distrust(const ibv_context* context) noexcept {
    OpenFile* const file = look_up_open_file(context->cmd_fd);
    if (file != nullptr && !file->device.inherited()) file->device.distrust();
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

// Not declared by rdma-core's public headers. Its version (IBVERBS_PRIVATE_34 in rdma-core 44) is
// each release's own; a function without a version takes the place of any.
struct verbs_context_ops;
void verbs_set_ops(verbs_context* context, const verbs_context_ops* functions);

void verbs_set_ops(verbs_context* context, const verbs_context_ops* functions) {
    static auto* const real = next_in_library<void(verbs_context*, const verbs_context_ops*)>(
        "libibverbs.so.1", "verbs_set_ops");
    if (real == nullptr) return;
    real(context, functions);
    OpenFile* const file = look_up_open_file(context->context.cmd_fd);
    if (file != nullptr) take_over(*file, context->context);
}

ibv_context* ibv_import_device(int descriptor) {
    static auto* const real =
        next_in_library<ibv_context*(int)>("libibverbs.so.1", "ibv_import_device");
    if (real != nullptr && !is_device_file(descriptor)) return real(descriptor);
    if (real != nullptr) refuse_import();
    errno = EOPNOTSUPP;
    return nullptr;
}

// Only a program that writes to queues by itself asks where they are.
int mlx5dv_init_obj(mlx5dv_obj* objects, std::uint64_t kinds) {
    static auto* const real =
        next_in_library<int(mlx5dv_obj*, std::uint64_t)>("libmlx5.so.1", "mlx5dv_init_obj");
    if (real == nullptr) return ENOSYS;
    const int result = real(objects, kinds);
    if (result != 0) return result;
    if ((kinds & MLX5DV_OBJ_QP) != 0) distrust(objects->qp.in->context);
    if ((kinds & MLX5DV_OBJ_CQ) != 0) distrust(objects->cq.in->context);
    return 0;
}

#pragma GCC visibility pop
}  // extern "C"
