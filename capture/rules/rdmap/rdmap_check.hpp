// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Judges the DDP segments of both directions of one connection: RFC 5041 (DDP), RFC 5040 (RDMAP), RFC 7306 (Immediate
// Data and Atomics). What follows octets that the capture lacks is judged only as far as it stands on its own.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "capture/fifo.hpp"
#include "capture/findings.hpp"
#include "capture/read/fpdu/fpdu_walker.hpp"
#include "capture/rules/rdmap/message_extent.hpp"
#include "wire/rdmap.hpp"

namespace parley::capture {

/// What one side did wrong first, as the Terminate that it deserves: helps to read siw's Terminates.
struct Complaint {
  std::uint8_t layer = 0, etype = 0, code = 0;
  std::uint64_t frame = 0;
  bool any_code = false;  ///< no RFC says which code such a fault deserves
  std::uint64_t end = 0;  ///< position behind the FPDU, as WalkedFpdu counts; 0: not known
};

/// Octets behind the DDP header of a segment.
inline std::size_t payload_of(const WalkedFpdu& f, const wire::DdpHeader& h) { return f.ulpdu.size() - h.size(); }

class RdmapCheck {
 public:
  using EventFn = std::function<void(const WalkedFpdu&, Side, LadderEvent::Kind, std::string)>;

  explicit RdmapCheck(Findings& findings) : findings_(findings) {}

  void count_into(DirectionCounts& from_initiator, DirectionCounts& from_responder);
  void set_events(EventFn fn) { event_ = std::move(fn); }
  /// RDMA Consortium peers speak DDP and RDMAP version 0 (RFC 5044 Appendix C).
  /// Request and Reply are in the capture.
  void set_up_known() { set_up_known_ = true; }
  void set_version(std::uint8_t version) { version_ = version; }
  /// How many Reads and Atomics `side` may have outstanding; none: not negotiated. `rtr`: its first FPDU may be a Read
  /// of no octets in any case, as a ready-to-receive.
  void set_read_limit(Side side, std::optional<std::uint16_t> limit, bool rtr = false) {
    at(side).read_limit = limit;
    at(side).read_rtr = rtr;
  }
  /// What `culprit` did that its peer may complain about; `weak`: no fault by itself, so it displaces no fault.
  void complaint(Side culprit, Complaint c, bool weak = false);

  void segment(Side from, const WalkedFpdu& fpdu);
  /// Octets of `side` are missing or its boundaries were lost.
  void lost(Side side);
  /// Not all that `side` sent was read: nothing can be said to be missing among it.
  void not_all_read(Side side) { at(side).lossy = true; }
  /// Octets of `side` that its peer had received before the segment that comes next are not decoded (yet): answers may
  /// look unasked for, and requests unanswered.
  void behind(Side side) {
    at(side).behind = true;
    reads_unknown();
  }
  /// Where the octets of a side end; 0: not in the capture.
  struct End {
    std::uint64_t fin_frame = 0, rst_frame = 0;
  };
  /// The connection is over: what was left unfinished.
  void finish(std::uint64_t last_frame, End initiator, End responder);

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
    std::uint32_t msn = 0, word = 0;  // of the message that is open
    wire::RdmapOpcode opcode = wire::RdmapOpcode::send;
    MessageExtent extent;
  };
  struct Tagged {
    std::uint32_t stag = 0;
    MessageExtent extent;
  };
  struct Whereabouts {
    bool known = false;
    std::uint32_t stag = 0;
    std::uint64_t to = 0;
  };
  /// A Read or an Atomic: their answers share one order and their number one limit (RFC 7306 §5.1).
  struct Outstanding {
    wire::ReadRequest request;
    bool atomic = false;
    std::uint32_t request_id = 0;  // atomic
    std::uint32_t msn = 0;
    std::uint64_t frame = 0;
  };
  struct Recent {
    std::array<std::uint8_t, PARLEY_DDP_UNTAGGED_LEN> head{};
    std::size_t size = 0;
    std::uint32_t length = 0;
    std::uint64_t frame = 0;
  };
  /// A Terminate is judged at the end: what it speaks of may stand behind it in the capture, or not at all.
  struct HeldTerminate {
    std::uint64_t frame = 0;
    Bytes ulpdu;  // its head, at most held_max
    std::size_t size = 0, known = 0;
    std::uint64_t before = 0;        // segments of the other side that stand before it
    std::optional<Complaint> cause;  // what the other side had done last
    bool cause_weak = false;         // and that is no fault
    bool behind = false;             // octets that its sender had received are not among those
    std::optional<Recent> quoted;    // the segment of which it has the header
  };
  static constexpr std::size_t held_max = 256;

