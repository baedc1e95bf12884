// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/ucma/device_number.hpp"

#include <sys/sysmacros.h>

#include <fstream>
#include <sstream>
#include <string>

namespace parley::preload::ucma {

dev_t device_number(const char* misc) {
  constexpr unsigned misc_major = 10, unused_minor = 58;
  std::ifstream file(misc);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    unsigned minor = 0;
    std::string name;
    if (words >> minor >> name && name == "rdma_cm") return ::makedev(misc_major, minor);
  }
  return ::makedev(misc_major, unused_minor);
}

}  // namespace parley::preload::ucma
