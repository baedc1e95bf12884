// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// --log: trace events for later reading, also from several programs. Each event is a line of text or JSON with the time
// of day, the command and its process ID, on standard error or appended to a file. See docs/operations.md.
#pragma once
#include <memory>
#include <string>

#include "parley/trace.hpp"
#include "tools/options.hpp"

namespace parley::tools {

struct LogArgs {
  std::string format;          ///< text, json; empty: text if there is a file
  std::string file;            ///< empty: standard error
  std::string level = "info";  ///< and more severe levels
  bool any() const { return !format.empty() || !file.empty(); }
};
void add_log_options(Command sub, LogArgs& args);

class LogSink final : public trace::Sink {
 public:
  /// Errors: environment (the file cannot be written).
  static Or<std::unique_ptr<LogSink>> open(const LogArgs& args, Output& out);
  ~LogSink() override;

  void record(const trace::Record& record) override;
  /// Errors: environment (a line could not be written).
  Or<void> finish() const;

 private:
  LogSink(const LogArgs& args, Output& out, int fd);
  std::string line(const trace::Record& record);

  Output& out_;
  std::string file_;
  bool json_;
  int fd_;                 ///< -1: standard error
  int failed_ = 0;         ///< errno of the first failed write
  Instant start_ = never;  ///< of the first event
};

}  // namespace parley::tools
