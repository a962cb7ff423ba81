// Real libibverbs and libmlx5 over the software NIC's device file: what they find, make and
// destroy.
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

TEST(X, opens) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_EQ(count, 1);
    ibv_context* context = ibv_open_device(list[0]);
    ASSERT_NE(context, nullptr) << errno;
    ibv_pd* pd = ibv_alloc_pd(context);
    ASSERT_NE(pd, nullptr);
    ibv_cq* cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    ASSERT_NE(cq, nullptr);
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {64, 64, 4, 4, 64};
    ibv_qp* qp = ibv_create_qp(pd, &attr);
    ASSERT_NE(qp, nullptr) << errno;
    mlx5dv_qp out{};
    mlx5dv_obj object{};
    object.qp = {qp, &out};
    ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP), 0);
    printf("sq %u bf %p size %u\n", out.sq.wqe_cnt, out.bf.reg, out.bf.size);
}
