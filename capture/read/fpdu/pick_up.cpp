// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/read/fpdu/pick_up.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes_io.hpp"
#include "capture/read/fpdu/fpdu_walker.hpp"
#include "mpa/crc32c.hpp"
#include "wire/mpa.hpp"
#include "wire/rdmap.hpp"

namespace parley::capture {
namespace {

using wire::marker_interval;
constexpr std::size_t head_max = PARLEY_MPA_LEN_LEN + PARLEY_DDP_UNTAGGED_LEN;
constexpr std::size_t fpdu_min = PARLEY_MPA_LEN_LEN + PARLEY_DDP_TAGGED_LEN + PARLEY_MPA_CRC_LEN;

std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15ULL;
  return h ^ (h >> 29);
}

std::uint64_t hash_of(std::uint64_t h, const Address& a) {
  // Called for each packet, so it uses two plain loads. Byte order does not matter: it only affects hash table places.
  std::uint64_t high = 0, low = 0;
  static_assert(sizeof a.octets == sizeof high + sizeof low);
  std::memcpy(&high, a.octets.data(), sizeof high);
  std::memcpy(&low, a.octets.data() + sizeof high, sizeof low);
  return mix(h, high ^ low * 0xD6E8FEB86659FD93ULL ^ std::uint64_t{a.port} << 48);
}

/// The ULPDU_Length at the beginning of `in` if an FPDU of DDP and RDMAP version 1 can follow it, else 0. This is
/// stricter than a receiver may be; it is used only for recognition.
std::uint32_t plausible_length(ConstBytes in) {
  if (in.size() < fpdu_min) return 0;
  Reader r(in);
  const std::uint32_t length = r.be16();
  if (length < PARLEY_DDP_TAGGED_LEN || length > PARLEY_MPA_ULPDU_MAX) return 0;
  const ConstBytes ulpdu =
      in.subspan(PARLEY_MPA_LEN_LEN, std::min<std::size_t>(in.size() - PARLEY_MPA_LEN_LEN, length));
  const std::uint8_t ddp = r.u8(), rdmap = r.u8();
  // RFC 5041 §4.1, RFC 5040 §4.1: reserved bits are sent as 0.
  if ((ddp & PARLEY_DDP_RSVD) != 0 || (rdmap & 0x30) != 0) return 0;
  const auto h = wire::DdpHeader::parse(ulpdu);
  if (!h || h->ddp_version != 1 || h->rdmap_version != 1) return 0;
  const auto rule = wire::rule_of(h->opcode);  // the queue number is 0 if tagged, in the rule and in the header
  return rule.assigned && rule.tagged == h->tagged && rule.qn == h->qn ? length : 0;
}

bool right_crc(ConstBytes fpdu) {
  Reader r(fpdu.last(PARLEY_MPA_CRC_LEN));
  return r.le32() == mpa::crc32c(fpdu.first(fpdu.size() - PARLEY_MPA_CRC_LEN));  // RFC 5044 §4.4
}

/// `phase`: see ProvenFpdu.
void try_reading(ConstBytes in, std::uint32_t length, bool markers, std::uint32_t phase, FpduProof& proof) {
  const std::uint32_t total = FpduWalker::wire_size(phase, length, markers);
  if (proof.is == FpduProof::Outcome::proven) return;
  if (in.size() < total) {
    proof.is = FpduProof::Outcome::more;
    proof.wanted = std::max(proof.wanted, total);
  } else if (right_crc(in.first(total))) {
    proof = {FpduProof::Outcome::proven, 0, {markers, phase, true}};
  }
}

}  // namespace

std::size_t ConnectionKeyHash::operator()(const ConnectionKey& k) const {
  return hash_of(hash_of(0x70A71EF, k.a), k.b);
}

bool plausible_fpdu(ConstBytes in) { return plausible_length(in) != 0; }

