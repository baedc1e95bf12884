// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A folder inside the temporary folder that only this process uses. The destructor removes it. create() removes the
// folders of processes that were killed.
#pragma once
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
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
    std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
    if (!error) temporary = std::filesystem::absolute(temporary, error);  // the program may change its folder
    if (error) return nullptr;
    const std::string above = temporary.string();
    sweep(above, prefix);
    for (int tries = 0; tries < tries_max; ++tries) {
      // Under a name that sweep() skips for an hour: another process's sweep() removes what it can lock.
      std::string fresh = above + "/." + std::string(prefix) + "XXXXXX";
      if (::mkdtemp(fresh.data()) == nullptr) return nullptr;
      std::unique_ptr<PrivateFolder> out(new PrivateFolder(fresh, lock(fresh, O_CREAT)));
      if (out->lock_ < 0) return nullptr;
      const std::string path = above + "/" + fresh.substr(above.size() + 2);
      if (::rename(fresh.c_str(), path.c_str()) != 0) continue;  // the name is taken
      out->path_ = path;
      return out;
    }
    return nullptr;
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
  /// A file below it, with a newline behind the text. `name` begins with a slash. False: it cannot be written.
  bool put(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ + name;
    std::error_code error;
    std::filesystem::create_directories(file.parent_path(), error);
    const std::filesystem::path fresh = path_ + "/fresh";  // others may be reading the old one
    std::ofstream out(fresh, std::ios::binary);
    out << text << '\n';
    out.close();
    if (out) std::filesystem::rename(fresh, file, error);
    return out && !error;
  }
  /// A symbolic link below it.
  void link(const std::string& name, const std::string& target) const {
    const std::filesystem::path file = path_ + name;
    std::error_code error;
    std::filesystem::create_directories(file.parent_path(), error);
    std::filesystem::create_symlink(target, file, error);
  }

 private:
  static constexpr int tries_max = 16;
  /// How long sweep() leaves a folder that create() has not renamed yet.
  static constexpr time_t hidden_seconds = 3600;

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
      const std::string path = at->path().string(), name = at->path().filename().string();
      const bool hidden = name.starts_with("." + std::string(prefix));
      if (!(hidden || name.starts_with(prefix)) || ::lstat(path.c_str(), &is) != 0 || !S_ISDIR(is.st_mode) ||
          is.st_uid != ::geteuid())
        continue;
      if (hidden && is.st_mtime > ::time(nullptr) - hidden_seconds) continue;
      const int held = lock(path, hidden ? O_CREAT : 0);  // a process may be killed before it makes the lock file
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
