// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A host: ports with ARP and IPv6 neighbour discovery, TCP, and above it the software RNIC or another StreamMachine. It
// is the driver of that machine in virtual time, as drivers/asio is in real time.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/rng.hpp"
#include "sim/engine.hpp"

namespace parley::sim {

/// A host as the world sees it.
class HostNode : public Host, public Node {
 public:
  /// The host's next port; links come before the first step.
  virtual std::uint16_t attach(LinkPort& port) = 0;
  /// First step of the world: calls App::on_start.
  virtual void start() = 0;
  NodeId id() const override = 0;
  const std::string& name() const override = 0;
};

/// `number` counts hosts from 0; addresses come from it.
std::unique_ptr<HostNode> make_host(Engine& engine, NodeId id, std::uint32_t number, std::string name,
                                    const HostOptions& options, Rng rng);

}  // namespace parley::sim
