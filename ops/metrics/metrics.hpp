// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Counters and histograms of connection set-up. They are made from trace events (parley/trace.hpp) only, apart from
// RoCE packets, whose counts a callback supplies. This code reads no clock: the time of an event is the one in the
// event. docs/operations.md lists the metrics.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/metrics/exposition.hpp"
#include "ops/metrics/neg_metrics.hpp"
#include "ops/metrics/source.hpp"
#include "ops/metrics/words.hpp"
#include "parley/trace.hpp"

namespace parley::ops {

/// Messages of the InfiniBand CM of one kind, as counted by the host.
struct CmMessageCounts {
  std::string_view type;
  std::uint64_t received = 0, sent = 0, resent = 0;
};

/// REJs with one reason, as counted by the host.
struct CmRejectCounts {
  std::string_view reason;
  std::uint64_t received = 0, sent = 0;
};

/// Packets of RoCE on UDP sockets, as counted by the host.
struct PacketCounts {
  std::uint64_t sent = 0, received = 0;
  std::uint64_t unsent = 0;                                           ///< rejected by the system
  std::vector<std::pair<std::string_view, std::uint64_t>> dropped{};  ///< by reason, as named by the host
  std::vector<CmMessageCounts> messages{};                            ///< by kind, as named by the host
  std::vector<CmRejectCounts> rejects{};                              ///< by reason, as named by the host
};

class Metrics final : public trace::Sink, public MetricsSource {
 public:
  /// What the command does, which determines the metrics.
  enum class CommandKind : std::uint8_t { connections, negotiations };

  /// `version` appears in parley_build_info.
  explicit Metrics(std::string version, CommandKind of = CommandKind::connections)
      : version_(std::move(version)), of_(of) {
    up_to = trace::Level::trace;
  }

  void record(const trace::Record& record) override;
  /// `counts` is called by each text() only.
  void count_packets(std::function<PacketCounts()> counts) { packets_ = std::move(counts); }
  std::string text() const override;

  /// Maximum number of connections that are followed at the same time; a TcpHost has fewer by default. For connections
  /// beyond it only messages, failures and ends are counted.
  static constexpr std::size_t followed_max = 1U << 18;

 private:
  enum class Role : std::uint8_t { initiator, responder };
  enum class Stage : std::uint8_t { resolve, route, transport, request, decision, reply, ready };
  static constexpr std::size_t roles = 2, stages = 7;

  /// A connection from its first to its last event.
  struct TrackedConnection {
    Role role = Role::initiator;
    Instant begun{};
    Instant stage_begun{};
    std::uint16_t received = 0;  ///< kinds of messages received in this attempt, as bits of message_words
    bool established = false;
    bool of_kernel = false;  ///< the request was reported by a NIC's kernel
  };

  struct EventVisitor;  ///< a visitor of events
  friend struct EventVisitor;
  void begin(const trace::Record& record, Role role);
  TrackedConnection* find(const trace::Record& record);
  void done(TrackedConnection& c, Stage stage, Instant at);
  void ended(TrackedConnection& c);
  void forget(const trace::Record& record);
  void message(const trace::Record& record, std::string_view kind, bool sent);

  void write_messages(Exposition& out, const std::optional<PacketCounts>& packets) const;
  void write_outcomes(Exposition& out, const std::optional<PacketCounts>& packets) const;
  void write_turned_away(Exposition& out) const;
  void write_times(Exposition& out) const;
  static void write_packets(Exposition& out, const PacketCounts& counts);

  using Direction = std::array<CountBy<message_words>, 2>;  ///< [sent]
  std::string version_;
  CommandKind of_;
  NegMetrics negotiations_;
  std::unordered_map<std::uint64_t, TrackedConnection> followed_;
  Direction messages_{};
  CountBy<message_words> duplicates_{};
  std::array<CountBy<opcode_words>, 2> fpdus_{}, octets_{};  ///< [sent]
  std::array<std::uint64_t, roles> started_{}, established_{}, open_{};
  std::array<CountBy<reason_words>, 2> rejects_{};  ///< [sent]
  std::array<CountBy<rej_words>, 2> rejs_{};        ///< [sent]; by connection managers, not by programs
  CountBy<limit_words> refused_{}, evicted_{};
  CountBy<reason_words> retries_{}, lost_{};
  std::array<CountBy<reason_words>, CountBy<step_words>::size> failures_{};  ///< [step]
  std::uint64_t disconnects_ = 0;
  CountBy<timer_words> expired_{};
  std::array<std::array<Histogram, stages>, roles> stage_times_{};
  std::array<Histogram, roles> set_up_times_{};
  std::function<PacketCounts()> packets_;  ///< empty: packets are not counted
};

}  // namespace parley::ops
