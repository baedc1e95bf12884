// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The requests of one side of a connection, by PSN, and its peer's responses (IBA vol. 1 §9.7, §9.8). The capture may
// lack packets, show them twice or reordered, and the network may have lost captured packets. Therefore the rules
// compare packets at the same PSN, at adjacent PSNs, and a request with its response. A missing PSN is never a fault.
//
// PSNs have 24 bits. A place is a PSN extended to 64 bits, relative to the last PSN seen: place `n` has PSN n mod 2^24.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/read/roce/roce_packet.hpp"
#include "capture/rules/roce/outstanding.hpp"
#include "capture/rules/roce/psn_map.hpp"
#include "capture/rules/roce/rules.hpp"

namespace parley::capture {

/// Requests remembered for all connections.
struct RoceBudget {
  std::size_t requests = 0;
  /// The limit for one flow. In total at most 2^19 requests of about 130 octets, plus 32 for each flow.
  std::size_t flow_max() const { return requests < (std::size_t{1} << 19) ? 2048 : 32; }
};

/// The parameters from the set-up. The requester sends the requests of this flow; the responder answers them.
struct FlowTerms {
  IbQp qp = IbQp::unknown;
  std::optional<std::uint32_t> starting_psn;
  std::uint16_t path_mtu = 0;  ///< 0: not known
  std::optional<std::uint16_t> p_key;
  bool set_up_seen = false;           ///< both ends are known from CM messages: the answers belong to these requests
  bool flow_control = true;           ///< the responder may give credits
  bool shared_receives = false;       ///< the responder receives in a shared receive queue: it must not give credits
  bool obeys_credits = false;         ///< the requester announced end-to-end flow control
  Duration ack_timeout{0};            ///< of the requester; 0: not known
  std::optional<std::uint8_t> depth;  ///< the responder's resources for Reads and Atomics
  std::optional<std::uint8_t> retries, rnr_retries;  ///< of the requester, as announced in the CM messages
};

class RequestFlow {
 public:
  RequestFlow(RoceBudget& budget, IbFindings& findings, Side requester)
      : budget_(budget), findings_(findings), requester_(requester) {}
  ~RequestFlow() { budget_.requests -= seen_.size(); }
  RequestFlow(const RequestFlow&) = delete;
  RequestFlow& operator=(const RequestFlow&) = delete;

  /// The headers of `p` must be captured whole, and its ICRC must not be wrong.
  void request(const RocePacket& p, const FlowTerms& terms);
  void response(const RocePacket& p, const FlowTerms& terms);
  /// A request that the responder must drop; `why` is static. Call before request() if the packet is judged all the same.
  void dropped(const RocePacket& p, const FlowTerms& terms, std::string_view why);
  /// A request that the responder need not drop: an earlier faulty packet with its PSN no longer counts.
  void sound(const RocePacket& p);
  /// `ended`: the end of the connection is in the capture.
  void finish(bool ended);
  /// The timers in the RNR NAKs: "655.36 ms".
  std::string rnr_times() const;

  bool empty() const { return !any_; }
  /// Whether an answer with this PSN may belong to one of the requests seen.
  bool may_answer(std::uint32_t psn) const;
  /// Whether the PSN is so far from those seen that it belongs to another use of the queue pair.
  bool far(std::uint32_t psn) const;
  bool goes_on(std::uint32_t psn) const;  ///< one of the next 128 PSNs
  bool is_near(std::uint32_t psn) const;  ///< at most 128 from the last PSN in use
  /// As above; if no request was seen, at most 128 behind the starting PSN.
  bool is_near(std::uint32_t psn, std::optional<std::uint32_t> start) const;
  const FrameRef& first_request() const { return first_request_; }

