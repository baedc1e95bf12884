// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The one place that decides what passed, what failed, and what could be looked at in part only. Every report, the
// exit codes, JUnit, the matrix and the pages take its word.
#pragma once
#include <cstdint>
#include <string>

#include "capture/report.hpp"

namespace parley::capture {

/// failed: a finding of severity `fail_on` or worse, a set-up that failed, or a Terminate of either side.
/// partial: not failed, but the set-up is not whole, or octets of the streams are missing.
Judgement judge(const ConnectionReport& connection, Severity fail_on = Severity::error);

/// What keeps a connection from passing although no rule was broken: a set-up that failed, a Terminate. Empty: nothing.
std::string ended_badly(const ConnectionReport& connection);
/// What of it could not be looked at. Empty: nothing.
std::string not_seen_whole(const ConnectionReport& connection);

/// failed: as a connection; the negotiation failed or was given up. A refusal in good order passes.
/// partial: not failed, but its beginning or its end is not in the capture, or octets of the streams are missing.
Judgement judge(const NegotiationReport& negotiation, Severity fail_on = Severity::error);
std::string ended_badly(const NegotiationReport& negotiation);
std::string not_seen_whole(const NegotiationReport& negotiation);

/// failed: a connection or negotiation that failed, none at all of a known protocol, or fewer than `expect`.
/// partial: one that is partial, or a part of the file was not read. Its connections are judged before.
Judgement judge(const FileReport& file, std::uint64_t expect = 0);

/// What is wrong with a file as a whole: no connection of a known protocol, or fewer than `expect`. Empty: nothing.
std::string shortfall(const FileReport& file, std::uint64_t expect);

/// Of a file without an MPA connection, for what shows nothing else: shortfall(), or that it holds negotiations alone.
std::string lack_of_mpa(const FileReport& file, std::uint64_t expect);

/// "the capture dropped 12 packets"
std::string dropped_text(std::uint64_t packets);

/// What stands in a file, in words: "12 packets of RoCEv2 (UDP port 4791), 3 TCP connections (40 packets)".
std::string contents_text(const FileReport& file);

}  // namespace parley::capture
