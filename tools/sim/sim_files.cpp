// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/sim/sim_files.hpp"
#include "drivers/secure_env.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/text.hpp"
#include "drivers/private_file.hpp"
#include "sim/scenario/scenario_value.hpp"
#include "tools/own_program.hpp"
#include "tools/pcap/digest.hpp"
#include "tools/sim/sim_report.hpp"

namespace parley::tools {

namespace {

namespace fs = std::filesystem;

bool directory_there(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// sim/scenarios of the source tree that contains `start`; empty if there is none.
fs::path scenarios_above(const fs::path& start) {
  for (fs::path at = start; !at.empty(); at = at.parent_path()) {
    if (directory_there(at / "sim" / "scenarios")) return at / "sim" / "scenarios";
    if (at == at.parent_path()) break;
  }
  return {};
}

/// The *.toml files of a directory, sorted by name.
std::vector<std::string> scenarios_in(const fs::path& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".toml" && !directory_there(at->path())) files.push_back(at->path().string());
  std::sort(files.begin(), files.end());
  return files;
}

/// The shipped scenario whose name is nearest to `word`; empty if none is near.
std::string nearest_shipped(const std::string& word) {
  const std::vector<std::string> names = shipped_scenarios();
  return std::string(sim::nearest(word, {names.begin(), names.end()}));
}

/// The path of a shipped scenario by name, with or without ".toml"; empty if there is none.
std::string shipped(const std::string& word) {
  if (word.find('/') != std::string::npos) return {};
  for (const std::string& directory : library_directories())
    for (const char* ending : {"", ".toml"}) {
      const fs::path path = fs::path(directory) / (word + ending);
      std::error_code error;
      if (path.extension() == ".toml" && fs::is_regular_file(path, error)) return path.string();
    }
  return {};
}

Or<std::string> read_scenario_file(const std::string& path) {
  errno = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return command_error(Exit::environment, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  std::string text(scenario_file_max + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0)
    return command_error(Exit::environment, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  if (text.size() > scenario_file_max)
    return command_error(
        Exit::usage, fmt::format("'{}' has more than {} octets: too large for a scenario", path, scenario_file_max));
  return text;
}

void print_result(const sim::ScenarioError& error, Output& out) {
  out.note(error.to_string());
  if (const char* actions = std::getenv("GITHUB_ACTIONS"); actions != nullptr && *actions != '\0')
    out.note(fmt::format("::error file={},line={},title=wrong scenario::{}", github_escape(error.file, true),
                         error.line, github_escape(error.text, false)));
  out.object({{"event", "scenario_error"},
              {"file", error.file},
              {"line", error.line},
              {"column", error.column},
              {"key", error.key},
              {"text", error.text}});
}

/// The text by which the user can name the file that `word` led to.
std::string shown_for(const std::string& word, const std::string& path) {
  return word == path || directory_there(word) ? path : word;
}

std::string join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "; ") + line;
  return text;
}

Or<std::vector<std::string>> find_one(const std::string& word) {
  std::error_code error;
  if (directory_there(word)) {
    auto files = scenarios_in(word);
    if (files.empty())
      return command_error(Exit::environment, fmt::format("no scenario (*.toml) is in directory '{}'", word));
    return files;
  }
  if (fs::exists(word, error)) return std::vector{word};
  if (std::string path = shipped(word); !path.empty()) return std::vector{path};
  std::string text = fmt::format("'{}' is neither a file nor the name of a shipped scenario", word);
  if (word.find('/') != std::string::npos) text = fmt::format("cannot read '{}': no such file", word);
  if (const std::string near = nearest_shipped(fs::path(word).stem().string()); !near.empty())
    text += fmt::format("; did you mean '{}'?", near);
  else
    text += " ('parley sim list' names them)";
  return command_error(Exit::environment, text);
}

}  // namespace

draw::InputFile input_of(const std::string& path, std::string_view text) {
  Sha256 digest;
  digest.add(ConstBytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  return {path, text.size(), digest.finish()};
}

std::vector<std::string> library_directories() {
  std::vector<std::string> directories;
  const auto add = [&directories](const fs::path& path) {
    if (path.empty() || !directory_there(path)) return;
    if (std::find(directories.begin(), directories.end(), path.string()) == directories.end())
      directories.push_back(path.string());
  };
  if (const char* own = secure_env("PARLEY_SCENARIOS")) add(own);
  std::error_code error;
  const fs::path self = own_program().parent_path();
  add(self.parent_path() / "share" / "parley" / "scenarios");  // installed
  add(scenarios_above(self));
  add(scenarios_above(fs::current_path(error)));
  add(PARLEY_SHIPPED_SCENARIOS);
  return directories;
}

std::vector<std::string> shipped_scenarios() {
  std::set<std::string> names;
  for (const std::string& directory : library_directories())
    for (const std::string& file : scenarios_in(directory)) names.insert(fs::path(file).stem().string());
  return {names.begin(), names.end()};
}

Or<std::vector<std::string>> find_scenarios(const std::vector<std::string>& words) {
  std::vector<std::string> files, missing;
  for (const std::string& word : words) {
    auto found = find_one(word);
    if (found)
      files.insert(files.end(), found->begin(), found->end());
    else
      missing.push_back(found.error().text);
  }
  if (!missing.empty()) return command_error(Exit::environment, join(missing));
  return files;
}

Or<std::vector<ScenarioFile>> load_scenarios(const std::vector<std::string>& words, Output& out) {
  std::vector<ScenarioFile> scenarios;
  std::vector<std::string> unreadable;
  std::size_t errors = 0, wrong = 0;
  for (const std::string& word : words) {
    const auto paths = find_one(word);
    if (!paths) {
      unreadable.push_back(paths.error().text);
      continue;
    }
    for (const std::string& path : *paths) {
      const auto text = read_scenario_file(path);
      if (!text && text.error().exit == Exit::usage) return tl::unexpected(text.error());
      if (!text) {
        unreadable.push_back(text.error().text);
        continue;
      }
      auto scenario = sim::parse_scenario(*text, path);
      if (scenario) {
        scenarios.push_back({shown_for(word, path), std::move(*scenario), input_of(path, *text), *text});
        continue;
      }
      ++wrong;
      errors += scenario.error().size();
      for (const sim::ScenarioError& error : scenario.error()) print_result(error, out);
    }
  }
  if (!unreadable.empty()) return command_error(Exit::environment, join(unreadable));
  if (wrong > 0)
    return command_error(
        Exit::usage, fmt::format("{} in {}; nothing was run", counted(errors, "error"), counted(wrong, "scenario")));
  return scenarios;
}

Or<ScenarioFile> load_scenario(const std::string& word, Output& out) {
  auto all = load_scenarios({word}, out);
  if (!all) return tl::unexpected(all.error());
  if (all->size() != 1)
    return command_error(Exit::usage, fmt::format("'{}' holds {} scenarios; name one of them", word, all->size()));
  return std::move(all->front());
}

Or<OutputFile> OutputFile::open(const std::string& path, bool append, Readers readers) {
  const auto cannot = [&path] {
    return command_error(Exit::environment, fmt::format("cannot create '{}': {}", path, std::strerror(errno)));
  };
  struct stat before {};
  const bool created = stat(path.c_str(), &before) != 0;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : 0),
                        readers == Readers::owner ? private_mode : 0666);
  if (fd < 0) return cannot();
  std::FILE* file = fdopen(fd, append ? "ab" : "wb");
  if (file == nullptr) {
    ::close(fd);
    return cannot();
  }
  return OutputFile(path, file, append, created);
}

