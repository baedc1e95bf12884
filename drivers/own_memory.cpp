// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/own_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>

namespace parley {
namespace {

/// Octets: populating less than this costs less than reading the list of mappings.
constexpr std::size_t populated_anyway = 1U << 20;

/// Reads the process's list of mappings, which is in address order.
bool is_mapped(std::uintptr_t begin, std::uintptr_t end, bool written) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return true;  // no /proc
  char line[512];
  while (begin < end && std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long from = 0, to = 0;
    char rights[5] = {};
    if (std::sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || to <= begin) continue;
    if (from > begin || rights[0] != 'r' || (written && rights[1] != 'w')) break;
    begin = to;
  }
  std::fclose(maps);
  return begin >= end;
}

}  // namespace

bool is_there(const void* addr, std::size_t length, bool written, Pages pages) {
  if (length == 0) return true;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(addr), begin = first & ~(page - 1);
  if (length > UINTPTR_MAX - first) return false;
  if (pages == Pages::checked && length > populated_anyway) return is_mapped(begin, first + length, written);
  const int saved = errno;
  const int advice = written ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  const int failed = ::madvise(reinterpret_cast<void*>(begin), first + length - begin, advice) == 0 ? 0 : errno;
  errno = saved;
  // EINVAL: a kernel before 5.14, a device mapping, or one without that permission.
  return failed == 0 || (failed == EINVAL && is_mapped(begin, first + length, written));
}

}  // namespace parley
