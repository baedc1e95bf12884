// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/mpa/startup_check.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace parley::capture {
namespace {

constexpr std::uint8_t erdma_revision = 129;
constexpr std::uint16_t unnegotiated = PARLEY_MPA_ENH_NOT_NEGOTIATED;

std::uint8_t reserved_bits(const StartupSeen& s) {
  return s.flags & PARLEY_MPA_RES_V2;  // without S, which is checked separately
}

mpa::RtrSet kinds(const wire::MpaEnhanced& e) { return {.send = e.b, .write = e.c, .read = e.d}; }

void check_revision(const StartupSeen& s, Side who, Findings& f) {
  if (s.revision == 0)
    f.add(s.frame, who, Rule::mpa_revision_0,
          fmt::format("the {} speaks revision 0, that of the RDMA Consortium", to_string(who)));
  const bool known = s.key == wire::MpaKey::req || s.key == wire::MpaKey::rep;
  if (known && s.revision == 0 && !s.r() && (!s.m() || !s.c()))
    // An appendix is informative, so this is only a warning.
    f.add(s.frame, who, Rule::mpa_revision_0_flags,
          fmt::format("the {} speaks revision 0 without {}: there, markers and CRC are always on", to_string(who),
                      s.m()   ? "C"
                      : s.c() ? "M"
                              : "M and C"));
  if (s.revision > 2)
    // RFC 5044 §7.1.1 knows revision 1, RFC 6581 §6 adds 2.
    f.add(s.frame, who, Rule::mpa_revision,
          fmt::format("the {} sent revision {}, which no RFC defines{}", to_string(who), s.revision,
                      s.revision == erdma_revision ? " (Alibaba's erdma uses it privately)" : ""));
}

void check_lengths(const StartupSeen& s, Side who, Findings& f) {
  if (s.pd_length > PARLEY_MPA_PD_MAX)
    f.add(s.frame, who, Rule::mpa_pd_length,
          fmt::format("the {} announced {} octets of private data (at most 512)", to_string(who), s.pd_length));
  if (s.revision >= 2 && s.s() && s.pd_length < PARLEY_MPA_ENH_LEN)
    f.add(s.frame, who, Rule::mpa_enhanced_room,
          fmt::format("the {} set S, but PD_Length {} has no room for the enhanced data", to_string(who), s.pd_length));
}

void check_enhanced(const StartupSeen& s, Side who, Findings& f) {
  if (!s.enhanced) return;
  const auto& e = *s.enhanced;
  if (!e.a && (e.b || e.c || e.d))
    f.add(s.frame, who, Rule::mpa_kinds_without_a, fmt::format("the {} set B, C or D although A is 0", to_string(who)));
  if (e.a && !e.b && !e.c && !e.d)
    f.add(s.frame, who, Rule::mpa_a_without_kinds, fmt::format("the {} set A but none of B, C and D", to_string(who)));
}

void check_reply_key(const StartupSeen& reply, Findings& f) {
  if (reply.key == wire::MpaKey::rep) return;
  if (reply.key == wire::MpaKey::req)
    // RFC 5044 §7.1.2 rule 8: two Initiators; each must close.
    f.add(reply.frame, Side::responder, Rule::mpa_two_initiators,
          "the responder answered with a Request key: both sides are initiators");
  else
    f.add(reply.frame, Side::responder, Rule::mpa_reply_key,
          "the responder answered with a key that is not that of a Reply");
}

void check_reply_bits(const StartupSeen* q, const StartupSeen& r, Findings& f) {
  if (const std::uint8_t bits = reserved_bits(r); bits != 0)
    f.add(r.frame, Side::responder, Rule::mpa_reserved,
          fmt::format("the responder set reserved bits 0x{:02x} in its Reply{}", bits,
                      q != nullptr && reserved_bits(*q) == bits ? ", echoing those of the Request" : ""));
  if (r.revision <= 1 && r.s()) {
    if (q != nullptr && !q->s())
      f.add(r.frame, Side::responder, Rule::mpa_s_unasked,
            "the responder set S (reserved under revision 1) in its Reply, unasked");
    else if (q != nullptr && reserved_bits(*q) != 0 && reserved_bits(*q) == reserved_bits(r))
      f.add(r.frame, Side::responder, Rule::mpa_s_echoed,
            "the responder echoed S with the other reserved bits: it does not mean the Rtr frame");
  }
}

void check_reply_revision(const StartupSeen& q, const StartupSeen& r, Findings& f) {
  if (q.revision == 0 && r.revision == 1)
    f.add(r.frame, Side::responder, Rule::mpa_revision_0_answer,
          "the responder does not speak revision 0 and answered with revision 1; the connection ends here");
  else if (r.revision > q.revision && r.revision <= 2)
    f.add(r.frame, Side::responder, Rule::mpa_reply_revision,
          fmt::format("the responder answered revision {} with revision {}", q.revision, r.revision));
  if (r.revision < q.revision && q.revision <= 2)
    f.add(r.frame, Side::responder, Rule::mpa_reply_revision_lower,
          fmt::format("the responder answered revision {} with revision {}; one that does not know it closes the "
                      "connection instead",
                      q.revision, r.revision));
  if (q.revision >= 2 && r.revision >= 2 && q.s() && !r.s())
    f.add(r.frame, Side::responder, Rule::mpa_enhanced_unanswered,
          "the responder answered an enhanced Request with a Reply without enhanced data");
  if (q.revision >= 2 && r.revision >= 2 && !q.s() && r.s())
    f.add(r.frame, Side::responder, Rule::mpa_enhanced_unasked,
          "the responder sent enhanced data to an initiator that sent none");
}

/// The fault for which a responder must not answer the Request; empty: none.
std::string improper(const StartupSeen& q) {
  if (q.key != wire::MpaKey::req) return "has another key";
  if (q.pd_length > PARLEY_MPA_PD_MAX) return fmt::format("announces {} octets of private data", q.pd_length);
  if (q.revision == 2 && q.s() && q.pd_length < PARLEY_MPA_ENH_LEN) return "has no room for the enhanced data";
  return {};
}

// RFC 5044 §7.1.2 rule 2: an improper Request is not answered; the responder closes TCP.
void check_acceptance(const StartupSeen& q, const StartupSeen& r, Findings& f) {
  const std::string why = improper(q);
  if (why.empty() || r.key != wire::MpaKey::rep) return;
  if (r.r())
    f.add(r.frame, Side::responder, Rule::mpa_improper_rejected,
          fmt::format("the responder rejected a Request that {}; it must close the connection without a Reply", why));
  else
    f.add(r.frame, Side::responder, Rule::mpa_improper_accepted,
          fmt::format("the responder accepted a Request that {}; it must close the connection", why));
}

void check_depths(const wire::MpaEnhanced& q, const wire::MpaEnhanced& r, std::uint64_t frame, Findings& f) {
  if (q.ord == unnegotiated && r.ird != unnegotiated)
    f.add(frame, Side::responder, Rule::mpa_depth_unnegotiated,
          fmt::format("the initiator's ORD 0x3fff asks not to negotiate; the responder answered IRD {}", r.ird));
  if (q.ird == unnegotiated && r.ord != unnegotiated)
    f.add(frame, Side::responder, Rule::mpa_depth_unnegotiated,
          fmt::format("the initiator's IRD 0x3fff asks not to negotiate; the responder answered ORD {}", r.ord));
  if (q.ird != unnegotiated && r.ord != unnegotiated && r.ord > q.ird)
    f.add(frame, Side::responder, Rule::mpa_ord_above_ird,
          fmt::format("the responder's ORD {} is more than the initiator's IRD {}: the initiator must raise it or "
                      "terminate",
                      r.ord, q.ird));
  if (q.ord != unnegotiated && r.ird != unnegotiated && r.ird < q.ord)
    f.add(frame, Side::responder, Rule::mpa_ord_lowered,
          fmt::format("the responder's IRD {} lowers the initiator's ORD from {}", r.ird, q.ord));
}

void check_peer_to_peer(const wire::MpaEnhanced& q, const wire::MpaEnhanced& r, std::uint64_t frame, Findings& f) {
  if (q.a != r.a)
    f.add(frame, Side::responder, Rule::mpa_a_answer,
          fmt::format("the responder answered A={} with A={}", q.a ? 1 : 0, r.a ? 1 : 0));
  if (!q.a || !r.a) return;
  const bool send = q.b && r.b, write = q.c && r.c, read = q.d && r.d;
  if (!send && !write && !read)
    f.add(frame, {}, Rule::mpa_no_common_rtr,
          "the two sides have no RTR kind in common: the initiator must terminate (layer 2, code 7)");
  if (read && !send && !write && r.ird == 0)
    f.add(frame, Side::responder, Rule::mpa_read_rtr_ird,
          "the responder agreed to a Read as RTR but did not raise its IRD from 0 to 1");
}

Known known(bool value) { return value ? Known::yes : Known::no; }

// A Request alone decides what does not depend on the Reply: CRC, if it has C, and the markers to the initiator.
void agree_on_request(const StartupSeen& request, Agreement& a) {
  a.revision = request.revision;
  a.crc = request.c() ? Known::yes : Known::unknown;
  a.markers_to_initiator = known(request.m());
  if (!request.enhanced) return;
  a.ird = request.enhanced->ird;
  a.ord = request.enhanced->ord;
}

void agree_on_reply(const StartupSeen& reply, Agreement& a) {
  a.revision = reply.revision;
  a.accepted = !reply.r();
  if (reply.c()) a.crc = Known::yes;
  a.markers_to_responder = known(reply.m());
}

void agree_on_both(const StartupSeen& request, const StartupSeen& reply, Agreement& a) {
  a.revision = std::min(request.revision, reply.revision);
  a.crc = known(request.c() || reply.c());
  a.rtr_frame = request.revision <= 1 && reply.revision <= 1 && request.s() && reply.s();
}

void agree_on_enhanced(const wire::MpaEnhanced& q, const wire::MpaEnhanced& r, Agreement& a) {
  a.peer_to_peer = q.a && r.a;
  if (a.peer_to_peer) {
    const auto o = kinds(q), t = kinds(r);
    a.rtr = {.send = o.send && t.send, .write = o.write && t.write, .read = o.read && t.read};
  }
  a.depths = true;
  // RFC 6581 §9.1: the initiator sets ORD to at most the responder's IRD, and IRD to at least the responder's ORD.
  if (q.ord != unnegotiated && r.ird != unnegotiated) {
    a.ord = std::min(q.ord, r.ird);
    a.initiator_reads = r.ird;
  }
  if (q.ird != unnegotiated && r.ord != unnegotiated) {
    a.ird = std::max(q.ird, r.ord);
    a.responder_reads = r.ord;
  }
}

}  // namespace

