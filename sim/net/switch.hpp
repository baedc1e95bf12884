// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A learning switch (IEEE 802.1D §7.7-7.9): it learns the port of each MAC address, forwards to that port, floods
// frames for groups or unknown addresses, and never sends a frame back to its ingress port. No spanning tree: no world
// has loops. It marks congestion (RFC 3168 §5) in packets that find more than ecn_threshold octets waiting for their
// egress link.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/net/engine.hpp"

namespace parley::sim {

/// The port on which each MAC address was last seen. Bounded: the least recently seen one is dropped first.
class MacTable {
 public:
  static constexpr std::uint32_t entries_max = 16384;
  static constexpr std::uint16_t unknown = 0xFFFF;
  explicit MacTable(std::uint32_t limit = entries_max) : limit_(limit) {}
  void learn(std::uint64_t mac, std::uint16_t port);
  std::uint16_t find(std::uint64_t mac) const;
  std::size_t size() const { return entries_.size(); }

 private:
  static constexpr std::uint32_t none = ~0u;
  struct Entry {
    std::uint64_t mac = 0;
    std::uint32_t newer = none, older = none;
    std::uint16_t port = 0;
  };
  std::size_t home(std::uint64_t mac) const;
  std::size_t place_of(std::uint64_t mac) const;
  void remove_place(std::size_t place);
  void grow();
  void unlink(std::uint32_t index);
  void link_newest(std::uint32_t index);

  std::uint32_t limit_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> places_;  // open addressing; a power of two, at most half full
  std::uint32_t newest_ = none, oldest_ = none;
};

class Switch final : public Node {
 public:
  static constexpr std::size_t ports_max = 60'000;
  Switch(Engine& engine, NodeId id, std::string name, const SwitchOptions& options = {})
      : engine_(engine), id_(id), name_(std::move(name)), options_(options) {}
  std::uint16_t attach(LinkPort& port);

  NodeId id() const override { return id_; }
  const std::string& name() const override { return name_; }
  void receive(std::uint16_t port, FramePtr frame) override;
  std::string_view would_discard(std::uint16_t port, const Frame& frame, DropReason& reason) const override;
  void on_event(std::uint32_t, std::uint64_t) override {}

 private:
  void flood(std::uint16_t from, FramePtr frame);
  void send(LinkPort& port, FramePtr frame);

  Engine& engine_;
  NodeId id_;
  std::string name_;
  SwitchOptions options_;
  std::vector<LinkPort*> ports_;
  MacTable table_;
};

}  // namespace parley::sim
