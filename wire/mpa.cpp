// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/mpa.hpp"

#include <algorithm>
#include <array>

#include "base/bytes_io.hpp"

namespace parley::wire {
namespace {

struct KeyText {
  MpaKey key;
  std::string_view text;
};
constexpr std::array<KeyText, 4> keys{{{MpaKey::req, PARLEY_MPA_KEY_REQ},
                                       {MpaKey::rep, PARLEY_MPA_KEY_REP},
                                       {MpaKey::rtr, PARLEY_MPA_KEY_RTR},
                                       {MpaKey::rtr_hex, PARLEY_MPA_KEY_RTR_HEX}}};

bool starts_with(std::string_view text, ConstBytes head) {
  return head.size() <= text.size() && std::equal(head.begin(), head.end(), text.begin(), [](std::uint8_t a, char b) {
           return a == static_cast<std::uint8_t>(b);
         });
}

}  // namespace

std::string_view to_string(MpaKey key) {
  for (const auto& k : keys)
    if (k.key == key) return k.text;
  return "unknown key";
}

MpaKey classify_mpa_key(ConstBytes key) {
  for (const auto& k : keys)
    if (key.size() == PARLEY_MPA_KEY_LEN && starts_with(k.text, key)) return k.key;
  return MpaKey::unknown;
}

bool may_become_mpa_key(ConstBytes head) {
  return std::any_of(keys.begin(), keys.end(), [&](const KeyText& k) { return starts_with(k.text, head); });
}

Result<MpaFrameView> MpaFrameView::parse(ConstBytes in) {
  Reader r(in);
  MpaFrameView v;
  v.key = classify_mpa_key(r.bytes(PARLEY_MPA_KEY_LEN));
  v.flags = r.u8();
  v.revision = r.u8();
  v.pd_length = r.be16();
  if (!r.ok()) return fail(Errc::truncated);
  v.private_data = r.bytes(std::min<std::size_t>(v.pd_length, r.left()));
  return v;
}

Result<MpaEnhanced> MpaEnhanced::parse(ConstBytes private_data) {
  Reader r(private_data);
  const std::uint16_t i = r.be16(), o = r.be16();
  if (!r.ok()) return fail(Errc::truncated);
  return MpaEnhanced{.a = (i & PARLEY_MPA_ENH_A) != 0,
                     .b = (i & PARLEY_MPA_ENH_B) != 0,
                     .c = (o & PARLEY_MPA_ENH_C) != 0,
                     .d = (o & PARLEY_MPA_ENH_D) != 0,
                     .ird = static_cast<std::uint16_t>(i & PARLEY_MPA_ENH_DEPTH_MASK),
                     .ord = static_cast<std::uint16_t>(o & PARLEY_MPA_ENH_DEPTH_MASK)};
}

void MpaEnhanced::emit(MutBytes out) const {
  const int i = (a ? PARLEY_MPA_ENH_A : 0) | (b ? PARLEY_MPA_ENH_B : 0) | (ird & PARLEY_MPA_ENH_DEPTH_MASK);
  const int o = (c ? PARLEY_MPA_ENH_C : 0) | (d ? PARLEY_MPA_ENH_D : 0) | (ord & PARLEY_MPA_ENH_DEPTH_MASK);
  Writer w(out);
  w.be16(static_cast<std::uint16_t>(i));
  w.be16(static_cast<std::uint16_t>(o));
}

Result<Bytes> MpaFrame::emit() const {
  const std::size_t pd = private_data.size() + (enhanced ? PARLEY_MPA_ENH_LEN : 0);
  if (pd > PARLEY_MPA_PD_MAX) return fail(Errc::bad_private_data);  // RFC 5044 §7.1.1
  const std::string_view text = to_string(key == MpaKey::unknown ? MpaKey::req : key);
  Bytes out(PARLEY_MPA_HEADER_LEN + pd);
  std::copy(text.begin(), text.end(), out.begin());
  Writer w(MutBytes(out).subspan(PARLEY_MPA_KEY_LEN));
  w.u8(flags);
  w.u8(revision);
  w.be16(static_cast<std::uint16_t>(pd));
  if (enhanced) {
    std::array<std::uint8_t, PARLEY_MPA_ENH_LEN> e{};
    enhanced->emit(e);
    w.bytes(e);
  }
  w.bytes(private_data);
  return out;
}

}  // namespace parley::wire
