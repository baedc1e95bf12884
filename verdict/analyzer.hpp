// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// From captured packets to verdicts: the front door of this room. Push packets in file order, then finish().
// Memory is bounded by the constants below whatever the file holds; what does not fit is named in the notes.
// A packet that the capture shows at several places and says so (pcapng's epb_packetid) is judged where it came first.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "verdict/connection.hpp"
#include "wire/pcap.hpp"

namespace parley::verdict {

struct AnalyzerOptions {
  bool events = false;       ///< collect what the ladder draws
  StreamTap* tap = nullptr;  ///< is told what is understood of each stream; outlives the Analyzer
};

class Analyzer {
 public:
  explicit Analyzer(const AnalyzerOptions& options = {}) : options_(options) {}

  void push(const wire::CapturedPacket& packet);
  /// Something to be told about the file: it is truncated, for instance.
  void note(std::string text);
  FileReport finish();

 private:
  /// Both ends, in an order that does not depend on the direction.
  struct Key {
    Address a, b;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& k) const;
  };
  using Connections = std::unordered_map<Key, std::unique_ptr<Connection>, KeyHash>;  // null: not MPA, or over

  static constexpr std::size_t live_max = 65536;     // connections followed at one time
  static constexpr std::size_t known_max = 1 << 20;  // addresses and ports remembered as being of no interest
  static constexpr std::size_t reports_max = 65536;  // verdicts in one report

  static constexpr std::size_t packet_ids_max = 1 << 16;  // a packet is not longer on its way than so many others take

  bool seen_before(const wire::CapturedPacket& packet);
  void tcp(const wire::TcpSegmentView& t, const wire::CapturedPacket& packet);
  void retire(std::unique_ptr<Connection>& c);
  void make_room();

  AnalyzerOptions options_;
  ReassemblyBudget budget_;
  Connections connections_;
  std::size_t live_ = 0;
  std::uint64_t not_followed_ = 0, not_reported_ = 0, copies_ = 0, altered_copies_ = 0;
  // The last packet_ids_max of them, each with a digest of its octets; packet_id_ring_ tells their order.
  std::unordered_map<std::uint64_t, std::uint64_t> packet_ids_;
  std::vector<std::uint64_t> packet_id_ring_;
  std::size_t packet_id_next_ = 0;
  FileReport report_;
};

}  // namespace parley::verdict
