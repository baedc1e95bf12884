// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "replay/compare.hpp"

#include <fmt/format.h>

#include <algorithm>

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

/// Where the range ends that `at` is in; `at` itself when it is in none. The ranges are in order.
std::size_t end_of_range(std::span<const Range> ranges, std::size_t at) {
  const auto next =
      std::upper_bound(ranges.begin(), ranges.end(), at, [](std::size_t x, const Range& r) { return x < r.first; });
  return next == ranges.begin() ? at : std::max(at, std::prev(next)->second);
}

/// Where two runs of octets differ, the masked and the unknown ones left out. What is unknown may be most of it, in
/// many ranges: each is left out at once.
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

Found octets_differ(std::string_view name, ConstBytes recorded, ConstBytes live, std::span<const Field> masks,
                    std::span<const std::pair<std::size_t, std::size_t>> unknown, std::string_view rule) {
  const auto at = differs_at(recorded, live, masks, unknown);
  if (!at) return {};
  return Mismatch{fmt::format("the {} differs at octet {}: recorded {:02x}, live {:02x}", name, *at,
                              recorded.subspan(*at, 1).front(), live.subspan(*at, 1).front()),
                  std::string(rule)};
}

std::string bits(const verdict::StartupSeen& s) { return fmt::format("0x{:02x}", s.flags); }

std::string enhanced_words(const std::optional<wire::MpaEnhanced>& e) {
  if (!e) return "none";
  return fmt::format("A={:d} B={:d} C={:d} D={:d} IRD={} ORD={}", e->a, e->b, e->c, e->d, e->ird, e->ord);
}

Found compare_startup(const Item& recorded, const Item& live, std::span<const Field> masks) {
  if (!recorded.startup || !live.startup) return Mismatch{"one of the two is no startup frame", "RFC 5044 §7.1.1"};
  const verdict::StartupSeen &r = *recorded.startup, &l = *live.startup;
  if (r.key != l.key || (r.key == wire::MpaKey::unknown &&
                         !std::equal(recorded.octets.begin(), recorded.octets.begin() + 16, live.octets.begin())))
    return Mismatch{fmt::format("the key is \"{}\", recorded was \"{}\"", to_string(l.key), to_string(r.key)),
                    "RFC 5044 §7.1.1"};
  if (r.revision != l.revision)
    return Mismatch{fmt::format("the revision is {}, recorded was {}", l.revision, r.revision), "RFC 6581 §10"};
  const struct {
    std::uint8_t mask;
    const char *name, *rule;
  } flags[] = {{PARLEY_MPA_FLAG_M, "M (markers required)", "RFC 5044 §4.3"},
               {PARLEY_MPA_FLAG_C, "C (CRC preferred)", "RFC 5044 §4.4"},
               {PARLEY_MPA_FLAG_R, "R (rejected)", "RFC 5044 §7.1.1"},
               {PARLEY_MPA_FLAG_S, "S (enhanced set-up)", "RFC 6581 §6"},
               {PARLEY_MPA_RES_V2, "bits that are reserved", "RFC 5044 §7.1.1"}};
  for (const auto& f : flags)
    if ((r.flags & f.mask) != (l.flags & f.mask))
      return Mismatch{fmt::format("{}: flags are {}, recorded were {}", f.name, bits(l), bits(r)), f.rule};
  const bool depths_known = !r.enhanced || recorded.octets_known >= PARLEY_MPA_HEADER_LEN + PARLEY_MPA_ENH_LEN;
  if (r.enhanced.has_value() != l.enhanced.has_value() || (depths_known && r.enhanced != l.enhanced)) {
    const bool rtr =
        r.enhanced && l.enhanced && r.enhanced->ird == l.enhanced->ird && r.enhanced->ord == l.enhanced->ord;
    return Mismatch{fmt::format("the enhanced data differ: recorded {}, live {}", enhanced_words(r.enhanced),
                                enhanced_words(l.enhanced)),
                    rtr ? "RFC 6581 §9.2" : "RFC 6581 §9.1"};
  }
  if (r.pd_length != l.pd_length)
    return Mismatch{fmt::format("PD_Length is {}, recorded was {}", l.pd_length, r.pd_length), "RFC 5044 §7.1.1"};
  const std::size_t header = recorded.octets.size() - r.private_data.size();
  std::vector<std::pair<std::size_t, std::size_t>> unknown;
  if (recorded.octets_known < recorded.octets.size())
    unknown.emplace_back(recorded.octets_known - std::min(recorded.octets_known, header), r.private_data.size());
  return octets_differ("private data", r.private_data, l.private_data, masks, unknown, "");
}

