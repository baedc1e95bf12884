// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The name of a capture file that several processes inherit. A process holds the file's lock (flock(2)) while it
// records, and a file with content is left to the process that wrote it.
#pragma once
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "drivers/private_file.hpp"

namespace parley {

/// "%p" in a name: the number of the process.
inline constexpr char process_mark[] = "%p";

/// The name with the process's number in place of "%p" or, without one, in front of the suffix: "x.pcapng" becomes
/// "x.4711.pcapng".
inline std::string of_process(std::string name, pid_t pid) {
  const std::string number = std::to_string(pid);
  if (name.find(process_mark) != std::string::npos) {
    for (std::size_t at = 0; (at = name.find(process_mark, at)) != std::string::npos; at += number.size())
      name.replace(at, 2, number);
    return name;
  }
  const std::size_t slash = name.rfind('/'), first = slash == std::string::npos ? 0 : slash + 1;
  const std::size_t dot = name.rfind('.');
  return name.insert(dot == std::string::npos || dot <= first ? name.size() : dot, "." + number);
}

/// A descriptor of the file, with its lock; the content stays. -1, with errno; EWOULDBLOCK: another process records.
inline int lock_recording(const std::string& name) {
  const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, private_mode);
  if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return fd;  // some file systems have no locks
  ::close(fd);
  errno = EWOULDBLOCK;
  return -1;
}

/// Empties what an earlier run recorded there. False, with errno: the file cannot be created. A file that another
/// process is recording stays as it is, and so does anything but a regular file.
inline bool begin_recording(const std::string& name) {
  struct stat is {};
  if (name.find(process_mark) != std::string::npos || (::stat(name.c_str(), &is) == 0 && !S_ISREG(is.st_mode)))
    return true;
  const int fd = lock_recording(name);
  if (fd < 0) return errno == EWOULDBLOCK;
  const bool emptied = ::ftruncate(fd, 0) == 0;
  const int why = errno;
  ::close(fd);
  errno = why;
  return emptied;
}

/// The file for the recording of process `pid`: `name` itself while it is empty, or else of_process(). `name` becomes the
/// name that was used. Null, with errno: it cannot be created.
inline std::FILE* take_recording(std::string& name, pid_t pid) {
  if (name.find(process_mark) == std::string::npos) {
    const int fd = lock_recording(name);
    if (fd < 0 && errno != EWOULDBLOCK) return nullptr;
    struct stat is {};
    const bool free = fd >= 0 && (::fstat(fd, &is) != 0 || !S_ISREG(is.st_mode) || is.st_size == 0);
    std::FILE* const file = free ? ::fdopen(fd, "wb") : nullptr;
    if (file != nullptr) return file;
    if (fd >= 0) ::close(fd);
    if (free) return nullptr;
  }
  name = of_process(name, pid);
  return create_private(name);
}

}  // namespace parley
