// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A user's request. Its path may be a GID, which must be resolved by subnet administration. The user's settings
// supply what the path does not set.
#pragma once
#include "mad/path_text.hpp"
#include "mad/port.hpp"

namespace parley::mad {

/// The user's settings for the paths of all requests.
struct PathDefaults {
  Duration timeout = std::chrono::seconds(1);
  std::uint8_t retries = 3;
  std::uint64_t m_key = 0, sm_key = 0;  ///< 0: the path's own

  Path apply(Path path) const;
};

struct TextRequest {
  Rpc rpc;
  Bytes body;
  std::optional<PathText> to;  ///< none: the port's subnet administration
  PathDefaults defaults;
};

/// The path to the destination in a text. Queries subnet administration for the LID of a GID, if the transport has
/// LIDs. Errors: of that query.
Task<Reply<Path>> resolve_text(Port& port, PathText to, PathDefaults defaults);

/// Resolves the path, sends the request and returns the answer as octets. `what` must outlive the task. Errors: of
/// both.
Task<Reply<RawReply>> ask(Port& port, const TextRequest& what);

}  // namespace parley::mad