Found compare_terminate(const Item& recorded, const Item& live) {
  const auto r = wire::Terminate::parse(recorded.payload), l = wire::Terminate::parse(live.payload);
  if (!recorded.unknown.empty() && recorded.unknown.front().first < 4) return {};
  if (!r || !l) {
    if (!r && !l) return {};
    return Mismatch{"one of the two Terminates is too short for its control octets", "RFC 5040 §4.8"};
  }
  const auto words = [](const wire::Terminate& t) {
    const std::string_view text = wire::terminate_text(t.layer, t.etype, t.code);
    return fmt::format("layer {}, type {}, code {}{}{}", t.layer, t.etype, t.code, text.empty() ? "" : ", ", text);
  };
  if (r->layer != l->layer || r->etype != l->etype || r->code != l->code)
    return Mismatch{fmt::format("the Terminate says {}; recorded was {}", words(*l), words(*r)), "RFC 5040 §4.8"};
  if (r->nibbles_swapped != l->nibbles_swapped)
    return Mismatch{fmt::format("the control octets of the Terminate stand in another order: the {} side has them as "
                                "Linux siw does",
                                r->nibbles_swapped ? "recorded" : "live"),
                    "RFC 5040 §4.8"};
  return {};
}

Found compare_headers(const Item& recorded, const Item& live, std::uint32_t less) {
  const wire::DdpHeader &r = recorded.header, &l = live.header;
  if (r.opcode == l.opcode && r.tagged != l.tagged)
    return Mismatch{fmt::format("the {} is {}, recorded was {}", to_string(l.opcode), l.tagged ? "tagged" : "untagged",
                                r.tagged ? "tagged" : "untagged"),
                    "RFC 5041 §4.1"};
  if (r.opcode != l.opcode)
    return Mismatch{fmt::format("{}, recorded was {}", to_string(l.opcode), to_string(r.opcode)), "RFC 5040 §4.1"};
  if (r.ddp_version != l.ddp_version || r.rdmap_version != l.rdmap_version)
    return Mismatch{fmt::format("DDP version {} and RDMAP version {}, recorded were {} and {}", l.ddp_version,
                                l.rdmap_version, r.ddp_version, r.rdmap_version),
                    "RFC 5041 §4.1"};
  if (r.tagged && r.stag != l.stag)
    return Mismatch{fmt::format("STag 0x{:08x}, recorded was 0x{:08x}", l.stag, r.stag), "RFC 5041 §4.2"};
  if (r.tagged && r.to != l.to)
    return Mismatch{fmt::format("TO 0x{:x}, recorded was 0x{:x}", l.to, r.to), "RFC 5041 §4.2"};
  if (!r.tagged && r.qn != l.qn) return Mismatch{fmt::format("QN {}, recorded was {}", l.qn, r.qn), "RFC 5041 §4.3"};
  if (!r.tagged && r.msn - less != l.msn)
    return Mismatch{fmt::format("MSN {}, recorded was {}", l.msn, r.msn), "RFC 5041 §5.3"};
  if (!r.tagged && r.mo != l.mo) return Mismatch{fmt::format("MO {}, recorded was {}", l.mo, r.mo), "RFC 5041 §4.3"};
  const bool invalidates = r.opcode == RdmapOpcode::send_inv || r.opcode == RdmapOpcode::send_se_inv;
  if (invalidates && r.stag != l.stag)
    return Mismatch{fmt::format("STag 0x{:08x} is to be invalidated, recorded was 0x{:08x}", l.stag, r.stag),
                    "RFC 5040 §4.1"};
  return {};
}

