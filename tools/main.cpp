// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The `parley` command. Everything is behind run_command_line, so that tests can run it in process.
#include <iostream>

#include "tools/output.hpp"

int main(int argc, char** argv) { return parley::tools::run_command_line(argc, argv, std::cout, std::cerr); }
