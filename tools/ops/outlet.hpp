// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Paths of --metrics and --log-file that are not regular files: devices, FIFOs, and the targets of /dev/stdout and
// /dev/fd. They must neither block nor terminate a command.
#pragma once
#include <csignal>
#include <string>
#include <string_view>

namespace parley::tools {

/// Whether the path leads through a link in /proc, as /dev/stdout and /dev/fd/5 do. Its target is an open file, whose
/// name may be missing or belong to another file by now.
bool names_descriptor(const std::string& path);
/// Opens the path for appending, without waiting for a reader or for space. For standard output and standard error it
/// duplicates the descriptor, so that the command's own output keeps its position. -1: see errno.
int open_outlet(const std::string& path, int flags = 0);
/// Writes all of `content`. False: see errno. If the reader has closed, the result is EPIPE and no signal.
bool write_all(int fd, std::string_view content);

/// While this object exists, SIGPIPE does not terminate the process.
class NoSigpipe {
 public:
  NoSigpipe();
  ~NoSigpipe();
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace parley::tools
