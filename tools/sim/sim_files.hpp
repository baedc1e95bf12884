// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The files of `parley sim`: finds and reads scenarios, and opens outputs before a run so that they are known to be
// writable.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "draw/provenance.hpp"
#include "sim/scenario/scenario.hpp"
#include "tools/options.hpp"

namespace parley::tools {

/// Maximum size of a scenario file in octets.
inline constexpr std::size_t scenario_file_max = 1 << 20;

/// A scenario that was read and is valid.
struct ScenarioFile {
  std::string shown;  ///< what the user can type for it: a path, or the name of a shipped scenario
  sim::Scenario scenario;
  draw::InputFile input{};  ///< for reports
  std::string text{};       ///< of the file
};

/// A file that was read, for reports.
draw::InputFile input_of(const std::string& path, std::string_view text);

/// The existing directories of shipped scenarios: $PARLEY_SCENARIOS, ../share/parley/scenarios relative to the
/// program's directory, sim/scenarios of the source tree that contains the program or the working directory, and
/// sim/scenarios of the tree that the program was built from.
std::vector<std::string> library_directories();
/// The names of the shipped scenarios, sorted.
std::vector<std::string> shipped_scenarios();

/// The files that the words name. A word is a file, a directory (every *.toml in it, sorted by name), or the name of a
/// shipped scenario without ".toml". Errors: environment, with one message for each word that names nothing.
Or<std::vector<std::string>> find_scenarios(const std::vector<std::string>& words);

/// Finds, reads and checks scenarios. Every error of every file is printed as "file:line:column: ...". The returned
/// complaint only counts these errors (usage), or names the files that could not be read (environment).
Or<std::vector<ScenarioFile>> load_scenarios(const std::vector<std::string>& words, Output& out);
/// The same for exactly one scenario. A directory with several scenarios is a usage error.
Or<ScenarioFile> load_scenario(const std::string& word, Output& out);

/// Who may read a new file: everyone, as far as the umask allows, or only its owner (for captures).
enum class Readers : std::uint8_t { everyone, owner };

/// An output file. It is opened before the run, so that it is known to be writable. Its old content is replaced at the
/// first write. A new file to which nothing was written is removed, unless finish() was called.
class OutputFile {
 public:
  /// Errors: environment.
  static Or<OutputFile> open(const std::string& path, bool append = false, Readers readers = Readers::everyone);
  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  const std::string& path() const { return path_; }
  /// False after a write error; finish() returns the error.
  bool write(std::string_view octets);
  bool write(ConstBytes octets);
  /// Writes the buffered octets to the file. False after a write error.
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

/// Opens `path`. If it is empty, returns a null pointer.
Or<std::unique_ptr<OutputFile>> open_output(const std::string& path, Readers readers = Readers::everyone);
/// Checks that no output is an input or another output. `outputs` are options and their paths; empty paths are ignored.
/// Errors: usage.
Or<void> check_outputs(const std::vector<ScenarioFile>& inputs,
                       const std::vector<std::pair<std::string, std::string>>& outputs);
/// Creates the directory (and its parents) and checks that a file can be created in it. Errors: environment.
Or<void> prepare_directory(const std::string& path);

}  // namespace parley::tools
