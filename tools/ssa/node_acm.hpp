// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley ssad --acm`: ibacm's clients, answered from the database of a node.
#pragma once
#include <memory>
#include <string>

#include "drivers/ssa/daemon.hpp"
#include "tools/ssa/acm.hpp"

namespace parley::tools {

struct NodeAcmOptions {
  std::vector<std::string> sockets{};  ///< none: there is no service
  std::string addresses{};             ///< file of read_addresses()
};

class NodeAcm {
 public:
  /// Takes the sockets; clients are refused until the node has a database.
  static Or<std::unique_ptr<NodeAcm>> open(const NodeAcmOptions& options);
  /// Answers from the version and the port that the node has now. Errors: a socket that does not work.
  Or<void> follow(const ssa_driver::Daemon& daemon);

 private:
  NodeAcm(std::unique_ptr<ssa_driver::AcmService> service, ssa::acm::Addresses addresses)
      : service_(std::move(service)), addresses_(std::move(addresses)) {}

  std::unique_ptr<ssa_driver::AcmService> service_;
  ssa::acm::Addresses addresses_;
  std::shared_ptr<const ssa::PathMap> map_;  // null: not started
  mad::LocalPort local_;
};

}  // namespace parley::tools
