// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The `parley` command. All code is behind run_command_line, so that tests can run it in process.
#include <iostream>
#include <string_view>
#include <vector>

#include "tools/output.hpp"

int main(int argc, char** argv) {
  std::vector<const char*> words(argv, argv + argc);
  // Wireshark runs every program in its extcap folder with options only, so that the command is in the program's name.
  const std::string_view self = argc > 0 ? argv[0] : "";
  if (self.substr(self.rfind('/') + 1) == "parley-extcap") words.insert(words.begin() + 1, "extcap");
  return parley::tools::run_command_line(static_cast<int>(words.size()), words.data(), std::cout, std::cerr);
}
