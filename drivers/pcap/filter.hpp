// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// libpcap's filter expressions on packets in memory: the packets that tcpdump would show pass.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <tl/expected.hpp>

#include "parley/bytes.hpp"

namespace parley::pcap_driver {

class PacketFilter {
 public:
  /// Errors: libpcap's message for an expression that is invalid for every link type, or that this build has no
  /// libpcap.
  static tl::expected<std::unique_ptr<PacketFilter>, std::string> make(const std::string& expression);
  ~PacketFilter();
  PacketFilter(const PacketFilter&) = delete;
  PacketFilter& operator=(const PacketFilter&) = delete;

  /// Also false for every packet of a link type for which the expression is invalid; error() then has the reason.
  bool passes(std::uint16_t link_type, ConstBytes octets, std::uint32_t original_length);
  /// One line; empty while the expression is usable.
  const std::string& error() const { return error_; }

 private:
  struct Program;  // compiled for one link type; null if that fails
  explicit PacketFilter(std::string expression);
  const Program* program(std::uint16_t link_type);

  std::string expression_, error_;
  std::map<std::uint16_t, std::unique_ptr<Program>> programs_;  // at most link_types_max
  static constexpr std::size_t link_types_max = 64;             // per file; Parley decodes fewer than ten
};

}  // namespace parley::pcap_driver
