// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/ops/log_sink.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "tools/command.hpp"
#include "tools/ops/outlet.hpp"
#include "tools/real_text.hpp"
#include "tools/trace_sink.hpp"

namespace parley::tools {
namespace {

constexpr std::array<trace::Level, 5> levels{trace::Level::error, trace::Level::warn, trace::Level::info,
                                             trace::Level::debug, trace::Level::trace};

/// "2026-11-23T14:00:00.000123Z"
std::string time_of_day() {
  using namespace std::chrono;
  const auto now = duration_cast<microseconds>(system_clock::now().time_since_epoch());
  const std::time_t whole = static_cast<std::time_t>(now.count() / 1'000'000);
  std::tm utc{};
  ::gmtime_r(&whole, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, now.count() % 1'000'000);
}

tl::unexpected<CommandError> cannot_log(const std::string& path, int why) {
  return command_error(Exit::environment,
                       fmt::format("log: cannot write '{}': {}", printable(path, false), std::strerror(why)));
}

}  // namespace

void add_log_options(Command sub, LogArgs& args) {
  sub.option("--log", args.format, "Log what connections do, a line for each event, on standard error")
      .one_of({"text", "json"});
  sub.option("--log-file", args.file, "Log to the end of this file; text unless --log says otherwise").type("FILE");
  std::vector<std::string> names;
  for (const trace::Level level : levels) names.emplace_back(trace::to_string(level));
  sub.option("--log-level", args.level, "Log this and what is graver").one_of(std::move(names)).shows_default();
}

LogSink::LogSink(const LogArgs& args, Output& out, int fd)
    : out_(out), file_(args.file), json_(args.format == "json"), fd_(fd) {
  for (const trace::Level level : levels)
    if (trace::to_string(level) == args.level) up_to = level;
}

LogSink::~LogSink() {
  if (fd_ >= 0) ::close(fd_);
}

Or<std::unique_ptr<LogSink>> LogSink::open(const LogArgs& args, Output& out) {
  int fd = -1;
  if (!args.file.empty()) {
    fd = open_outlet(args.file, O_CREAT);
    if (fd < 0) return cannot_log(args.file, errno);
  }
  return std::unique_ptr<LogSink>(new LogSink(args, out, fd));
}

std::string LogSink::line(const trace::Record& record) {
  if (start_ == never) start_ = record.at;
  const std::string time = time_of_day();
  if (!json_) return fmt::format("{} {}[{}] {}", time, out_.command, ::getpid(), trace_log_text(record));
  Json object = trace_json(record, start_, {});
  object["time"] = time;
  object["command"] = out_.command;
  object["process"] = ::getpid();
  return object.dump(real_text);
}

void LogSink::record(const trace::Record& record) {
  std::string text = line(record);
  if (fd_ < 0) return out_.note(text);
  text += '\n';
  // One write per line, so that lines of several processes do not mix.
  if (!write_all(fd_, text) && failed_ == 0) failed_ = errno;
}

Or<void> LogSink::finish() const {
  if (failed_ == 0) return {};
  return cannot_log(file_, failed_);
}

}  // namespace parley::tools
