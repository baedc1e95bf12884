// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// JUnit XML, the format in which CI systems read test results. Names and messages may hold any octets: characters that
// XML 1.0 cannot carry become U+FFFD, so that the file is always well-formed.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace parley::tools {

struct JunitCase {
  std::string class_name;  ///< the file
  std::string name;        ///< distinguishes the cases of one file
  std::string file;
  std::uint64_t time_us = 0;
  std::string failure;  ///< the first line is the message, the whole is the text; empty if the case passed
  std::string error;    ///< why the case has no result; empty if it has one
  std::string skipped;  ///< why; empty if the case was run
  std::string output;   ///< system-out; may be empty
};

struct JunitSuite {
  std::string name;
  std::vector<JunitCase> cases;
  std::vector<std::pair<std::string, std::string>> properties{};  ///< name and value
};

/// One <testsuites> with a <testsuite> for each, in the order given.
std::string junit_xml(std::string_view name, const std::vector<JunitSuite>& suites);
/// One <testsuites> with one <testsuite>; cases in the order given.
std::string junit_xml(std::string_view suite, const std::vector<JunitCase>& cases);

}  // namespace parley::tools
