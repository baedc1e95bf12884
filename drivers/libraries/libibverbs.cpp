// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What Parley uses of libibverbs, opened on use.
#include <infiniband/verbs.h>

#include "drivers/libraries/forward.hpp"

// What the headers have as macros, whose parts the compiler chooses.
#undef ibv_query_port
#undef ibv_reg_mr

namespace {
constinit parley::libraries::Library library{parley::libraries::libibverbs};
}  // namespace

PARLEY_FORWARD(void, ibv_ack_async_event, (ibv_async_event * event), (event))
PARLEY_FORWARD(void, ibv_ack_cq_events, (ibv_cq * cq, unsigned int nevents), (cq, nevents))
PARLEY_FORWARD(ibv_pd*, ibv_alloc_pd, (ibv_context * context), (context))
PARLEY_FORWARD(int, ibv_close_device, (ibv_context * context), (context))
PARLEY_FORWARD(ibv_ah*, ibv_create_ah, (ibv_pd * pd, ibv_ah_attr* attr), (pd, attr))
PARLEY_FORWARD(ibv_comp_channel*, ibv_create_comp_channel, (ibv_context * context), (context))
PARLEY_FORWARD(ibv_cq*, ibv_create_cq,
               (ibv_context * context, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector),
               (context, cqe, cq_context, channel, comp_vector))
PARLEY_FORWARD(ibv_qp*, ibv_create_qp, (ibv_pd * pd, ibv_qp_init_attr* qp_init_attr), (pd, qp_init_attr))
PARLEY_FORWARD(ibv_srq*, ibv_create_srq, (ibv_pd * pd, ibv_srq_init_attr* srq_init_attr), (pd, srq_init_attr))
PARLEY_FORWARD(int, ibv_dealloc_pd, (ibv_pd * pd), (pd))
PARLEY_FORWARD(int, ibv_dereg_mr, (ibv_mr * mr), (mr))
PARLEY_FORWARD(int, ibv_destroy_ah, (ibv_ah * ah), (ah))
PARLEY_FORWARD(int, ibv_destroy_comp_channel, (ibv_comp_channel * channel), (channel))
PARLEY_FORWARD(int, ibv_destroy_cq, (ibv_cq * cq), (cq))
PARLEY_FORWARD(int, ibv_destroy_qp, (ibv_qp * qp), (qp))
PARLEY_FORWARD(int, ibv_destroy_srq, (ibv_srq * srq), (srq))
PARLEY_FORWARD(void, ibv_free_device_list, (ibv_device * *list), (list))
PARLEY_FORWARD(int, ibv_get_async_event, (ibv_context * context, ibv_async_event* event), (context, event))
PARLEY_FORWARD(int, ibv_get_cq_event, (ibv_comp_channel * channel, ibv_cq** cq, void** cq_context),
               (channel, cq, cq_context))
PARLEY_FORWARD(ibv_device**, ibv_get_device_list, (int* num_devices), (num_devices))
PARLEY_FORWARD(const char*, ibv_get_device_name, (ibv_device * device), (device))
PARLEY_FORWARD(int, ibv_modify_qp, (ibv_qp * qp, ibv_qp_attr* attr, int attr_mask), (qp, attr, attr_mask))
PARLEY_FORWARD(int, ibv_modify_srq, (ibv_srq * srq, ibv_srq_attr* srq_attr, int srq_attr_mask),
               (srq, srq_attr, srq_attr_mask))
PARLEY_FORWARD(ibv_context*, ibv_open_device, (ibv_device * device), (device))
PARLEY_FORWARD(int, ibv_query_device, (ibv_context * context, ibv_device_attr* device_attr), (context, device_attr))
PARLEY_FORWARD(int, ibv_query_gid, (ibv_context * context, uint8_t port_num, int index, ibv_gid* gid),
               (context, port_num, index, gid))
PARLEY_FORWARD(int, ibv_query_port, (ibv_context * context, uint8_t port_num, _compat_ibv_port_attr* port_attr),
               (context, port_num, port_attr))
PARLEY_FORWARD(int, ibv_query_qp, (ibv_qp * qp, ibv_qp_attr* attr, int attr_mask, ibv_qp_init_attr* init_attr),
               (qp, attr, attr_mask, init_attr))
PARLEY_FORWARD(int, ibv_query_srq, (ibv_srq * srq, ibv_srq_attr* srq_attr), (srq, srq_attr))
PARLEY_FORWARD(ibv_mr*, ibv_reg_mr, (ibv_pd * pd, void* addr, size_t length, int access), (pd, addr, length, access))
PARLEY_FORWARD(ibv_mr*, ibv_reg_mr_iova2, (ibv_pd * pd, void* addr, size_t length, uint64_t iova, unsigned int access),
               (pd, addr, length, iova, access))
PARLEY_FORWARD(ssize_t, _ibv_query_gid_table,
               (ibv_context * context, ibv_gid_entry* entries, size_t max_entries, uint32_t flags, size_t entry_size),
               (context, entries, max_entries, flags, entry_size))
