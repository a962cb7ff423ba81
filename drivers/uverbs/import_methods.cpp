// What contexts ask for that are made from another one's descriptor (ibv_import_device), and what
// they import: by ioctl() only. Such a context has the same objects as the one that it comes from,
// by the same handles, but an own descriptor of asynchronous events and own register pages.
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include <cerrno>

#include "device_file.hpp"

namespace verbatim::uverbs {

// Under mutex_.
int DeviceFile::dispatch_imports(Method& method) {
    using D = DeviceFile;
    static constexpr MethodEntry kEntries[] = {
        {UVERBS_OBJECT_DEVICE,
         UVERBS_METHOD_QUERY_CONTEXT,
         &D::query_context,
         {UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
          MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX}},
        {UVERBS_OBJECT_ASYNC_EVENT,
         UVERBS_METHOD_ASYNC_EVENT_ALLOC,
         &D::alloc_async_events,
         {UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE}},
        {UVERBS_OBJECT_PD,
         MLX5_IB_METHOD_PD_QUERY,
         &D::query_domain,
         {MLX5_IB_ATTR_QUERY_PD_HANDLE, MLX5_IB_ATTR_QUERY_PD_RESP_PDN}},
        {UVERBS_OBJECT_MR,
         UVERBS_METHOD_QUERY_MR,
         &D::query_memory,
         {UVERBS_ATTR_QUERY_MR_HANDLE, UVERBS_ATTR_QUERY_MR_RESP_LKEY,
          UVERBS_ATTR_QUERY_MR_RESP_RKEY, UVERBS_ATTR_QUERY_MR_RESP_LENGTH,
          UVERBS_ATTR_QUERY_MR_RESP_IOVA}},
        {UVERBS_OBJECT_DM,
         MLX5_IB_METHOD_DM_QUERY,
         &D::query_device_memory,
         {MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE, MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET,
          MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH}},
        {MLX5_IB_OBJECT_UAR,
         MLX5_IB_METHOD_UAR_OBJ_ALLOC,
         &D::alloc_registers,
         {MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE,
          MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
          MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID}},
        {MLX5_IB_OBJECT_UAR,
         MLX5_IB_METHOD_UAR_OBJ_DESTROY,
         &D::free_registers,
         {MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE}},
    };
    return dispatch(method, kEntries);
}

int DeviceFile::query_context(Method& method) {
    if (!has_context_) return EINVAL;
    registers_changed_ = true;
    method.answer(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, std::uint32_t{1});
    method.answer(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
                  std::uint64_t{IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS});
    // No registers at fixed places: those are the first context's. libmlx5 takes no others here.
    method.answer(MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX, context_facts(0));
    return 0;
}

// Whether an object still reports here.
bool DeviceFile::reported_to(const AsyncEvents& events) const {
    const auto here = [&](const auto& object) { return object.async_events == &events; };
    return queue_pairs_.find_if(here) != nullptr || shared_queues_.find_if(here) != nullptr ||
           completion_queues_.find_if([&](const CompletionQueue& queue) {
               return queue.async_events() == &events;
           }) != nullptr;
}

int DeviceFile::alloc_async_events(Method& method) {
    if (!has_context_ || !method.has(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE)) return EINVAL;
    std::erase_if(imported_events_,
                  [this](const auto& events) { return events->closed() && !reported_to(*events); });
    imported_events_.push_back(std::make_unique<AsyncEvents>());
    method.answer_handle(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE,
                         static_cast<std::uint32_t>(imported_events_.back()->programs_end()));
    return 0;
}

int DeviceFile::query_domain(Method& method) {
    const Domain* const domain = domains_.find(method.handle(MLX5_IB_ATTR_QUERY_PD_HANDLE));
    if (domain == nullptr) return ENOENT;
    if (!method.has_room<std::uint32_t>(MLX5_IB_ATTR_QUERY_PD_RESP_PDN)) return EINVAL;
    method.answer(MLX5_IB_ATTR_QUERY_PD_RESP_PDN, domain->number);
    return 0;
}

int DeviceFile::query_memory(Method& method) {
    const Key* const region = keys_.find(method.handle(UVERBS_ATTR_QUERY_MR_HANDLE));
    if (region == nullptr) return ENOENT;
    if (region->window || !method.has_room<std::uint32_t>(UVERBS_ATTR_QUERY_MR_RESP_LKEY) ||
        !method.has_room<std::uint32_t>(UVERBS_ATTR_QUERY_MR_RESP_RKEY) ||
        !method.has_room<std::uint64_t>(UVERBS_ATTR_QUERY_MR_RESP_LENGTH))
        return EINVAL;
    method.answer(UVERBS_ATTR_QUERY_MR_RESP_LKEY, region->key);
    method.answer(UVERBS_ATTR_QUERY_MR_RESP_RKEY, region->key);
    method.answer(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, region->made.length);
    method.answer(UVERBS_ATTR_QUERY_MR_RESP_IOVA, region->made.name);
    return 0;
}

int DeviceFile::query_device_memory(Method& method) {
    const DeviceMemory* const memory =
        device_memories_.find(method.handle(MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE));
    if (memory == nullptr) return ENOENT;
    if (!method.has_room<std::uint64_t>(MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET) ||
        !method.has_room<std::uint16_t>(MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX) ||
        !method.has_room<std::uint64_t>(MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH))
        return EINVAL;
    method.answer(MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, std::uint64_t{0});
    method.answer(MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, static_cast<std::uint16_t>(memory->first));
    method.answer(MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, memory->bytes);
    return 0;
}

int DeviceFile::alloc_registers(Method& method) {
    const auto type = method.value<std::uint64_t>(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE);
    if (!type || !method.has(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE) ||
        !method.has_room<std::uint64_t>(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET) ||
        !method.has_room<std::uint32_t>(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH) ||
        !method.has_room<std::uint32_t>(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID))
        return EINVAL;
    // With and without BlueFlame: nobody looks at what is written there.
    if (*type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF && *type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC)
        return EOPNOTSUPP;
    registers_changed_ = true;
    const std::uint32_t number = free_register_pages_.take();
    if (number == RegisterPages::kPages) return ENOMEM;
    const std::uint32_t handle =
        register_pages_.add(std::make_unique<RegisterPage>(RegisterPage{number}));
    if (handle == 0) {
        free_register_pages_.give(number);
        return ENOMEM;
    }
    method.answer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, RegisterPages::offset_of(number));
    method.answer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, std::uint32_t{RegisterPages::kPage});
    // Those at fixed places have the numbers before.
    method.answer(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, kRegisterPages + number);
    method.answer_handle(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, handle);
    return 0;
}

int DeviceFile::free_registers(Method& method) {
    const std::uint32_t handle = method.handle(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE);
    const RegisterPage* const page = register_pages_.find(handle);
    if (page == nullptr) return ENOENT;
    free_register_pages_.give(page->number);
    register_pages_.remove(handle);
    return 0;
}

}  // namespace verbatim::uverbs
