// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mpa/negotiate.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace parley::mpa {
namespace {

constexpr std::uint16_t unset = depth_not_negotiated;

constexpr std::string_view ord_lowered = "ORD lowered from {a} to the peer's IRD of {b} (RFC 6581 §9.1)";
constexpr std::string_view rtr_chosen = "the RTR is a {r}: kinds offered {x}, answered {y} (RFC 6581 §9.2)";

std::string number(unsigned v) { return v == unset ? "0x3FFF (not negotiated)" : std::to_string(v); }

std::string name_of(Rtr rtr) {
  switch (rtr) {
    case Rtr::send: return "zero-length Send";
    case Rtr::write: return "zero-length Write";
    case Rtr::read: return "zero-length Read";
    case Rtr::frame: return "Rtr frame";
    case Rtr::none: break;
  }
  return "no RTR";
}

std::uint16_t ceiling(const StartupOptions& o) { return std::max(o.ird, o.ird_max); }

bool depth_in_range(std::uint16_t v) { return v <= depth_not_negotiated; }

// The order of preference where this side may choose: a Write needs nothing from the responder, a Read needs IRD and an
// answer, a Send consumes a receive buffer (RFC 6581 §9.2).
constexpr std::array preference{Rtr::write, Rtr::read, Rtr::send};

Rtr first_of(const RtrSet& set) {
  for (Rtr r : preference)
    if (set.has(r)) return r;
  return Rtr::none;
}

RtrSet either(const RtrSet& x, const RtrSet& y) { return {x.send || y.send, x.write || y.write, x.read || y.read}; }

RtrSet kinds_of(const wire::MpaEnhanced& e) { return {e.b, e.c, e.d}; }

}  // namespace

void add_reason(Parameters& p, const Reason& reason) {
  if (p.reasons.size() < reasons_max) p.reasons.add(reason);
}

std::string Reason::to_string() const {
  std::string out;
  out.reserve(text.size() + 64);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{' || i + 2 >= text.size() || text[i + 2] != '}') {
      out += text[i];
      continue;
    }
    switch (text[i + 1]) {
      case 'a': out += number(a); break;
      case 'b': out += number(b); break;
      case 'c': out += number(c); break;
      case 'r': out += name_of(rtr); break;
      case 'w': out += word; break;
      case 'x': out += mpa::to_string(x); break;
      case 'y': out += mpa::to_string(y); break;
      default: break;
    }
    i += 2;
  }
  return out;
}

std::string to_string(const RtrSet& set) {
  std::string out;
  const auto add = [&](bool on, std::string_view text) {
    if (!on) return;
    if (!out.empty()) out += ", ";
    out += text;
  };
  add(set.send, "Send");
  add(set.write, "Write");
  add(set.read, "Read");
  return out.empty() ? "none" : out;
}

namespace {

auto bad(std::string_view sentence, std::int64_t a = 0, std::int64_t b = 0) {
  return fail(Errc::invalid_argument, sentence, a, b);
}

Result<void> check_ranges(const StartupOptions& o) {
  if (o.revision != 1 && o.revision != 2) return bad("mpa::Options::revision is {a}; must be 1 or 2", o.revision);
  if (!depth_in_range(o.ird))
    return bad("ird is {a}; must be 0 to {b}, or mpa::depth_not_negotiated", o.ird, depth_max);
  if (!depth_in_range(o.ord))
    return bad("ord is {a}; must be 0 to {b}, or mpa::depth_not_negotiated", o.ord, depth_max);
  if (o.ird_max > depth_max) return bad("mpa::Options::ird_max is {a}; at most {b}", o.ird_max, depth_max);
  if (o.private_data_max > PARLEY_MPA_PD_MAX)
    return bad("mpa::Options::private_data_max is {a}; at most {b}", o.private_data_max, PARLEY_MPA_PD_MAX);
  if (!find_quirk(o.peer_quirk)) return bad("mpa::Options::peer_quirk is the name of no quirk (`parley quirks`)");
  if (!find_quirk(o.play_quirk)) return bad("mpa::Options::play_quirk is the name of no quirk (`parley quirks`)");
  const Timeouts& t = o.timeouts;
  if (t.request < 0s) return bad("mpa::Options::timeouts.request is {a} ns; must be at least 0", t.request.count());
  if (t.reply < 0s) return bad("mpa::Options::timeouts.reply is {a} ns; must be at least 0", t.reply.count());
  if (t.rtr < 0s) return bad("mpa::Options::timeouts.rtr is {a} ns; must be at least 0", t.rtr.count());
  if (t.first_fpdu < 0s)
    return bad("mpa::Options::timeouts.first_fpdu is {a} ns; must be at least 0", t.first_fpdu.count());
  return {};
}

}  // namespace

