// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Management datagrams of any octets. Structures: member by member into another buffer is the same octets. Whole datagrams: what is found
// in one is within it, and each printer ends with text. A port with requests under way: whatever comes in whatever order, every task
// ends, and nothing is left.
#include "mad/port.hpp"
#include "tests/fuzz/draw.hpp"
#include "tests/fuzz/mad_copy.hpp"
#include "wire/mad/decode.hpp"
#include "wire/mad/pm.hpp"
#include "wire/mad/smp.hpp"

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

using parley::mad::Path;
using parley::mad::Port;
using parley::mad::Task;

Task<> asks(Port& port) {
  const Gid gids[20] = {};
  parley::mad::Scope scope(port.executor(), {.on_error = parley::mad::OnError::keep});
  scope.spawn(port.subn_get<NodeInfo>(Path::to_self()));
  scope.spawn(port.perf_get<PortCounters>(Path::by_lid(7)));
  scope.spawn(port.sa_get_table<NodeRecord>());
  scope.spawn(port.sa_get_multi(port.sa_path(), parley::mad::Query<MultiPathRecord>(), gids));
  (void)co_await scope.join();
}

/// Answers to what was sent, with drawn octets in drawn places; time; what comes back.
void port(Draw& draw) {
  const std::uint8_t facts = draw.u8();
  parley::mad::LocalPort local;
  local.lid = 1;
  local.sm_lid = 2;
  Port under_test({.rmpp = (facts & 1) != 0, .whole_tid = (facts & 2) != 0}, local, {.seed = facts});
  if ((facts & 4) != 0) under_test.serve();
  std::vector<std::pair<parley::mad::Address, Bytes>> sent;
  Instant now{};
  const auto turn = [&] {
    under_test.run(now);
    while (const parley::mad::Packet* packet = under_test.poll_packet()) {
      if (sent.size() < 64) sent.emplace_back(packet->to, Bytes(packet->mad.begin(), packet->mad.end()));
      under_test.packet_sent(now);
    }
  };
  auto running = under_test.start(asks(under_test));
  for (turn(); !draw.empty() && !sent.empty(); turn()) {
    auto [from, mad] = sent[draw.below(sent.size())];
    const std::uint8_t what = draw.u8();
    if (what < 0x10) {
      now += std::chrono::milliseconds(draw.u16());
    } else if (what < 0x18) {
      (what & 1) != 0 ? under_test.handle_lost(now, mad) : under_test.handle_refused(now, mad);
    } else {
      if ((what & 1) != 0 && mad.size() > 3) mad[3] = mad[3] == 2 ? 0x81 : static_cast<std::uint8_t>(mad[3] ^ 0x80);
      if ((what & 2) != 0) mad.resize(draw.u16() % 600);
      for (std::size_t left = draw.below(8); left > 0 && !mad.empty(); --left) {
        const std::size_t at = draw.u8() % mad.size();  // headers are at the beginning
        mad[at] = draw.u8();
      }
      if ((what & 4) != 0) from.lid = draw.u16();
      under_test.handle_packet(now, from, mad);
    }
  }
  for (int i = 0; !running.done(); ++i) {
    PARLEY_ASSERT(i < 10000 && under_test.next_deadline() != never);
    now = std::max(now, under_test.next_deadline());
    under_test.handle_deadline(now);
    turn();
  }
  PARLEY_ASSERT(under_test.transactor().open_count() == 0 && under_test.transactor().under_way() == 0);
  PARLEY_ASSERT(under_test.executor().frames().in_use() == 0);
}

void run(ConstBytes in) {
  Draw draw(in.first(std::min<std::size_t>(in.size(), 4096)));
  const std::uint8_t choice = draw.u8();
  if (choice % 4 == 0) return structure(draw);
  if (choice >= 0xC0) return port(draw);
  datagram(draw.rest());
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
