// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// libpcap's filter expressions on packets that are at hand: what tcpdump shows of them is what passes.
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
  /// Errors: libpcap's words for an expression that is none on any link type, or that this build has no libpcap.
  static tl::expected<std::unique_ptr<PacketFilter>, std::string> make(const std::string& expression);
  ~PacketFilter();
  PacketFilter(const PacketFilter&) = delete;
  PacketFilter& operator=(const PacketFilter&) = delete;

  /// False as well for every packet of a link type on which the expression means nothing; error() then says why.
  bool passes(std::uint16_t link_type, ConstBytes octets, std::uint32_t original_length);
  /// One line; empty while the expression could be used.
  const std::string& error() const { return error_; }

 private:
  struct Program;  // compiled for one link type; null where that cannot be
  explicit PacketFilter(std::string expression);
  const Program* program(std::uint16_t link_type);

  std::string expression_, error_;
  std::map<std::uint16_t, std::unique_ptr<Program>> programs_;  // at most link_types_max
  static constexpr std::size_t link_types_max = 64;             // of one file; Parley decodes fewer than ten
};

}  // namespace parley::pcap_driver