Result<void> check_options(Role role, const StartupOptions& o) {
  if (auto ranges = check_ranges(o); !ranges) return ranges;
  if (role == Role::initiator) {
    // The Rtr frame exists under revision 1 only, and cannot be its own fallback (OFA 2007-10 Rtr §2).
    if (o.revision == 2 && o.rtr == Rtr::frame)
      return bad("mpa::Options::rtr is frame and revision is 2; the Rtr frame exists under revision 1 only");
    if (o.rtr_fallback == Rtr::frame) return bad("mpa::Options::rtr_fallback must not be frame, which it replaces");
    return {};
  }
  // RFC 6581 §9.2: a responder supports at least one kind. If that is only a Read, it needs an IRD of at least one.
  if (o.rtr_accept.empty()) return bad("mpa::Options::rtr_accept is empty; a responder takes at least one form");
  if (o.rtr_accept == RtrSet{.read = true} && ceiling(o) == 0)
    return bad("mpa::Options::rtr_accept is read alone, and ird and ird_max are 0: there is no room for that Read");
  if (o.rtr_expected == Rtr::frame) return bad("mpa::Options::rtr_expected is frame, which is always announced by S");
  return {};
}

RequestPlan plan_request(const StartupOptions& o, const Quirk& peer, const Quirk& play, Parameters& p) {
  RequestPlan plan{.revision = play.private_revision != 0 ? play.private_revision : o.revision};
  p.revision = plan.revision;
  p.crc = o.crc && !play.crc_off;
  p.rx_markers = o.markers;
  p.ird = o.ird;
  p.ord = o.ord;
  p.rtr = o.rtr;
  plan.flags = static_cast<std::uint8_t>((p.rx_markers ? PARLEY_MPA_FLAG_M : 0) | (p.crc ? PARLEY_MPA_FLAG_C : 0));

  if (plan.revision != 2) {
    const bool wants_s = o.rtr == Rtr::frame || (o.rtr_by_s && o.rtr != Rtr::none);
    if (wants_s && peer.echoes_reserved) {
      add_reason(p,
                 "S was not offered: this peer is known to echo reserved bits, so its S would prove nothing "
                 "(OFA 2007-10 Rtr §2)");
    } else if (wants_s) {
      plan.flags |= PARLEY_MPA_FLAG_S;
    } else if (p.rtr == Rtr::none && play.rtr_on_v1) {
      p.rtr = play.own_rtr;
    }
    if (p.rtr == Rtr::read && p.ord == 0) p.ord = 1;
    return plan;
  }

  plan.flags |= PARLEY_MPA_FLAG_S;  // RFC 6581 §6
  p.offered = o.rtr == Rtr::none ? RtrSet{} : either(o.rtr_offer, RtrSet::of(o.rtr));
  if (!play.rtr_offer.empty()) {
    p.offered = play.rtr_offer;
    p.rtr = play.own_rtr != Rtr::none ? play.own_rtr : first_of(p.offered);
  } else if (p.offered.empty() && peer.needs_peer_to_peer) {
    p.rtr = peer.own_rtr;
    p.offered = RtrSet::of(p.rtr);
    add_reason(p, {.text = "A=1 with a {r} was offered although not asked for: this peer resets client/server Requests "
                           "(RFC 6581 §9.2)",
                   .rtr = p.rtr});
  }
  p.peer_to_peer = !p.offered.empty();
  if (p.offered.read && p.ord == 0) {
    p.ord = 1;
    add_reason(p, "ORD raised from 0 to 1 for the zero-length Read offered as RTR (RFC 6581 §9.1)");
  }
  plan.enhanced = wire::MpaEnhanced{
      .a = p.peer_to_peer, .b = p.offered.send, .c = p.offered.write, .d = p.offered.read, .ird = p.ird, .ord = p.ord};
  return plan;
}

