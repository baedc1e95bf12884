// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "replay/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace parley::replay {
namespace {

using wire::RdmapOpcode;
using Found = std::optional<Mismatch>;

using Range = std::pair<std::size_t, std::size_t>;  // begin and end

/// The octets of the fields, in order and without overlap.
std::vector<Range> ranges_of(std::span<const Field> fields) {
  std::vector<Range> out;
  for (const Field& f : fields) out.emplace_back(f.offset, f.offset + f.size());
  std::sort(out.begin(), out.end());
  std::size_t kept = 0;
  for (const Range& r : out) {
    if (kept > 0 && r.first <= out[kept - 1].second)
      out[kept - 1].second = std::max(out[kept - 1].second, r.second);
    else
      out[kept++] = r;
  }
  out.resize(kept);
  return out;
}

/// The end of the range that `at` is in; `at` itself if it is in none. The ranges are in order.
std::size_t end_of_range(std::span<const Range> ranges, std::size_t at) {
  const auto next =
      std::upper_bound(ranges.begin(), ranges.end(), at, [](std::size_t x, const Range& r) { return x < r.first; });
  return next == ranges.begin() ? at : std::max(at, std::prev(next)->second);
}

/// The first difference outside of masked and unknown octets. There may be many large unknown ranges: each is skipped
/// in one step.
std::optional<std::size_t> differs_at(ConstBytes recorded, ConstBytes live, std::span<const Field> masks,
                                      std::span<const Range> unknown) {
  const std::size_t n = std::min(recorded.size(), live.size());
  const std::vector<Range> masked = ranges_of(masks);
  for (std::size_t at = 0; at < n;) {
    const ConstBytes rest = recorded.subspan(at, n - at);
    at += static_cast<std::size_t>(
        std::mismatch(rest.begin(), rest.end(), live.begin() + static_cast<std::ptrdiff_t>(at)).first - rest.begin());
    if (at == n) break;
    const std::size_t past = std::max(end_of_range(masked, at), end_of_range(unknown, at));
    if (past == at) return at;
    at = past;
  }
  return {};
}

constexpr std::array<std::string_view, compared_count> names{"revision",
                                                             "M",
                                                             "C",
                                                             "R",
                                                             "S",
                                                             "reserved",
                                                             "IRD",
                                                             "ORD",
                                                             "RTR",
                                                             "PD_Length",
                                                             "private-data",
                                                             "version",
                                                             "STag",
                                                             "TO",
                                                             "QN",
                                                             "MSN",
                                                             "MO",
                                                             "length",
                                                             "payload",
                                                             "terminate",
                                                             "terminate-order",
                                                             "marker",
                                                             "pad",
                                                             "service",
                                                             "P_Key",
                                                             "responder-resources",
                                                             "initiator-depth",
                                                             "retry-count",
                                                             "rnr-retry-count",
                                                             "flow-control",
                                                             "SRQ",
                                                             "path-MTU",
                                                             "timeouts",
                                                             "failover",
                                                             "reason",
                                                             "Q_Key",
                                                             "R_Key",
                                                             "VA",
                                                             "immediate",
                                                             "solicited"};

/// Compares two items, except for ignored fields.
class Comparison {
 public:
  Comparison(const Item& recorded, const Item& live, std::span<const Field> masks, std::uint32_t less,
             const Leniency& leniency)
      : recorded_(recorded), live_(live), masks_(masks), less_(less), leniency_(leniency) {}
  Found items() const;

 private:
  /// `what` and `rule` of a difference in `field`, unless it is ignored. The text is formatted only if it is reported.
  template <class... Args>
  Found differs(Compared field, std::string_view rule, fmt::format_string<Args...> what, Args&&... args) const {
    const bool ignored = leniency_.ignored[static_cast<std::size_t>(field)];
    if (ignored && leniency_.told == nullptr) return {};
    Mismatch found{fmt::format(what, std::forward<Args>(args)...), std::string(rule)};
    if (!ignored) return found;
    leniency_.told->push_back(std::move(found));
    return {};
  }
  Found octets(Compared field, std::string_view name, ConstBytes recorded, ConstBytes live,
               std::span<const Range> unknown, std::string_view rule) const;
  Found startup() const;
  Found flags(const capture::StartupSeen& r, const capture::StartupSeen& l) const;
  Found enhanced(const capture::StartupSeen& r, const capture::StartupSeen& l) const;
  Found terminate() const;
  Found headers() const;
  Found untagged_header() const;
  Found read_request() const;
  Found message() const;
  Found faults() const;

