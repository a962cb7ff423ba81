// Argument checks as linux and its mlx5 driver make them: commands written to the device file as
// libibverbs writes them, but wrong, and calls of libibverbs that the kernel refuses. The numbers
// are those of linux' drivers/infiniband/core and hw/mlx5.
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <fstream>
#include <string>

#include "verbs_pair.hpp"

namespace verbatim::interop {
namespace {

// A command, word by word, and its reply.
struct Raw {
    int device = open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC);
    std::array<std::byte, 512> reply{};

    ~Raw() { close(device); }
    int execute(const std::vector<std::byte>& bytes) {
        reply.fill(std::byte{0xee});
        const ssize_t written = write(device, bytes.data(), bytes.size());
        return written == static_cast<ssize_t>(bytes.size()) ? 0 : errno;
    }
    template <class... Parts>
    static std::vector<std::byte> join(const Parts&... parts) {
        std::vector<std::byte> all;
        const auto add = [&all](const auto& part) {
            const auto* const bytes = reinterpret_cast<const std::byte*>(&part);
            all.insert(all.end(), bytes, bytes + sizeof part);
        };
        (add(parts), ...);
        return all;
    }
    static std::uint16_t words(std::size_t bytes, std::size_t unit) {
        return static_cast<std::uint16_t>(bytes / unit);
    }
    // A plain command whose request starts with its reply's address.
    template <class Request, class... Provider>
    int plain(std::uint32_t number, Request request, std::size_t reply_bytes,
              const Provider&... provider) {
        request.response = reinterpret_cast<std::uint64_t>(reply.data());
        return written(number, request, reply_bytes, provider...);
    }
    template <class Request, class... Provider>
    int written(std::uint32_t number, const Request& request, std::size_t reply_bytes,
                const Provider&... provider) {
        const std::size_t bytes =
            ((sizeof(ib_uverbs_cmd_hdr) + sizeof request) + ... + sizeof provider);
        const ib_uverbs_cmd_hdr header{number, words(bytes, 4), words(reply_bytes, 4)};
        return execute(join(header, request, provider...));
    }
    template <class Request, class... Provider>
    int extended(std::uint32_t number, const Request& request, std::size_t reply_bytes,
                 const Provider&... provider) {
        const std::size_t more = (std::size_t{0} + ... + sizeof provider);
        ib_uverbs_ex_cmd_hdr ex{};
        if (reply_bytes != 0) ex.response = reinterpret_cast<std::uint64_t>(reply.data());
        ex.provider_in_words = words(more, 8);
        const ib_uverbs_cmd_hdr header{number | IB_USER_VERBS_CMD_FLAG_EXTENDED,
                                       words(sizeof request, 8), words(reply_bytes, 8)};
        return execute(join(header, ex, request, provider...));
    }
};

mlx5_ib_alloc_ucontext_req_v2 registers() {
    mlx5_ib_alloc_ucontext_req_v2 wanted{};
    wanted.total_num_bfregs = 16;
    wanted.num_low_latency_bfregs = 4;
    return wanted;
}

struct Commands : testing::Test {
    Raw raw;
    int get_context(const mlx5_ib_alloc_ucontext_req_v2& wanted) {
        return raw.plain(IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context{},
                         sizeof(ib_uverbs_get_context_resp) + sizeof(mlx5_ib_alloc_ucontext_resp),
                         wanted);
    }
    void SetUp() override { ASSERT_EQ(get_context(registers()), 0); }
    int alloc_domain(std::size_t reply_bytes = sizeof(ib_uverbs_alloc_pd_resp)) {
        return raw.plain(IB_USER_VERBS_CMD_ALLOC_PD, ib_uverbs_alloc_pd{}, reply_bytes);
    }
};

TEST(FirstCommand, is_the_one_that_makes_the_context) {
    Raw raw;
    EXPECT_EQ(raw.plain(IB_USER_VERBS_CMD_ALLOC_PD, ib_uverbs_alloc_pd{}, 8), EINVAL);
    EXPECT_EQ(raw.plain(IB_USER_VERBS_CMD_QUERY_DEVICE, ib_uverbs_query_device{},
                        sizeof(ib_uverbs_query_device_resp)),
              EINVAL);
}

TEST(FirstCommand, is_refused_registers_that_there_are_not) {
    const auto error = [](auto change) {
        Raw raw;
        auto wanted = registers();
        change(wanted);
        return raw.plain(IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context{},
                         sizeof(ib_uverbs_get_context_resp) + sizeof(mlx5_ib_alloc_ucontext_resp),
                         wanted);
    };
    EXPECT_EQ(error([](auto& wanted) { wanted.total_num_bfregs = 0; }), EINVAL);
    EXPECT_EQ(error([](auto& wanted) { wanted.total_num_bfregs = 513; }), ENOMEM);
    EXPECT_EQ(error([](auto& wanted) { wanted.num_low_latency_bfregs = 16; }), EINVAL);
    EXPECT_EQ(error([](auto& wanted) { wanted.flags = 2; }), EINVAL);
    EXPECT_EQ(error([](auto& wanted) { wanted.comp_mask = 1; }), EOPNOTSUPP);
    EXPECT_EQ(error([](auto& wanted) { wanted.reserved2 = 1; }), EOPNOTSUPP);
    EXPECT_EQ(error([](auto&) {}), 0);
}

TEST_F(Commands, have_one_context) { EXPECT_EQ(get_context(registers()), EINVAL); }

TEST_F(Commands, that_do_not_exist_are_not_supported) {
    EXPECT_EQ(raw.plain(IB_USER_VERBS_CMD_ATTACH_MCAST, ib_uverbs_alloc_pd{}, 8), EOPNOTSUPP);
    EXPECT_EQ(raw.extended(200, std::uint64_t{0}, 0), EOPNOTSUPP);
    EXPECT_EQ(raw.plain(IB_USER_VERBS_CMD_ALLOC_PD | 0x40000000u, ib_uverbs_alloc_pd{}, 8), EINVAL)
        << "a flag that there is not";
}

TEST_F(Commands, that_are_shorter_than_they_say_are_invalid) {
    const ib_uverbs_cmd_hdr header{IB_USER_VERBS_CMD_ALLOC_PD, 5, 1};
    EXPECT_EQ(raw.execute(Raw::join(header, ib_uverbs_alloc_pd{})), EINVAL);
    EXPECT_EQ(raw.execute(std::vector<std::byte>(4)), EINVAL);
}

TEST_F(Commands, without_room_for_request_or_reply_have_no_space) {
    const ib_uverbs_cmd_hdr header{IB_USER_VERBS_CMD_DEREG_MR, 2, 0};
    EXPECT_EQ(raw.execute(Raw::join(header)), ENOSPC);
    EXPECT_EQ(alloc_domain(0), ENOSPC);
    EXPECT_EQ(raw.extended(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, ib_uverbs_ex_query_device{}, 8),
              ENOSPC);
    EXPECT_EQ(raw.extended(IB_USER_VERBS_EX_CMD_CREATE_CQ, std::uint64_t{0}, 16), ENOSPC);
}

TEST_F(Commands, want_an_address_for_their_reply) {
    EXPECT_EQ(raw.written(IB_USER_VERBS_CMD_ALLOC_PD, ib_uverbs_alloc_pd{}, 4), EFAULT);
    ib_uverbs_ex_cmd_hdr ex{};
    const ib_uverbs_ex_query_device query{};
    ib_uverbs_cmd_hdr header{IB_USER_VERBS_EX_CMD_QUERY_DEVICE | IB_USER_VERBS_CMD_FLAG_EXTENDED, 1,
                             40};
    EXPECT_EQ(raw.execute(Raw::join(header, ex, query)), EINVAL);
    ex.response = reinterpret_cast<std::uint64_t>(raw.reply.data());
    header.out_words = 0;
    EXPECT_EQ(raw.execute(Raw::join(header, ex, query)), EINVAL);
    header.out_words = 40, ex.cmd_hdr_reserved = 1;
    EXPECT_EQ(raw.execute(Raw::join(header, ex, query)), EINVAL);
    ex.cmd_hdr_reserved = 0;
    EXPECT_EQ(raw.execute(Raw::join(header, ex, query)), 0);
}

TEST_F(Commands, that_say_more_than_is_known_say_zeros) {
    ib_uverbs_query_port port{};
    port.port_num = 1;
    const std::size_t reply = sizeof(ib_uverbs_query_port_resp);
    EXPECT_EQ(raw.plain(IB_USER_VERBS_CMD_QUERY_PORT, port, reply, std::uint64_t{0}), 0);
    EXPECT_EQ(raw.plain(IB_USER_VERBS_CMD_QUERY_PORT, port, reply, std::uint64_t{1}), EOPNOTSUPP);
    ib_uverbs_ex_query_device query{};
    query.comp_mask = 1;
    EXPECT_EQ(raw.extended(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, query, 320), EINVAL);
}

TEST_F(Commands, are_answered_with_zeros_behind_what_there_is_to_say) {
    ASSERT_EQ(raw.extended(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, ib_uverbs_ex_query_device{}, 480), 0);
    EXPECT_EQ(raw.reply[479], std::byte{0});
    ib_uverbs_ex_query_device_resp answer{};
    std::memcpy(&answer, raw.reply.data(), sizeof answer);
    EXPECT_EQ(answer.response_length, sizeof answer);
}

TEST_F(Commands, that_destroy_nothing_say_that_there_is_nothing) {
    EXPECT_EQ(raw.written(IB_USER_VERBS_CMD_DEALLOC_PD, ib_uverbs_dealloc_pd{77}, 0), ENOENT);
    EXPECT_EQ(raw.written(IB_USER_VERBS_CMD_DEREG_MR, ib_uverbs_dereg_mr{77}, 0), ENOENT);
    EXPECT_EQ(raw.written(IB_USER_VERBS_CMD_DEALLOC_MW, ib_uverbs_dealloc_mw{77}, 0), ENOENT);
    EXPECT_EQ(raw.written(IB_USER_VERBS_CMD_DESTROY_AH, ib_uverbs_destroy_ah{77}, 0), ENOENT);
    EXPECT_EQ(raw.plain(IB_USER_VERBS_CMD_DESTROY_CQ, ib_uverbs_destroy_cq{0, 77, 0}, 8), ENOENT);
    EXPECT_EQ(raw.plain(IB_USER_VERBS_CMD_DESTROY_QP, ib_uverbs_destroy_qp{0, 77, 0}, 4), ENOENT);
    EXPECT_EQ(raw.plain(IB_USER_VERBS_CMD_DESTROY_SRQ, ib_uverbs_destroy_srq{0, 77, 0}, 4), ENOENT);
}

TEST_F(Commands, about_windows_say_nothing_that_the_driver_does_not_know) {
    ASSERT_EQ(alloc_domain(), 0);
    std::uint32_t domain = 0;
    std::memcpy(&domain, raw.reply.data(), sizeof domain);
    const auto allocate = [&](std::uint8_t type, const mlx5_ib_alloc_mw& provider) {
        ib_uverbs_alloc_mw wanted{};
        wanted.pd_handle = domain;
        wanted.mw_type = type;
        return raw.plain(IB_USER_VERBS_CMD_ALLOC_MW, wanted, sizeof(ib_uverbs_alloc_mw_resp),
                         provider);
    };
    EXPECT_EQ(allocate(3, {}), EINVAL);
    EXPECT_EQ(allocate(2, {1, 0, 0, 0}), EOPNOTSUPP);
    EXPECT_EQ(allocate(2, {0, 0, 1, 0}), EOPNOTSUPP);
    EXPECT_EQ(allocate(2, {}), 0);
}

TEST_F(Commands, about_completion_queues_are_checked_to_the_last_bit) {
    alignas(4096) static std::array<std::byte, 4096> queue{};
    alignas(64) static std::array<std::uint32_t, 2> record{};
    ib_uverbs_ex_create_cq wanted{};
    wanted.cqe = 7, wanted.comp_channel = -1;
    mlx5_ib_create_cq provider{};
    provider.buf_addr = reinterpret_cast<std::uint64_t>(queue.data());
    provider.db_addr = reinterpret_cast<std::uint64_t>(record.data());
    provider.cqe_size = 64;
    const auto create = [&](auto change) {
        auto changed = wanted;
        auto changed_provider = provider;
        change(changed, changed_provider);
        return raw.extended(IB_USER_VERBS_EX_CMD_CREATE_CQ, changed,
                            sizeof(ib_uverbs_ex_create_cq_resp), changed_provider);
    };
    EXPECT_EQ(create([](auto& core, auto&) { core.comp_mask = 1; }), EINVAL);
    EXPECT_EQ(create([](auto& core, auto&) { core.reserved = 1; }), EINVAL);
    EXPECT_EQ(create([](auto& core, auto&) { core.flags = 4; }), EOPNOTSUPP);
    EXPECT_EQ(create([](auto& core, auto&) { core.comp_vector = 1; }), EINVAL);
    EXPECT_EQ(create([](auto& core, auto&) { core.comp_channel = 1000; }), EBADF);
    EXPECT_EQ(create([](auto& core, auto&) { core.cqe = 1u << 22; }), EINVAL);
    EXPECT_EQ(create([](auto&, auto& its) { its.cqe_size = 32; }), EINVAL);
    EXPECT_EQ(create([](auto&, auto& its) { its.flags = 8; }), EINVAL);
    EXPECT_EQ(create([](auto&, auto& its) { its.reserved1 = 1; }), EINVAL);
    EXPECT_EQ(create([](auto&, auto& its) { its.cqe_comp_en = 1; }), EOPNOTSUPP);
    EXPECT_EQ(create([](auto&, auto& its) { its.flags = 1; }), EOPNOTSUPP) << "padded entries";
    EXPECT_EQ(create([](auto&, auto&) {}), 0);
}

TEST_F(Commands, about_queue_pairs_name_types_and_flags_that_there_are) {
    ib_uverbs_ex_create_qp wanted{};
    wanted.qp_type = 2;
    mlx5_ib_create_qp provider{};
    const auto create = [&](auto change) {
        auto changed = wanted;
        auto changed_provider = provider;
        change(changed, changed_provider);
        return raw.extended(IB_USER_VERBS_EX_CMD_CREATE_QP, changed,
                            sizeof(ib_uverbs_ex_create_qp_resp), changed_provider);
    };
    EXPECT_EQ(create([](auto& core, auto&) { core.qp_type = 5; }), EINVAL);
    EXPECT_EQ(create([](auto& core, auto&) { core.qp_type = 8; }), EOPNOTSUPP) << "raw packets";
    EXPECT_EQ(create([](auto& core, auto&) { core.create_flags = 1; }), EINVAL);
    EXPECT_EQ(create([](auto& core, auto&) { core.create_flags = 2; }), EOPNOTSUPP);
    EXPECT_EQ(create([](auto& core, auto&) { core.comp_mask = 2; }), EINVAL);
    EXPECT_EQ(create([](auto& core, auto&) { core.comp_mask = 1; }), EOPNOTSUPP);
    EXPECT_EQ(create([](auto& core, auto&) { core.reserved = 1; }), EINVAL);
    EXPECT_EQ(create([](auto&, auto& its) { its.flags = MLX5_QP_FLAG_SIGNATURE; }), EINVAL);
    EXPECT_EQ(create([](auto&, auto& its) { its.flags = 1u << 31; }), EINVAL);
    EXPECT_EQ(create([](auto&, auto& its) {
                  its.flags = MLX5_QP_FLAG_BFREG_INDEX | MLX5_QP_FLAG_UAR_PAGE_INDEX;
              }),
              EINVAL);
    EXPECT_EQ(create([](auto&, auto& its) { its.reserved = 1; }), EINVAL);
}

struct Memory : testing::Test {
    Context context = open_device();
    Side one{context.get()};
    ibv_mr* register_one(unsigned access, std::byte* memory = nullptr) {
        return ibv_reg_mr(one.domain.get(), memory != nullptr ? memory : one.memory.data(), 4096,
                          access);
    }
};

TEST_F(Memory, is_registered_for_what_there_is) {
    EXPECT_EQ(register_one(1u << 15), nullptr);
    EXPECT_EQ(errno, EINVAL) << "no such access";
    EXPECT_EQ(register_one(IBV_ACCESS_REMOTE_WRITE), nullptr);
    EXPECT_EQ(errno, EINVAL) << "without local writing";
    EXPECT_EQ(register_one(IBV_ACCESS_REMOTE_ATOMIC), nullptr);
    EXPECT_EQ(errno, EINVAL) << "without local writing";
}

TEST_F(Memory, that_cannot_be_written_is_not_registered_for_writing_or_windows) {
    auto* const page =
        static_cast<std::byte*>(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(Region(register_one(IBV_ACCESS_REMOTE_READ, page)), nullptr);
    EXPECT_EQ(register_one(IBV_ACCESS_MW_BIND, page), nullptr);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(register_one(IBV_ACCESS_LOCAL_WRITE, page), nullptr);
    EXPECT_EQ(errno, EFAULT);
    munmap(page, 4096);
}

// The kernel's own pages here are as those of another device: nobody may pin them, or reach them
// by address from another process.
TEST_F(Memory, of_another_device_is_not_registered) {
    std::ifstream maps("/proc/self/maps");
    std::uintptr_t pages = 0;
    for (std::string line; pages == 0 && std::getline(maps, line);)
        if (line.ends_with("[vvar]")) pages = std::stoul(line, nullptr, 16);
    if (pages == 0) GTEST_SKIP() << "no [vvar]: runs where the kernel maps its clock pages";
    EXPECT_EQ(register_one(IBV_ACCESS_REMOTE_READ, reinterpret_cast<std::byte*>(pages)), nullptr);
    EXPECT_EQ(errno, EFAULT);
}

TEST_F(Memory, of_the_device_has_no_windows_and_is_not_on_demand) {
    ibv_alloc_dm_attr wanted{4096, 0, 0};
    ibv_dm* const memory = good(ibv_alloc_dm(context.get(), &wanted), "ibv_alloc_dm");
    for (const unsigned access : {unsigned{IBV_ACCESS_MW_BIND}, unsigned{IBV_ACCESS_ON_DEMAND}}) {
        EXPECT_EQ(ibv_reg_dm_mr(one.domain.get(), memory, 0, 64,
                                access | unsigned{IBV_ACCESS_ZERO_BASED}),
                  nullptr);
        EXPECT_EQ(errno, EINVAL);
    }
    EXPECT_EQ(ibv_free_dm(memory), 0);
}

TEST_F(Memory, is_not_registered_again_at_no_address) {
    EXPECT_NE(
        ibv_rereg_mr(one.region.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 4096, 0),
        0);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(Memory, advice_of_what_is_no_region_or_beyond_one_is_refused_where_somebody_waits) {
    const Region region(register_one(IBV_ACCESS_ON_DEMAND));
    ASSERT_NE(region, nullptr);
    ibv_mw* const window = good(ibv_alloc_mw(one.domain.get(), IBV_MW_TYPE_2), "ibv_alloc_mw");
    const auto advise = [&](std::uint32_t key, std::uint32_t bytes, unsigned flags) {
        ibv_sge range{reinterpret_cast<std::uint64_t>(one.memory.data()), bytes, key};
        return ibv_advise_mr(one.domain.get(), IBV_ADVISE_MR_ADVICE_PREFETCH, flags, &range, 1);
    };
    const unsigned flush = IBV_ADVISE_MR_FLAG_FLUSH;
    EXPECT_EQ(advise(window->rkey, 64, flush), EINVAL);
    EXPECT_EQ(advise(one.region->lkey, 64, flush), ENOENT) << "not on demand";
    EXPECT_EQ(advise(region->lkey, 3 * 4096, flush), EFAULT);
    EXPECT_EQ(advise(region->lkey, 3 * 4096, 0), 0);
    EXPECT_EQ(advise(region->lkey, 4096, flush), 0);
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
}

struct Addresses : testing::Test {
    Context context = open_device();
    Domain domain{good(ibv_alloc_pd(context.get()), "ibv_alloc_pd")};
    ibv_ah_attr attributes{};
    Addresses() {
        attributes.port_num = 1, attributes.is_global = 1;
        good(ibv_query_gid(context.get(), 1, 0, &attributes.grh.dgid), "ibv_query_gid");
    }
    int error() {
        ibv_ah* const made = ibv_create_ah(domain.get(), &attributes);
        if (made == nullptr) return errno;
        EXPECT_EQ(ibv_destroy_ah(made), 0);
        return 0;
    }
};

TEST_F(Addresses, are_of_the_port_and_global) {
    EXPECT_EQ(error(), 0);
    attributes.grh.sgid_index = 100;
    EXPECT_EQ(error(), EINVAL);
    attributes.grh.sgid_index = 0, attributes.is_global = 0;
    EXPECT_EQ(error(), EINVAL);
    attributes.is_global = 1, attributes.port_num = 2;
    EXPECT_EQ(error(), EINVAL);
}

struct States : testing::Test {
    Context context = open_device();
    Side one{context.get()};
    int modify(ibv_qp_attr to, int mask) { return ibv_modify_qp(one.pair.get(), &to, mask); }
    static constexpr int kReceive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                    IBV_QP_MIN_RNR_TIMER;
    static ibv_qp_attr receive() {
        ibv_qp_attr to = state(IBV_QPS_RTR);
        to.path_mtu = IBV_MTU_1024;
        to.ah_attr.is_global = 1, to.ah_attr.port_num = 1;
        return to;
    }
};

TEST_F(States, that_do_not_follow_each_other_are_refused) {
    EXPECT_EQ(modify(state(IBV_QPS_ERR), IBV_QP_STATE), EINVAL) << "from RESET";
    EXPECT_EQ(modify(state(IBV_QPS_RESET), IBV_QP_STATE), 0);
    EXPECT_EQ(modify(state(IBV_QPS_RTR), IBV_QP_STATE), EINVAL) << "from RESET";
    to_init(one.pair.get());
    EXPECT_EQ(modify(state(IBV_QPS_SQE), IBV_QP_STATE), EINVAL);
    EXPECT_EQ(modify(state(IBV_QPS_ERR), IBV_QP_STATE), 0);
    EXPECT_EQ(modify(state(IBV_QPS_INIT), IBV_QP_STATE), EINVAL) << "from ERR";
}

TEST_F(States, are_told_by_bits_that_there_are) {
    EXPECT_EQ(modify(state(IBV_QPS_INIT), IBV_QP_STATE | 1 << 21), EOPNOTSUPP);
}

TEST_F(States, take_global_addresses_and_no_second_path) {
    to_init(one.pair.get());
    ibv_qp_attr to = receive();
    to.ah_attr.is_global = 0;
    EXPECT_EQ(modify(to, kReceive), EINVAL);
    to = receive();
    to.alt_ah_attr = to.ah_attr, to.alt_port_num = 1;
    EXPECT_EQ(modify(to, kReceive | IBV_QP_ALT_PATH), EINVAL);
    EXPECT_EQ(modify(receive(), kReceive), 0);
}

struct Sizes : testing::Test {
    Context context = open_device();
    Domain domain{good(ibv_alloc_pd(context.get()), "ibv_alloc_pd")};
};

TEST_F(Sizes, shared_receive_queues_say_how_many_requests_they_take) {
    ibv_srq_init_attr wanted{nullptr, {20, 3, 0}};
    const SharedReceives queue(good(ibv_create_srq(domain.get(), &wanted), "ibv_create_srq"));
    EXPECT_EQ(wanted.attr.max_wr, 31u);
    ibv_srq_attr is{};
    good(ibv_query_srq(queue.get(), &is), "ibv_query_srq");
    EXPECT_EQ(is.max_wr, 63u) << "with as many that libmlx5 keeps for itself";
    is.srq_limit = 64;
    EXPECT_EQ(ibv_modify_srq(queue.get(), &is, IBV_SRQ_LIMIT), EINVAL);
    is.srq_limit = 63;
    EXPECT_EQ(ibv_modify_srq(queue.get(), &is, IBV_SRQ_LIMIT), 0);
    EXPECT_EQ(ibv_modify_srq(queue.get(), &is, IBV_SRQ_MAX_WR), EINVAL);
}

TEST_F(Sizes, a_queue_pair_with_shared_receives_has_none_of_its_own) {
    Side side(context.get(), {.shared_receives = true});
    ibv_qp_attr is{};
    ibv_qp_init_attr made{};
    good(ibv_query_qp(side.pair.get(), &is, IBV_QP_CAP, &made), "ibv_query_qp");
    EXPECT_EQ(made.cap.max_recv_wr, 0u);
    EXPECT_EQ(made.cap.max_recv_sge, 0u);
}

TEST_F(Sizes, a_completion_queue_that_may_be_overrun_fails_nobody) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 4;
    wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    wanted.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    ibv_cq* const queue =
        ibv_cq_ex_to_cq(good(ibv_create_cq_ex(context.get(), &wanted), "ibv_create_cq_ex"));
    {
        Side other(context.get());
        ibv_qp_init_attr attributes{};
        attributes.send_cq = attributes.recv_cq = queue;
        attributes.cap = {64, 1, 1, 1, 0};
        attributes.qp_type = IBV_QPT_RC;
        const Pair pair(good(ibv_create_qp(other.domain.get(), &attributes), "ibv_create_qp"));
        connect(pair.get(), other.pair->qp_num);
        connect(other.pair.get(), pair->qp_num);
        for (std::uint64_t i = 0; i < 32; ++i)
            other.request(IBV_WR_RDMA_WRITE, 0, 8)
                .to(other.memory.data() + 4096 + i * 8, other.region->rkey)
                .post(pair.get(), i);
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        other.word(0) = 1;
        other.request(IBV_WR_RDMA_WRITE, 0, 8)
            .to(other.memory.data() + 8192, other.region->rkey)
            .post(pair.get(), 99);
        while (static_cast<volatile std::uint64_t&>(other.word(8192)) == 0)
            ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        EXPECT_EQ(state_of(pair.get()), IBV_QPS_RTS);
    }
    EXPECT_EQ(ibv_destroy_cq(queue), 0);
}

}  // namespace
}  // namespace verbatim::interop