namespace {

// RFC 6581 §9.1, initiator's half.
Refusal settle_initiator_depths(const StartupOptions& o, const Quirk& play, const wire::MpaEnhanced& reply,
                                Parameters& p) {
  const bool literal = play.depth_cap != 0;  // the quirk: 0x3FFF is an ordinary number
  p.depths_negotiated = p.ird != unset && p.ord != unset && reply.ird != unset && reply.ord != unset;
  if (!p.depths_negotiated) add_reason(p, "IRD or ORD of 0x3FFF: those depths are left to the ULP (RFC 6581 §9.1)");
  if (p.ord != unset && reply.ird != unset && reply.ird < p.ord) {
    add_reason(p, {.text = ord_lowered, .a = p.ord, .b = reply.ird});
    p.ord = reply.ird;
  }
  const std::uint16_t room = literal ? play.depth_cap : ceiling(o);
  const bool too_deep = literal ? reply.ord > room : p.ird != unset && reply.ord != unset && reply.ord > room;
  if (too_deep)
    return {.terminate_code = 6,
            .code = Errc::insufficient_ird,
            .rule = "RFC 6581 §9.1",
            .received = "ORD " + number(reply.ord) + " in the Reply, this side has room for IRD " + number(room),
            .advice = "raise ird_max, or let the responder lower its ORD"};
  if (p.ird != unset && reply.ord != unset && reply.ord > p.ird) {
    add_reason(
        p, {.text = "IRD raised from {a} to meet the peer's ORD of {b} (RFC 6581 §9.1)", .a = p.ird, .b = reply.ord});
    p.ird = reply.ord;
  }
  return {};
}

Refusal no_rtr(std::string received, std::string advice) {
  return {.terminate_code = 7,
          .code = Errc::no_matching_rtr,
          .rule = "RFC 6581 §9.2",
          .received = std::move(received),
          .advice = std::move(advice)};
}

// RFC 6581 §9.2: the initiator's choice among the kinds that both sides named.
Refusal choose_rtr(const Quirk& play, bool read_possible, Parameters& p) {
  const auto exchanged = [&p] {
    return "kinds offered " + to_string(p.offered) + ", answered " + to_string(p.answered);
  };
  if (play.own_rtr_only) {
    const Rtr parsed = p.answered.write ? Rtr::write : p.answered.read ? Rtr::read : Rtr::none;
    if (parsed != play.own_rtr) return no_rtr(exchanged(), "answer with exactly the kind that was offered");
    p.rtr = parsed;
    return {};
  }
  RtrSet common = both(p.offered, p.answered);
  if (common.empty()) return no_rtr(exchanged(), "offer more kinds with rtr_offer");
  if (common.read && !read_possible) {
    common.read = false;
    if (common.empty())
      return {.terminate_code = 6,
              .code = Errc::insufficient_ird,
              .rule = "RFC 6581 §9.1",
              .received = "a zero-length Read as the only common RTR, and IRD 0",
              .advice = "offer Write or Send too"};
    add_reason(p, "the zero-length Read was not chosen: the responder has IRD 0 (RFC 6581 §9.1)");
  }
  const Rtr wanted = p.rtr;
  p.rtr = play.prefers_write ? first_of(common) : common.has(wanted) ? wanted : first_of(common);
  add_reason(p, {.text = rtr_chosen, .rtr = p.rtr, .x = p.offered, .y = p.answered});
  return {};
}

}  // namespace

Refusal judge_enhanced_reply(const StartupOptions& o, const Quirk& peer, const Quirk& play,
                             const wire::MpaEnhanced& reply, Parameters& p) {
  p.peer_ird = reply.ird;
  p.peer_ord = reply.ord;
  p.answered = reply.a || peer.omits_a || play.ignores_reply_a ? kinds_of(reply) : RtrSet{};
  if (Refusal r = settle_initiator_depths(o, play, reply, p); r.terminate_code != 0) return r;
  if (!p.peer_to_peer) {
    p.rtr = Rtr::none;
    p.answered = {};
    add_reason(p, reply.a
                      ? "the Reply has A=1 although the Request had A=0: ignored, the responder goes on when the first "
                        "message of this side's ULP arrives (RFC 6581 §9.2)"
                      : "client/server model: the initiator's ULP speaks first (RFC 6581 §9.2)");
    return {};
  }
  if (!reply.a) {
    const bool tolerated = peer.omits_a || play.ignores_reply_a;
    if (!tolerated)  // RFC 6581 §9.2: the responder copies A
      return no_rtr("A=0 in the Reply to a Request with A=1",
                    "use client/server (rtr none), or name the peer's quirk if it is known to leave A out");
    add_reason(p, "A=0 in the Reply was overlooked as this peer's known departure from RFC 6581 §9.2");
  }
  // If ORD is not negotiated, the ULP is responsible for the depth (RFC 6581 §9.1).
  return choose_rtr(play, p.ord > 0, p);
}

