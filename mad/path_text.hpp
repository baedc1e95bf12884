// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Paths as users write them:
//
//   5, 0x5                          a LID, unicast
//   0,1,3                           a directed route: 0, then the port to leave by at each hop; "0," or "0" with a comma is the port itself
//   fe80::2:c903:0:1491             a port's GID
//   0002:c903:0000:1491             a port's GUID: the GID with the prefix fe80::; also 0x and 16 digits
//   fe80::2:c903:0:1491%mlx5_0/1    either, and the local port to go out of
//   IBPath(DLID=2,SL=2)             member by member, as path_spec() prints it
//   IBDRPath(drPath=0:1:3)          the same of a directed route
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "mad/path.hpp"

namespace parley::mad {

/// What a text names. Of a port's GID or GUID subnet administration has to say the LID: `path` is that of the GID's answer.
struct PathText {
  Path path;
  std::optional<Gid> gid;  ///< its LID is not known yet
  std::string device;      ///< behind '%'; may be empty
  std::uint8_t port = 0;   ///< behind the device; 0: not given
  bool spelt_out = false;  ///< member by member: its times and keys are its own
};

/// Errors: a sentence that says what is wrong, with what is allowed, and where in the text.
tl::expected<PathText, std::string> parse_path(std::string_view text);

/// "IBPath(DLID=2,SL=2)": members that differ from those of a new path, so that parse_path() gives the same again. Times are cut to
/// microseconds.
std::string path_spec(const Path& path);

}  // namespace parley::mad
