// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/junit.hpp"

#include <optional>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/text.hpp"

namespace parley::tools {

namespace {

std::string case_xml(const JunitCase& c) {
  std::string xml =
      fmt::format("    <testcase classname=\"{}\" name=\"{}\" file=\"{}\" time=\"{}\">\n", xml_escape(c.class_name),
                  xml_escape(c.name), xml_escape(c.file), decimal_seconds(std::chrono::microseconds(c.time_us), 6));
  if (!c.failure.empty()) {
    const std::string first_line = c.failure.substr(0, c.failure.find('\n'));
    xml += fmt::format("      <failure type=\"violation\" message=\"{}\">{}</failure>\n", xml_escape(first_line),
                       xml_escape(c.failure));
  }
  if (!c.error.empty()) xml += fmt::format("      <error message=\"{}\"/>\n", xml_escape(c.error));
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
  std::size_t tests = 0, failures = 0, errors = 0, skipped = 0;
  std::uint64_t time_us = 0;
  void add(const Totals& more) {
    tests += more.tests;
    failures += more.failures;
    errors += more.errors;
    skipped += more.skipped;
    time_us += more.time_us;
  }
  std::string attributes(std::string_view name) const {
    return fmt::format("name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\"",
                       xml_escape(name), tests, failures, errors, skipped,
                       decimal_seconds(std::chrono::microseconds(time_us), 6));
  }
};

Totals totals_of(const std::vector<JunitCase>& cases) {
  Totals t;
  for (const JunitCase& c : cases)
    t.add({1, c.failure.empty() ? 0U : 1U, c.error.empty() ? 0U : 1U, c.skipped.empty() ? 0U : 1U, c.time_us});
  return t;
}

}  // namespace

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