void judge_plain_reply(const StartupOptions& o, bool asked_s, bool reply_s, Parameters& p) {
  p.depths_negotiated = false;
  p.peer_to_peer = false;
  add_reason(p,
             "IRD and ORD were not negotiated, the ULP must agree on them: revision 1 carries none (RFC 5044 §7.1.1)");
  const bool wanted_s = o.rtr == Rtr::frame || (o.rtr_by_s && o.rtr != Rtr::none);
  if (!wanted_s) {
    if (reply_s) add_reason(p, "S=1 in the Reply was ignored: the Request had S=0 (OFA 2007-10 Rtr §2)");
    if (p.rtr != Rtr::none)
      add_reason(p, {.text = "the RTR is a {r} by configuration; nothing announced it", .rtr = p.rtr});
    return;
  }
  if (asked_s && reply_s) {
    add_reason(p, {.text = "both sides set S: the RTR is a {r} (OFA 2007-10 Rtr §2)", .rtr = p.rtr});
    return;
  }
  p.rtr = o.rtr_fallback;
  if (p.rtr == Rtr::read && p.ord == 0) p.ord = 1;
  const std::string_view before =
      asked_s ? "the Reply has S=0, the peer cannot take the RTR offered" : "without S the RTR is not agreed";
  add_reason(p, {.text = p.rtr == Rtr::none ? "{w}; instead the initiator's ULP must speak first (OFA 2007-10 Rtr §2)"
                                            : "{w}; instead a {r} by configuration (OFA 2007-10 Rtr §2)",
                 .word = before,
                 .rtr = p.rtr});
}

namespace {

struct Kinds {
  RtrSet answered;
  bool a = true;
};

// RFC 6581 §9.2, responder's half. Exactly one kind where possible, so that an initiator that parses C before D and
// insists on its own kind finds only that one.
Kinds answer_kinds(const StartupOptions& o, const Quirk& play, const RtrSet& offered, bool read_possible) {
  if (play.own_rtr_only) {
    const bool seen = offered.write || offered.read;  // such a peer does not know B
    return {seen ? RtrSet::of(play.own_rtr) : RtrSet{}, seen};
  }
  if (play.prefers_write) return {RtrSet::of(offered.read && !offered.write ? Rtr::read : Rtr::write), !play.omits_a};
  RtrSet able = o.rtr_accept;
  if (!read_possible) able.read = false;
  const RtrSet common = both(offered, able);
  if (play.own_rtr != Rtr::none && common.has(play.own_rtr)) return {RtrSet::of(play.own_rtr)};
  if (play.answers_every_common && !common.empty()) return {common};
  // None of the offered kinds is possible: name every kind that is.
  return {common.empty() ? able : RtrSet::of(first_of(common)), !play.omits_a};
}

// RFC 6581 §9.1, responder's half: IRD and ORD of the answer.
void answer_depths(const StartupOptions& o, const Quirk& play, bool read_chosen, wire::MpaEnhanced& e, Parameters& p) {
  const std::uint16_t want_ird = p.peer_ord, limit_ord = p.peer_ird;
  p.ird = o.ird;
  p.ord = o.ord;
  if (play.depth_cap != 0) {
    p.ird = std::min(want_ird, play.depth_cap);
    p.ord = std::min(limit_ord, play.depth_cap);
    e.ird = p.ird;
    e.ord = p.ord;
    p.depths_negotiated = true;
    return;
  }
  const bool ird_open = o.ird == unset || want_ird == unset, ord_open = o.ord == unset || limit_ord == unset;
  p.depths_negotiated = !ird_open && !ord_open;
  if (!p.depths_negotiated) add_reason(p, "IRD or ORD of 0x3FFF: those depths are left to the ULP (RFC 6581 §9.1)");
  if (!ird_open && want_ird > p.ird) {
    const std::uint16_t raised = std::min(want_ird, ceiling(o));
    if (raised > p.ird)
      add_reason(p, {.text = "IRD raised from {a} to {b} for the peer's ORD of {c} (RFC 6581 §9.1)",
                     .a = p.ird,
                     .b = raised,
                     .c = want_ird});
    p.ird = raised;
  }
  if (read_chosen && p.ird == 0 && !play.no_ird_raise) {
    p.ird = 1;
    add_reason(p, "IRD raised from 0 to 1 for the zero-length Read (RFC 6581 §9.1)");
  }
  if (!ord_open && limit_ord < p.ord) {
    add_reason(p, {.text = ord_lowered, .a = p.ord, .b = limit_ord});
    p.ord = limit_ord;
  }
  e.ird = ird_open ? unset : p.ird;
  e.ord = ord_open ? unset : p.ord;
}

}  // namespace

