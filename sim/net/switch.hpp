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
#include "wire/neighbour.hpp"

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
  /// An address that is known from the start drops no other one: the bound grows if necessary.
  void know(std::uint64_t mac, std::uint16_t port) {
    if (entries_.size() == limit_) ++limit_;
    learn(mac, port);
  }

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
  void on_event(std::uint32_t kind, std::uint64_t argument) override;
  /// A host with this MAC address is behind the port (Neighbours::known).
  void know(const wire::Mac& mac, std::uint16_t port);

 private:
  /// Copies of a flooded frame that arrive at the same time behind consecutive ports, except the port that it came from.
  struct Arrivals {
    FramePtr frame;
    Instant at = never;
    std::uint32_t port = 0;   // the next one
    std::uint32_t count = 0;  // how many are left
    std::uint16_t from = 0;
  };

  void flood(std::uint16_t from, FramePtr frame);
  void schedule(Arrivals& arrivals, const Frame& frame);
  void schedule(Arrivals& arrivals, FramePtr frame);
  bool must_mark(const LinkPort& port) const {
    return options_.ecn_threshold != 0 && port.has_waiting(options_.ecn_threshold);
  }
  void send(LinkPort& port, FramePtr frame);

  Engine& engine_;
  NodeId id_;
  std::string name_;
  SwitchOptions options_;
  std::vector<LinkPort*> ports_;
  MacTable table_;
  std::vector<Arrivals> arrivals_;  // scheduled ones; as many as the peak
  std::vector<std::uint32_t> free_arrivals_;
};

}  // namespace parley::sim
