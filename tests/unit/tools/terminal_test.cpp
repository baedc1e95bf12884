// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which words of a text are in colour.
#include <gtest/gtest.h>

#include "tools/terminal.hpp"

namespace parley::tools {
namespace {

/// The text with <r>, <g>, <y> and </> in place of the control sequences.
std::string shown(std::string_view text) {
  std::string out = painted(text);
  for (const auto& [sequence, name] :
       {std::pair{"\x1b[31m", "<r>"}, {"\x1b[32m", "<g>"}, {"\x1b[33m", "<y>"}, {"\x1b[0m", "</>"}})
    for (std::size_t at = out.find(sequence); at != std::string::npos; at = out.find(sequence))
      out.replace(at, std::string_view(sequence).size(), name);
  return out;
}

TEST(ToolsTerminal, PaintsVerdicts) {
  EXPECT_EQ(shown("10.0.0.1:1 -> 10.0.0.2:2  failed"), "10.0.0.1:1 -> 10.0.0.2:2  <r>failed</>");
  EXPECT_EQ(shown("a -> b  rejected, failed: 1 error"), "a -> b  rejected, <r>failed</>: 1 <r>error</>");
  EXPECT_EQ(shown("a.pcap: partial; 2 packets"), "a.pcap: <y>partial</>; 2 packets");
  EXPECT_EQ(shown("a -> b  established, passed"), "a -> b  established, <g>passed</>");
  EXPECT_EQ(shown("  warning    frame 4: x"), "  <y>warning</>    frame 4: x");
  EXPECT_EQ(shown("2 passed, 1 failed, 3 partial"), "2 <g>passed</>, 1 <r>failed</>, 3 <y>partial</>");
  EXPECT_EQ(shown("FAIL (SHOULD)  12\nok     x"), "<r>FAIL</> (SHOULD)  12\n<g>ok</>     x");
  EXPECT_EQ(shown("   \u2502  \u2717 error: the"), "   \u2502  \u2717 <r>error</>: the");
  EXPECT_EQ(shown("   |  ! warning: the"), "   |  ! <y>warning</>: the");
}

TEST(ToolsTerminal, LeavesOtherWordsAlone) {
  for (const char* text :
       {"0 failed, 0 errors", "the connection failed: why", "a Terminate with error 2", "  errorless", "  failed_over",
        "partially", "", "\n\n", "no error: none", "100 octets passed on"})
    EXPECT_EQ(shown(text), text);
}

}  // namespace
}  // namespace parley::tools