wire::MpaEnhanced answer_enhanced(const StartupOptions& o, const Quirk& play, const wire::MpaEnhanced& request,
                                  Parameters& p) {
  wire::MpaEnhanced e;
  p.peer_ird = request.ird;
  p.peer_ord = request.ord;
  p.offered = request.a ? kinds_of(request) : RtrSet{};  // RFC 6581 §9.2: ignored with A=0
  p.peer_to_peer = request.a;
  p.answered = {};
  p.rtr = Rtr::none;
  if (!request.a) {
    add_reason(p, "client/server model: the initiator's ULP speaks first (RFC 6581 §9.2)");
  } else {
    const bool read_possible = ceiling(o) > 0 || play.no_ird_raise;
    const Kinds kinds = answer_kinds(o, play, p.offered, read_possible);
    e.a = kinds.a;
    p.peer_to_peer = kinds.a || play.omits_a;
    p.answered = kinds.answered;
    p.rtr = first_of(p.answered);
    add_reason(p, {.text = both(p.offered, p.answered).empty()
                               ? "none of the offered RTR kinds is possible here: kinds offered {x}, answered {y} "
                                 "(RFC 6581 §9.2)"
                               : rtr_chosen,
                   .rtr = p.rtr,
                   .x = p.offered,
                   .y = p.answered});
    e.b = p.answered.send;
    e.c = p.answered.write;
    e.d = p.answered.read;
  }
  answer_depths(o, play, p.answered.read, e, p);
  return e;
}

bool answer_plain(const StartupOptions& o, const Quirk& peer, const Quirk& play, std::uint8_t revision, bool request_s,
                  Parameters& p) {
  p.peer_to_peer = false;
  p.depths_negotiated = false;
  p.ird = o.ird;
  p.ord = o.ord;
  p.rtr = revision == 1 ? o.rtr_expected : Rtr::none;
  add_reason(
      p, revision == 1
             ? "IRD and ORD were not negotiated, the ULP must agree on them: revision 1 carries none (RFC 5044 §7.1.1)"
             : "IRD and ORD were not negotiated, the ULP must agree on them: the Request had S=0 (RFC 6581 §6)");
  if (revision == 1 && p.rtr == Rtr::none) {
    if (play.rtr_on_v1) p.rtr = play.own_rtr;
    if (peer.rtr_on_v1) p.rtr = peer.own_rtr;
  }
  bool answer = false;
  if (revision == 1 && request_s && !play.echoes_reserved) {
    answer = o.accept_rtr_frame;
    p.announced = answer;
    if (answer && p.rtr == Rtr::none) p.rtr = Rtr::frame;
    add_reason(p, answer ? "both sides set S: the initiator sends an RTR next (OFA 2007-10 Rtr §2)"
                         : "S was answered with 0: the Rtr frame is switched off here (OFA 2007-10 Rtr §2)");
  }
  if (!answer && p.rtr != Rtr::none)
    add_reason(p, {.text = "a {r} is expected as RTR by configuration; nothing announced it", .rtr = p.rtr});
  if (p.rtr == Rtr::read && p.ird == 0) {
    p.ird = 1;
    add_reason(p, "IRD raised from 0 to 1 for the zero-length Read");
  }
  return answer;
}

void settle_flags(bool own_c, bool own_m, std::uint8_t peer_flags, Parameters& p) {
  const bool peer_c = (peer_flags & PARLEY_MPA_FLAG_C) != 0, peer_m = (peer_flags & PARLEY_MPA_FLAG_M) != 0;
  p.crc = own_c || peer_c;  // RFC 5044 §7.1.1: it is enough that one side asks for it
  p.rx_markers = own_m;     // RFC 5044 §4.3: each side's M governs what it receives
  p.tx_markers = peer_m;
  const std::string_view who = own_c && peer_c ? "both sides" : own_c ? "this side" : "the peer";
  add_reason(p,
             {.text = p.crc ? "CRC is on: {w} set C (RFC 5044 §4.4)" : "CRC is off: neither side set C (RFC 5044 §4.4)",
              .word = who});
  if (own_m || peer_m) {
    const std::string_view by = own_m && peer_m ? "both directions"
                                : own_m         ? "what this side receives"
                                                : "what this side sends";
    add_reason(p, {.text = "markers in {w} (RFC 5044 §4.3)", .word = by});
  }
}

}  // namespace parley::mpa
