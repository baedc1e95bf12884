// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Replaces umad.cpp if libibumad is missing.
#include "drivers/mad/umad.hpp"

namespace parley::mad_driver {

std::vector<std::string> umad_ports() { return {}; }
OrText<std::unique_ptr<mad::Transport>> open_umad(const UmadOptions&) {
  return tl::unexpected(std::string("this parley was built without libibumad (Debian: libibumad-dev)"));
}

}  // namespace parley::mad_driver
