// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/pump.hpp"

namespace parley::mad {

namespace {
constexpr int batch_max = 64;  // datagrams received before tasks and deadlines are handled
}

Result<bool> pump(Port& port, Transport& transport, Instant now) {
  bool moved = false;
  if (transport.poll_changed()) port.handle_changed(transport.local());
  for (int i = 0; i < batch_max; ++i) {
    const auto received = transport.receive();
    if (!received) return tl::unexpected(received.error());
    if (!*received) break;
    moved = true;
    if ((*received)->refused)
      port.handle_refused(now, (*received)->mad);
    else if ((*received)->lost)
      port.handle_lost(now, (*received)->mad);
    else
      port.handle_packet(now, (*received)->from, (*received)->mad);
  }
  moved = port.run(now) || moved;
  while (const Packet* packet = port.poll_packet()) {
    const Result<bool> taken = transport.send(packet->to, packet->mad);
    if (!taken) return tl::unexpected(taken.error());
    if (!*taken) break;
    port.packet_sent(now);
    moved = true;
  }
  return moved;
}

}  // namespace parley::mad
