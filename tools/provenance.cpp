// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/provenance.hpp"

#include <charconv>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "tools/sim/sim_once.hpp"
#include "tools/version.hpp"

namespace parley::tools {
namespace {

constexpr std::size_t command_max = 2000;  // octets; a CSV table repeats it on each line

/// https://reproducible-builds.org/specs/source-date-epoch: seconds since 1970, in digits.
std::optional<std::time_t> source_date() {
  const char* words = std::getenv("SOURCE_DATE_EPOCH");
  if (words == nullptr) return std::nullopt;
  const std::string_view text = words;
  constexpr std::int64_t most = 253'402'300'799;  // the last second of the year 9999
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || seconds < 0 || seconds > most) return std::nullopt;
  return static_cast<std::time_t>(seconds);
}

}  // namespace

std::string command_line_of(int argc, const char* const* argv) {
  std::string out = "parley";
  for (int i = 1; i < argc; ++i) {
    out += " " + shell_word(argv[i]);
    if (out.size() <= command_max) continue;
    std::size_t cut = command_max;
    while (cut > 0 && (static_cast<unsigned char>(out[cut]) & 0xC0) == 0x80) --cut;  // not inside a UTF-8 character
    return out.substr(0, cut) + " ...";
  }
  return out;
}

std::string report_date() {
  const std::time_t at = source_date().value_or(std::time(nullptr));
  std::tm utc{};
  gmtime_r(&at, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

draw::Provenance provenance(const Output& out, std::vector<draw::InputFile> inputs) {
  return {PARLEY_VERSION, commit_text(), out.date, out.command_line, std::move(inputs)};
}

void print_provenance(Output& out, const draw::Provenance& report, bool with_inputs) {
  out.verbatim(with_inputs ? draw::provenance_text_with_inputs(report) : draw::provenance_text(report));
}

Json report_json(const draw::Provenance& report) {
  Json inputs = Json::array();
  for (const draw::InputFile& input : report.inputs) {
    Json each{{"path", input.path}, {"sha256", nullptr}, {"size", nullptr}};
    if (!input.sha256.empty()) each["sha256"] = input.sha256;
    if (input.size) each["size"] = *input.size;
    inputs.push_back(std::move(each));
  }
  return {{"version", report.version},
          {"commit", report.commit},
          {"date", report.date},
          {"command", report.command},
          {"inputs", std::move(inputs)}};
}

std::vector<std::pair<std::string, std::string>> report_properties(const draw::Provenance& report) {
  std::vector<std::pair<std::string, std::string>> out{{"report.version", report.version},
                                                       {"report.commit", report.commit},
                                                       {"report.date", report.date},
                                                       {"report.command", report.command}};
  std::size_t number = 0;
  for (const draw::InputFile& input : report.inputs) {
    const std::string head = report.inputs.size() == 1 ? "input" : fmt::format("input.{}", ++number);
    out.emplace_back(head + ".path", input.path);
    if (!input.sha256.empty()) out.emplace_back(head + ".sha256", input.sha256);
    if (input.size) out.emplace_back(head + ".size", fmt::format("{}", *input.size));
  }
  return out;
}

}  // namespace parley::tools
