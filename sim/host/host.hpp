// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A host: an IP stack with a list of NICs, each with ARP and IPv6 neighbour discovery; TCP; and above it the software
// RNIC or another StreamMachine. The host drives that machine in virtual time, as drivers/asio does in real time.
//
// Addresses: NIC p of host n (both from 0) has 02:00:00:p:h:l, 10.N.h.l, 2001:db8:N::n+1 and fe80::p:n+1%p+1, where h:l
// is n+1 and N its network; NicOptions::interface_id is another lower half of the last. Hosts of one network reach each
// other, nothing is routed. Not modelled: IP options and extension headers, fragments, ICMP errors except destination
// unreachable, duplicate address detection (RFC 4862 §5.4), router discovery, multicast listener reports.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/rng.hpp"
#include "sim/host/directory.hpp"
#include "sim/net/engine.hpp"

namespace parley::sim {

/// A host as the world sees it.
class HostNode : public Host, public Node {
 public:
  /// The NIC that a link may be attached to: the one with that name, or the first without a link. It may not exist yet
  /// (then it is nic_count()). Errors: there is none, or it has a link.
  virtual Checked<std::uint16_t> free_nic(std::string_view name) const = 0;
  /// Attaches a link to a NIC that free_nic() returned; links come before the first step.
  virtual void attach(std::uint16_t nic, LinkPort& link) = 0;
  /// The network of a NIC: all NICs joined by switches have one number; NICs of other networks have other prefixes.
  /// Without this call it is the NIC's own number. Before the first step.
  virtual void set_network(std::uint16_t nic, std::uint8_t network) = 0;
  /// Neighbours::known: adds the NIC's addresses to the directory of its segment, from which it takes its neighbours.
  /// Returns its MAC address. Before the first step, after all links.
  virtual wire::Mac use_directory(std::uint16_t nic, NeighbourDirectory& directory) = 0;
  /// First step of the world: calls App::on_start.
  virtual void start() = 0;
  NodeId id() const override = 0;
  const std::string& name() const override = 0;
};

/// `number` counts hosts from 0; addresses are derived from it.
std::unique_ptr<HostNode> make_host(Engine& engine, NodeId id, std::uint32_t number, std::string name,
                                    const HostOptions& options, Rng rng);

}  // namespace parley::sim
