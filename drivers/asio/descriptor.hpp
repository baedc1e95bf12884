// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A file descriptor that is closed with its owner.
#pragma once
#include <unistd.h>

namespace parley::asio_driver {

struct Descriptor {
  explicit Descriptor(int number) : fd(number) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int fd;  ///< negative: none was available
};

}  // namespace parley::asio_driver
