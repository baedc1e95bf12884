// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Finds and starts the keeper of a shared port (preload/port).
#pragma once
#include <string>

namespace parley::preload {

/// The program next to this library; empty: there is none.
std::string keeper_program();
/// A connection to the user's keeper, which is started if there is none. -1: `why` is a sentence.
int connect_keeper(std::string& why);

}  // namespace parley::preload
