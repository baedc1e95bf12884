// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/asio/replacement.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "drivers/write_all.hpp"

namespace parley {

Replacement::Replacement(std::string path)
    : path_(std::move(path)), fresh_(path_ + ".XXXXXX"), fd_(::mkostemp(fresh_.data(), O_CLOEXEC)) {
  if (fd_ < 0) fresh_.clear();
}

Replacement::~Replacement() {
  const int why = errno;
  if (fd_ >= 0) ::close(fd_);
  if (!fresh_.empty()) ::unlink(fresh_.c_str());
  errno = why;
}

bool Replacement::write(std::string_view content, mode_t mode) {
  // mkostemp() creates files that only their owner can read.
  if (fd_ < 0 || ::fchmod(fd_, mode) != 0) return false;
  return write_all(fd_, content);
}

bool Replacement::close() { return ::close(std::exchange(fd_, -1)) == 0; }

bool Replacement::take_name() {
  if (fresh_.empty() || ::rename(fresh_.c_str(), path_.c_str()) != 0) return false;
  fresh_.clear();
  return true;
}

int Replacement::release() { return std::exchange(fd_, -1); }

}  // namespace parley
