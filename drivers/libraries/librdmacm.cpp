// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What Parley uses of librdmacm, opened on use.
#include <rdma/rdma_cma.h>

#include "drivers/libraries/forward.hpp"

namespace {
constinit parley::libraries::Library library{parley::libraries::librdmacm};
}  // namespace

PARLEY_FORWARD(int, rdma_accept, (rdma_cm_id * id, rdma_conn_param* conn_param), (id, conn_param))
PARLEY_FORWARD(int, rdma_ack_cm_event, (rdma_cm_event * event), (event))
PARLEY_FORWARD(int, rdma_bind_addr, (rdma_cm_id * id, struct sockaddr* addr), (id, addr))
PARLEY_FORWARD(int, rdma_connect, (rdma_cm_id * id, rdma_conn_param* conn_param), (id, conn_param))
PARLEY_FORWARD(int, rdma_create_ep, (rdma_cm_id * *id, rdma_addrinfo* res, ibv_pd* pd, ibv_qp_init_attr* qp_init_attr),
               (id, res, pd, qp_init_attr))
PARLEY_FORWARD(rdma_event_channel*, rdma_create_event_channel, (), ())
PARLEY_FORWARD(int, rdma_create_id, (rdma_event_channel * channel, rdma_cm_id** id, void* context, rdma_port_space ps),
               (channel, id, context, ps))
PARLEY_FORWARD(void, rdma_destroy_ep, (rdma_cm_id * id), (id))
PARLEY_FORWARD(void, rdma_destroy_event_channel, (rdma_event_channel * channel), (channel))
PARLEY_FORWARD(int, rdma_destroy_id, (rdma_cm_id * id), (id))
PARLEY_FORWARD(int, rdma_disconnect, (rdma_cm_id * id), (id))
PARLEY_FORWARD(int, rdma_establish, (rdma_cm_id * id), (id))
PARLEY_FORWARD(void, rdma_free_devices, (ibv_context * *list), (list))
PARLEY_FORWARD(int, rdma_get_cm_event, (rdma_event_channel * channel, rdma_cm_event** event), (channel, event))
PARLEY_FORWARD(ibv_context**, rdma_get_devices, (int* num_devices), (num_devices))
PARLEY_FORWARD(__be16, rdma_get_src_port, (rdma_cm_id * id), (id))
PARLEY_FORWARD(int, rdma_init_qp_attr, (rdma_cm_id * id, ibv_qp_attr* qp_attr, int* qp_attr_mask),
               (id, qp_attr, qp_attr_mask))
PARLEY_FORWARD(int, rdma_listen, (rdma_cm_id * id, int backlog), (id, backlog))
PARLEY_FORWARD(int, rdma_migrate_id, (rdma_cm_id * id, rdma_event_channel* channel), (id, channel))
PARLEY_FORWARD(int, rdma_notify, (rdma_cm_id * id, ibv_event_type event), (id, event))
PARLEY_FORWARD(int, rdma_reject, (rdma_cm_id * id, const void* private_data, uint8_t private_data_len),
               (id, private_data, private_data_len))
PARLEY_FORWARD(int, rdma_resolve_addr,
               (rdma_cm_id * id, struct sockaddr* src_addr, struct sockaddr* dst_addr, int timeout_ms),
               (id, src_addr, dst_addr, timeout_ms))
PARLEY_FORWARD(int, rdma_resolve_route, (rdma_cm_id * id, int timeout_ms), (id, timeout_ms))
