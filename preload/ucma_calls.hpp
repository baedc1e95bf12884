// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// /dev/infiniband/rdma_cm, for the replacements of C library functions that take a path (views_calls.cpp).
#pragma once
#include <sys/stat.h>

namespace parley::preload {

/// False in a program that has more rights than its user, which gets the kernel's file.
bool is_rdma_cm(const char* path);
/// As open(2).
int open_rdma_cm(int flags);
/// Fills `out` for a character device. If the kernel has the real one, uses its number, because librdmacm expects it.
int stat_rdma_cm(struct stat* out);
/// As statx(2).
int statx_rdma_cm(struct statx* out);

}  // namespace parley::preload
