// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Checks the DDP segments of both directions of one connection: RFC 5041 (DDP), RFC 5040 (RDMAP), RFC 7306 (Immediate
// Data and Atomics). After octets that the capture lacks, only rules that do not depend on them are applied.
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

/// A fault of one side, described by the Terminate that its peer should send. Also used to interpret siw's Terminates.
struct Complaint {
  std::uint8_t layer = 0, etype = 0, code = 0;
  std::uint64_t frame = 0;
  bool any_code = false;  ///< no RFC specifies the code for this fault
  std::uint64_t end = 0;  ///< position behind the FPDU, relative as WalkedFpdu::position; 0: not known
};

/// Number of octets behind the DDP header of a segment.
inline std::size_t payload_of(const WalkedFpdu& f, const wire::DdpHeader& h) { return f.ulpdu.size() - h.size(); }

class RdmapCheck {
 public:
  using EventFn = std::function<void(const WalkedFpdu&, Side, LadderEvent::Kind, std::string)>;

  explicit RdmapCheck(Findings& findings) : findings_(findings) {}

  void count_into(DirectionCounts& from_initiator, DirectionCounts& from_responder);
  void set_events(EventFn fn) { event_ = std::move(fn); }
  /// Request and Reply are in the capture.
  void set_up_known() { set_up_known_ = true; }
  /// The expected version of DDP and RDMAP; 0 for RDMA Consortium peers (RFC 5044 Appendix C), else 1.
  void set_version(std::uint8_t version) { version_ = version; }
  /// How many Reads and Atomics `side` may have outstanding; none: not negotiated. `rtr`: its first FPDU may always be
  /// a zero-length Read as RTR.
  void set_read_limit(Side side, std::optional<std::uint16_t> limit, bool rtr = false) {
    at(side).read_limit = limit;
    at(side).read_rtr = rtr;
  }
  /// Records a fault of `culprit`. `weak`: not a fault, but a peer may report it as one; it does not replace a fault.
  void record_fault(Side culprit, Complaint c, bool weak = false);

  void segment(Side from, const WalkedFpdu& fpdu);
  /// Octets of `side` are missing, or its FPDU boundaries were lost.
  void lost(Side side);
  /// Some octets of `side` were not read: it cannot be claimed that it did not send something.
  void not_all_read(Side side) { at(side).lossy = true; }
  /// The peer of `side` had received octets of `side` that are not decoded (yet). Therefore answers may have no known
  /// request, and requests may seem unanswered.
  void behind(Side side) {
    at(side).behind = true;
    reads_unknown();
  }
  /// The frames in which a side ended its stream; 0: not in the capture.
  struct End {
    std::uint64_t fin_frame = 0, rst_frame = 0;
  };
  /// The connection is over: reports what was left unfinished.
  void finish(std::uint64_t last_frame, End initiator, End responder);

  /// `side` committed a fault after which its stream is unusable.
  bool faulty(Side side) const { return at(side).fault && !at(side).fault_weak; }
  /// The first faults_max faults of `culprit` that call for a Terminate, in stream order.
  const std::vector<Complaint>& faults(Side culprit) const { return at(culprit).faults; }
  /// The last fault of `side`, or if it has none, the last event that a peer may report as a fault.
  const std::optional<Complaint>& cause(Side side) const { return at(side).fault; }
  /// The Terminate of `side` as it was meant; none if there was no readable one.
  const std::optional<Complaint>& terminate_of(Side side) const { return at(side).terminate; }
  /// Octets of `side` are missing, or its FPDU boundaries were lost.
  bool lossy(Side side) const { return at(side).lossy; }
  bool terminated(Side side) const { return at(side).terminated; }
  /// The frame of its first Terminate; 0: none was seen.
  std::uint64_t terminate_frame(Side side) const { return at(side).terminate_frame; }
  std::uint64_t segments(Side side) const { return at(side).segments; }

