// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Management datagrams of any octets. Structures: member by member into another buffer is the same octets. Whole datagrams: what is found
// in one is within it, and each printer ends with text.
#include "tests/fuzz/draw.hpp"
#include "tests/fuzz/mad_copy.hpp"
#include "wire/mad/decode.hpp"

namespace parley::fuzz {
namespace {

using namespace wire::mad;

void structure(Draw& draw) {
  const Layout& layout = *all_layouts()[draw.below(all_layouts().size())];
  const std::uint8_t ground = draw.u8();
  Bytes in(layout.octets), out(layout.octets, ground);
  const ConstBytes drawn = draw.rest();
  std::copy_n(drawn.begin(), std::min(drawn.size(), in.size()), in.begin());
  copy_by_member(layout, in, out);
  PARLEY_ASSERT(in == out);
  PARLEY_ASSERT(layout.octets == 0 || !dotted(layout, in).empty());
  (void)dump(layout, ConstBytes(in).first(std::min(drawn.size(), in.size())));
}

void expect_within(const Part& part, ConstBytes mad) {
  PARLEY_ASSERT(part.octet <= mad.size() && part.view.size() <= mad.size() - part.octet);
  PARLEY_ASSERT(part.view.empty() || part.view.data() == mad.data() + part.octet);
}

void datagram(ConstBytes in) {
  Bytes mad(in.begin(), in.end());
  const auto decoded = decode(mad);
  PARLEY_ASSERT(decoded.has_value() == (mad.size() >= 24));
  if (!decoded) return;
  expect_within(decoded->format, mad);
  for (const Part& part : decoded->bodies) expect_within(part, mad);
  for (const Part& part : decoded->details) expect_within(part, mad);
  PARLEY_ASSERT(!title(*decoded).empty() && !dump(*decoded, mad).empty() && !dotted(*decoded, mad).empty());
  (void)status_text(*decoded);
  (void)json_of(*decoded, mad).dump([](double) { return std::string("0"); });
}

void run(ConstBytes in) {
  Draw draw(in.first(std::min<std::size_t>(in.size(), 4096)));
  if (draw.u8() % 4 == 0) return structure(draw);
  datagram(draw.rest());
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
