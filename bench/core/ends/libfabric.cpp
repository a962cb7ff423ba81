// libfabric's shared memory provider: tagged messages, injected where they are short enough.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>

#include "../subject.hpp"
#include "../workloads.hpp"
#include "posted.hpp"

namespace verbatim::bench {
namespace {

void require_fabric(ssize_t result, const char* what) {
    if (result < 0)
        throw std::runtime_error(std::string(what) + ": " + fi_strerror(static_cast<int>(-result)));
}

template <class Object>
struct CloseFabric {
    void operator()(Object* object) const { fi_close(&object->fid); }
};
template <class Object>
using Fabric = std::unique_ptr<Object, CloseFabric<Object>>;

using Info = std::unique_ptr<fi_info, void (*)(fi_info*)>;

Info choose_provider() {
    const Info hints(fi_allocinfo(), fi_freeinfo);
    hints->caps = FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
    hints->fabric_attr->prov_name = strdup("shm");
    fi_info* found = nullptr;
    require_fabric(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found),
                   "fi_getinfo");
    return {found, fi_freeinfo};
}

// The objects that an endpoint needs, in their order of closing.
class FabricEndpoint {
  public:
    FabricEndpoint() : info_(choose_provider()) {
        open(fabric_, [&](auto** to) { return fi_fabric(info_->fabric_attr, to, nullptr); });
        open(domain_,
             [&](auto** to) { return fi_domain(fabric_.get(), info_.get(), to, nullptr); });
        fi_cq_attr queue{};
        queue.format = FI_CQ_FORMAT_CONTEXT;
        open(queue_, [&](auto** to) { return fi_cq_open(domain_.get(), &queue, to, nullptr); });
        fi_av_attr addresses{};
        addresses.type = FI_AV_TABLE;
        open(addresses_,
             [&](auto** to) { return fi_av_open(domain_.get(), &addresses, to, nullptr); });
        open(endpoint_,
             [&](auto** to) { return fi_endpoint(domain_.get(), info_.get(), to, nullptr); });
        bind(&addresses_->fid, 0);
        bind(&queue_->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION);
        require_fabric(fi_enable(endpoint_.get()), "fi_enable");
    }
    void connect(Side& side) {
        std::array<char, 512> name{};
        std::size_t bytes = name.size();
        require_fabric(fi_getname(&endpoint_->fid, name.data(), &bytes), "fi_getname");
        const std::string theirs = side.exchange({name.data(), bytes});
        if (fi_av_insert(addresses_.get(), theirs.data(), 1, &peer_, 0, nullptr) != 1)
            throw std::runtime_error("fi_av_insert failed");
    }
    fid_ep* endpoint() const noexcept { return endpoint_.get(); }
    fid_cq* queue() const noexcept { return queue_.get(); }
    fi_addr_t peer() const noexcept { return peer_; }
    std::size_t inject_bytes() const noexcept { return info_->tx_attr->inject_size; }

  private:
    template <class Object, class Open>
    static void open(Fabric<Object>& to, Open call) {
        Object* made = nullptr;
        require_fabric(call(&made), "libfabric");
        to.reset(made);
    }
    void bind(fid* to, std::uint64_t flags) {
        require_fabric(fi_ep_bind(endpoint_.get(), to, flags), "fi_ep_bind");
    }

    Info info_;
    Fabric<fid_fabric> fabric_;
    Fabric<fid_domain> domain_;
    Fabric<fid_cq> queue_;
    Fabric<fid_av> addresses_;
    Fabric<fid_ep> endpoint_;
    fi_addr_t peer_ = 0;
};

class FabricTag {
  public:
    FabricTag(Side& side, const Case& of) : side_(side), sends_(of.window), receives_(of.window) {}

    void send(unsigned slot, std::byte* from, std::size_t bytes) {
        if (bytes <= fabric_.inject_bytes())
            return again([&] { return fi_tinject(end(), from, bytes, fabric_.peer(), kTag); });
        Operation& operation = start(sends_[slot]);
        again([&] {
            const iovec data{from, bytes};
            const fi_msg_tagged message{&data, nullptr, 1, fabric_.peer(), kTag, 0, &operation, 0};
            return fi_tsendmsg(end(), &message, FI_COMPLETION);
        });
    }
    void receive(unsigned slot, std::byte* to, std::size_t bytes) {
        Operation& operation = start(receives_[slot]);
        again([&] {
            const iovec data{to, bytes};
            const fi_msg_tagged message{&data, nullptr, 1, FI_ADDR_UNSPEC, kTag, 0, &operation, 0};
            return fi_trecvmsg(end(), &message, FI_COMPLETION);
        });
    }
    bool sent(unsigned slot) const { return !sends_[slot].pending; }
    bool received(unsigned slot) const { return !receives_[slot].pending; }
    void progress() {
        std::array<fi_cq_entry, 16> done;
        const ssize_t count = fi_cq_read(fabric_.queue(), done.data(), done.size());
        if (count == -FI_EAGAIN) return;
        require_fabric(count, "fi_cq_read");
        for (const fi_cq_entry& one : std::span(done).first(static_cast<std::size_t>(count)))
            static_cast<Operation*>(one.op_context)->pending = false;
    }
    void wait() { progress(); }
    void connect() { fabric_.connect(side_); }

  private:
    static constexpr std::uint64_t kTag = 0x1337;
    struct Operation {
        fi_context2 context;  // libfabric's own; the address stands for the operation
        bool pending = false;
    };
    static Operation& start(Operation& operation) {
        operation.pending = true;
        return operation;
    }
    fid_ep* end() const noexcept { return fabric_.endpoint(); }
    template <class Call>
    void again(Call call) {
        ssize_t result = 0;
        while ((result = call()) == -FI_EAGAIN) progress();
        require_fabric(result, "libfabric operation");
    }

    Side& side_;
    FabricEndpoint fabric_;
    std::vector<Operation> sends_, receives_;
};

}  // namespace

void add_libfabric(Subjects& all) {
    add(all, "libfabric_tag", run_case<PostedEnd<FabricTag>>, kMessageCases);
}

}  // namespace verbatim::bench
