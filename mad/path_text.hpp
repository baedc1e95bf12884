// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Paths as users write them:
//
//   5, 0x5                          a LID, unicast
//   0,1,3                           a directed route: 0, then the egress port of each hop; "0," is the port itself
//   fe80::2:c903:0:1491             a port's GID
//   0002:c903:0000:1491             a port's GUID: the GID with the prefix fe80::; also 0x and 16 digits
//   fe80::2:c903:0:1491%mlx5_0/1    either, and the local port to use
//   IBPath(DLID=2,SL=2)             member by member, as path_spec() prints it
//   IBDRPath(drPath=0:1:3)          the same for a directed route
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "mad/path.hpp"

namespace parley::mad {

/// The parsed text. A GID or GUID has no LID in `path`: resolve_text() (mad/text_request.hpp) gets it from subnet
/// administration.
struct PathText {
  Path path;
  std::optional<Gid> gid;  ///< set if its LID is not known yet
  std::string device;      ///< after '%'; may be empty
  std::uint8_t port = 0;   ///< after the device; 0: not given
  bool spelt_out = false;  ///< member by member: PathDefaults do not apply to it
};

/// Errors: a sentence that says what is wrong, what is allowed, and where in the text it is.
tl::expected<PathText, std::string> parse_path(std::string_view text);

/// "IBPath(DLID=2,SL=2)": the members that differ from those of a new path. parse_path() returns the same path again.
/// Times are cut to microseconds.
std::string path_spec(const Path& path);

}  // namespace parley::mad
