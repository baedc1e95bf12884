// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/junit.hpp"

#include <optional>

#include <fmt/format.h>

namespace parley::tools {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

/// Whether XML 1.0 §2.2 allows the character.
bool xml_has(char32_t c) {
  return c == 0x9 || c == 0xA || c == 0xD || (c >= 0x20 && c <= 0xD7FF) || (c >= 0xE000 && c <= 0xFFFD) ||
         (c >= 0x10000 && c <= 0x10FFFF);
}

struct Decoded {
  char32_t value = 0;
  std::size_t octets = 1;
};

/// One UTF-8 character from the front of the text; nothing when it is ill-formed (RFC 3629 §4).
std::optional<Decoded> decode(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return Decoded{first, 1};
  const std::size_t octets = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < octets) return std::nullopt;
  char32_t value = first & (0x7Fu >> octets);
  for (std::size_t i = 1; i < octets; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return std::nullopt;
    value = value << 6 | (next & 0x3Fu);
  }
  const char32_t shortest = octets == 4 ? 0x10000 : octets == 3 ? 0x800 : 0x80;
  if (value < shortest) return std::nullopt;
  return Decoded{value, octets};
}

std::string seconds(std::uint64_t us) { return fmt::format("{}.{:06}", us / 1'000'000, us % 1'000'000); }

std::string case_xml(const JunitCase& c) {
  std::string xml = fmt::format("    <testcase classname=\"{}\" name=\"{}\" file=\"{}\" time=\"{}\">\n",
                                xml_escape(c.class_name), xml_escape(c.name), xml_escape(c.file), seconds(c.time_us));
  if (!c.failure.empty()) {
    const std::string first_line = c.failure.substr(0, c.failure.find('\n'));
    xml += fmt::format("      <failure type=\"violation\" message=\"{}\">{}</failure>\n", xml_escape(first_line),
                       xml_escape(c.failure));
  }
  if (!c.skipped.empty()) xml += fmt::format("      <skipped message=\"{}\"/>\n", xml_escape(c.skipped));
  if (!c.output.empty()) xml += fmt::format("      <system-out>{}</system-out>\n", xml_escape(c.output));
  return xml + "    </testcase>\n";
}

std::string properties_xml(const std::vector<std::pair<std::string, std::string>>& properties) {
  if (properties.empty()) return {};
  std::string xml = "    <properties>\n";
  for (const auto& [name, value] : properties)
    xml += fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", xml_escape(name), xml_escape(value));
  return xml + "    </properties>\n";
}

struct Totals {
  std::size_t tests = 0, failures = 0, skipped = 0;
  std::uint64_t time_us = 0;
  void add(const Totals& more) {
    tests += more.tests;
    failures += more.failures;
    skipped += more.skipped;
    time_us += more.time_us;
  }
  std::string attributes(std::string_view name) const {
    return fmt::format("name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{}\"",
                       xml_escape(name), tests, failures, skipped, seconds(time_us));
  }
};

Totals totals_of(const std::vector<JunitCase>& cases) {
  Totals t;
  for (const JunitCase& c : cases) t.add({1, c.failure.empty() ? 0U : 1U, c.skipped.empty() ? 0U : 1U, c.time_us});
  return t;
}

}  // namespace

std::string xml_escape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto c = decode(text);
    const std::size_t octets = c ? c->octets : 1;
    if (!c || !xml_has(c->value)) {
      out += replacement;
    } else {
      switch (c->value) {
        case '&': out += "&amp;"; break;
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '"': out += "&quot;"; break;
        // As they are, a parser would turn these into spaces in attributes (XML 1.0 §3.3.3).
        case '\n': out += "&#10;"; break;
        case '\r': out += "&#13;"; break;
        case '\t': out += "&#9;"; break;
        default: out += text.substr(0, octets);
      }
    }
    text.remove_prefix(octets);
  }
  return out;
}

std::string junit_xml(std::string_view name, const std::vector<JunitSuite>& suites) {
  Totals all;
  std::string body;
  for (const JunitSuite& suite : suites) {
    const Totals totals = totals_of(suite.cases);
    all.add(totals);
    body += fmt::format("  <testsuite {}>\n", totals.attributes(suite.name));
    body += properties_xml(suite.properties);
    for (const JunitCase& c : suite.cases) body += case_xml(c);
    body += "  </testsuite>\n";
  }
  return fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {}>\n{}</testsuites>\n",
                     all.attributes(name), body);
}

std::string junit_xml(std::string_view suite, const std::vector<JunitCase>& cases) {
  return junit_xml(suite, std::vector{JunitSuite{std::string(suite), cases}});
}

}  // namespace parley::tools
