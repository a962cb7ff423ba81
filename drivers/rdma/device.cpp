// The device object over an opened port, and its memory regions.
#include <cerrno>

#include <fmt/format.h>

#include <verbatim/driver/device.hpp>
#include <verbatim/rdma/rdma.hpp>

#include "device_events.hpp"
#include "handles.hpp"
#include "messages.hpp"
#include "port.hpp"
#include "queues.hpp"
#include "shared_receive_queue.hpp"
#include "verbs_queues.hpp"

namespace verbatim::rdma {
namespace {

// Throws Error(unsupported) for atomics that the device has not.
unsigned access_flags(const Port& port, Access access) {
    if (allows(access, Access::remote_atomic) && !port.atomics.plain)
        throw Error(Errc::unsupported, "memory region",
                    fmt::format("remote atomics on {}, which has none", port.name),
                    "register it without remote_atomic; DeviceInfo::atomics says what there is");
    unsigned flags = 0;
    const bool written = allows(access, Access::local_write) ||
                         allows(access, Access::remote_write) ||
                         allows(access, Access::remote_atomic);
    // Verbs wants local write access wherever a peer may write.
    if (written) flags |= IBV_ACCESS_LOCAL_WRITE;
    if (allows(access, Access::remote_write)) flags |= IBV_ACCESS_REMOTE_WRITE;
    if (allows(access, Access::remote_read)) flags |= IBV_ACCESS_REMOTE_READ;
    if (allows(access, Access::remote_atomic)) flags |= IBV_ACCESS_REMOTE_ATOMIC;
    if (allows(access, Access::window_bind)) flags |= IBV_ACCESS_MW_BIND;
    return flags;
}

class Region final : public MemoryRegion {
  public:
    Region(std::shared_ptr<Port> port, std::byte* address, std::size_t bytes, Access access)
        : port_(std::move(port)),
          region_(ibv_reg_mr(port_->domain.get(), address, bytes, access_flags(*port_, access))) {
        if (region_ == nullptr) throw registration_error(bytes, errno, current_memory_limits());
        address_ = address;
        bytes_ = bytes;
        local_key_ = region_->lkey;
        remote_key_ = region_->rkey;
        if (allows(access, Access::window_bind)) port_->keys.add(local_key_, region_.get());
    }
    ~Region() override {
        if (region_ == nullptr) return;
        // A thread of the parent may have the lock of the keys.
        if (!port_->is_inherited()) port_->keys.remove(region_.get());
        mark_released();
        port_->count_invalidation();
    }

    // The device knows of its windows, and refuses.
    void release() override {
        port_->check_own();
        if (const int cause = ibv_dereg_mr(region_.get()); cause != 0)
            throw call_error(fmt::format("memory region {:#x}", local_key_),
                             "ibv_dereg_mr (is a memory window open onto it?)", cause);
        port_->keys.remove(region_.release());
        mark_released();
        port_->count_invalidation();
    }

  private:
    std::shared_ptr<Port> port_;
    RegionHandle region_;
};

class Window final : public MemoryWindow {
  public:
    Window(std::shared_ptr<Port> port, WindowType type)
        : port_(std::move(port)),
          window_(ibv_alloc_mw(port_->domain.get(),
                               type == WindowType::domain ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2)) {
        if (window_ == nullptr) throw call_error(port_->name, "ibv_alloc_mw", errno);
        key_ = window_->rkey;
        port_->keys.add(key_, window_.get());
    }
    ~Window() override {
        if (!port_->is_inherited()) port_->keys.remove(window_.get());
    }

  private:
    std::shared_ptr<Port> port_;
    WindowHandle window_;
};

class RdmaDevice final : public Device {
  public:
    explicit RdmaDevice(std::shared_ptr<Port> port) : port_(std::move(port)) {
        info_.name = port_->name;
        info_.description = fmt::format(
            "RDMA device, firmware {}, port {}, GID {}{}", port_->attributes.fw_ver, port_->number,
            gid_text(port_->gid.bytes), port_->mlx5_queues ? "" : ", through verbs");
        info_.max_message_bytes = port_->port_attributes.max_msg_sz;
        info_.pins_memory = true;
        info_.atomics = port_->atomics.plain;
        info_.masked_atomics = port_->atomics.masked;
        info_.connection_manager = true;
        info_.data_path = port_->mlx5_queues ? "mlx5" : "verbs";
    }

    const DeviceInfo& info() const noexcept override { return info_; }
    std::unique_ptr<MemoryRegion> register_memory(std::byte* address, std::size_t bytes,
                                                  Access access,
                                                  MemoryBacking /*backing*/) override {
        port_->check_own();
        return std::make_unique<Region>(port_, address, bytes, access);
    }
    std::unique_ptr<MemoryWindow> create_memory_window(WindowType type) override {
        port_->check_own();
        return std::make_unique<Window>(port_, type);
    }
    using Device::create_completion_queue;
    std::unique_ptr<CompletionChannelHandle> create_completion_channel() override {
        return std::make_unique<CompletionChannel>(port_);
    }
    std::unique_ptr<CompletionQueueHandle> create_completion_queue(
        std::uint32_t entries, CompletionChannelHandle* channel) override {
        if (!port_->mlx5_queues)
            return std::make_unique<VerbsCompletionQueue>(port_, entries, channel);
        return std::make_unique<CompletionQueue>(port_, entries, channel);
    }
    std::unique_ptr<SharedReceiveQueueHandle> create_shared_receive_queue(
        const SharedReceiveQueueOptions& options) override {
        if (!port_->mlx5_queues) return std::make_unique<VerbsSharedReceiveQueue>(port_, options);
        return std::make_unique<SharedReceiveQueue>(port_, options);
    }
    std::unique_ptr<QueuePairHandle> create_queue_pair(const QueuePairOptions& options) override {
        port_->check_own();
        if (!port_->mlx5_queues) return std::make_unique<VerbsQueuePair>(port_, options);
        return std::make_unique<QueuePair>(port_, options);
    }
    const volatile std::uint64_t* invalidation_epoch() const noexcept override {
        return &port_->epoch;
    }
    int event_file() const noexcept override { return port_->context->async_fd; }
    std::optional<DeviceEvent> take_event() override { return rdma::take_event(*port_); }

  private:
    std::shared_ptr<Port> port_;
    DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Device> open_device(const Options& options) {
    return std::make_unique<RdmaDevice>(open_port(options));
}

}  // namespace verbatim::rdma
