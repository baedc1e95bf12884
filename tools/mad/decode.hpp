// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The output of `parley mad decode`, for hexadecimal digits and for captures.
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

/// Where a datagram was found, for each output form.
struct FoundAt {
  std::string heading, members;  ///< lines before a dump; lines NAME=VALUE
  Json keys = Json::object();    ///< in addition to `number`
};

/// Prints the datagram in the selected form. Returns an error if it is not a datagram.
std::string show_mad(ConstBytes mad, std::uint64_t number, const std::string& form, const FoundAt& where, Output& out);

/// Prints it as JSON, record by record: the members of `first`, then those that docs/mad.md lists.
void put_json(const wire::mad::Decoded& decoded, ConstBytes mad, Json first, Output& out);

/// Prints every datagram of a capture. Returns the exit code.
int decode_capture(const DecodeOptions& options, Output& out);

}  // namespace parley::tools
