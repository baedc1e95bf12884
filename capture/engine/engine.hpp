// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The Analyzer for programs that display packets. engine_c.cpp has its C interface; the contract is
// capture/engine/parley_engine.h.
#pragma once
#include <deque>
#include <memory>

#include "capture/analyzer.hpp"
#include "capture/engine/findings_book.hpp"
#include "capture/engine/parley_engine.h"
#include "capture/rules/roce/roce_connections.hpp"

namespace parley::capture {

class Engine : RoceWatch {
 public:
  explicit Engine(const parley_engine_options& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void roce(const parley_engine_packet& in, parley_engine_place& out);
  void finish();
  /// The engine ran out of memory: it reads no further packets.
  void give_up() noexcept {
    analyzer_.reset();
    gave_up_ = true;
  }
  bool gave_up() const { return gave_up_; }
  const FindingsBook& findings() const { return findings_; }
  const std::deque<parley_engine_connection>& connections() const { return connections_; }

 private:
  /// Reads packets that the calling program has located in their frames.
  class Reader : public TransportReader {
   public:
    Status read(const parley_engine_packet& in, RocePacket& out);
  };

  void message(RoceConnection& connection, Side from, const RocePacket& p, const CapturedCm& m) override;
  void data(RoceConnection& connection, Side from, const RocePacket& p) override;
  void found(RoceConnection& connection, const Finding& finding) override;
  void ended(RoceConnection& connection, const ConnectionReport& report) override;
  parley_engine_connection* seen(RoceConnection& connection, Side from, std::uint64_t frame);
  void describe();
  void of_nobody(std::uint64_t frame, Rule rule, std::string_view text);

  Reader reader_;
  FindingsBook findings_;
  std::deque<parley_engine_connection> connections_;
  std::uint32_t numbers_ = 0;
  parley_engine_place* place_ = nullptr;  // of the packet that is being read
  RoceConnection* at_ = nullptr;          // connection of that packet
  bool told_ = false;                     // that packet caused a finding
  bool gave_up_ = false;
  std::unique_ptr<Analyzer> analyzer_;
};

}  // namespace parley::capture
