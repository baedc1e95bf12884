// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "draw/provenance.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "draw/ladder_text.hpp"

namespace parley::draw {
namespace {

constexpr std::size_t inputs_open = 3;  // more inputs are collapsed into one line

std::string made_by(const Provenance& r) {
  return fmt::format("parley {} (commit {}) at {}:", r.version, r.commit, r.date);
}

}  // namespace

std::string provenance_text(const Provenance& report) {
  return printable(fmt::format("{} {}", made_by(report), report.command), false);
}

std::string input_text(const InputFile& input) {
  const std::string path = printable(input.path, false);
  if (input.without_digest && input.size)
    return fmt::format("{}: {}, SHA-256 left out", path, counted(*input.size, "octet"));
  if (input.sha256.empty()) return fmt::format("{}: not read to its end, SHA-256 not known", path);
  return fmt::format("{}: {}, SHA-256 {}", path, counted(input.size.value_or(0), "octet"), input.sha256);
}

std::string provenance_text_with_inputs(const Provenance& report) {
  std::string out = provenance_text(report);
  for (const InputFile& input : report.inputs) out += "\n" + input_text(input);
  return out;
}

std::string footer_html(const Provenance& report) {
  std::string inputs;
  for (const InputFile& input : report.inputs) inputs += fmt::format("<br>{}\n", html_text(input_text(input)));
  if (report.inputs.size() > inputs_open)
    inputs = fmt::format("<details><summary>{} were read</summary>{}</details>\n",
                         counted(report.inputs.size(), "file"), inputs);
  return fmt::format(
      "<footer style=\"margin:40px 0 0;padding:8px 0 0;border-top:1px solid;font-size:12px;overflow-wrap:anywhere\">"
      "{} <code>{}</code>\n{}</footer>\n",
      html_text(made_by(report)), html_text(report.command), inputs);
}

std::string_view csv_report_names() {
  return ",input_sha256,input_size,report_version,report_commit,report_date,report_command";
}

std::string csv_report(const Provenance& report, std::string_view path) {
  const auto input = std::find_if(report.inputs.begin(), report.inputs.end(),
                                  [path](const InputFile& each) { return each.path == path; });
  std::string file = ",,";
  if (input != report.inputs.end())
    file = fmt::format(",{},{}", input->sha256, input->size ? fmt::format("{}", *input->size) : "");
  return fmt::format("{},{},{},{},{}", file, csv_quote(report.version), csv_quote(report.commit),
                     csv_quote(report.date), csv_quote(report.command));
}

}  // namespace parley::draw
