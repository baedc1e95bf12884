// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Additional reports of commands that check connections one by one: --junit FILE and --csv FILE.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/command.hpp"
#include "tools/junit.hpp"
#include "tools/options.hpp"
#include "tools/sim/sim_files.hpp"

namespace parley::tools {

struct ReportArgs {
  std::string junit, csv;  ///< empty: not requested; "-": standard output
};

void add_report_options(Command sub, ReportArgs& args);

/// The report outputs. Both are opened before any input is read, so that unwritable files are reported first.
class Reports {
 public:
  /// An output must be neither one of the `inputs` nor the other output. Errors: usage, environment.
  static Or<Reports> open(const ReportArgs& args, const std::vector<std::string>& inputs, Output& out);
  bool junit() const { return junit_.wanted(); }
  bool csv() const { return csv_.wanted(); }
  /// Whether standard output is free for text.
  bool text() const { return !junit_.standard() && !csv_.standard(); }
  /// Adds complete lines and flushes them to the file.
  void add_csv(std::string_view lines);
  /// `name` is the command's name. Errors: environment.
  Or<void> finish(std::string_view name, const std::vector<JunitSuite>& suites);

 private:
  class Sink {
   public:
    static Or<Sink> open(const std::string& path, Output& out);
    bool wanted() const { return !path_.empty(); }
    bool standard() const { return path_ == "-"; }
    void write(std::string_view octets);
    Or<void> finish() { return file_ ? file_->finish() : Or<void>{}; }

   private:
    Sink(std::string path, Output& out) : path_(std::move(path)), out_(&out) {}
    std::string path_;
    Output* out_;
    std::unique_ptr<OutputFile> file_;
  };

  Reports(Sink junit, Sink csv) : junit_(std::move(junit)), csv_(std::move(csv)) {}
  Sink junit_, csv_;
};

}  // namespace parley::tools