FpduProof prove_fpdu(ConstBytes in) {
  FpduProof proof;
  if (in.size() < fpdu_min) return proof;
  // RFC 5044 §4.3: a marker right before an FPDU has FPDUPTR 0.
  Reader r(in);
  if (r.be32() == 0) {
    if (const auto length = plausible_length(in.subspan(PARLEY_MPA_MARKER_LEN)); length != 0)
      try_reading(in, length, true, 0, proof);
    return proof;
  }
  const std::uint32_t length = plausible_length(in);
  if (length == 0) return proof;
  try_reading(in, length, false, 0, proof);
  // A marker inside the FPDU has its distance from the ULPDU_Length in FPDUPTR. Up to 4 words that fit are tried; the
  // CRC decides. A marker inside the DDP header is not searched for: a later FPDU can prove MPA as well.
  const std::size_t end = std::min<std::size_t>(in.size(), marker_interval);
  int tried = 0;
  for (std::size_t at = (head_max + 3) / 4 * 4; at + PARLEY_MPA_MARKER_LEN <= end && tried < 4; at += 4) {
    Reader m(in.subspan(at, PARLEY_MPA_MARKER_LEN));
    if (m.be32() != at) continue;
    ++tried;
    try_reading(in, length, true, marker_interval - static_cast<std::uint32_t>(at), proof);
  }
  return proof;
}

void PickUps::drop(Watches::iterator watch) {
  for (const KeptSegment& k : watch->segments) kept_ -= k.octets.size();
  by_ends_[watch->from].erase(watch->key);
  watches_.erase(watch);
}

void PickUps::keep(Watched& w, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at) {
  KeptSegment& k = w.segments.emplace_back(KeptSegment{t, Bytes(t.payload.begin(), t.payload.end()), frame, at});
  k.segment.payload = k.octets;
  kept_ += k.octets.size();
  w.have += k.octets.size();
  w.next_seq = t.seq + t.length;
}

PickUps::PickUp PickUps::segment(const ConnectionKey& key, unsigned from, const wire::TcpSegmentView& t,
                                 std::uint64_t frame, Instant at) {
  if (t.length == 0 || t.syn() || t.rst()) return {};
  const bool whole = t.payload.size() == t.length;
  if (const auto known = watches_.empty() ? by_ends_[from].end() : by_ends_[from].find(key);
      known != by_ends_[from].end()) {
    const auto watch = known->second;
    if (static_cast<std::int32_t>(t.seq - watch->next_seq) < 0) return {};  // a retransmission
    const bool next = t.seq == watch->next_seq && whole && watch->segments.size() < segments_max;
    if (next) keep(*watch, t, frame, at);
    if (next && watch->have < watch->wanted) return {};
    if (next) {
      Bytes all;
      for (const KeptSegment& k : watch->segments) all.insert(all.end(), k.octets.begin(), k.octets.end());
      const FpduProof proof = prove_fpdu(all);
      watch->wanted = proof.wanted;
      if (proof.is == FpduProof::Outcome::more) return {};
      if (proof.is == FpduProof::Outcome::proven) {
        PickUp found{{}, proof.fpdu};
        kept_ -= watch->have;
        watch->have = 0;
        found.segments.swap(watch->segments);
        drop(watch);
        return found;
      }
    }
    drop(watch);  // not an FPDU, or octets of it are missing
  }
  const FpduProof proof = prove_fpdu(t.payload);
  if (proof.is == FpduProof::Outcome::none) return {};
  Watched w;
  w.key = key;
  w.from = from;
  keep(w, t, frame, at);
  if (proof.is == FpduProof::Outcome::proven) {
    kept_ -= w.have;
    return {std::move(w.segments), proof.fpdu};
  }
  if (!whole) {
    kept_ -= w.have;
    return {};
  }
  w.wanted = proof.wanted;
  by_ends_[from].insert_or_assign(key, watches_.insert(watches_.end(), std::move(w)));
  while (watches_.size() > watched_max || kept_ > kept_max) drop(watches_.begin());
  return {};
}

}  // namespace parley::capture
