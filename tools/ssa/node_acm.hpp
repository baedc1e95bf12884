// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley ssad --acm`: ibacm's clients, answered from the database of a node.
#pragma once
#include <memory>
#include <string>

#include "drivers/ssa/daemon.hpp"
#include "tools/ssa/acm.hpp"

namespace parley::tools {

/// How many ports the transport's node has, as its NodeInfo says. It waits for the answer, for at most a second, and takes
/// what arrives meanwhile. Without an answer: the number of the transport's own port.
std::uint8_t ports_of_node(mad::Transport& transport);

struct NodeAcmOptions {
  std::vector<std::string> sockets{};  ///< none: there is no service
  std::string addresses{};             ///< file of read_addresses()
  std::uint8_t ports_of_node = 1;
};

class NodeAcm {
 public:
  /// Takes the sockets; clients are refused until the node has a database.
  static Or<std::unique_ptr<NodeAcm>> open(const NodeAcmOptions& options);
  /// Answers from the version and the port that the node has now. True: the service has begun, with this call. Errors: a
  /// socket that does not work.
  Or<bool> follow(const ssa_driver::Daemon& daemon);
  std::uint64_t counter(ssa::acm::Counter which) const { return service_->counter(which); }

 private:
  NodeAcm(std::unique_ptr<ssa_driver::AcmService> service, ssa::acm::Addresses addresses, std::uint8_t ports_of_node)
      : service_(std::move(service)), from_file_(std::move(addresses)), ports_of_node_(ports_of_node) {}

  void adapt_addresses(std::uint64_t prefix);
  std::vector<ssa::acm::Endpoint> endpoints() const;

  std::unique_ptr<ssa_driver::AcmService> service_;
  ssa::acm::Addresses from_file_;
  std::uint8_t ports_of_node_;
  std::uint64_t prefix_ = 0;                              // of addresses_
  std::shared_ptr<const ssa::acm::Addresses> addresses_;  // those of the file with the subnet's prefix; null: none yet
  std::shared_ptr<const ssa::PathMap> map_;               // null: not started
  mad::LocalPort local_;
};

}  // namespace parley::tools
