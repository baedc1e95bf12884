// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Where a RoCE recording announces memory: in private data, and in Sends of several packets.
#include <gtest/gtest.h>

#include <optional>
#include <tuple>
#include <vector>

#include "base/bytes_io.hpp"
#include "replay/roce/roce_recording.hpp"
#include "wire/ib/packet.hpp"

namespace parley::replay::roce_names_test {
namespace {

using capture::Side;
using wire::ib::Operation;

constexpr std::uint32_t r_key = 0xABCD0102;
constexpr std::size_t mtu = 256;

RoceStep packet(Side from, Operation operation, ConstBytes payload, std::uint32_t key = 0) {
  wire::ib::Packet p;
  p.bth.opcode = wire::ib::opcode_of(wire::ib::Service::rc, operation);
  p.reth = {0x1000, key, 8};
  p.payload = payload;
  RoceStep step;
  step.from = from;
  step.octets.resize(p.size());
  step.known = step.octets.size();
  p.emit(step.octets);
  return step;
}

/// The responder announces the key at an offset of its private data, or of a Send of two packets; then the initiator
/// writes. Step and offset of each name found.
std::vector<std::pair<std::size_t, std::size_t>> names(std::optional<std::size_t> in_private_data,
                                                       std::optional<std::size_t> in_send) {
  wire::ib::CmRep rep;
  Bytes send(2 * mtu, 0xEE);
  if (in_private_data) Writer(MutBytes(rep.private_data).subspan(*in_private_data)).be32(r_key);
  if (in_send) Writer(MutBytes(send).subspan(*in_send)).be32(r_key);
  RoceRecording r;
  r.steps.emplace_back();
  r.steps.back().from = Side::responder;
  r.steps.back().cm = wire::ib::CmMessage{.body = rep};
  r.steps.push_back(packet(Side::responder, Operation::send_first, ConstBytes(send).first(mtu)));
  r.steps.push_back(packet(Side::responder, Operation::send_last, ConstBytes(send).subspan(mtu)));
  r.steps.push_back(packet(Side::initiator, Operation::write_only, Bytes(8), r_key));
  std::vector<std::pair<std::size_t, std::size_t>> out;
  for (const RoceName& name : find_names(r, Side::responder).names) out.emplace_back(name.step, name.field.offset);
  return out;
}

using Found = std::vector<std::pair<std::size_t, std::size_t>>;

TEST(ReplayRoceNames, StandInThePacketThatHoldsThemWhole) {
  EXPECT_EQ(names({}, {}), Found());
  EXPECT_EQ(names(0, {}), (Found{{0, 0}}));
  EXPECT_EQ(names(100, {}), (Found{{0, 100}}));
  EXPECT_EQ(names({}, 0), (Found{{1, 0}}));
  EXPECT_EQ(names({}, mtu - 4), (Found{{1, mtu - 4}}));
  for (std::size_t before = 1; before < 4; ++before) EXPECT_EQ(names({}, mtu - before), Found()) << before;
  EXPECT_EQ(names({}, mtu), (Found{{2, 0}}));
  EXPECT_EQ(names({}, 2 * mtu - 4), (Found{{2, mtu - 4}}));
}

}  // namespace
}  // namespace parley::replay::roce_names_test
