// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The neighbours of a host, as a machine: resolves IPv4 and IPv6 addresses on its ports to MAC addresses, by ARP (RFC 826)
// and neighbour discovery with its states (RFC 4861 §7.3.2). ARP entries have the same states.
//
// State      | input                                  | next       | what happens
// -----------|----------------------------------------|------------|---------------------------------------------------
// (none)     | resolve                                | incomplete | a solicitation to all, or to the group
// (none)     | a request from it to us                | stale      | its address is known without a solicitation
// incomplete | answer                                 | reachable  | the waiting frames are sent
// incomplete | 1 s without, 3 times                   | (none)     | the waiting frames are dropped; failed
// reachable  | 30 s without a sign of life            | stale      | (noticed when it is next used)
// stale      | resolve                                | delay      | the frame is sent anyway
// delay      | 5 s without a sign of life             | probe      | a solicitation only to it
// probe      | 1 s without, 3 times                   | (none)     | failed
// any known  | answer, or valid TCP from it           | reachable  |
// any known  | another MAC address by request, advert | stale      | the new address is used
// (none)     | resolve, address in the directory      | permanent  | never asked for, and nothing changes it
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/deadline_queue.hpp"
#include "base/same_octets.hpp"
#include "parley/address.hpp"
#include "sim/host/directory.hpp"
#include "sim/host/stack_index.hpp"
#include "sim/net/frame.hpp"
#include "wire/neighbour.hpp"

namespace parley::sim {

/// Identifies an entry; a stale one is detected.
struct NeighbourRef {
  std::uint32_t slot = SlotIndex::none;
  std::uint32_t generation = 0;
};

/// A solicitation to send: to the group or to all if `mac` is empty, else only to the neighbour.
struct NeighbourAsk {
  std::uint16_t port = 0;
  Address address;
  std::optional<wire::Mac> mac;
};

class NeighbourTable {
 public:
  static constexpr std::size_t entries_max = 16384;  // the oldest is dropped; a storm has 10,000 hosts
  static constexpr std::size_t waiting_max = 128;    // frames per unresolved neighbour; the oldest is dropped
  static constexpr int tries_max = 3;                // RFC 4861 §10: MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT
  static constexpr Duration retransmit = std::chrono::seconds(1);   // RFC 4861 §10: RETRANS_TIMER
  static constexpr Duration reachable = std::chrono::seconds(30);   // REACHABLE_TIME, without its random factor
  static constexpr Duration first_probe = std::chrono::seconds(5);  // DELAY_FIRST_PROBE_TIME

  /// The entry of an address (its port and scope are ignored) on a port; created if there is none, with the MAC address
  /// of `directory` (may be null).
  NeighbourRef find(std::uint16_t port, const Address& address, const NeighbourDirectory* directory = nullptr);
  bool valid(NeighbourRef ref) const {
    return ref.slot < entries_.size() && entries_[ref.slot].generation == ref.generation;
  }
  /// The MAC address to send to now; null if unknown: then pass the frame to wait() instead. `ref` must be
  /// valid.
  const wire::Mac* resolve(Instant now, NeighbourRef ref);
  /// Keeps a frame whose destination MAC address is not filled in yet.
  void wait(NeighbourRef ref, FramePtr frame);
  /// A valid segment came from this neighbour: RFC 4861 §7.3.1, the upper layer's confirmation.
  void confirm(Instant now, NeighbourRef ref) {
    if (!valid(ref)) return;
    const State state = entries_[ref.slot].state;
    if (state == State::reachable || state == State::delay || state == State::probe) confirm_slot(now, ref.slot);
  }

  /// `mac` was announced as the address of a neighbour. `answer`: in reply to our solicitation. `may_make`: it may
  /// create an entry. `overrides`: a MAC address other than the known one is accepted (RFC 4861 §7.2.5).
  void heard(Instant now, std::uint16_t port, const Address& address, const wire::Mac& mac, bool answer, bool overrides,
             bool may_make);

  /// One of the next three may return something.
  bool has_work() const { return !asks_.empty() || !outgoing_.empty() || !failures_.empty(); }
  // Pending output; drain each until it returns nothing.
  bool poll_ask(NeighbourAsk& out);
  /// Frames of neighbours that were found, with their destination MAC address filled in.
  FramePtr poll_frame(std::uint16_t& port);
  /// A neighbour that cannot be found; its entry is gone: no connection to it can be made.
  bool poll_failure(std::uint16_t& port, Address& address);

  Instant next_deadline() const { return deadlines_.next(); }
  void handle_deadline(Instant now);
  std::size_t size() const { return index_.size(); }

 private:
  enum class State : std::uint8_t { free, incomplete, reachable, delay, probe, permanent };
  struct Entry {
    std::array<std::uint8_t, 16> octets{};
    std::uint16_t port = 0;
    Address::Family family = Address::Family::v4;
    State state = State::free;
    std::uint8_t tries = 0;
    wire::Mac mac{};
    std::uint32_t generation = 0;
    std::uint32_t older = SlotIndex::none, newer = SlotIndex::none;  // in order of creation
    std::uint32_t queue = SlotIndex::none;                           // queue of waiting frames
    Instant until{};                                                 // reachable: then it becomes stale
  };
  struct Outgoing {
    std::uint16_t port = 0;
    FramePtr frame;
  };
  struct Failure {
    std::uint16_t port = 0;
    Address address;
  };

  static bool is_of(const Entry& entry, std::uint16_t port, const Address& address) {
    return entry.port == port && entry.family == address.family && same_octets(entry.octets, address.octets);
  }
  static std::uint32_t hash_of(std::uint16_t port, const Address& address);
  std::uint32_t slot_of(std::uint16_t port, const Address& address) const;
  std::uint32_t make(std::uint16_t port, const Address& address, const NeighbourDirectory* directory);
  void remove(std::uint32_t slot);
  void drop_queue(std::uint32_t slot);
  void found(Instant now, std::uint32_t slot);
  void confirm_slot(Instant now, std::uint32_t slot);
  void ask(Instant now, std::uint32_t slot, bool alone);
  Address address_of(const Entry& entry) const;

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  std::uint32_t oldest_ = SlotIndex::none, newest_ = SlotIndex::none;
  SlotIndex index_;
  std::uint32_t last_ = SlotIndex::none;       // result of the last lookup; the next packet probably has the same
                                               // neighbour
  std::vector<std::vector<FramePtr>> queues_;  // queues of unresolved neighbours; reused
  std::vector<std::uint32_t> free_queues_;
  DeadlineQueue deadlines_;
  std::vector<NeighbourAsk> asks_;  // at most one per entry and call
  std::vector<Outgoing> outgoing_;  // at most waiting_max per answer
  std::vector<Failure> failures_;   // at most one per entry and call
  std::size_t asks_at_ = 0, outgoing_at_ = 0, failures_at_ = 0;
};

}  // namespace parley::sim
