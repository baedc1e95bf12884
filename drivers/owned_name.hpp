// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The name of a file that this process has made.
#pragma once
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace parley {

/// Removes the name with this object, unless it belongs to another file by then. Keep the file open until then, so that no
/// other file gets its number.
class OwnedName {
 public:
  OwnedName() = default;  ///< none
  OwnedName(std::string path, const struct stat& file)
      : path_(std::move(path)), device_(file.st_dev), inode_(file.st_ino) {}
  OwnedName(OwnedName&& other) noexcept
      : path_(std::exchange(other.path_, {})), device_(other.device_), inode_(other.inode_) {}
  OwnedName& operator=(OwnedName&&) = delete;
  ~OwnedName() {
    struct stat now {};
    if (!path_.empty() && ::lstat(path_.c_str(), &now) == 0 && now.st_dev == device_ && now.st_ino == inode_)
      ::unlink(path_.c_str());
  }

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace parley