 private:
  struct Queue {
    bool known = true;  // next_msn is valid
    std::uint32_t next_msn = 1;
    std::uint32_t msn = 0, word = 0;  // of the open message
    wire::RdmapOpcode opcode = wire::RdmapOpcode::send;
    MessageExtent extent;
  };
  struct Tagged {
    std::uint32_t stag = 0;
    MessageExtent extent;
  };
  struct BufferPosition {
    bool known = false;
    std::uint32_t stag = 0;
    std::uint64_t to = 0;
  };
  /// A Read or an Atomic. Both share the order of answers and the limit of their number (RFC 7306 §5.1).
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
  /// A Terminate is judged at the end of the connection: the segment that it is about may be captured later.
  struct HeldTerminate {
    std::uint64_t frame = 0;
    Bytes ulpdu;  // its first octets, at most held_max
    std::size_t size = 0, known = 0;
    std::uint64_t before = 0;        // segments of the other side before it
    std::optional<Complaint> cause;  // the last complaint about the other side
    bool cause_weak = false;         // that complaint is weak
    bool behind = false;             // its sender had received octets that are not among those segments
    std::optional<Recent> quoted;    // the segment whose header it quotes
  };
  static constexpr std::size_t held_max = 256;

  struct State {
    std::array<Queue, 4> queues;
    Tagged write;
    bool write_under_way = false;   // a loss may have removed segments of the current Write
    BufferPosition previous_write;  // where the last finished Write began
    Fifo<Outstanding> requests;     // at most outstanding_max
    MessageExtent answer;           // to the first Read of `requests`
    bool order_told = false;        // it was reported that this answer is out of order
    bool answer_wrong = false;      // a fault was reported: the rest of this answer is not judged
    bool reads_reliable = true;     // all outstanding requests and their answers are known
    bool behind = false;            // see behind()
    bool reads_too_many = false;    // the remark on outstanding_max was made
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
    std::size_t recent_next = 0;  // index for the next one
    DirectionCounts* counts = nullptr;
  };
  static constexpr std::size_t outstanding_max = 16384;  // IRD and ORD have 14 bits (RFC 6581 §6)
  static constexpr std::size_t recent_max = 32;

  static constexpr std::size_t faults_max = 8;  // a peer that has not answered by then answers none

  State& at(Side s) { return state_[static_cast<std::size_t>(s)]; }
  const State& at(Side s) const { return state_[static_cast<std::size_t>(s)]; }
  void record_fault_at(Side from, const WalkedFpdu& f, Complaint c);
  void reads_unknown() {
    for (State& s : state_) {
      s.reads_reliable = s.answer_wrong = false;
      s.answer.close();
    }
  }
  void report_violation(Side from, const WalkedFpdu& f, Rule rule, std::string text);
  bool check_controls(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_untagged(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void place_untagged(Side from, const WalkedFpdu& f, const wire::DdpHeader& h, Queue& q);
  /// Where it shows that a message is over.
  struct MessageEnd {
    std::uint64_t frame = 0;
    std::uint64_t end = 0;  // position behind the FPDU; 0: none
    bool surely = true;     // false: its remaining segments may not be in the capture
  };
  static MessageEnd over_at(const WalkedFpdu& f) { return {f.last.frame, f.position + f.wire_octets}; }
  MessageEnd over_at_end(const End& end, const MessageExtent::OutOfOrderSegment& odd) const;
  static std::string since(const MessageExtent::OutOfOrderSegment& odd, const MessageEnd& over);
  void settle_untagged(Side from, std::uint32_t qn, const MessageEnd& over);
  void check_write(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  bool place_write(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  static bool joins_previous(const State& s);
  void settle_write(Side from, const MessageEnd& over);
  void check_read_request(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_read_response(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_atomic_request(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_atomic_response(Side from, const WalkedFpdu& f, const wire::DdpHeader& h);
  void check_outstanding(Side from, const WalkedFpdu& f);
  bool room_for_request(Side from, const WalkedFpdu& f);
  Outstanding* answered_read(Side from, const WalkedFpdu& f);
  void place_answer(Side from, const WalkedFpdu& f, const wire::DdpHeader& h, const Outstanding& o);
  void settle_answer(Side from, const MessageEnd& over);
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

/// "RDMA Write stag=0x1 to=0x0 len=64". `h` must be the header of `f`.
std::string describe_segment(const WalkedFpdu& f, const wire::DdpHeader& h);
/// "remote protection: invalid STag (0/1/00)".
std::string describe_terminate(std::uint8_t layer, std::uint8_t etype, std::uint8_t code);

}  // namespace parley::capture
