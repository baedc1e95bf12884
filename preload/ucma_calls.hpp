// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// /dev/infiniband/rdma_cm for the functions of the C library that take a path.
#pragma once
#include <sys/stat.h>

namespace parley::preload {

bool is_rdma_cm(const char* path);
/// As open(2).
int open_rdma_cm(int flags);
/// A character device. If the kernel has one, librdmacm expects its number.
int stat_rdma_cm(struct stat* out);

}  // namespace parley::preload
