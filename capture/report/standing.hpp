// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Makes the verdicts passed, partial and failed. All reports, the exit codes, JUnit, the matrix and the pages use these
// functions.
#pragma once
#include <cstdint>
#include <string>

#include "capture/report.hpp"

namespace parley::capture {

/// failed: a finding of severity error or warning that is at least `fail_on`, a failed set-up, a Terminate of either
/// side, or a NAK that moved a queue pair to ERR.
/// partial: not failed, but the capture lacks a part of the set-up or of the streams, or dropped packets.
Judgement judge(const ConnectionReport& connection, Severity fail_on = Severity::error);

/// Why a connection fails although no rule was broken: a failed set-up, a Terminate, a fatal NAK. Empty: no reason.
std::string ended_badly(const ConnectionReport& connection);
/// What could not be checked. Empty: nothing.
std::string not_seen_whole(const ConnectionReport& connection);

/// failed: such a finding, or the negotiation failed. A refusal without a fault passes.
/// partial: not failed, but the capture lacks its beginning, its end or octets of the streams, or dropped packets.
Judgement judge(const NegotiationReport& negotiation, Severity fail_on = Severity::error);
std::string ended_badly(const NegotiationReport& negotiation);
std::string not_seen_whole(const NegotiationReport& negotiation);

/// failed: a connection or negotiation failed, or there is none of a known protocol, or fewer than `expect`.
/// partial: not failed, but one is partial, packets were dropped or not followed, or the file was not read to its end.
/// The connections must have been judged before.
Judgement judge(const FileReport& file, std::uint64_t expect = 0);

/// What is wrong with a file as a whole: no connection of a known protocol, or fewer than `expect`. Empty: nothing.
std::string shortfall(const FileReport& file, std::uint64_t expect);

/// For output that shows only MPA connections: shortfall(), or that the file holds only QP negotiations.
std::string lack_of_mpa(const FileReport& file, std::uint64_t expect);

/// "the capture dropped 12 packets"
std::string dropped_text(std::uint64_t packets);

/// The contents of a file: "12 packets of RoCEv2 (UDP port 4791), 3 TCP connections that are not MPA (40 packets)".
std::string contents_text(const FileReport& file);

}  // namespace parley::capture