  const Item &recorded_, &live_;
  std::span<const Field> masks_;
  std::uint32_t less_;
  const Leniency& leniency_;
};

Found Comparison::octets(Compared field, std::string_view name, ConstBytes recorded, ConstBytes live,
                         std::span<const Range> unknown, std::string_view rule) const {
  const auto at = differs_at(recorded, live, masks_, unknown);
  if (!at) return {};
  return differs(field, rule, "the {} differs at octet {}: recorded {:02x}, live {:02x}", name, *at,
                 recorded.subspan(*at, 1).front(), live.subspan(*at, 1).front());
}

std::string bits(const capture::StartupSeen& s) { return fmt::format("0x{:02x}", s.flags); }

std::string enhanced_text(const std::optional<wire::MpaEnhanced>& e) {
  if (!e) return "none";
  return fmt::format("A={:d} B={:d} C={:d} D={:d} IRD={} ORD={}", e->a, e->b, e->c, e->d, e->ird, e->ord);
}

Found Comparison::flags(const capture::StartupSeen& r, const capture::StartupSeen& l) const {
  const struct {
    Compared field;
    std::uint8_t mask;
    const char *name, *rule;
  } flags[] = {{Compared::m, PARLEY_MPA_FLAG_M, "M (markers required)", "RFC 5044 §4.3"},
               {Compared::c, PARLEY_MPA_FLAG_C, "C (CRC preferred)", "RFC 5044 §4.4"},
               {Compared::r, PARLEY_MPA_FLAG_R, "R (rejected)", "RFC 5044 §7.1.1"},
               {Compared::s, PARLEY_MPA_FLAG_S, "S (enhanced set-up)", "RFC 6581 §6"},
               {Compared::reserved, PARLEY_MPA_RES_V2, "bits that are reserved", "RFC 5044 §7.1.1"}};
  for (const auto& f : flags)
    if ((r.flags & f.mask) != (l.flags & f.mask))
      if (auto found = differs(f.field, f.rule, "{}: flags are {}, recorded were {}", f.name, bits(l), bits(r)))
        return found;
  return {};
}

Found Comparison::enhanced(const capture::StartupSeen& r, const capture::StartupSeen& l) const {
  const bool known = !r.enhanced || recorded_.octets_known >= PARLEY_MPA_HEADER_LEN + PARLEY_MPA_ENH_LEN;
  if (r.enhanced.has_value() == l.enhanced.has_value() && (!known || r.enhanced == l.enhanced)) return {};
  const auto say = [&](Compared field, std::string_view rule) {
    return differs(field, rule, "the enhanced data differ: recorded {}, live {}", enhanced_text(r.enhanced),
                   enhanced_text(l.enhanced));
  };
  // If only one has enhanced data, S differs. Ignoring S also ignores the enhanced data.
  if (!r.enhanced || !l.enhanced) return say(Compared::s, "RFC 6581 §9.1");
  const wire::MpaEnhanced &re = *r.enhanced, &le = *l.enhanced;
  if (re.ird != le.ird)
    if (auto found = say(Compared::ird, "RFC 6581 §9.1")) return found;
  if (re.ord != le.ord)
    if (auto found = say(Compared::ord, "RFC 6581 §9.1")) return found;
  if (re.a != le.a || re.b != le.b || re.c != le.c || re.d != le.d) return say(Compared::rtr, "RFC 6581 §9.2");
  return {};
}

Found Comparison::startup() const {
  if (!recorded_.startup || !live_.startup) return Mismatch{"one of the two is not a startup frame", "RFC 5044 §7.1.1"};
  const capture::StartupSeen &r = *recorded_.startup, &l = *live_.startup;
  if (r.key != l.key || (r.key == wire::MpaKey::unknown &&
                         !std::equal(recorded_.octets.begin(), recorded_.octets.begin() + 16, live_.octets.begin())))
    return Mismatch{fmt::format("the key is \"{}\", recorded was \"{}\"", to_string(l.key), to_string(r.key)),
                    "RFC 5044 §7.1.1"};
  if (r.revision != l.revision)
    if (auto found =
            differs(Compared::revision, "RFC 6581 §10", "the revision is {}, recorded was {}", l.revision, r.revision))
      return found;
  if (auto found = flags(r, l)) return found;
  if (auto found = enhanced(r, l)) return found;
  if (r.pd_length != l.pd_length)
    if (auto found = differs(Compared::pd_length, "RFC 5044 §7.1.1", "PD_Length is {}, recorded was {}", l.pd_length,
                             r.pd_length))
      return found;
  const std::size_t header = recorded_.octets.size() - r.private_data.size();
  std::vector<Range> unknown;
  if (recorded_.octets_known < recorded_.octets.size())
    unknown.emplace_back(recorded_.octets_known - std::min(recorded_.octets_known, header), r.private_data.size());
  return octets(Compared::private_data, "private data", r.private_data, l.private_data, unknown, "");
}

Found Comparison::terminate() const {
  const auto r = wire::Terminate::parse(recorded_.payload), l = wire::Terminate::parse(live_.payload);
  if (!recorded_.unknown.empty() && recorded_.unknown.front().first < 4) return {};
  if (!r || !l) {
    if (!r && !l) return {};
    return Mismatch{"one of the two Terminates is too short for its control octets", "RFC 5040 §4.8"};
  }
  const auto words = [](const wire::Terminate& t) {
    const std::string_view text = wire::terminate_text(t.layer, t.etype, t.code);
    return fmt::format("layer {}, type {}, code {}{}{}", t.layer, t.etype, t.code, text.empty() ? "" : ", ", text);
  };
  if (r->layer != l->layer || r->etype != l->etype || r->code != l->code)
    if (auto found = differs(Compared::terminate, "RFC 5040 §4.8", "the Terminate says {}; recorded was {}", words(*l),
                             words(*r)))
      return found;
  if (r->nibbles_swapped != l->nibbles_swapped)
    return differs(Compared::terminate_order, "RFC 5040 §4.8",
                   "the control octets of the Terminate are in another order: the {} side has them as Linux siw does",
                   r->nibbles_swapped ? "recorded" : "live");
  return {};
}

Found Comparison::untagged_header() const {
  const wire::DdpHeader &r = recorded_.header, &l = live_.header;
  if (r.qn != l.qn)
    if (auto found = differs(Compared::qn, "RFC 5041 §4.3", "QN {}, recorded was {}", l.qn, r.qn)) return found;
  if (r.msn - less_ != l.msn)
    if (auto found = differs(Compared::msn, "RFC 5041 §5.3", "MSN {}, recorded was {}", l.msn, r.msn)) return found;
  if (r.mo != l.mo)
    if (auto found = differs(Compared::mo, "RFC 5041 §4.3", "MO {}, recorded was {}", l.mo, r.mo)) return found;
  const bool invalidates = r.opcode == RdmapOpcode::send_inv || r.opcode == RdmapOpcode::send_se_inv;
  if (invalidates && r.stag != l.stag)
    return differs(Compared::stag, "RFC 5040 §4.1", "STag 0x{:08x} is to be invalidated, recorded was 0x{:08x}", l.stag,
                   r.stag);
  return {};
}

Found Comparison::headers() const {
  const wire::DdpHeader &r = recorded_.header, &l = live_.header;
  if (r.opcode == l.opcode && r.tagged != l.tagged)
    return Mismatch{fmt::format("the {} is {}, recorded was {}", to_string(l.opcode), l.tagged ? "tagged" : "untagged",
                                r.tagged ? "tagged" : "untagged"),
                    "RFC 5041 §4.1"};
  if (r.opcode != l.opcode)
    return Mismatch{fmt::format("{}, recorded was {}", to_string(l.opcode), to_string(r.opcode)), "RFC 5040 §4.1"};
  if (r.ddp_version != l.ddp_version || r.rdmap_version != l.rdmap_version)
    if (auto found =
            differs(Compared::version, "RFC 5041 §4.1", "DDP version {} and RDMAP version {}, recorded were {} and {}",
                    l.ddp_version, l.rdmap_version, r.ddp_version, r.rdmap_version))
      return found;
  if (!r.tagged) return untagged_header();
  if (r.stag != l.stag)
    if (auto found = differs(Compared::stag, "RFC 5041 §4.2", "STag 0x{:08x}, recorded was 0x{:08x}", l.stag, r.stag))
      return found;
  if (r.to != l.to) return differs(Compared::to, "RFC 5041 §4.2", "TO 0x{:x}, recorded was 0x{:x}", l.to, r.to);
  return {};
}

Found Comparison::read_request() const {
  const auto r = wire::ReadRequest::parse(recorded_.payload), l = wire::ReadRequest::parse(live_.payload);
  if (!r || !l || !recorded_.unknown.empty()) return {};
  if (r->size != l->size)
    if (auto found =
            differs(Compared::length, "RFC 5040 §4.4", "{} octets are asked for, recorded were {}", l->size, r->size))
      return found;
  // An empty Read accesses no memory, so its STag and TO have no meaning (RFC 5040 §4.4).
  if (r->size == 0) return {};
  const auto say = [&](Compared field) {
    return differs(field, "RFC 5040 §4.4",
                   "the source is STag 0x{:08x}, TO 0x{:x}; recorded was STag 0x{:08x}, TO 0x{:x}", l->source_stag,
                   l->source_to, r->source_stag, r->source_to);
  };
  if (r->source_stag != l->source_stag)
    if (auto found = say(Compared::stag)) return found;
  if (r->source_to != l->source_to) return say(Compared::to);
  return {};
}

// The octets that the recording lacks, and the identifier.
std::vector<Range> and_unknown(const Item& recorded, const Range& also) {
  std::vector<Range> out = recorded.unknown;
  out.push_back(also);
  std::sort(out.begin(), out.end());
  return out;
}

Found Comparison::faults() const {
  if (recorded_.marker_fault != live_.marker_fault)
    if (auto found = differs(Compared::marker, "RFC 5044 §4.3", "the {} side has a wrong marker in it",
                             live_.marker_fault ? "live" : "recorded"))
      return found;
  if (recorded_.pad_fault != live_.pad_fault)
    return differs(Compared::pad, "RFC 5044 §4.1", "the {} side has pad octets that are not 0",
                   live_.pad_fault ? "live" : "recorded");
  return {};
}

Found Comparison::message() const {
  const wire::DdpHeader& h = recorded_.header;
  const bool empty_tagged = h.tagged && recorded_.length == 0 && live_.length == 0 && h.opcode == live_.header.opcode;
  if (!empty_tagged)
    if (auto found = headers()) return found;
  if (recorded_.whole && !live_.whole) return Mismatch{"the message has no end (L)", "RFC 5041 §4.1"};
  if (auto found = faults()) return found;
  if (h.opcode == RdmapOpcode::terminate) return terminate();
  // If the recording lacks the end of a message, the rest of it is unknown.
  if (recorded_.whole ? recorded_.length != live_.length : recorded_.length > live_.length)
    if (auto found = differs(Compared::length, "", "{} octets, recorded were {}", live_.length, recorded_.length))
      return found;
  if (h.opcode == RdmapOpcode::read_request) return read_request();
  // RFC 7306 §5.2.1: the requester chooses the identifier; a response is compared by its value.
  if (h.opcode == RdmapOpcode::atomic_request)
    return octets(Compared::payload, "request", recorded_.payload, live_.payload, and_unknown(recorded_, {4, 8}),
                  "RFC 7306 §5.2.1");
  if (h.opcode == RdmapOpcode::atomic_response)
    return octets(Compared::payload, "response", recorded_.payload, live_.payload, and_unknown(recorded_, {0, 4}),
                  "RFC 7306 §5.2.2");
  return octets(Compared::payload, "payload", recorded_.payload, live_.payload, recorded_.unknown, "");
}

Found Comparison::items() const {
  if (recorded_.kind != live_.kind)
    return Mismatch{fmt::format("{} came where {} was recorded", describe(live_), describe(recorded_)), ""};
  switch (recorded_.kind) {
    case Item::Kind::startup: return startup();
    case Item::Kind::rtr_frame:
      return octets(Compared::payload, "Rtr frame", recorded_.octets, live_.octets, {}, "OFA 2007-10 Rtr §1");
    case Item::Kind::message: return message();
    case Item::Kind::raw: return octets(Compared::payload, "run of octets", recorded_.octets, live_.octets, {}, "");
    case Item::Kind::bad_crc:
    case Item::Kind::gap:
    case Item::Kind::fin:
    case Item::Kind::rst: return {};
  }
  return {};
}

}  // namespace

std::optional<std::size_t> differs_at(ConstBytes recorded, ConstBytes live, std::span<const Field> masks) {
  return differs_at(recorded, live, masks, {});
}

std::span<const std::string_view> compared_names() { return names; }

std::optional<Compared> find_compared(std::string_view name) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  for (std::size_t i = 0; i < names.size(); ++i)
    if (std::equal(name.begin(), name.end(), names[i].begin(), names[i].end(),
                   [&](char a, char b) { return lower(a) == lower(b); }))
      return static_cast<Compared>(i);
  return {};
}

Found compare(const Item& recorded, const Item& live, std::span<const Field> masks, std::uint32_t less,
              const Leniency& leniency) {
  return Comparison(recorded, live, masks, less, leniency).items();
}

}  // namespace parley::replay
