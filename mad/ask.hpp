// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A request that a user wrote: its path may be a GID, which subnet administration has to be asked for, and leaves open what the user's
// settings say.
#pragma once
#include "mad/path_text.hpp"
#include "mad/port.hpp"

namespace parley::mad {

/// What the paths of a user's requests have in common.
struct PathDefaults {
  Duration timeout = std::chrono::seconds(1);
  std::uint8_t retries = 3;
  std::uint64_t m_key = 0, sm_key = 0;  ///< 0: the path's own

  Path apply(Path path) const;
};

struct Ask {
  Rpc rpc;
  Bytes body;
  std::optional<PathText> to;  ///< none: subnet administration, as the port knows it
  PathDefaults defaults;
};

/// The way to what a text names. Errors: of subnet administration, if it has to be asked: of GIDs, where there are LIDs.
Task<Reply<Path>> resolve_text(Port& port, PathText to, PathDefaults defaults);

/// Resolves the path, sends the request and gives the answer as octets. `what` outlives the task. Errors: of either.
Task<Reply<RawReply>> ask(Port& port, const Ask& what);

}  // namespace parley::mad
