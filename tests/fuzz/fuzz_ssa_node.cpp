// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A node of the tree and a master that receive any messages of the tree from their peers: drawn methods, attributes, octets and
// transaction IDs that may be right. Neither stops, neither sends more at once than its queue may have, and each answer is a
// valid message.
#include "base/assert.hpp"
#include "mad/serve.hpp"
#include "ssa/master/master.hpp"
#include "ssa/node/node.hpp"
#include "tests/fuzz/draw.hpp"

namespace parley::fuzz {
namespace {

using namespace ssa;
using wire::mad::Datagram;
using wire::mad::Method;
using wire::mad::MgmtClass;

Gid gid_of(std::uint16_t lid) {
  return {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(lid)};
}

struct Peers {
  static constexpr std::size_t children_max = 4, node_bound = 64 + children_max, master_bound = 1024;

  Peers() : node(node_options()), master(master_options()) {
    node.start(now, at(1));
    master.start(now);
  }
  static NodeOptions node_options() {
    NodeOptions o;
    o.gid = gid_of(2);
    o.roles = wire::mad::ssa_roles::access;
    o.children_max = children_max;
    return o;
  }
  static MasterOptions master_options() {
    MasterOptions o;
    o.root = gid_of(1);
    o.members_max = 4;
    return o;
  }
  static mad::Address at(std::uint16_t lid) {
    mad::Address out;
    out.lid = lid;
    return out;
  }
  template <class Machine>
  void drain(Machine& machine, std::size_t bound) {
    std::size_t n = 0;
    for (; auto sent = machine.poll_transmit(); ++n) {
      PARLEY_ASSERT(parse_message(sent->mad).has_value());
      last = sent->mad;
    }
    while (machine.poll_event()) {
    }
    PARLEY_ASSERT(n <= bound);
  }

  Instant now{};
  Node node;
  Master master;
  Datagram last{};
};

/// One of the tree's messages with drawn octets, GIDs of the peers, and the right epoch more often than not.
Datagram draw_message(Draw& draw, const Datagram& last) {
  static constexpr std::uint8_t methods[] = {0x01, 0x02, 0x03, 0x06, 0x15, 0x81, 0x86, 0x95};
  Datagram mad = draw.bit() ? last : wire::mad::request<MgmtClass::ssa, Method::get>(wire::mad::SsaParent{});
  if (draw.bit()) mad[3] = methods[draw.u8() % sizeof methods];
  if (draw.bit()) mad[17] = static_cast<std::uint8_t>(0x10 + draw.u8() % 6);
  if (draw.bit()) mad[16] = 0x10;
  for (unsigned changes = draw.u8() % 8; changes > 0; --changes) mad[32U + draw.u8() % 224U] = draw.u8();
  if (draw.bit()) {
    const Gid gid = gid_of(draw.u8() % 6U);
    static constexpr std::size_t places[] = {24 + 16, 24 + 24, 24 + 48, 24 + 64, 24 + 88};
    std::copy(gid.begin(), gid.end(), mad.begin() + static_cast<std::ptrdiff_t>(places[draw.u8() % 5U]));
  }
  return mad;
}

void run(ConstBytes in) {
  Draw draw(in);
  Peers peers;
  for (int step = 0; step < 200 && !draw.empty(); ++step) {
    const mad::Address from = Peers::at(draw.u8() % 6U);
    const Datagram mad = draw_message(draw, peers.last);
    if (draw.bit())
      peers.node.handle_message(peers.now, from, mad);
    else
      peers.master.handle_message(peers.now, from, mad);
    peers.drain(peers.node, Peers::node_bound);
    peers.drain(peers.master, Peers::master_bound);
    if (draw.u8() % 4 != 0) continue;
    const Instant next = std::min(peers.node.next_deadline(), peers.master.next_deadline());
    if (next == never) continue;
    peers.now = std::max(peers.now, next);
    peers.node.handle_deadline(peers.now);
    peers.master.handle_deadline(peers.now);
    peers.drain(peers.node, Peers::node_bound);
    peers.drain(peers.master, Peers::master_bound);
  }
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
