// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/check/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "parley/wire/mpa.h"
#include "wire/ib/packet.hpp"

namespace parley::sim::check {
namespace {

constexpr std::string_view agreement_checker = "agreement";

class Compare {
 public:
  Compare(const Attempt& attempt, Judge& judge) : attempt_(attempt), judge_(judge) {}

  void parameters(const End& i, const End& r) {
    const mpa::Parameters& a = i.parameters;
    const mpa::Parameters& b = r.parameters;
    const Instant at = r.find(CmEventKind::established)->at;
    equal(at, "the revision", a.revision, b.revision, "RFC 5044 §7.1.1");
    equal(at, "the use of CRC", a.crc, b.crc, "RFC 5044 §7.1.1");
    equal(at, "markers towards the responder", a.tx_markers, b.rx_markers, "RFC 5044 §4.3");
    equal(at, "markers towards the initiator", a.rx_markers, b.tx_markers, "RFC 5044 §4.3");
    equal(at, "the peer-to-peer model", a.peer_to_peer, b.peer_to_peer, "RFC 6581 §9.2");
    equal(at, "whether depths are negotiated", a.depths_negotiated, b.depths_negotiated, "RFC 6581 §9.1");
    rtr(at, a, b);
    if (!a.depths_negotiated || !b.depths_negotiated) return;
    depth(at, "initiator", a.ord, "responder", b.ird);
    depth(at, "responder", b.ord, "initiator", a.ird);
  }

  /// RoCE: each end's queue pair, and what the peer knows of it.
  void queue_pairs(const End& i, const End& r) {
    const ib::Parameters &a = *i.ib, &b = *r.ib;
    const Instant at = r.find(CmEventKind::established)->at;
    equal(at, "the responder's queue pair", a.remote_qp_num, b.qp_num, "IBA §12.6.8");
    if (!attempt_.datagrams) {  // their responder does not know its peer's queue pair, and there is no path MTU
      equal(at, "the initiator's queue pair", a.qp_num, b.remote_qp_num, "IBA §12.6.8");
      equal(at, "the path MTU", static_cast<int>(a.path_mtu), static_cast<int>(b.path_mtu), "IBA §12.6.5");
    }
    if (a.sgid != b.dgid || a.dgid != b.sgid) add(at, "the ends differ in their GIDs", "IBA §12.6.5");
    if (attempt_.datagrams) return;
    depth(at, "initiator", i.parameters.ord, "responder", r.parameters.ird, "IBA §12.7.29");
    depth(at, "responder", r.parameters.ord, "initiator", i.parameters.ird, "IBA §12.7.30");
  }

  void private_data(const End& i, const End& r, bool padded) {
    const std::string_view rule = padded ? "IBA §12.6.5" : "RFC 5044 §7.1.1";
    if (!same(r.private_data_got, i.private_data_given, padded))
      add(r.told.front().at, "the responder got other private data than the Request was given", rule);
    const CmEventRecord* up = i.find(CmEventKind::established);
    const CmEventRecord* no = i.find(CmEventKind::rejected);
    if ((up != nullptr && r.accepted) || (no != nullptr && r.refused)) {
      if (!same(i.private_data_got, r.private_data_given, padded))
        add((up != nullptr ? up : no)->at, "the initiator got other private data than the Reply was given", rule);
    }
  }

  void add(Instant at, std::string text, std::string_view rule = {}) {
    judge_.add(agreement_checker, at, attempt_.label, std::move(text), rule);
  }

 private:
  template <class T>
  void equal(Instant at, std::string_view what, T a, T b, std::string_view rule) {
    if (a != b)
      add(at, fmt::format("the ends differ in {}: {} at the initiator, {} at the responder", what, a, b), rule);
  }
  // Revision 1 without S: the form is configured on each side and not negotiated (OFA 2007-10 Rtr §2).
  void rtr(Instant at, const mpa::Parameters& a, const mpa::Parameters& b) {
    const bool confirmed = (a.peer_flags & PARLEY_MPA_FLAG_S) != 0;
    if ((a.revision >= 2 || confirmed) && a.rtr != b.rtr)
      equal(at, "the RTR", mpa::to_string(a.rtr), mpa::to_string(b.rtr), "RFC 6581 §9.2");
  }
  void depth(Instant at, std::string_view from, std::uint16_t ord, std::string_view to, std::uint16_t ird,
             std::string_view rule = "RFC 6581 §9.1") {
    if (ord == mpa::depth_not_negotiated || ird == mpa::depth_not_negotiated || ord <= ird) return;
    add(at, fmt::format("the {}'s ORD {} is above the {}'s IRD {}", from, ord, to, ird), rule);
  }
  /// InfiniBand's messages have no length for the private data: unused octets are zero.
  static bool same(const Bytes& got, const Bytes& given, bool padded) {
    if (!padded) return got == given;
    return got.size() >= given.size() && std::equal(given.begin(), given.end(), got.begin()) &&
           std::all_of(got.begin() + static_cast<std::ptrdiff_t>(given.size()), got.end(),
                       [](std::uint8_t octet) { return octet == 0; });
  }

