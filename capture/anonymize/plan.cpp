// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// StreamPlan: is filled here while the checker reads. apply.cpp applies it.
#include "capture/anonymize/plan.hpp"

#include <algorithm>
#include <utility>

#include "base/bytes_io.hpp"
#include "mpa/crc32c.hpp"
#include "wire/mpa.hpp"

namespace parley::capture {
namespace {

constexpr std::size_t masked_startup = PARLEY_MPA_HEADER_LEN + PARLEY_MPA_ENH_LEN;
constexpr std::size_t connection_cost = 2048;  // approximate memory for one connection

/// Whether these can be the two control octets of a DDP segment with an RDMAP opcode (RFC 5041 §4.1, RFC 5040 §4.1).
bool plausible_control(ConstBytes ulpdu) {
  Reader r(ulpdu);
  const std::uint8_t ddp = r.u8(), rdmap = r.u8();
  const auto rule = wire::rule_of(static_cast<wire::RdmapOpcode>(rdmap & PARLEY_RDMAP_OPCODE_MASK));
  return r.ok() && (ddp & PARLEY_DDP_RSVD) == 0 && (ddp & PARLEY_DDP_DV_MASK) <= PARLEY_DDP_DV && (rdmap & 0x30) == 0 &&
         (rdmap & PARLEY_RDMAP_RV_MASK) <= PARLEY_RDMAP_RV && rule.assigned &&
         rule.tagged == ((ddp & PARLEY_DDP_T) != 0);
}

bool plausible_header(ConstBytes ulpdu) {
  const auto h = wire::DdpHeader::parse(ulpdu);
  return h && plausible_control(ulpdu) && wire::rule_of(h->opcode).qn == h->qn;  // 0 in both if tagged
}

Bytes be_mask(std::uint64_t before, std::uint64_t after, std::size_t n) {
  Bytes out(8);
  Writer(out).be64(before ^ after);
  return Bytes(out.end() - static_cast<std::ptrdiff_t>(n), out.end());
}

void append(Bytes& to, const Bytes& what) { to.insert(to.end(), what.begin(), what.end()); }

}  // namespace

std::uint64_t StreamPlan::ends_hash(const Address& a, const Address& b) {
  const Address &low = a < b ? a : b, &high = a < b ? b : a;
  std::array<std::uint8_t, 38> in{};
  Writer w(in);
  for (const Address* each : {&low, &high}) {
    w.bytes(each->octets);
    w.be16(each->port);
    w.u8(static_cast<std::uint8_t>(each->family));
  }
  return siphash({1, 2}, in);
}

StreamPlan::Stream* StreamPlan::stream_of(const TappedStream& info) {
  const auto [it, added] = connections_.try_emplace(info.connection);
  TappedConnection& c = it->second;
  if (added) {
    c.first_frame = info.connection;
    by_ends_[ends_hash(info.source, info.destination)].push_back(info.connection);
    state_ += connection_cost;
    full_ = state_ > state_max;
  }
  Stream& s = c.streams[info.source < info.destination ? 0 : 1];
  if (!s.known) {
    s.known = true;
    s.keys = names_.stream(info.source, info.destination, info.first_seq);
  }
  s.info = info;
  return &s;
}

void StreamPlan::add(Stream& s, Record record, const Patch* patch) {
  const std::size_t cost = sizeof(Record) + (patch != nullptr ? 7 + patch->masks.size() : 0);
  if (full_ || state_ + cost > state_max) {
    full_ = true;
    return;
  }
  state_ += cost;
  if (patch != nullptr) {
    record.flags |= has_patch;
    record.patch = static_cast<std::uint32_t>(patches_.size());
    patches_.resize(patches_.size() + 4);
    Writer w(MutBytes(patches_).last(4));
    w.be16(patch->begin);
    w.be16(static_cast<std::uint16_t>(patch->masks.size()));
    append(patches_, patch->masks);
    patches_.insert(patches_.end(), patch->pad.begin(), patch->pad.end());
  }
  s.records.push_back(record);
}

void StreamPlan::startup(const TappedStream& stream, std::uint64_t at, ConstBytes octets) {
  if (full_) return;
  Stream* s = stream_of(stream);
  if (octets.empty()) return;
  Record r;
  r.kind = Kind::startup;
  r.at = at;
  r.crc_mask = static_cast<std::uint32_t>(octets.size());
  Patch p;
  p.masks.resize(std::min(octets.size(), masked_startup));
  s->keys.fill(at, p.masks);
  // An unknown key keeps only its beginning "MPA ID ".
  const ConstBytes key = octets.first(std::min<std::size_t>(octets.size(), PARLEY_MPA_KEY_LEN));
  constexpr std::string_view head = "MPA ID ";
  const bool begins = std::equal(
      key.begin(), key.begin() + static_cast<std::ptrdiff_t>(std::min(key.size(), head.size())), head.begin());
  const bool known = key.size() == PARLEY_MPA_KEY_LEN ? wire::classify_mpa_key(key) != wire::MpaKey::unknown
                                                      : wire::may_become_mpa_key(key);
  std::size_t kept = known ? key.size() : begins ? std::min(key.size(), head.size()) : 0;
  std::fill_n(p.masks.begin(), kept, std::uint8_t{0});
  if (begins)
    for (std::size_t i = PARLEY_MPA_FLAGS_OFF; i < std::min<std::size_t>(octets.size(), PARLEY_MPA_HEADER_LEN); ++i)
      p.masks[i] = 0;
  else if ((octets.front() ^ p.masks.front()) == head.front())
    p.masks.front() ^= 1;  // octets that are not a startup frame must not become one
  const auto v = wire::MpaFrameView::parse(octets);
  std::uint64_t own = PARLEY_MPA_HEADER_LEN;
  if (begins && v && v->revision >= 2 && v->s() && v->pd_length >= PARLEY_MPA_ENH_LEN) {  // RFC 6581 §6
    std::fill(p.masks.begin() + PARLEY_MPA_HEADER_LEN, p.masks.end(), std::uint8_t{0});
    own = masked_startup;
  }
  ++counts_.startup_frames;
  if (octets.size() > own) counts_.private_data += octets.size() - own;
  add(*s, r, &p);
}

void StreamPlan::lone_length(const TappedStream& stream, std::uint64_t at) {
  Record r;
  r.kind = Kind::lone;
  r.at = at;
  if (stream.markers == Known::yes) r.flags |= has_markers;
  if (!full_) add(*stream_of(stream), r, nullptr);
}

void StreamPlan::judged(std::uint64_t connection, std::uint64_t last_frame) {
  if (const auto it = connections_.find(connection); it != connections_.end()) {
    it->second.judged = true;
    it->second.last_frame = last_frame;
  }
}

/// Masks for a DDP header: STag and tagged offset get pseudonyms. If it is not `trusted`, the QN, MSN and MO as well.
Bytes StreamPlan::header_masks(ConstBytes header, bool trusted) const {
  Bytes out(2);
  Reader r(header);
  const bool tagged = (r.u8() & PARLEY_DDP_T) != 0;
  r.skip(1);
  const std::uint32_t stag = r.be32();
  const bool keep = keep_stags_ && trusted;
  append(out, be_mask(stag, keep ? stag : names_.stag(stag), 4));
  if (tagged) {
    const std::uint64_t to = r.be64();
    const std::uint64_t other = trusted ? names_.tagged_offset(stag, to) : names_.identifier(to);
    append(out, be_mask(to, keep ? to : other, 8));
    return out;
  }
  for (int i = 0; i < 3; ++i) {
    const std::uint32_t number = r.be32();
    append(out, be_mask(number, trusted ? number : names_.number(number), 4));
  }
  return out;
}

void StreamPlan::plan_header(const Stream& s, const WalkedFpdu& f, bool proven, Record& r, Patch& p) const {
  const ConstBytes seen = f.ulpdu.first(std::min(f.known, f.ulpdu.size()));
  const auto h = wire::DdpHeader::parse(seen);
  Bytes masks;
  if (h) {
    const bool trusted = proven || plausible_header(seen);
    masks = header_masks(seen.first(h->size()), trusted);
    if (h->tagged) r.flags |= is_tagged;
    if (trusted) {
      Reader m(ConstBytes(masks).subspan(2));
      r.stag_mask = m.be32();
      if (h->tagged) r.offset_mask = m.be64();
      return;
    }
  } else {
    // Too short for a header, or cut: only the control octets stay.
    masks.resize(std::min<std::size_t>(f.ulpdu.size(), PARLEY_DDP_UNTAGGED_LEN));
    s.keys.fill(r.at, masks);
    std::fill_n(masks.begin(), std::min<std::size_t>(masks.size(), 2), std::uint8_t{0});
  }
  p.masks = std::move(masks);
  if (f.crc != WalkedFpdu::Crc::bad || plausible_control(seen)) return;
  // The CRC is wrong and the control octets are invalid: only T, L and the opcode stay.
  Reader c(seen);
  const std::uint8_t ddp = c.u8(), rdmap = c.u8();
  if (!p.masks.empty()) p.masks[0] = ddp & static_cast<std::uint8_t>(~(PARLEY_DDP_T | PARLEY_DDP_L));
  if (p.masks.size() > 1) p.masks[1] = rdmap & static_cast<std::uint8_t>(~PARLEY_RDMAP_OPCODE_MASK);
}

/// Masks for messages that consist of fields. Fields that rules check stay or get the same pseudonyms as elsewhere. In
/// a Terminate that is cut, this also holds for the captured fields.
void StreamPlan::plan_body(const WalkedFpdu& f, const wire::DdpHeader& h, bool proven, Patch& p) const {
  const ConstBytes body = f.ulpdu.subspan(h.size());
  const std::size_t known = f.known - std::min(f.known, h.size());
  const auto stag = [&](std::uint32_t v) { return be_mask(v, keep_stags_ ? v : names_.stag(v), 4); };
  const auto offset = [&](std::uint32_t tag, std::uint64_t v) {
    return be_mask(v, keep_stags_ ? v : names_.tagged_offset(tag, v), 8);
  };
  const auto request = [&](ConstBytes in, Bytes& to) {
    const auto q = wire::ReadRequest::parse(in);
    append(to, stag(q->sink_stag));
    append(to, offset(q->sink_stag, q->sink_to));
    append(to, Bytes(4));
    append(to, stag(q->source_stag));
    append(to, offset(q->source_stag, q->source_to));
  };
  const auto place = [&](ConstBytes part) { return static_cast<std::size_t>(part.data() - body.data()); };
  p.begin = static_cast<std::uint16_t>(h.size());
  if (h.opcode == wire::RdmapOpcode::read_request && body.size() >= PARLEY_RDMAP_READ_REQUEST_LEN) {
    request(body, p.masks);
  } else if (h.opcode == wire::RdmapOpcode::atomic_request && body.size() >= PARLEY_RDMAP_ATOMIC_REQUEST_LEN) {
    const auto q = wire::AtomicRequest::parse(body);
    p.masks.resize(8);  // operation and request identifier
    append(p.masks, stag(q->stag));
    append(p.masks, offset(q->stag, q->to));
  } else if (h.opcode == wire::RdmapOpcode::atomic_response && body.size() >= 4) {
    p.masks.resize(4);
  } else if (h.opcode == wire::RdmapOpcode::terminate && known >= PARLEY_RDMAP_TERM_CTRL_LEN) {
    const auto t = wire::Terminate::parse(body.first(known));
    p.masks.resize(PARLEY_RDMAP_TERM_CTRL_LEN);
    if (t && (t->m || t->d) && known >= 6) p.masks.resize(6);  // with the DDP Segment Length
    if (t && !t->ddp_header.empty()) {
      p.masks.resize(place(t->ddp_header));
      append(p.masks, header_masks(t->ddp_header, proven || plausible_header(t->ddp_header)));
    }
    if (t && t->read_request.size() == PARLEY_RDMAP_READ_REQUEST_LEN) {
      p.masks.resize(place(t->read_request));
      request(t->read_request, p.masks);
    }
  }
}

void StreamPlan::plan_pad(const WalkedFpdu& f, Record& r, Patch& p) {
  if (!f.pad_not_zero) {
    if (f.crc == WalkedFpdu::Crc::not_seen || f.known < f.ulpdu.size()) r.flags |= pad_unknown;
    return;
  }
  const std::size_t pad_at = PARLEY_MPA_LEN_LEN + f.ulpdu.size(), pad = (4 - pad_at % 4) % 4;
  for (std::size_t i = 0; i < pad; ++i) {  // a nonzero octet becomes 0xA5
    const std::uint64_t at = place_of(f.position, pad_at + i, (r.flags & has_markers) != 0) - f.position;
    const std::uint8_t octet = f.wire[at];
    p.pad[i] = octet != 0 ? octet ^ 0xA5 : std::uint8_t{0};
  }
}

std::uint32_t StreamPlan::plan_crc(const Stream& s, const Record& r, const WalkedFpdu& f) const {
  const ConstBytes covered = f.wire.first(f.wire.size() - PARLEY_MPA_CRC_LEN);
  const std::uint32_t sent = Reader(f.wire.last(PARLEY_MPA_CRC_LEN)).le32();
  const auto to_mask = [](std::uint32_t v) {  // in the order on the wire: RFC 5044 §4.4
    Bytes out(4);
    Writer(out).le32(v);
    return Reader(out).be32();
  };
  Bytes after(covered.size());
  mask_fpdu(s, r, r.at, covered, after);
  for (std::size_t i = 0; i < after.size(); ++i) after[i] ^= covered[i];
  const std::uint32_t right = mpa::crc32c(after);
  const bool holes = f.crc == WalkedFpdu::Crc::not_seen || f.known < f.ulpdu.size();
  if (!holes && sent == mpa::crc32c(covered)) return to_mask(sent ^ right);
  if (sent == 0) return right == 0 ? to_mask(1) : 0;
  // The difference of a wrong CRC from the correct one would reveal something of the octets. Replace it by another one.
  std::uint32_t other = right ^ names_.error32(r.at ^ s.info.first_seq);
  if (other == 0) other = ~right;
  return to_mask(sent ^ other);
}

void StreamPlan::fpdu(const TappedStream& stream, const WalkedFpdu& f) {
  if (full_) return;
  Stream* s = stream_of(stream);
  ++counts_.fpdus;
  if (f.crc == WalkedFpdu::Crc::good) ++counts_.crc_right;
  if (f.crc == WalkedFpdu::Crc::bad) ++counts_.crc_wrong;
  if (full_) return;
  Record r;
  r.at = stream.fpdus_at + f.position;
  r.length = static_cast<std::uint16_t>(f.ulpdu.size());
  if (stream.markers == Known::yes) r.flags |= has_markers;
  const bool proven = f.crc == WalkedFpdu::Crc::good;
  if (!proven) r.flags |= unproven;
  Patch p;
  plan_header(*s, f, proven, r, p);
  const ConstBytes seen = f.ulpdu.first(std::min(f.known, f.ulpdu.size()));
  if (const auto h = wire::DdpHeader::parse(seen); p.masks.empty() && h) plan_body(f, *h, proven, p);
  plan_pad(f, r, p);
  const bool patched = !p.masks.empty() || f.pad_not_zero;
  // The CRC depends on all other masks, so the record is added first and completed afterwards.
  add(*s, r, patched ? &p : nullptr);
  if (full_) return;
  Record& added = s->records.back();
  added.crc_mask = plan_crc(*s, added, f);
}

void StreamPlan::finish() {
  for (auto& [first, c] : connections_)
    for (Stream& s : c.streams)
      std::stable_sort(s.records.begin(), s.records.end(),
                       [](const Record& a, const Record& b) { return a.at < b.at; });
  for (auto& [ends, frames] : by_ends_) std::sort(frames.begin(), frames.end());
}

}  // namespace parley::capture
