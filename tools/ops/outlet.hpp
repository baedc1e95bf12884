// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Files of --metrics and --log-file that are none: devices, FIFOs, and what stands behind /dev/stdout and /dev/fd. None of
// them may keep a command waiting, and none may end it.
#pragma once
#include <csignal>
#include <string>
#include <string_view>

namespace parley::tools {

/// The path leads through a link of /proc, as /dev/stdout and /dev/fd/5 do: what stands behind it is open somewhere, and
/// may have a name that is another file's by now, or none.
bool names_descriptor(const std::string& path);
/// Opens for writing at the end, without waiting for a reader or for room; standard output and standard error are taken as
/// they are, so that what the command itself prints stays in its place. -1: errno says why.
int open_outlet(const std::string& path, int flags = 0);
/// Whether all was written; if not, errno says why. A reader that is gone is EPIPE, and no signal.
bool write_all(int fd, std::string_view content);

/// While it lives, SIGPIPE ends nothing.
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
