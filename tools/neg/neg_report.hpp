// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The output of `parley neg` for a negotiation: text, JSON, and documents for other programs.
#pragma once
#include <string>
#include <vector>

#include "base/json.hpp"
#include "parley/neg_tcp.hpp"
#include "tools/output.hpp"

namespace parley::tools {

Json neg_failure_json(const neg::Failure& why);
Json qp_pairs_json(const std::vector<neg::QpPair>& pairs);
/// `history` adds each message.
Json ended_json(const neg::Ended& ended, bool history);
/// Several lines of text.
std::string ended_text(const neg::Ended& ended, bool history);
/// A variant as `parley neg plugins` lists it.
Json entry_json(const neg::Framework::Entry& entry);
std::string entry_text(const neg::Framework::Entry& entry);

/// The agreed attributes for other programs. `format` is "json", "env" (lines of NAME=VALUE for a shell), or "otg"
/// (devices of an Open Traffic Generator configuration, from the initiator's view).
std::string export_document(std::string_view format, const neg::Ended& ended);

}  // namespace parley::tools