  std::uint64_t messages = 0;         ///< messages whose last packet was seen
  std::uint64_t retransmissions = 0;  ///< retransmitted requests
  std::uint64_t missing = 0;          ///< PSNs that were used and are not in the capture; final after finish()
  std::uint64_t rnr_naks = 0, sequence_naks = 0;
  std::uint64_t first_rnr_frame = 0, first_sequence_frame = 0, first_again_frame = 0;
  std::optional<IbNak> fatal;

 private:
  using ExtendedPsn = std::uint64_t;
  struct Request {
    wire::ib::Operation operation{};
    std::uint16_t payload = 0;
    std::uint32_t span = 1;     // PSNs that it uses; for a Read, one for each response packet
    bool span_unknown = false;  // the path MTU is not known
    bool again = false;         // it was retransmitted
    bool is_short = false;      // a SEND First or Middle that is shorter than the path MTU
    std::uint32_t dma_length = 0;
    std::uint32_t headers = 0;            // CRC-32
    std::optional<std::uint32_t> octets;  // CRC-32 of the payload; none if the packet is cut
    std::uint64_t frame = 0;
    Instant at{};
    bool answer_settled = false;             // a response to the Read or Atomic was seen, or its Acknowledge was judged
    std::optional<std::uint32_t> completed;  // messages up to and including this one, mod 2^24; if all were seen
    std::uint32_t receives = 0;              // how many of these messages consumed a receive
    std::optional<std::uint64_t> original;   // of an Atomic: the value in its response
  };
  using Requests = PsnMap<Request>;
  /// A request that the responder must drop, of which no sound copy was captured.
  struct Dropped {
    ExtendedPsn place = 0;
    FrameRef ref;
    std::string_view why;
  };
  static constexpr std::size_t dropped_max = 16;
  /// The last PSN sequence NAK, until a request up to `high` is sent again.
  struct SequenceNak {
    ExtendedPsn place = 0, high = 0;
    FrameRef ref;
  };
  /// An answer to a request that, as far as the capture shows, was not sent yet.
  struct EarlyAnswer {
    FrameRef ref;
    std::uint32_t psn = 0, msn = 0;
    bool of_psn = true;     // its PSN is ahead; false: its MSN
    ExtendedPsn high = 0;   // the last PSN in use at that time
    bool repeated = false;  // a request was retransmitted since
  };
  /// End-to-end flow control, counted in messages that consume a receive.
  struct Credits {
    bool open = false;                   // the requester is not limited, or the limit is not known
    bool told = false;                   // it was reported that the requester exceeded the limit
    std::optional<std::uint32_t> limit;  // the number of the last message that has a credit
    std::uint64_t frame = 0;             // the ACK that gave this credit
  };
  /// A request beyond the credits.
  struct RequestBeyondCredits {
    FrameRef ref;
    wire::ib::Operation operation{};
    std::uint32_t psn = 0, number = 0;
    Credits credits;
  };

  /// An RNR NAK of the request at `place`, and how often the request was retransmitted after RNR NAKs.
  struct Rnr {
    ExtendedPsn place = 0;
    bool pending = false;
    FrameRef ref;
    Duration timer{0};
    std::uint64_t again = 0;
  };
  /// The oldest request that was retransmitted since the last answer.
  struct Retry {
    ExtendedPsn place = 0;
    std::uint64_t count = 0;
    Instant at{};
  };
  /// A PSN sequence NAK, and the later requests behind its PSN.
  struct Gap {
    ExtendedPsn place = 0;
    FrameRef nak, first;
    std::uint64_t went_on = 0;
  };