bool begins_like(ConstBytes head, std::string_view text) {
  const std::size_t n = std::min(head.size(), text.size());
  return std::equal(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(n), text.begin(),
                    [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
}

void check_request(const StartupSeen& q, Findings& f) {
  if (q.key == wire::MpaKey::rep)
    f.add(q.frame, Side::initiator, Rule::mpa_initiator_reply, "the initiator began with a Reply key");
  else if (q.key != wire::MpaKey::req)
    f.add(q.frame, Side::initiator, Rule::mpa_request_key,
          "the initiator began with a key that is not that of a Request");
  if (q.r()) f.add(q.frame, Side::initiator, Rule::mpa_request_r, "the initiator set R, which is 0 in a Request");
  if (const std::uint8_t bits = reserved_bits(q); bits != 0)
    f.add(q.frame, Side::initiator, Rule::mpa_reserved,
          fmt::format("the initiator set reserved bits 0x{:02x} in its Request", bits));
  if (q.revision <= 1 && q.s())
    f.add(q.frame, Side::initiator, Rule::mpa_s_offered,
          "the initiator set S under revision 1: it offers the Rtr frame of 2007 (to RFC 5044 the bit is reserved)");
  check_revision(q, Side::initiator, f);
  check_lengths(q, Side::initiator, f);
  check_enhanced(q, Side::initiator, f);
  if (!q.c())
    // CRC must be on by default. An administrator may have disabled it, which the wire does not show.
    f.add(q.frame, Side::initiator, Rule::mpa_crc_not_asked,
          "the initiator did not ask for CRC (C=0), which must be the default");
}

void check_reply(const std::optional<StartupSeen>& request, const StartupSeen& r, Findings& f) {
  const StartupSeen* q = request ? &*request : nullptr;
  check_reply_key(r, f);
  check_reply_bits(q, r, f);
  check_revision(r, Side::responder, f);
  check_lengths(r, Side::responder, f);
  if (q != nullptr) check_reply_revision(*q, r, f);
  if (q != nullptr) check_acceptance(*q, r, f);
  if (r.r()) {
    f.add(r.frame, Side::responder, Rule::mpa_rejected,
          fmt::format("the responder rejected the connection (R=1){}",
                      q != nullptr && q->c() && !r.c() ? "; it shows C=0 to an initiator that wants CRC" : ""));
    if (q != nullptr && q->m())
      f.add(r.frame, Side::responder, Rule::mpa_markers_refused,
            "the responder rejected a Request that requires markers; every sender must be able to insert them");
    if (q != nullptr && q->r())
      f.add(r.frame, Side::responder, Rule::mpa_reply_r_echoed, "the Reply's R=1 may only be an echo of the Request's");
    return;
  }
  check_enhanced(r, Side::responder, f);
  if (q == nullptr || !q->enhanced || !r.enhanced) return;
  check_depths(*q->enhanced, *r.enhanced, r.frame, f);
  check_peer_to_peer(*q->enhanced, *r.enhanced, r.frame, f);
}

bool proper_request(const StartupSeen& q) {
  const bool known_revision = q.revision == 1 || q.revision == 2;
  const bool enhanced_lost = q.s() && q.revision == 2 && !q.enhanced;
  return q.key == wire::MpaKey::req && known_revision && q.pd_length <= PARLEY_MPA_PD_MAX && !enhanced_lost;
}

bool invalid_reply(const StartupSeen& r) {
  return r.key != wire::MpaKey::rep || r.pd_length > PARLEY_MPA_PD_MAX || r.revision > 2 ||
         (r.revision == 2 && r.s() && r.pd_length < PARLEY_MPA_ENH_LEN);
}

bool depths_fit(const wire::MpaEnhanced& q, const wire::MpaEnhanced& r) {
  const auto within = [](std::uint16_t ord, std::uint16_t ird) {
    return ord == unnegotiated || ird == unnegotiated || ord <= ird;
  };
  const bool read_rtr = q.a && r.a && q.d && r.d;
  return within(r.ord, q.ird) && within(q.ord, r.ird) && !(read_rtr && r.ird == 0);
}

bool may_refuse(const std::optional<StartupSeen>& q, const StartupSeen& r) {
  if (r.m() || r.revision > 2 || r.pd_length > PARLEY_MPA_PD_MAX) return true;
  if (!q) return false;
  return r.revision != q->revision || (q->s() && q->revision >= 2 && !r.s());
}

Agreement agree(const std::optional<StartupSeen>& request, const std::optional<StartupSeen>& reply) {
  Agreement a;
  if (request) agree_on_request(*request, a);
  if (reply) agree_on_reply(*reply, a);
  if (!request || !reply) return a;
  agree_on_both(*request, *reply, a);
  if (request->enhanced && reply->enhanced && !reply->r()) agree_on_enhanced(*request->enhanced, *reply->enhanced, a);
  return a;
}

StartupSeen read_startup(const wire::MpaFrameView& frame, std::size_t known) {
  StartupSeen s;
  s.key = frame.key;
  s.flags = frame.flags;
  s.revision = frame.revision;
  s.pd_length = frame.pd_length;
  ConstBytes data = frame.private_data.first(std::min(known, frame.private_data.size()));
  s.enhanced_cut =
      frame.revision >= 2 && frame.s() && frame.pd_length >= PARLEY_MPA_ENH_LEN && data.size() < PARLEY_MPA_ENH_LEN;
  // RFC 6581 §6: the private data begins with the enhanced data.
  if (frame.revision >= 2 && frame.s() && !s.enhanced_cut)
    if (const auto e = wire::MpaEnhanced::parse(data)) {
      s.enhanced = *e;
      data = data.subspan(PARLEY_MPA_ENH_LEN);
    }
  if (s.enhanced_cut) data = {};
  s.private_data.assign(data.begin(), data.end());
  s.private_data_whole = frame.complete() && known >= frame.pd_length;
  return s;
}

std::string describe_startup(const StartupSeen& s) {
  std::string out = fmt::format("rev={}", s.revision);
  if (s.m()) out += " M";
  if (s.c()) out += " C";
  if (s.r()) out += " R";
  if (s.s()) out += " S";
  if (reserved_bits(s) != 0) out += fmt::format(" res=0x{:02x}", reserved_bits(s));
  if (s.enhanced) {
    const auto& e = *s.enhanced;
    out += fmt::format("{}{}{}{} ird={} ord={}", e.a ? " A" : "", e.b ? "+B" : "", e.c ? "+C" : "", e.d ? "+D" : "",
                       e.ird, e.ord);
  }
  const std::size_t own = s.enhanced ? PARLEY_MPA_ENH_LEN : 0;
  if (s.pd_length > own) out += fmt::format(" pd={}", s.pd_length - own);
  return out;
}

}  // namespace parley::capture
