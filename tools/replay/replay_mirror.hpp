// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A program on Parley's own stack, in the simulator, that wants what one side of a recording wanted: it connects or
// accepts with the same options and private data, registers the memory that the other side names, and posts the
// recorded Sends, Writes and Reads in their order. What the stack itself does (answers, Terminates) is Parley's, and is
// what gets compared.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "mpa/startup_options.hpp"
#include "parley/sim.hpp"
#include "replay/player.hpp"
#include "tools/options.hpp"

namespace parley::tools {

class Mirror final : public sim::App {
 public:
  /// Stands in for `side` of the recording. `player` plays the other one; it learns the STags that no octet tells.
  Mirror(const replay::Recording& recording, capture::Side side, const std::string& quirk, replay::Player& player);

  /// Errors: what of the recording is too large or cannot be done through verbs (environment).
  Or<void> prepare();
  /// Where to connect to; else it listens at `port`. Before the first step.
  void connect_to(const Address& peer) { peer_ = peer; }
  void listen_at(std::uint16_t port) { port_ = port; }
  /// Drops everything that belongs to the host's device, which must still be there.
  void let_go();
  /// What happened to it, for people.
  const std::vector<std::string>& events() const { return events_; }

  void on_start(sim::Host& host) override;
  void on_crash(sim::Host&) override {}
  void on_turn(sim::Host& host) override;
  void on_timer(sim::Host& host, std::uint64_t cookie) override;

 private:
  static constexpr std::size_t memory_max = 256 << 20;  // octets registered in all
  static constexpr std::size_t receives = 64;           // posted at one time
  static constexpr std::size_t sends = 1024;

  /// Memory that the played side names.
  struct Region {
    std::uint32_t recorded = 0;
    std::uint64_t begin = 0;  ///< recorded TO of its first octet
    std::size_t size = 0;     ///< of the memory, which is there after prepare(); at most memory_max
    Bytes memory;
    MemoryRegion mr;
    bool advertised = false;
  };
  /// Something it does by itself.
  struct Act {
    std::size_t item = 0;
    std::size_t sends_seen = 0, reads_done = 0;  ///< what it had received before
    Duration delay{};
    std::vector<std::size_t> reads;  ///< Read Responses of which the data have to be in place now
  };

  mpa::StartupOptions mpa_options() const;
  void plan_acts();
  void plan_regions();
  void fill(const std::vector<std::size_t>& responses);
  void fill_atomic(const replay::Item& response, const replay::Item& request);
  Bytes with_names(std::size_t item, ConstBytes octets) const;
  Region* region_of(std::uint32_t recorded);
  void event(sim::Host& host, cm::Event event);
  void answer(const cm::ConnectRequest& request);
  void begin(sim::Host& host);
  void proceed(sim::Host& host);
  bool act(const Act& what);
  bool post(const replay::Item& item, const Act& what);
  bool not_posted(const replay::Item& item);
  void post_receive(std::size_t slot);
  const replay::SideRecord& mine() const { return recording_.side(side_); }
  const replay::SideRecord& theirs() const { return recording_.side(capture::other(side_)); }

  const replay::Recording& recording_;
  capture::Side side_;
  std::string quirk_;
  replay::Player& player_;
  replay::Names names_;  // of memory that is this side's
  std::vector<Region> regions_;
  std::vector<Act> acts_;
  std::vector<std::size_t> first_reads_;                         // data that have to be in place from the beginning
  std::vector<std::pair<std::size_t, std::size_t>> read_pairs_;  // our responses and the requests they answer
  std::set<std::pair<std::uint32_t, std::uint64_t>> atomics_filled_;  // STag and TO
  std::optional<Address> peer_;
  std::uint16_t port_ = 0;

  Bytes arena_, receive_arena_;
  std::size_t arena_used_ = 0, receive_size_ = 0;
  MemoryRegion arena_mr_, receive_mr_;
  PdHandle pd_ = 0;
  std::unique_ptr<CompletionQueue> cq_;
  cm::Id listener_, id_;  // id_ owns the queue pair: destroyed before cq_
  bool posting_ = false, up_ = false, over_ = false;
  std::size_t next_act_ = 0, sends_seen_ = 0, reads_done_ = 0;
  Instant last_act_{}, progress_at_{}, armed_ = never;
  std::vector<std::string> events_;
};

}  // namespace parley::tools
