// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A program in the simulator that acts for one side of a recording, for any protocol. It provides the memory that the
// other side names, posts receives, performs the recorded acts at their time, and notes how the connection ends.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "capture/report_ib.hpp"
#include "parley/sim.hpp"
#include "replay/mapping.hpp"
#include "tools/options.hpp"

namespace parley::tools {

class MirrorProgram : public sim::App {
 public:
  /// Sets the address to connect to; without it the program listens. Call it before the first step.
  void connect_to(const Address& peer) { peer_ = peer; }
  /// Releases everything on the host's device, which must still exist.
  void release();
  /// Events of this program, as text for people.
  const std::vector<std::string>& events() const { return events_; }

  void on_crash(sim::Host&) override {}
  void on_turn(sim::Host& host) override;
  void on_timer(sim::Host& host, std::uint64_t cookie) override;

 protected:
  static constexpr std::size_t receives = 64;  // posted at the same time
  static constexpr std::size_t sends = 1024;

  /// Memory that the played side addresses.
  struct Region {
    std::uint32_t recorded = 0;
    std::uint64_t begin = 0;  ///< recorded TO, or address, of its first octet
    std::size_t size = 0;     ///< of the memory, which allocate_memory() allocates
    Bytes memory;
    MemoryRegion mr;
    bool advertised = false;
  };
  /// The condition for one of its acts.
  struct Wait {
    std::size_t sends_seen = 0, answers_seen = 0;  ///< what it had received before
    Duration delay{};
  };
  struct RegionLimits {
    std::uint64_t before = 0;  ///< how far before the accessed octets an announced address may lie
    std::size_t most = 0;      ///< octets of a region
  };

  /// Plans the regions of `uses`. `refused`: this side reported an error, so that memory that was not advertised may
  /// have been unknown to it.
  void plan_regions(std::span<const replay::Use> uses, std::span<const replay::Field> fields, bool refused,
                    const RegionLimits& reach);
  /// Allocates the regions, `sent` octets for messages and Read sinks, and the receive buffers. Errors: environment, if
  /// the total exceeds `most`.
  Or<void> allocate_memory(capture::Side side, std::uint64_t sent, std::size_t most);
  /// Creates the protection domain and the completion queue, and registers the memory of allocate_memory().
  void register_memory(Device& device);
  /// Copies octets to a recorded TO or address. Octets outside of all regions are ignored.
  void put(std::uint32_t recorded, std::uint64_t to, ConstBytes octets);
  /// Replaces the recorded name by the live one, if the memory is registered.
  void write_name(Bytes& octets, const replay::Field& field) const;

  QpInit queue_pair() const;
  void post_receives();
  void post_receive(std::size_t slot);
  /// False if it already has a connection; the second one is dropped.
  bool adopt(const cm::ConnectRequest& request);
  bool is_mine(const cm::Id& id) const { return id_ && id == id_; }
  /// Notes that the connection was rejected, failed or disconnected.
  void note_end(const cm::Event& event);
  /// Copies `payload` into sendable memory, or reserves `length` octets for an answer. None if no memory is left.
  std::optional<Sge> place(ConstBytes payload, std::size_t length);
  void proceed(sim::Host& host);

  virtual void event(sim::Host& host, cm::Event event) = 0;
  virtual void completed(sim::Host& host, const WorkCompletion& wc) = 0;
  /// The condition for its next act. Null if there is no act, or if it cannot be performed yet.
  virtual const Wait* next() const = 0;
  /// Performs the next act. False if it is not possible yet.
  virtual bool act() = 0;

  std::vector<Region> regions_;
  std::optional<Address> peer_;
  std::size_t arena_used_ = 0, receive_size_ = 4096;
  MemoryRegion arena_mr_;
  PdHandle pd_ = 0;
  std::unique_ptr<CompletionQueue> cq_;
  cm::Id listener_, id_;  // id_ owns the queue pair: destroyed before cq_
  bool over_ = false;
  std::size_t next_act_ = 0, sends_seen_ = 0, answers_seen_ = 0;
  Instant progress_at_{};
  std::vector<std::string> events_;

 private:
  Bytes arena_, receive_arena_;
  MemoryRegion receive_mr_;
  Instant armed_ = never;
};

}  // namespace parley::tools
