// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The name of a capture file that several processes inherit. A process holds the file's lock (flock(2)) while it
// records, and a file with content is left to the process that wrote it.
#pragma once
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
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
/// `flags`: more ones for open(2).
inline int lock_recording(const std::string& name, int flags = 0) {
  const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | flags, private_mode);
  if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return fd;  // some file systems have no locks
  ::close(fd);
  errno = EWOULDBLOCK;
  return -1;
}

enum class RecordingStart {
  ready,   ///< the file is empty, its name has "%p", or it is not a regular file
  in_use,  ///< another process is recording it; it stays as it is
  failed,  ///< it cannot be created or emptied, for the reason in errno
};

/// Empties what an earlier run recorded there.
inline RecordingStart begin_recording(const std::string& name) {
  struct stat is {};
  if (name.find(process_mark) != std::string::npos || (::stat(name.c_str(), &is) == 0 && !S_ISREG(is.st_mode)))
    return RecordingStart::ready;
  const int fd = lock_recording(name);
  if (fd < 0) return errno == EWOULDBLOCK ? RecordingStart::in_use : RecordingStart::failed;
  const bool emptied = ::ftruncate(fd, 0) == 0;
  const int why = errno;
  ::close(fd);
  errno = why;
  return emptied ? RecordingStart::ready : RecordingStart::failed;
}

/// A stream of the descriptor, which is closed if there can be none. Null, with errno.
inline std::FILE* recording_of(int fd) {
  std::FILE* const file = fd < 0 ? nullptr : ::fdopen(fd, "wb");
  if (file != nullptr || fd < 0) return file;
  const int why = errno;
  ::close(fd);
  errno = why;
  return nullptr;
}

/// Empties a file that this process has recorded, and records it again. Null, with errno; EWOULDBLOCK: another process
/// records it.
inline std::FILE* retake_recording(const std::string& name) {
  const int fd = lock_recording(name);
  if (fd >= 0) (void)!::ftruncate(fd, 0);  // only a regular file can be emptied
  return recording_of(fd);
}

/// The file for the recording of process `pid`: `name` itself while it is empty, or else of_process(), with the next
/// number for which there is no file: processes of several containers have the same numbers. `name` becomes the name
/// that was used. Null, with errno: it cannot be created.
inline std::FILE* claim_recording(std::string& name, pid_t pid) {
  if (name.find(process_mark) == std::string::npos) {
    const int fd = lock_recording(name);
    if (fd < 0 && errno != EWOULDBLOCK) return nullptr;
    struct stat is {};
    const bool free = fd >= 0 && (::fstat(fd, &is) != 0 || !S_ISREG(is.st_mode) || is.st_size == 0);
    if (free) return recording_of(fd);
    if (fd >= 0) ::close(fd);
  }
  constexpr pid_t most_tries = 1000;
  for (pid_t number = pid; number - pid < most_tries; ++number) {
    const std::string own = of_process(name, number);
    const int fd = lock_recording(own, O_EXCL);
    if (fd < 0 && (errno == EEXIST || errno == EWOULDBLOCK)) continue;
    name = own;
    return recording_of(fd);
  }
  return nullptr;
}

}  // namespace parley
