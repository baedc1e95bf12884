// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A report as JSON, with keys in a fixed order. The schema is docs/schema/pcap-check.json.
#pragma once
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "capture/report.hpp"

namespace parley::capture {

Json json(std::string_view file, const FileReport& report);
Json json(const ConnectionReport& connection);
/// The part of json() for a connection with `ib`.
Json ib_json(const ConnectionReport& connection);
Json json(const NegotiationReport& negotiation);
Json json(const Finding& finding);
/// `{"cm.early": 3}`
Json json(const RuleCounts& ignored);
/// `verdict` and `reason`.
Json json(const Judgement& judgement);
/// The object for a file that cannot be read.
Json error_json(std::string_view file, std::string_view error);

/// The text of one object. `indent` 0: on one line; else indented by that many spaces.
std::string to_json(std::string_view file, const FileReport& report, int indent = 0);
std::string to_json(const ConnectionReport& connection);

}  // namespace parley::capture