OutputFile::OutputFile(std::string path, std::FILE* file, bool append, bool created)
    : path_(std::move(path)), file_(file), append_(append), created_(created) {}

OutputFile::~OutputFile() {
  if (file_ && created_ && !written_) ::unlink(path_.c_str());
}

bool OutputFile::write(std::string_view octets) {
  if (error_ != 0 || !file_) return false;
  if (!std::exchange(written_, true) && !append_) {
    // Devices and pipes cannot be truncated, and do not need it.
    if (ftruncate(fileno(file_.get()), 0) != 0 && errno != EINVAL) error_ = errno;
  }
  if (error_ == 0 && std::fwrite(octets.data(), 1, octets.size(), file_.get()) != octets.size())
    error_ = errno != 0 ? errno : EIO;
  return error_ == 0;
}

bool OutputFile::write(ConstBytes octets) {
  return write(std::string_view(reinterpret_cast<const char*>(octets.data()), octets.size()));
}

bool OutputFile::flush() {
  if (error_ == 0 && file_ && std::fflush(file_.get()) != 0) error_ = errno;
  return error_ == 0;
}

Or<void> OutputFile::finish() {
  if (!file_) return {};
  if (std::fclose(file_.release()) != 0 && error_ == 0) error_ = errno;
  if (error_ != 0)
    return command_error(Exit::environment, fmt::format("cannot write '{}': {}", path_, std::strerror(error_)));
  return {};
}

Or<std::unique_ptr<OutputFile>> open_output(const std::string& path, Readers readers) {
  if (path.empty()) return std::unique_ptr<OutputFile>();
  auto file = OutputFile::open(path, false, readers);
  if (!file) return tl::unexpected(file.error());
  return std::make_unique<OutputFile>(std::move(*file));
}

Or<void> check_outputs(const std::vector<ScenarioFile>& inputs,
                       const std::vector<std::pair<std::string, std::string>>& outputs) {
  const auto place = [](const std::string& path) {
    std::error_code error;
    return fs::weakly_canonical(path, error);
  };
  std::map<fs::path, std::string> taken;
  for (const ScenarioFile& file : inputs) taken[place(file.scenario.file)] = "scenario that is read";
  for (const auto& [option, path] : outputs) {
    if (path.empty() || path == "/dev/null") continue;
    const auto [at, free] = taken.emplace(place(path), "file of " + option);
    if (!free)
      return command_error(Exit::usage, fmt::format("{} would overwrite '{}', the {}", option, path, at->second));
  }
  return {};
}

Or<void> prepare_directory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !directory_there(path))
    return command_error(Exit::environment, fmt::format("cannot create directory '{}': {}", path,
                                                        error ? error.message() : "it is a file"));
  const fs::path probe = fs::path(path) / fmt::format(".parley-{}", getpid());
  auto file = OutputFile::open(probe.string());
  if (!file) return command_error(Exit::environment, fmt::format("cannot write into directory '{}'", path));
  return {};
}

}  // namespace parley::tools