  ExtendedPsn place_of(std::uint32_t psn) const;
  static std::uint32_t psn_of(ExtendedPsn place) { return static_cast<std::uint32_t>(place & 0xFFFFFF); }
  std::uint64_t distance(std::uint32_t psn) const;
  Request read(const RocePacket& p, const FlowTerms& terms) const;
  Requests::iterator covering(ExtendedPsn place);
  bool is_another_use(ExtendedPsn place, const Request& r) const;
  void restart();
  void apply_mtu(const FlowTerms& terms);
  bool repeated(const RocePacket& p, ExtendedPsn place, const Request& r);
  bool of_a_read(ExtendedPsn place) const;
  bool inside_a_read(const RocePacket& p, ExtendedPsn place, const Request& r);
  void check_packet(const RocePacket& p, const FlowTerms& terms) const;
  void check_neighbours(Requests::iterator it, bool begins);
  void check_pair(Requests::const_iterator first, Requests::const_iterator second);
  void check_total(Requests::const_iterator last, std::uint16_t mtu);
  void count_on(Requests::iterator it, const FlowTerms& terms);
  void count_messages(Requests::iterator it);
  void settle_ahead(ExtendedPsn place, const RocePacket& p, const FlowTerms& terms);
  void report_msn(const EarlyAnswer& a);
  void trim();
  void acknowledge(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms);
  void check_form(const RocePacket& p) const;
  void report_departures(const RocePacket& p, ExtendedPsn place);
  void remember_unsent(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms);
  void check_msn(const RocePacket& p, ExtendedPsn place);
  bool is_of_other_read(const RocePacket& p, Requests::iterator it);
  void read_response(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms);
  void atomic_response(const RocePacket& p, ExtendedPsn place);
  void check_acknowledged_read(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms);
  bool may_repeat_before(Requests::const_iterator it, Instant oldest, const FlowTerms& terms) const;
  void syndrome(const RocePacket& p, const FlowTerms& terms);
  void check_dropped(const RocePacket& p, ExtendedPsn place);
  void check_nak_again(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms);
  Requests::iterator executed(ExtendedPsn place, std::uint32_t msn);
  void handle_credits(const RocePacket& p, ExtendedPsn place);
  void settle_excess(const RocePacket& p, std::uint32_t receives, bool between_messages);
  void check_size(const RocePacket& p) const;
  void report_beyond(const std::optional<Outstanding::One>& one, std::size_t depth);
  void count_outstanding(const RocePacket& p, ExtendedPsn place, const Request& r, const FlowTerms& terms);
  void settle_outstanding(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms);
  void settle_retries(const RocePacket& p, ExtendedPsn place);
  void count_retries(const RocePacket& p, ExtendedPsn place, bool again, const FlowTerms& terms);
  void count_rnr_retries(const RocePacket& p, const FlowTerms& terms);
  void count_timeouts(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms);
  void check_credits(const RocePacket& p, const Request& r, const FlowTerms& terms);

  RoceBudget& budget_;
  IbFindings& findings_;
  Side requester_;
  Requests seen_;
  bool any_ = false;
  bool unsized_ = false;              // a request was read before the path MTU was known
  ExtendedPsn start_ = 0;             // the starting PSN from the set-up; 0: not known
  ExtendedPsn first_ = 0, high_ = 0;  // the first PSN seen, and the last one in use
  ExtendedPsn forgotten_ = 0;         // requests below are not remembered
  ExtendedPsn acknowledged_ = 0;
  ExtendedPsn read_end_ = 0;  // the last PSN seen of a Read's responses while the path MTU is not known
  std::optional<EarlyAnswer> ahead_;
  Credits credits_;
  std::optional<RequestBeyondCredits> excess_;
  std::optional<EarlyAnswer> most_;  // the greatest MSN that exceeded the messages seen
  Outstanding outstanding_;
  bool told_depth_ = false;
  Rnr rnr_;
  std::uint32_t rnr_times_ = 0;  // a bit for each timer code
  Retry retry_;
  Retry newest_;  // the last request that is not a retransmission
  std::optional<Gap> gap_;
  std::vector<Dropped> dropped_;  // at most dropped_max, then the oldest are removed
  std::optional<SequenceNak> sequence_nak_;
  std::uint64_t answers_ = 0;
  Instant last_again_{};  // of the last retransmission
  FrameRef first_request_;
};

}  // namespace parley::capture
