// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap/pcap_reports.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

namespace parley::tools {
namespace {

/// An output must be neither an input nor the other output.
std::optional<std::string> clash(const ReportArgs& args, const std::vector<std::string>& inputs) {
  if (!args.junit.empty() && args.junit == args.csv) return fmt::format("--junit and --csv both name {}", args.csv);
  for (const auto& [option, path] : {std::pair{"--junit", &args.junit}, std::pair{"--csv", &args.csv}})
    for (const std::string& file : inputs) {
      std::error_code error;
      if (!path->empty() && *path != "-" && std::filesystem::equivalent(*path, file, error) && !error)
        return fmt::format("{} {} would overwrite a capture that is to be read", option, *path);
    }
  return std::nullopt;
}

}  // namespace

void add_report_options(Command sub, ReportArgs& args) {
  sub.option("--junit", args.junit, "Write the verdict as JUnit XML; - is standard output").type("FILE");
  sub.option("--csv", args.csv, "Write a line per connection as CSV; - is standard output").type("FILE");
}

Or<Reports::Sink> Reports::Sink::open(const std::string& path, Output& out) {
  Sink sink(path, out);
  if (path == "-") return sink;
  auto file = open_output(path);
  if (!file) return tl::unexpected(file.error());
  sink.file_ = std::move(*file);
  return sink;
}

void Reports::Sink::write(std::string_view octets) {
  if (file_) {
    file_->write(octets);
    file_->flush();
  } else if (wanted() && !octets.empty()) {
    out_->verbatim(octets.substr(0, octets.size() - (octets.back() == '\n' ? 1 : 0)));
  }
}

Or<Reports> Reports::open(const ReportArgs& args, const std::vector<std::string>& inputs, Output& out) {
  // Standard output can carry only one document.
  const bool junit_there = args.junit == "-", csv_there = args.csv == "-";
  if (static_cast<int>(junit_there) + static_cast<int>(csv_there) + static_cast<int>(out.json) > 1)
    return command_error(Exit::usage, "only one of --json, --junit - and --csv - can go to standard output");
  if (auto refused = clash(args, inputs)) return command_error(Exit::usage, *std::move(refused));
  auto junit = Sink::open(args.junit, out), csv = Sink::open(args.csv, out);
  for (const auto* sink : {&junit, &csv})
    if (!*sink) return tl::unexpected(sink->error());
  return Reports(*std::move(junit), *std::move(csv));
}

void Reports::add_csv(std::string_view lines) {
  if (csv()) csv_.write(lines);
}

Or<void> Reports::finish(std::string_view name, const std::vector<JunitSuite>& suites) {
  if (junit()) junit_.write(junit_xml(name, suites));
  for (Sink* sink : {&junit_, &csv_})
    if (auto written = sink->finish(); !written) return written;
  return {};
}

}  // namespace parley::tools
