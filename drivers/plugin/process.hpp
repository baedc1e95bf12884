// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A separate process that answers requests, so that code which does not return, or crashes, only ends that process.
#pragma once
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "parley/neg.hpp"

namespace parley::neg {

/// One request at a time. It inherits no descriptor except standard error, to which it also prints. It ends with this
/// process, however this one ends, together with its forked children, except those that have left its process group
/// (setsid, setpgid).
class Process {
 public:
  static constexpr std::uint32_t message_max = 16U << 20;  // octets per request or answer

  /// Runs in the process.
  using Answer = std::function<Bytes(ConstBytes request)>;
  /// `end_limit`: longest wait for its end after it was requested. Errors: resource_exhaustion.
  static Outcome<std::unique_ptr<Process>> start(Answer answer, Duration end_limit);
  /// `answer` and its objects are destroyed in the process, which is killed if that takes too long.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// `what` is for the failure: "exchange()". After a failure the process is gone. Errors: vendor_library_error.
  Outcome<Bytes> ask(std::string_view what, ConstBytes request, Duration limit);

 private:
  Process(pid_t pid, int channel, int life, int watch, Duration end_limit)
      : pid_(pid), channel_(channel), life_(life), watch_(watch), end_limit_(end_limit) {}
  tl::unexpected<Failure> over(std::string_view what, Duration limit, bool in_time);

  pid_t pid_;  // 0: none
  int channel_;
  int life_;   // closing it kills the process, also when this process dies
  int watch_;  // a pidfd: forked children may keep the channel open after its end; -1: not supported by the system
  Duration end_limit_;
};

/// The result of `run` in a separate process, 0 to 255, with the same output files. Errors, as text: it took longer
/// than `limit`, and was killed; it crashed; it ended, with any status, before `run` returned; no process could be
/// created. Its forked children end with it, as for Process.
tl::expected<int, std::string> run_apart(Duration limit, const std::function<int()>& run);

}  // namespace parley::neg
