// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A process of its own that answers requests, so that code which does not return, or crashes, ends that process alone.
#pragma once
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "parley/neg.hpp"

namespace parley::neg {

/// One request at a time. It has no descriptor of this process but standard error, to which it also prints. It ends with this
/// process, however this one ends, and with it what it has forked, less what has left its process group (setsid, setpgid).
class Process {
 public:
  static constexpr std::uint32_t message_max = 16U << 20;  // octets of a request or an answer

  /// Runs in the process.
  using Answer = std::function<Bytes(ConstBytes request)>;
  /// `end_limit`: longest wait for its end, once it is asked for. Errors: resource_exhaustion.
  static Outcome<std::unique_ptr<Process>> start(Answer answer, Duration end_limit);
  /// `answer` and what it owns end in the process, which is killed if that takes too long.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// `what` is for the failure: "exchange()". Behind a failure the process is gone. Errors: vendor_library_error.
  Outcome<Bytes> ask(std::string_view what, ConstBytes request, Duration limit);

 private:
  Process(pid_t pid, int channel, int life, int watch, Duration end_limit)
      : pid_(pid), channel_(channel), life_(life), watch_(watch), end_limit_(end_limit) {}
  tl::unexpected<Failure> over(std::string_view what, Duration limit, bool in_time);

  pid_t pid_;  // 0: it is gone
  int channel_;
  int life_;   // the process is killed when it is closed, also by this process's death
  int watch_;  // a pidfd: what the process has forked may keep the channel open behind its end; -1: the system has none
  Duration end_limit_;
};

/// What `run` returns in a process of its own, 0 to 255, which prints where this one does. Errors, in words: it has taken
/// longer than `limit`, and was killed; it has crashed; it has ended, with any status, before `run` returned; there is no process.
/// What it has forked ends with it, as that of a Process does.
tl::expected<int, std::string> run_apart(Duration limit, const std::function<int()>& run);

}  // namespace parley::neg
