// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once

namespace sample {

enum class Side { initiator, responder };
struct Window {
  unsigned used = 0, most = 0, initiators = 0;
  Side from = Side::initiator;
};
bool take(Window& window, unsigned n);

}  // namespace sample
