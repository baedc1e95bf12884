// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What `parley mad decode` prints, of octets that it is given and of captures.
#pragma once
#include <string>
#include <vector>

#include "tools/output.hpp"
#include "wire/mad/decode.hpp"

namespace parley::tools {

struct DecodeOptions {
  std::vector<std::string> words;
  std::string capture;  ///< empty: none
  std::string form = "dump";
};

/// Where a datagram was found, in each of the forms.
struct FoundAt {
  std::string heading, members;  ///< lines in front of a dump; lines NAME=VALUE
  Json keys = Json::object();    ///< beside `number`
};

/// Shows the datagram in the form that is asked for. A sentence if it is none.
std::string show_mad(ConstBytes mad, std::uint64_t number, const std::string& form, const FoundAt& where, Output& out);

/// Prints it as JSON, record by record: the members of `first`, then those that docs/mad.md lists.
void put_json(const wire::mad::Decoded& decoded, ConstBytes mad, Json first, Output& out);

/// Every datagram of a capture. The exit code.
int decode_capture(const DecodeOptions& options, Output& out);

}  // namespace parley::tools