Found compare_read_request(const Item& recorded, const Item& live) {
  const auto r = wire::ReadRequest::parse(recorded.payload), l = wire::ReadRequest::parse(live.payload);
  if (!r || !l || !recorded.unknown.empty()) return {};
  if (r->size != l->size)
    return Mismatch{fmt::format("{} octets are asked for, recorded were {}", l->size, r->size), "RFC 5040 §4.4"};
  // An empty read touches no memory: what it names means nothing (RFC 5040 §4.4).
  if (r->size == 0) return {};
  if (r->source_stag != l->source_stag || r->source_to != l->source_to)
    return Mismatch{fmt::format("the source is STag 0x{:08x}, TO 0x{:x}; recorded was STag 0x{:08x}, TO 0x{:x}",
                                l->source_stag, l->source_to, r->source_stag, r->source_to),
                    "RFC 5040 §4.4"};
  return {};
}

// What the recording lacks, and the identifier beside it.
std::vector<Range> and_unknown(const Item& recorded, const Range& also) {
  std::vector<Range> out = recorded.unknown;
  out.push_back(also);
  std::sort(out.begin(), out.end());
  return out;
}

Found compare_message(const Item& recorded, const Item& live, std::span<const Field> masks, std::uint32_t less) {
  const wire::DdpHeader& h = recorded.header;
  const bool empty_tagged = h.tagged && recorded.length == 0 && live.length == 0 && h.opcode == live.header.opcode;
  if (!empty_tagged)
    if (auto found = compare_headers(recorded, live, less)) return found;
  if (recorded.whole && !live.whole) return Mismatch{"the message has no end (L)", "RFC 5041 §4.1"};
  if (recorded.marker_fault != live.marker_fault)
    return Mismatch{fmt::format("the {} side has a wrong marker in it", live.marker_fault ? "live" : "recorded"),
                    "RFC 5044 §4.3"};
  if (recorded.pad_fault != live.pad_fault)
    return Mismatch{fmt::format("the {} side has pad octets that are not 0", live.pad_fault ? "live" : "recorded"),
                    "RFC 5044 §4.1"};
  if (h.opcode == RdmapOpcode::terminate) return compare_terminate(recorded, live);
  // How a message goes on whose end the recording lacks is not known.
  if (recorded.whole ? recorded.length != live.length : recorded.length > live.length)
    return Mismatch{fmt::format("{} octets, recorded were {}", live.length, recorded.length), ""};
  if (h.opcode == RdmapOpcode::read_request) return compare_read_request(recorded, live);
  // RFC 7306 §5.2.1: the requester chooses the identifier; a response is compared by its value.
  if (h.opcode == RdmapOpcode::atomic_request)
    return octets_differ("request", recorded.payload, live.payload, masks, and_unknown(recorded, {4, 8}),
                         "RFC 7306 §5.2.1");
  if (h.opcode == RdmapOpcode::atomic_response)
    return octets_differ("response", recorded.payload, live.payload, masks, and_unknown(recorded, {0, 4}),
                         "RFC 7306 §5.2.2");
  return octets_differ("payload", recorded.payload, live.payload, masks, recorded.unknown, "");
}

}  // namespace

Found compare(const Item& recorded, const Item& live, std::span<const Field> masks, std::uint32_t less) {
  if (recorded.kind != live.kind)
    return Mismatch{fmt::format("{} came where {} was recorded", describe(live), describe(recorded)), ""};
  switch (recorded.kind) {
    case Item::Kind::startup: return compare_startup(recorded, live, masks);
    case Item::Kind::rtr_frame:
      return octets_differ("Rtr frame", recorded.octets, live.octets, {}, {}, "OFA 2007-10 Rtr §1");
    case Item::Kind::message: return compare_message(recorded, live, masks, less);
    case Item::Kind::raw: return octets_differ("run of octets", recorded.octets, live.octets, {}, {}, "");
    case Item::Kind::bad_crc:
    case Item::Kind::gap:
    case Item::Kind::fin:
    case Item::Kind::rst: return {};
  }
  return {};
}

}  // namespace parley::replay
