// UCX over shared memory: puts, and tagged messages. Its active messages are in a file of their
// own.
#include <cstring>
#include <vector>

#include "../subject.hpp"
#include "../workloads.hpp"
#include "posted.hpp"
#include "slots.hpp"
#include "ucx_active.hpp"
#include "ucx_worker.hpp"

namespace verbatim::bench {
namespace {

constexpr ucp_tag_t kTag = 0x1337;

const char* transports_of(const Case& of) {
    return of.name.starts_with("wire") ? "tcp,self" : "posix,sysv,self,cma";
}

template <bool sleeps>
class UcxTag {
  public:
    UcxTag(Side& side, const Case& of)
        : worker_(side, UCP_FEATURE_TAG | (sleeps ? UCP_FEATURE_WAKEUP : 0), transports_of(of)),
          sends_(of.window),
          receives_(of.window) {}
    ~UcxTag() {
        for (void*& request : receives_) worker_.cancel(request);
    }
    UcxTag(const UcxTag&) = delete;
    UcxTag& operator=(const UcxTag&) = delete;

    void send(unsigned slot, std::byte* from, std::size_t bytes) {
        sends_[slot] = ucp_tag_send_nbx(worker_.endpoint(), from, bytes, kTag, &param_);
    }
    void receive(unsigned slot, std::byte* to, std::size_t bytes) {
        receives_[slot] =
            ucp_tag_recv_nbx(worker_.worker(), to, bytes, kTag, ~ucp_tag_t{0}, &param_);
    }
    bool sent(unsigned slot) { return worker_.done(sends_[slot]); }
    bool received(unsigned slot) { return worker_.done(receives_[slot]); }
    void progress() { worker_.progress(); }
    void wait() {
        if (ucp_worker_progress(worker_.worker()) == 0 && sleeps) worker_.sleep();
    }
    void connect() { worker_.connect(); }

  private:
    UcxWorker worker_;
    const ucp_request_param_t param_{};
    std::vector<void*> sends_, receives_;
};

// Memory that UCX allocates, so that peers can reach it by load and store.
class UcxMemory {
  public:
    UcxMemory(UcxWorker& worker, std::size_t bytes) : worker_(worker) {
        ucp_mem_map_params_t params{};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
        params.length = bytes;
        params.flags = UCP_MEM_MAP_ALLOCATE;
        require_ucx(ucp_mem_map(worker.context(), &params, &memory_), "ucp_mem_map");
        ucp_mem_attr_t attributes{};
        attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
        require_ucx(ucp_mem_query(memory_, &attributes), "ucp_mem_query");
        start_ = static_cast<std::byte*>(attributes.address);
        std::memset(start_, 0, bytes);
    }
    ~UcxMemory() { ucp_mem_unmap(worker_.context(), memory_); }
    UcxMemory(const UcxMemory&) = delete;
    UcxMemory& operator=(const UcxMemory&) = delete;

    std::byte* start() const noexcept { return start_; }
    std::string key() const {
        void* packed = nullptr;
        std::size_t bytes = 0;
        require_ucx(ucp_rkey_pack(worker_.context(), memory_, &packed, &bytes), "ucp_rkey_pack");
        const std::string text(static_cast<const char*>(packed), bytes);
        ucp_rkey_buffer_release(packed);
        return text;
    }

  private:
    UcxWorker& worker_;
    ucp_mem_h memory_ = nullptr;
    std::byte* start_ = nullptr;
};

// Puts into the peer's memory, for SlotEnd.
class UcxPut {
  public:
    UcxPut(Side& side, std::size_t bytes)
        : worker_(side, UCP_FEATURE_RMA), landing_(worker_, bytes), own_(bytes) {
        worker_.connect();
        const std::string key = side.exchange(landing_.key());
        require_ucx(ucp_ep_rkey_unpack(worker_.endpoint(), key.data(), &key_), "rkey");
        std::byte* start = landing_.start();
        const std::string theirs = side.exchange({reinterpret_cast<char*>(&start), sizeof start});
        std::memcpy(&peer_, theirs.data(), sizeof peer_);
    }
    ~UcxPut() { ucp_rkey_destroy(key_); }
    UcxPut(const UcxPut&) = delete;
    UcxPut& operator=(const UcxPut&) = delete;

    std::byte* landing() { return landing_.start(); }
    std::byte* source(std::size_t offset) { return own_.data() + offset; }
    void put(std::size_t offset, std::size_t bytes) {
        worker_.await(put_nbx(offset, bytes));
        require_ucx(ucp_worker_fence(worker_.worker()), "ucp_worker_fence");
    }
    void put_word(std::size_t offset, std::uint64_t value) {
        *words(source(offset)) = value;
        worker_.await(put_nbx(offset, sizeof value));
    }
    void progress() { worker_.progress(); }
    void finish() { worker_.flush(); }

  private:
    void* put_nbx(std::size_t offset, std::size_t bytes) {
        return ucp_put_nbx(worker_.endpoint(), source(offset), bytes, peer_ + offset, key_,
                           &param_);
    }

    UcxWorker worker_;
    UcxMemory landing_;
    std::vector<std::byte> own_;
    const ucp_request_param_t param_{};
    ucp_rkey_h key_ = nullptr;
    std::uint64_t peer_ = 0;
};

}  // namespace

void add_ucx(Subjects& all) {
    add(all, "ucx_put", run_case<SlotEnd<UcxPut>>, kWriteCases);
    add(all, "ucx_tag", run_case<PostedEnd<UcxTag<false>>>, kMessageCases);
    add(all, "ucx_tag", run_case<PostedEnd<UcxTag<false>>>, {&kWireMessage8, &kWire64k});
    add(all, "ucx_am", run_case<UcxActive>, kMessageCases);
    add(all, "ucx_tag_wait", run_case<PostedEnd<UcxTag<true>>>, {&kWake});
}

}  // namespace verbatim::bench
