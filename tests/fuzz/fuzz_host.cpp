// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Any frames for a host that listens: whole garbage, and TCP segments and neighbour messages with right checksums
// around drawn fields. The host neither crashes nor answers without end, and its memory stays bounded.
#include <memory>
#include <string>
#include <vector>

#include "cm/providers/iwarp/iwarp.hpp"
#include "draw.hpp"
#include "sim/host/host.hpp"
#include "wire/neighbour.hpp"
#include "wire/packet.hpp"

namespace {

using namespace parley;
using namespace parley::sim;

constexpr std::uint16_t port = 7471;
constexpr wire::Mac host_mac{2, 0, 0, 0, 0, 1}, peer_mac{2, 0, 0, 0, 0, 2};

/// The far end of the cable: counts, and forgets.
class Cable final : public LinkPort {
 public:
  void transmit(FramePtr frame) override { sent += frame != nullptr; }
  std::uint16_t mtu() const override { return 1500; }
  std::size_t sent = 0;
};

class Listener final : public App {
 public:
  void on_start(Host& host) override {
    Address at = host.address(Address::Family::v4);
    at.port = port;
    (void)host.cm().listen(at, {});
  }
  void on_crash(Host&) override {}
  void on_turn(Host& host) override {
    while (auto event = host.cm().poll_event())
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) (void)request->id.accept();
  }
  void on_timer(Host&, std::uint64_t) override {}
};

Bytes draw_frame(fuzz::Draw& draw, const Address& local) {
  if (draw.bit()) {
    const ConstBytes octets = draw.bytes(draw.u8());
    return {octets.begin(), octets.end()};
  }
  wire::TcpFrame frame;
  frame.source = Address::v4(10, 0, 0, 2, static_cast<std::uint16_t>(1000 + draw.below(4)));
  frame.destination = local;
  frame.seq = draw.bit() ? draw.u8() : draw.u32();
  frame.ack = draw.bit() ? draw.u8() : draw.u32();
  frame.flags = draw.u8();
  frame.window = draw.u16();
  frame.mss = draw.u8();
  frame.payload = draw.bytes(draw.u8());
  Bytes octets = wire::emit_tcp_frame(frame).value_or(Bytes{});
  std::copy(host_mac.begin(), host_mac.end(), octets.begin());
  return octets;
}

/// So that the host can answer: 10.0.0.2 asks for it.
Bytes greeting(const Address& local) {
  Bytes octets(14 + wire::ArpPacket::wire_size);
  std::copy(wire::broadcast_mac.begin(), wire::broadcast_mac.end(), octets.begin());
  std::copy(peer_mac.begin(), peer_mac.end(), octets.begin() + 6);
  octets[12] = 0x08;
  octets[13] = 0x06;
  wire::ArpPacket arp{.sender_mac = peer_mac, .sender_ip = {10, 0, 0, 2}};
  std::copy_n(local.octets.begin(), 4, arp.target_ip.begin());
  wire::emit_arp(arp, MutBytes(octets).subspan(14));
  return octets;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Draw draw(ConstBytes(data, size));
  Engine engine;
  Cable cable;
  Listener listener;
  const auto host = make_host(engine, 0, 0, "a", {}, Rng(1));
  host->attach(0, cable);
  host->set_app(&listener);
  host->start();
  const Address local = [&] {
    Address at = host->address(Address::Family::v4);
    at.port = port;
    return at;
  }();
  for (int i = 0; i < 64 && (i == 0 || !draw.empty()); ++i) {
    const Bytes octets = i == 0 ? greeting(local) : draw_frame(draw, local);
    if (octets.size() >= FramePool::frame_max) continue;
    FramePtr frame = engine.frames.take(octets.size());
    std::copy(octets.begin(), octets.end(), frame->data());
    DropReason reason{};
    (void)host->would_discard(0, *frame, reason);
    host->receive(0, std::move(frame));
    const Instant until = engine.now() + std::chrono::milliseconds(draw.u8());
    for (int steps = 0; engine.step(until); ++steps) PARLEY_ASSERT(steps < 10'000);
  }
  PARLEY_ASSERT(cable.sent < 100'000);
  PARLEY_ASSERT(engine.frames.out() == 0);
  return 0;
}