  const Attempt& attempt_;
  Judge& judge_;
};

std::string ending(const End* end) {
  if (end == nullptr) return "never heard of it";
  if (end->crashed) return "its host crashed";
  if (end->told.empty()) return "got no event";
  const CmEventRecord& last = end->told.back();
  return fmt::format("was told {}{}{}", to_string(last.what), last.words.empty() ? "" : ": ", last.words);
}

void check_alone(const End& end, const End* other, std::string_view name, std::string_view other_name, Instant now,
                 Compare& compare) {
  if (!end.established() || end.over() || end.stopped) return;
  if (other != nullptr && !other->over() && (other->established() || other->stopped)) return;
  compare.add(now, fmt::format("{} is still established alone: {} {}", name, other_name, ending(other)),
              "RFC 5044 §7.1.2");
}

// docs/cm.md: graceful means FIN from both ends with everything delivered.
void check_graceful(const End& end, const End* other, std::string_view name, std::string_view other_name,
                    Compare& compare) {
  if (!end.graceful() || (other != nullptr && (other->graceful() || other->crashed || other->dropped))) return;
  if (other != nullptr && !other->over()) return;  // reported by check_alone, or not reported yet
  // An end that waits for a FIN for at most its linger cannot know that the other has sent one (two generals problem).
  if (other != nullptr && (other->failed_in_close() || other->left_when_done())) return;
  compare.add(end.find(CmEventKind::disconnected)->at,
              fmt::format("{} was notified of a graceful end, but {} {}", name, other_name, ending(other)),
              "RFC 5044 §7.2");
}

}  // namespace

void check_agreement(const Attempt& attempt, bool ended, Instant now, Judge& judge) {
  Compare compare(attempt, judge);
  const End& i = attempt.initiator;
  const End* r = attempt.responder();
  const bool quirky = i.quirky || (r != nullptr && r->quirky);
  if (r != nullptr && !quirky && !attempt.corrupted) {
    if (i.established() && r->established()) {
      if (i.ib && r->ib)
        compare.queue_pairs(i, *r);
      else
        compare.parameters(i, *r);
    }
    compare.private_data(i, *r, attempt.roce);
  }
  if (!ended) return;
  if (i.established() && r == nullptr && !attempt.corrupted && !quirky)
    compare.add(i.find(CmEventKind::established)->at,
                "the initiator was notified of Established, but no responder heard of it");
  check_alone(i, r, "the initiator", "the responder", now, compare);
  if (r != nullptr) check_alone(*r, &i, "the responder", "the initiator", now, compare);
  // Two ends separated by a fault cannot know how the other one ended (two generals problem).
  if (attempt.touched || attempt.corrupted || quirky) return;
  check_graceful(i, r, "the initiator", "the responder", compare);
  if (r != nullptr) check_graceful(*r, &i, "the responder", "the initiator", compare);
}

// IBA §12.9: an ended connection is remembered for its timewait. A late copy of its REQ in that time must not reach the
// user.
void check_timewait(const Attempt& attempt, Judge& judge) {
  if (!attempt.roce || attempt.corrupted || attempt.initiator.find(CmEventKind::retrying) != nullptr) return;
  constexpr Duration least = std::chrono::milliseconds(100);  // ibcm::AgentOptions::timewait_min
  Compare compare(attempt, judge);
  const auto& ib = attempt.initiator.ib;
  // SIDR has no timewait: only the answer is kept, so that it can be repeated (ibcm's sidr.cpp).
  constexpr Duration answer_kept = std::chrono::seconds(8);
  const Duration timewait = std::max<Duration>(least, ib ? wire::ib::timeout_of(ib->timeout) : Duration{});
  for (std::size_t i = 1; i < attempt.responders.size(); ++i) {
    const End &before = *attempt.responders[i - 1], &again = *attempt.responders[i];
    if (before.crashed || before.dropped || before.refused || before.incarnation != again.incarnation) continue;
    const CmEventRecord* answered = before.find(CmEventKind::established);
    const bool forgotten = attempt.datagrams
                               ? answered != nullptr && again.told.front().at - answered->at >= answer_kept
                               : before.over() && again.told.front().at - before.told.back().at >= timewait;
    if (forgotten) continue;
    compare.add(again.told.front().at,
                "the responder was asked about the same request a second time, before it could forget the first",
                "IBA §12.9");
  }
}

}  // namespace parley::sim::check
