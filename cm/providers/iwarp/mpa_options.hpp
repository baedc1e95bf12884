// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What one side brings to an MPA set-up, in the options of the connection manager.
#pragma once
#include "mpa/startup_options.hpp"
#include "parley/cm.hpp"

namespace parley::cm {

/// `options` (ConnectOptions, ListenOptions or AcceptOptions) with those of `mpa` in them.
template <class Options>
Options with_mpa(const mpa::StartupOptions& mpa, Options options = {}) {
  options.transport = static_cast<const mpa::Options&>(mpa);
  options.ird = mpa.ird;
  options.ord = mpa.ord;
  return options;
}

}  // namespace parley::cm
