/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* NVMe over RDMA: the private data of its connection set-up. Little-endian. */
#ifndef PARLEY_WIRE_NVME_RDMA_H
#define PARLEY_WIRE_NVME_RDMA_H

/* X(name, code, text): status of a reject, NVMe RDMA Transport Specification. */
#define PARLEY_NVME_RDMA_STATUSES(X)                                  \
  X(invalid_length, 1, "invalid length of the private data")          \
  X(invalid_record_format, 2, "invalid record format")                \
  X(invalid_queue_id, 3, "invalid queue ID")                          \
  X(invalid_host_send_queue, 4, "invalid host send queue size")       \
  X(invalid_host_receive_queue, 5, "invalid host receive queue size") \
  X(no_resources, 6, "no resources")                                  \
  X(invalid_ird, 7, "invalid IRD")                                    \
  X(invalid_ord, 8, "invalid ORD")                                    \
  X(invalid_controller_id, 9, "invalid controller ID")

#endif
