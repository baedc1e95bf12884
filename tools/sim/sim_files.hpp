// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Files of `parley sim`: finding and reading scenarios, and outputs that are known to be writable before a run starts.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "draw/provenance.hpp"
#include "sim/scenario/scenario.hpp"
#include "tools/options.hpp"

namespace parley::tools {

/// Octets of a scenario file; more cannot be one.
inline constexpr std::size_t scenario_file_max = 1 << 20;

/// A scenario that was read and found right.
struct ScenarioFile {
  std::string shown;  ///< what the user can type to mean it: a path, or the name of a shipped scenario
  sim::Scenario scenario;
  draw::InputFile input{};  ///< for reports
};

/// The directories of shipped scenarios, those that are there: $PARLEY_SCENARIOS, share/parley/scenarios beside the
/// program's directory, sim/scenarios of the source tree above the program or the working directory, and sim/scenarios
/// of the tree that the program was built from.
std::vector<std::string> library_directories();
/// The names of the shipped scenarios, in order.
std::vector<std::string> shipped_scenarios();

/// The files that the words mean: a file, a directory (every *.toml in it, by name), or the name of a shipped scenario
/// without ".toml". Errors: environment, one line for each word that means nothing.
Or<std::vector<std::string>> find_scenarios(const std::vector<std::string>& words);

/// Finds, reads and checks. Every error of every file is printed as "file:line:column: ..."; the complaint then only
/// counts them (usage), or says what could not be read (environment).
Or<std::vector<ScenarioFile>> load_scenarios(const std::vector<std::string>& words, Output& out);
/// The same for exactly one scenario: a directory of several is a usage error.
Or<ScenarioFile> load_scenario(const std::string& word, Output& out);

/// Who may read a file that is made: everyone as far as the umask allows, or, of a capture, its owner alone.
enum class Readers : std::uint8_t { everyone, owner };

/// A file to be written. It is opened, and so proven writable, before the run; its old content is replaced at the first
/// write. A file that was not there before and to which nothing was written is taken away again.
class OutputFile {
 public:
  /// Errors: environment.
  static Or<OutputFile> open(const std::string& path, bool append = false, Readers readers = Readers::everyone);
  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  const std::string& path() const { return path_; }
  /// False once writing failed; finish() says why.
  bool write(std::string_view octets);
  bool write(ConstBytes octets);
  /// What was written so far stands in the file afterwards. False as above.
  bool flush();
  /// Flushes and closes. Errors: environment (disk full).
  Or<void> finish();

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  OutputFile(std::string path, std::FILE* file, bool append, bool created);

  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
  bool append_, created_;
  bool written_ = false;
  int error_ = 0;
};

/// Opens `path` unless it is empty; then the pointer is null.
Or<std::unique_ptr<OutputFile>> open_output(const std::string& path, Readers readers = Readers::everyone);
/// No output may be an input or another output. `outputs` are options and their paths; empty paths are passed over.
/// Errors: usage.
Or<void> check_outputs(const std::vector<ScenarioFile>& inputs,
                       const std::vector<std::pair<std::string, std::string>>& outputs);
/// Makes the directory (and those above it) and proves that a file can be made in it. Errors: environment.
Or<void> prepare_directory(const std::string& path);

}  // namespace parley::tools
