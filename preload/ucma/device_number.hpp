// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The device number of /dev/infiniband/rdma_cm where that file does not exist.
#pragma once
#include <sys/types.h>

namespace parley::preload::ucma {

/// The kernel's number of rdma_cm. librdmacm asks the kernel by netlink and compares it with the descriptor's. A
/// container without /dev/infiniband gets the same answer as its host. `misc`: /proc/misc, which lists the minor numbers
/// of misc devices. A fixed number if the kernel has no rdma_cm: then librdmacm accepts any.
dev_t device_number(const char* misc);

}  // namespace parley::preload::ucma
