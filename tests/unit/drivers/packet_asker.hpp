// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A machine for tests of the set of UDP sockets.
#pragma once
#include <algorithm>
#include <deque>
#include <system_error>
#include <vector>

#include "base/packet_port.hpp"

namespace parley {

/// Asks for addresses, sends packets of zeros, and keeps what became of the addresses.
struct PacketAsker : PacketMachine {
  explicit PacketAsker(std::size_t octets) : packet_size(octets) {}
  void handle_bound(Instant, BindId, const Address& local) override { bound.push_back(local); }
  void handle_bind_failed(Instant, BindId, const Error& why, const Address&) override { failed = why.code(); }
  void handle_packet(Instant, const PacketPath&, ConstBytes) override {}
  void handle_unreachable(Instant, const PacketPath&, std::error_code) override {}
  void handle_deadline(Instant) override {}
  bool poll_command(PacketCommand& out) override {
    if (asks.empty()) return false;
    out = asks.front();
    asks.pop_front();
    return true;
  }
  std::size_t poll_packet(Instant, PacketPath& to, MutBytes out) override {
    if (paths.empty()) return 0;
    to = paths.front();
    paths.pop_front();
    std::fill_n(out.begin(), packet_size, std::uint8_t{0});
    return packet_size;
  }
  Instant next_deadline() const override { return never; }

  std::size_t packet_size;  // from the BTH on, without ICRC
  std::deque<PacketCommand> asks;
  std::deque<PacketPath> paths;  // of the packets that it has to send
  std::vector<Address> bound;
  std::error_code failed;
};

}  // namespace parley
