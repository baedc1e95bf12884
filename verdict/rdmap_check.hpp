// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Judges the DDP segments of both directions of one connection: RFC 5041 (DDP), RFC 5040 (RDMAP), RFC 7306 (Immediate
// Data and Atomics). What follows octets that the capture lacks is judged only as far as it stands on its own.
#pragma once
#include <array>
#include <functional>
#include <optional>

#include "verdict/fifo.hpp"
#include "verdict/findings.hpp"
#include "verdict/fpdu_walker.hpp"
#include "wire/rdmap.hpp"

namespace parley::verdict {

/// What one side did wrong first, as the Terminate that it deserves: helps to read siw's Terminates.
struct Complaint {
  std::uint8_t layer = 0, etype = 0, code = 0;
  std::uint64_t frame = 0;
  bool any_code = false;  ///< no RFC says which code such a fault deserves
};

class RdmapCheck {
 public:
  using EventFn = std::function<void(const WalkedFpdu&, Side, LadderEvent::Kind, std::string)>;

  explicit RdmapCheck(Findings& findings) : findings_(findings) {}

  void count_into(DirectionCounts& from_initiator, DirectionCounts& from_responder);
  void set_events(EventFn fn) { event_ = std::move(fn); }
  /// RDMA Consortium peers speak DDP and RDMAP version 0 (RFC 5044 Appendix C).
  void set_version(std::uint8_t version) { version_ = version; }
  /// How many Reads and Atomics `side` may have outstanding; none: not negotiated.
  void set_read_limit(Side side, std::optional<std::uint16_t> limit) { at(side).read_limit = limit; }
  /// What `culprit` did that its peer may complain about; `weak`: no fault by itself, so it displaces no fault.
  void complaint(Side culprit, Complaint c, bool weak = false);

  void segment(Side from, const WalkedFpdu& fpdu);
  /// Octets of `side` are missing or its boundaries were lost.
  void lost(Side side);
  /// Octets of `side` that its peer had received are not decoded (yet): answers may look unasked for.
  void behind(Side side) { at(side).reads_reliable = false; }
  /// The connection is over: what was left unfinished.
  void finish(std::uint64_t last_frame);

  /// `side` already did something that ends its half of the stream.
  bool faulty(Side side) const { return at(side).fault && !at(side).fault_weak; }
  /// What `culprit` did that deserves a Terminate, the first faults_max of them in the order of the stream.
  const std::vector<Complaint>& faults(Side culprit) const { return at(culprit).faults; }
  /// Something that is no fault, but that a peer may take for one.
  const std::optional<Complaint>& cause(Side side) const { return at(side).fault; }
  /// The Terminate of `side` as it was meant; none if it sent none that could be read.
  const std::optional<Complaint>& terminate_of(Side side) const { return at(side).terminate; }
  /// Octets of `side` are missing, or its boundaries were lost.
  bool lossy(Side side) const { return at(side).lossy; }
  bool terminated(Side side) const { return at(side).terminated; }
  /// Of its first Terminate; 0: none was seen.
  std::uint64_t terminate_frame(Side side) const { return at(side).terminate_frame; }
  std::uint64_t segments(Side side) const { return at(side).segments; }

 private:
  struct Queue {
    bool known = true;  // next_msn is
    std::uint32_t next_msn = 1;
    bool open = false;  // a message waits for its last segment
    std::uint32_t msn = 0, mo = 0;
    wire::RdmapOpcode opcode = wire::RdmapOpcode::send;
  };
  struct Tagged {
    bool open = false;
    std::uint32_t stag = 0;
    std::uint64_t to = 0;
  };
  struct Outstanding {
    wire::ReadRequest request;
    std::uint64_t frame = 0;
    std::uint64_t done = 0;
    std::uint32_t msn = 0;
  };
  struct Recent {
    std::array<std::uint8_t, PARLEY_DDP_UNTAGGED_LEN> head{};
    std::size_t size = 0;
    std::uint32_t length = 0;
    std::uint64_t frame = 0;
  };
  struct State {
    std::array<Queue, 4> queues;
    Tagged write, response;
    Fifo<Outstanding> reads;      // at most outstanding_max
    Fifo<std::uint32_t> atomics;  // request ids, at most outstanding_max
    bool reads_reliable = true;
    bool reads_too_many = false;  // told once
    bool lossy = false;
    bool terminated = false;
    std::uint64_t terminate_frame = 0;
    std::uint64_t segments = 0;
    std::optional<std::uint16_t> read_limit;
    std::optional<Complaint> fault;
    bool fault_weak = false;
    std::vector<Complaint> faults;  // at most faults_max
    std::optional<Complaint> terminate;
    std::vector<Recent> recent;   // ring of the last recent_max segments
    std::size_t recent_next = 0;  // where the next one goes
    DirectionCounts* counts = nullptr;
  };
  static constexpr std::size_t outstanding_max = 16384;  // IRD and ORD have 14 bits (RFC 6581 §6)
  static constexpr std::size_t recent_max = 32;

  static constexpr std::size_t faults_max = 8;  // who has not answered by then answers none

  State& at(Side s) { return state_[static_cast<std::size_t>(s)]; }
  const State& at(Side s) const { return state_[static_cast<std::size_t>(s)]; }
  void accuse(Side from, const WalkedFpdu& f, std::string_view rule, std::string text);
  bool check_controls(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  bool check_untagged(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_write(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_read_request(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_read_response(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_atomic_request(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_atomic_response(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_outstanding(Side from, const WalkedFpdu& f);
  bool room_for_request(Side from, const WalkedFpdu& f, std::size_t outstanding);
  void check_terminate(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_terminate_order(Side from, const WalkedFpdu& f, const wire::Terminate& t, std::uint8_t octet0,
                             std::uint8_t bits);
  void check_terminate_parts(Side from, const WalkedFpdu& f, const wire::Terminate& t);
  void check_terminate_header(Side from, const WalkedFpdu& f, const wire::Terminate& t);
  void check_terminate_of_nothing(Side from, const WalkedFpdu& f, const wire::Terminate& t, const wire::DdpHeader& h);
  void dispatch(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void tell(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);

  Findings& findings_;
  EventFn event_;
  std::uint8_t version_ = 1;
  std::array<State, 2> state_;
};

/// "RDMA Write stag=0x1 to=0x0 len=64", for people. `h` is the header of `f`.
std::string describe_segment(const WalkedFpdu& f, const wire::DdpHeader& h);
/// "remote protection: invalid STag (layer 0, type 1, code 0x00)".
std::string describe_terminate(std::uint8_t layer, std::uint8_t etype, std::uint8_t code);

}  // namespace parley::verdict
