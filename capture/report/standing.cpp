// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/report/standing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "capture/report/text.hpp"
#include "capture/rules/neg/message_check.hpp"

namespace parley::capture {
namespace {

void add(std::string& to, const std::string& part) { to += (to.empty() ? "" : ", ") + part; }

template <class Report>
Judgement judged(const Report& r, Severity fail_on) {
  std::string why = ended_badly(r);
  for (const Severity s : {Severity::error, Severity::warning})
    if (const std::size_t n = s >= fail_on ? r.count(s) : 0; n > 0) add(why, counted(n, to_string(s)));
  if (!why.empty()) return {Standing::failed, std::move(why)};
  why = not_seen_whole(r);
  return {why.empty() ? Standing::passed : Standing::partial, std::move(why)};
}

/// Adds the missing octets of both directions, and the dropped packets.
template <class Report>
void add_what_is_missing(std::string& why, const Report& r) {
  if (const std::uint64_t n = r.from_initiator.missing_octets + r.from_responder.missing_octets; n > 0)
    add(why, fmt::format("{} {} not in the capture", counted(n, "octet"), n == 1 ? "is" : "are"));
  if (r.dropped > 0) add(why, dropped_text(r.dropped) + " while it was followed");
}

}  // namespace

std::string dropped_text(std::uint64_t packets) {
  return fmt::format("the capture dropped {}", counted(packets, "packet"));
}

std::string ended_badly(const ConnectionReport& c) {
  std::string why;
  if (c.outcome == Outcome::failed)
    add(why, c.ib && !c.ib->reason().empty() ? "the set-up failed: " + c.ib->reason() : "the set-up failed");
  if (c.ib && c.ib->nak)
    add(why, fmt::format("ended by a NAK of the {} ({}, frame {})", to_string(c.ib->nak->from),
                         to_string(static_cast<wire::ib::Nak>(c.ib->nak->code)), c.ib->nak->frame));
  if (c.terminate)
    add(why,
        fmt::format("ended by a Terminate of the {} (frame {})", to_string(c.terminate->from), c.terminate->frame));
  return why;
}

std::string not_seen_whole(const ConnectionReport& c) {
  std::string why;
  if (c.outcome == Outcome::incomplete) add(why, "the set-up was not completed");
  if (c.outcome == Outcome::not_captured && !c.to_group()) add(why, "the set-up is not in the capture");
  // A rejection without its Request or REQ does not show what was rejected.
  if (c.outcome == Outcome::rejected && (c.ib ? c.ib->req_frame == 0 : !c.request))
    add(why, "the set-up is not in the capture");
  if (c.ib)
    if (const std::uint64_t n = c.ib->ends[0].missing_packets + c.ib->ends[1].missing_packets; n > 0)
      add(why, fmt::format("{} {} not in the capture", counted(n, "packet"), n == 1 ? "is" : "are"));
  add_what_is_missing(why, c);
  return why;
}

Judgement judge(const ConnectionReport& c, Severity fail_on) { return judged(c, fail_on); }

std::string ended_badly(const NegotiationReport& n) {
  if (n.outcome != NegOutcome::failed) return {};
  if (n.abort) {
    const std::string_view error = neg_error_text(n.abort->error);
    return fmt::format("given up by the {} (frame {}{}{})", to_string(n.abort->from), n.abort->frame,
                       error.empty() ? "" : ": ", error);
  }
  return n.count(Severity::error) > 0 ? "a side broke the protocol" : "the connection was closed before its end";
}

std::string not_seen_whole(const NegotiationReport& n) {
  std::string why;
  if (n.hello_frame == 0)
    add(why, "its beginning is not in the capture");
  else if (n.outcome == NegOutcome::incomplete)
    add(why, "its end is not in the capture");
  add_what_is_missing(why, n);
  return why;
}

Judgement judge(const NegotiationReport& n, Severity fail_on) { return judged(n, fail_on); }

std::string shortfall(const FileReport& file, std::uint64_t expect) {
  const std::uint64_t connections = file.all_judged();
  if (connections == 0)
    return fmt::format("no connection of a known protocol; the capture holds {}", contents_text(file));
  if (connections >= expect) return {};
  return fmt::format("{}, at least {} expected", counted(connections, "connection"), expect);
}

std::string lack_of_mpa(const FileReport& file, std::uint64_t expect) {
  if (file.all_connections() > 0 || file.all_negotiations() == 0) return shortfall(file, expect);
  return fmt::format("no MPA connection; it holds {}, which parley pcap check judges",
                     counted(file.all_negotiations(), "QP negotiation"));
}

Judgement judge(const FileReport& file, std::uint64_t expect) {
  std::string why = shortfall(file, expect);
  const auto add_those = [&](Standing standing) {
    if (const std::size_t n = file.connections_of(standing); n > 0)
      add(why, fmt::format("{} {}", counted(n, "connection"), to_string(standing)));
    if (const std::size_t n = file.negotiations_of(standing); n > 0)
      add(why, fmt::format("{} {}", counted(n, "negotiation"), to_string(standing)));
  };
  add_those(Standing::failed);
  if (!why.empty()) return {Standing::failed, std::move(why)};
  add_those(Standing::partial);
  if (file.dropped > 0) add(why, dropped_text(file.dropped));
  if (!file.unread.empty()) add(why, "not read to its end");
  if (file.not_followed > 0) add(why, fmt::format("{} not looked at", counted(file.not_followed, "packet")));
  if (!why.empty()) return {Standing::partial, std::move(why)};
  return {};
}

std::string contents_text(const FileReport& file) {
  if (file.packets == 0) return "no packet";
  std::string out;
  const auto packets_of = [&out](std::uint64_t n, std::string_view what) {
    if (n > 0) add(out, fmt::format("{} {}", counted(n, "packet"), what));
  };
  packets_of(file.other.rocev2, "of RoCEv2 (UDP port 4791)");
  packets_of(file.other.rocev1, "of InfiniBand over Ethernet (RoCEv1, type 0x8915)");
  if (file.tcp_packets > 0)
    add(out, fmt::format("{} that {} not MPA ({})", counted(file.tcp_connections, "TCP connection"),
                         file.tcp_connections == 1 ? "is" : "are", counted(file.tcp_packets, "packet")));
  packets_of(file.other.udp, "of other UDP");
  packets_of(file.unsupported_packets, "of a link type that is not decoded");
  const std::uint64_t named = file.other.rocev2 + file.other.rocev1 + file.other.udp + file.tcp_packets +
                              file.unsupported_packets + file.copies;
  if (named < file.packets) add(out, counted(file.packets - named, "other packet"));
  return out;
}

}  // namespace parley::capture
