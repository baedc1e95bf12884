// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A folder below the temporary one that is this process's alone, and removed with this object. Those of processes that were killed are
// removed when the next one is made.
#pragma once
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

namespace parley {

class PrivateFolder {
 public:
  /// `prefix`: of its name. Null: it cannot be created.
  static std::unique_ptr<PrivateFolder> create(std::string_view prefix) {
    std::error_code error;
    const std::string above = std::filesystem::temp_directory_path(error).string();
    if (error) return nullptr;
    sweep(above, prefix);
    std::string folder = above + "/" + std::string(prefix) + "XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) return nullptr;
    std::unique_ptr<PrivateFolder> out(new PrivateFolder(folder, lock(folder, O_CREAT)));
    return out->lock_ >= 0 ? std::move(out) : nullptr;
  }
  ~PrivateFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
    if (lock_ >= 0) ::close(lock_);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  /// In a child of fork: the folder stays the parent's, which removes it.
  void leave_to_parent() { path_.clear(); }

  const std::string& path() const { return path_; }
  /// A file below it, with a newline behind the text. `name` begins with a slash.
  void put(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ + name;
    std::error_code error;
    std::filesystem::create_directories(file.parent_path(), error);
    const std::filesystem::path fresh = path_ + "/fresh";  // others may be reading the old one
    std::ofstream(fresh, std::ios::binary) << text << '\n';
    std::filesystem::rename(fresh, file, error);
  }
  /// A symbolic link below it.
  void link(const std::string& name, const std::string& target) const {
    const std::filesystem::path file = path_ + name;
    std::error_code error;
    std::filesystem::create_directories(file.parent_path(), error);
    std::filesystem::create_symlink(target, file, error);
  }

 private:
  PrivateFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  /// A descriptor that holds the folder's lock; -1: there is no lock file, or another process holds it.
  static int lock(const std::string& folder, int flags) {
    const int fd = ::open((folder + "/lock").c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
    if (fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    if (fd >= 0) ::close(fd);
    return -1;
  }
  /// Only this user's folders, because others could have any content.
  static void sweep(const std::string& above, std::string_view prefix) {
    std::error_code error;
    for (std::filesystem::directory_iterator at(above, error), end; !error && at != end; at.increment(error)) {
      struct stat is {};
      const std::string path = at->path().string();
      if (!at->path().filename().string().starts_with(prefix) || ::lstat(path.c_str(), &is) != 0 ||
          !S_ISDIR(is.st_mode) || is.st_uid != ::geteuid())
        continue;
      const int held = lock(path, 0);
      if (held < 0) continue;
      std::error_code left;
      std::filesystem::remove_all(path, left);
      ::close(held);
    }
  }

  std::string path_;
  int lock_;  // a descriptor; the lock ends with the process, even if it is killed
};

}  // namespace parley