  struct State {
    std::array<Queue, 4> queues;
    Tagged write;
    bool write_under_way = false;  // when a loss ended: segments of it may be lost
    Whereabouts previous_write;    // where the last one began that is over
    Fifo<Outstanding> requests;    // at most outstanding_max
    MessageExtent answer;          // to the first Read of them
    bool order_told = false;       // that this answer comes before its turn
    bool answer_wrong = false;     // so that the rest of it tells nothing
    bool reads_reliable = true;
    bool behind = false;
    bool reads_too_many = false;  // told once
    bool lossy = false;
    bool terminated = false;
    std::uint64_t terminate_frame = 0;
    std::uint64_t segments = 0;
    std::optional<std::uint16_t> read_limit;
    bool read_rtr = false;
    std::optional<Complaint> fault;
    bool fault_weak = false;
    std::vector<Complaint> faults;  // at most faults_max
    std::optional<Complaint> terminate;
    std::unique_ptr<HeldTerminate> held;
    std::vector<Recent> recent;   // ring of the last recent_max segments
    std::size_t recent_next = 0;  // where the next one goes
    DirectionCounts* counts = nullptr;
  };
  static constexpr std::size_t outstanding_max = 16384;  // IRD and ORD have 14 bits (RFC 6581 §6)
  static constexpr std::size_t recent_max = 32;

  static constexpr std::size_t faults_max = 8;  // who has not answered by then answers none

  State& at(Side s) { return state_[static_cast<std::size_t>(s)]; }
  const State& at(Side s) const { return state_[static_cast<std::size_t>(s)]; }
  void blame(Side from, const WalkedFpdu& f, Complaint c);
  void reads_unknown() {
    for (State& s : state_) {
      s.reads_reliable = s.answer_wrong = false;
      s.answer.close();
    }
  }
  void accuse(Side from, const WalkedFpdu& f, Rule rule, std::string text);
  bool check_controls(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_untagged(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void place_untagged(Side from, const WalkedFpdu& f, const wire::DdpHeader& h, Queue& q);
  /// A message is over, and this is where that shows. Surely, or as far as the capture goes.
  struct Over {
    std::uint64_t frame = 0;
    std::uint64_t end = 0;  // position behind the FPDU; 0: none
    bool surely = true;
  };
  static Over over_at(const WalkedFpdu& f) { return {f.last.frame, f.position + f.wire_octets}; }
  Over over_at_end(const End& end, const MessageExtent::Odd& odd) const;
  static std::string since(const MessageExtent::Odd& odd, const Over& over);
  void settle_untagged(Side from, std::uint32_t qn, const Over& over);
  void check_write(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  bool place_write(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  static bool joins_previous(const State& s);
  void settle_write(Side from, const Over& over);
  void check_read_request(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_read_response(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_atomic_request(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_atomic_response(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_outstanding(Side from, const WalkedFpdu& f);
  bool room_for_request(Side from, const WalkedFpdu& f);
  Outstanding* answered_read(Side from, const WalkedFpdu& f);
  void place_answer(Side from, const WalkedFpdu& f, const wire::DdpHeader& h, const Outstanding& o);
  void settle_answer(Side from, const Over& over);
  void guess_answered(State& requester, const wire::DdpHeader& h, std::size_t payload);
  void check_terminate(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  static void find_terminated(State& terminator, const Recent& segment);
  void judge_terminate(Side from);
  void check_terminate_form(Side from, const WalkedFpdu& f, ConstBytes body, const wire::Terminate& t);
  void check_terminate_order(Side from, const WalkedFpdu& f, const wire::Terminate& t, ConstBytes body);
  void check_terminate_parts(Side from, const WalkedFpdu& f, const wire::Terminate& t);
  void check_terminate_header(Side from, const WalkedFpdu& f, const wire::Terminate& t);
  void check_terminate_of_nothing(Side from, const WalkedFpdu& f, const wire::Terminate& t, const wire::DdpHeader& h);
  void dispatch(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void tell(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);

  Findings& findings_;
  EventFn event_;
  std::uint8_t version_ = 1;
  bool set_up_known_ = false;
  std::array<State, 2> state_;
};

/// "RDMA Write stag=0x1 to=0x0 len=64", for people. `h` is the header of `f`.
std::string describe_segment(const WalkedFpdu& f, const wire::DdpHeader& h);
/// "remote protection: invalid STag (layer 0, type 1, code 0x00)".
std::string describe_terminate(std::uint8_t layer, std::uint8_t etype, std::uint8_t code);

}  // namespace parley::capture
