// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What `parley neg` tells of a negotiation: as text, as JSON, and as documents for other programs.
#pragma once
#include <string>
#include <vector>

#include "base/json.hpp"
#include "parley/neg_tcp.hpp"
#include "tools/output.hpp"

namespace parley::tools {

Json neg_failure_json(const neg::Failure& why);
Json qp_pairs_json(const std::vector<neg::QpPair>& pairs);
/// `history`: with each message.
Json ended_json(const neg::Ended& ended, bool history);
/// Several lines.
std::string ended_text(const neg::Ended& ended, bool history);
/// A variant as `parley neg plugins` lists it.
Json entry_json(const neg::Framework::Entry& entry);
std::string entry_text(const neg::Framework::Entry& entry);

/// What was agreed, for other programs: "json"; "env", lines of NAME=VALUE for a shell; "otg", devices of an Open Traffic
/// Generator configuration, as the initiator's side has them.
std::string export_document(std::string_view format, const neg::Ended& ended);

}  // namespace parley::tools
