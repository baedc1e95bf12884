// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A program in the simulator that stands in for one side of a recording, whatever the protocol: memory that the other side
// names, receives, what is done by itself and when, and what becomes of the connection.
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
  /// Where to connect to; else it listens. Before the first step.
  void connect_to(const Address& peer) { peer_ = peer; }
  /// Drops everything that belongs to the host's device, which must still be there.
  void let_go();
  /// What happened to it, for people.
  const std::vector<std::string>& events() const { return events_; }

  void on_crash(sim::Host&) override {}
  void on_turn(sim::Host& host) override;
  void on_timer(sim::Host& host, std::uint64_t cookie) override;

 protected:
  static constexpr std::size_t receives = 64;  // posted at one time
  static constexpr std::size_t sends = 1024;

  /// Memory that the played side names.
  struct Region {
    std::uint32_t recorded = 0;
    std::uint64_t begin = 0;  ///< recorded TO, or address, of its first octet
    std::size_t size = 0;     ///< of the memory, which is there after take_memory()
    Bytes memory;
    MemoryRegion mr;
    bool advertised = false;
  };
  /// What something that it does by itself waits for.
  struct Wait {
    std::size_t sends_seen = 0, answers_seen = 0;  ///< what it had received before
    Duration delay{};
  };
  struct Reach {
    std::uint64_t before = 0;  ///< how far in front of what was moved an announced place may lie
    std::size_t most = 0;      ///< octets of a region
  };

  /// The regions of `uses`. `refused`: who complained about what it was told did not know the memory, perhaps.
  void plan_regions(std::span<const replay::Use> uses, std::span<const replay::Field> fields, bool refused,
                    const Reach& reach);
  /// Room for the regions, for `sent` octets that it sends or reads, and for receives. Errors: environment, more than `most`.
  Or<void> take_memory(capture::Side side, std::uint64_t sent, std::size_t most);
  /// Protection domain, completion queue, and all that take_memory() took.
  void register_memory(Device& device);
  /// Octets that have to be in place at a recorded TO, or address; those that no region has are passed over.
  void put(std::uint32_t recorded, std::uint64_t to, ConstBytes octets);
  /// The live name in place of the recorded one, if the memory is registered.
  void write_name(Bytes& octets, const replay::Field& field) const;

  QpInit queue_pair() const;
  void post_receives();
  void post_receive(std::size_t slot);
  /// False: it has a connection already, and the second is dropped.
  bool take(const cm::ConnectRequest& request);
  bool is_mine(const cm::Id& id) const { return id_ && id == id_; }
  /// Rejected, failed, disconnected.
  void note_end(const cm::Event& event);
  /// `payload` where it can be sent from, or room for `length` octets of an answer. None: there is no more.
  std::optional<Sge> place(ConstBytes payload, std::size_t length);
  void proceed(sim::Host& host);

  virtual void event(sim::Host& host, cm::Event event) = 0;
  virtual void completed(sim::Host& host, const WorkCompletion& wc) = 0;
  /// What its next act waits for. Null: there is none, or not yet.
  virtual const Wait* next() const = 0;
  /// The next act. False: it cannot be done yet.
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
