// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What one side of a connection asks for, by PSN, and what its peer answers (IBA vol. 1 §9.7, §9.8). The capture may lack
// packets, show them twice and in another order, and the network may have lost what it shows. So rules compare what stands
// at one PSN, at neighbouring ones, and in a request and its answer; that a PSN is missing is never a fault.
//
// PSNs have 24 bits. Here they are counted on, from the one that was seen last: place `n` has PSN n mod 2^24.
#pragma once
#include <array>
#include <optional>

#include "capture/read/roce/roce_packet.hpp"
#include "capture/rules/roce/by_place.hpp"
#include "capture/rules/roce/outstanding.hpp"
#include "capture/rules/roce/rules.hpp"

namespace parley::capture {

/// Requests that are remembered, of all connections.
struct RoceBudget {
  std::size_t requests = 0;
  /// Of one flow: many while there are few, so that the bound holds: 2^19 of some 130 octets, and 32 of each flow more.
  std::size_t flow_max() const { return requests < (std::size_t{1} << 19) ? 2048 : 32; }
};

/// What the set-up told.
struct FlowTerms {
  IbQp qp = IbQp::unknown;
  std::optional<std::uint32_t> starting_psn;
  std::uint16_t path_mtu = 0;  ///< 0: not known
  std::optional<std::uint16_t> p_key;
  bool set_up_seen = false;           ///< both ends are known from CM messages: answers are those of these requests
  bool flow_control = true;           ///< the side that answers may give credits
  bool shared_receives = false;       ///< of the side that answers: no credits are counted of them
  bool obeys_credits = false;         ///< the side that asks has said so
  Duration ack_timeout{0};            ///< of the side that asks; 0: not known
  std::optional<std::uint8_t> depth;  ///< Reads and Atomics that the side that answers has room for
  std::optional<std::uint8_t> retries, rnr_retries;  ///< of the side that asks, as its peer wishes
};

class RequestFlow {
 public:
  /// `requester` names the side that asks.
  RequestFlow(RoceBudget& budget, IbFindings& findings, Side requester)
      : budget_(budget), findings_(findings), requester_(requester) {}
  ~RequestFlow() { budget_.requests -= seen_.size(); }
  RequestFlow(const RequestFlow&) = delete;
  RequestFlow& operator=(const RequestFlow&) = delete;

  /// Its packet is whole as far as headers go, and its ICRC is not wrong.
  void request(const RocePacket& p, const FlowTerms& terms);
  void response(const RocePacket& p, const FlowTerms& terms);
  /// `ended`: the end of the connection is in the capture.
  void finish(bool ended);
  /// Those that RNR NAKs asked for: "655.36 ms".
  std::string rnr_times() const;

  bool empty() const { return !any_; }
  /// Whether this PSN is near what was asked for: its answer may be one of these.
  bool may_answer(std::uint32_t psn) const;
  /// So far ahead of what was seen, or behind it, that it belongs to another use of the queue pair.
  bool far(std::uint32_t psn) const;
  bool goes_on(std::uint32_t psn) const;  ///< a new PSN, one of the next
  bool is_near(std::uint32_t psn) const;  ///< one of those, or of the last
  const FrameRef& first_request() const { return first_request_; }

  std::uint64_t messages = 0;         ///< of which the last packet was seen
  std::uint64_t retransmissions = 0;  ///< requests seen again
  std::uint64_t answers_again = 0;
  std::uint64_t missing = 0;  ///< PSNs that were used and are not in the capture; for good after finish()
  std::uint64_t rnr_naks = 0, sequence_naks = 0;
  std::uint64_t first_rnr_frame = 0, first_sequence_frame = 0, first_again_frame = 0;
  std::optional<IbNak> fatal;

 private:
  using Place = std::uint64_t;
  struct Request {
    wire::ib::Operation operation{};
    std::uint16_t payload = 0;
    std::uint32_t span = 1;     // PSNs that it takes: those of a Read's responses
    bool span_unknown = false;  // without the path MTU
    bool again = false;         // it was sent again
    bool is_short = false;      // of a Send, not its last packet, and shorter than the path MTU
    std::uint32_t dma_length = 0;
    std::uint32_t headers = 0;            // CRC-32
    std::optional<std::uint32_t> octets;  // CRC-32 of the payload; of a cut one not known
    std::uint64_t frame = 0;
    std::optional<std::uint32_t> completed;  // messages up to here and with it, mod 2^24; if all before were seen
    std::uint32_t receives = 0;              // of those messages, how many took a receive
    std::optional<std::uint64_t> original;   // of an atomic: what was answered
  };
  using Requests = ByPlace<Request>;
  /// An answer to what was not asked for yet, as far as the capture shows.
  struct Ahead {
    FrameRef ref;
    std::uint32_t psn = 0, msn = 0;
    bool of_psn = true;  // else of its MSN
    Place high = 0;      // the last PSN that was in use then
    bool repeated = false;
  };
  /// End-to-end flow control, counted in messages that take a receive.
  struct Credits {
    bool open = false;                   // nothing holds the requester back, or nobody can tell
    bool told = false;                   // that it went beyond them
    std::optional<std::uint32_t> limit;  // the last that has a credit
    std::uint64_t frame = 0;             // which gave it
  };
  struct Excess {
    FrameRef ref;
    wire::ib::Operation operation{};
    std::uint32_t psn = 0, number = 0;
    Credits credits;
  };

  /// An RNR NAK of the request at `place`, and how often that was sent again after one.
  struct Rnr {
    Place place = 0;
    bool pending = false;
    FrameRef ref;
    Duration timer{0};
    std::uint64_t again = 0;
  };
  /// The oldest request that was sent again since the last answer.
  struct Retry {
    Place place = 0;
    std::uint64_t count = 0;
    Instant at{};
  };
  /// A NAK that asks for a PSN again, and the requests behind it since.
  struct Gap {
    Place place = 0;
    FrameRef nak, first;
    std::uint64_t went_on = 0;
  };

  Place place_of(std::uint32_t psn) const;
  static std::uint32_t psn_of(Place place) { return static_cast<std::uint32_t>(place & 0xFFFFFF); }
  std::uint64_t distance(std::uint32_t psn) const;
  Request read(const RocePacket& p, const FlowTerms& terms) const;
  Requests::iterator covering(Place place);
  bool is_another_use(Place place, const Request& r) const;
  void restart();
  void apply_mtu(const FlowTerms& terms);
  bool repeated(const RocePacket& p, Place place, const Request& r);
  bool of_a_read(Place place) const;
  bool inside_a_read(const RocePacket& p, Place place, const Request& r);
  void check_packet(const RocePacket& p, const FlowTerms& terms) const;
  void check_neighbours(Requests::iterator it, bool begins);
  void check_pair(Requests::const_iterator first, Requests::const_iterator second);
  void check_total(Requests::const_iterator last, std::uint16_t mtu);
  void count_on(Requests::iterator it, const FlowTerms& terms);
  void count_messages(Requests::iterator it);
  void settle_ahead(Place place, const RocePacket& p, const FlowTerms& terms);
  void tell_msn(const Ahead& a);
  void trim();
  void acknowledge(const RocePacket& p, Place place, const FlowTerms& terms);
  void check_form(const RocePacket& p) const;
  void tell_departures(const RocePacket& p, Place place);
  void check_msn(const RocePacket& p, Place place, bool nak);
  bool is_of_other_read(const RocePacket& p, Requests::iterator it);
  void read_response(const RocePacket& p, Place place, const FlowTerms& terms);
  void atomic_response(const RocePacket& p, Place place);
  void syndrome(const RocePacket& p, const FlowTerms& terms);
  Requests::iterator executed(Place place, std::uint32_t msn);
  void take_credits(const RocePacket& p, Place place);
  void settle_excess(const RocePacket& p, std::uint32_t receives, bool between_messages);
  void check_size(const RocePacket& p) const;
  void tell_beyond(const std::optional<Outstanding::One>& one, std::size_t depth);
  void count_outstanding(const RocePacket& p, Place place, const Request& r, const FlowTerms& terms);
  void settle_outstanding(const RocePacket& p, Place place, const FlowTerms& terms);
  void settle_retries(const RocePacket& p, Place place);
  void count_retries(const RocePacket& p, Place place, bool again, const FlowTerms& terms);
  void count_rnr_retries(const RocePacket& p, const FlowTerms& terms);
  void count_timeouts(const RocePacket& p, Place place, const FlowTerms& terms);
  void check_credits(const RocePacket& p, const Request& r, const FlowTerms& terms);

  RoceBudget& budget_;
  IbFindings& findings_;
  Side requester_;
  Requests seen_;
  bool any_ = false;
  bool unsized_ = false;        // of a Read among them the path MTU was not known
  Place start_ = 0;             // the agreed first one; 0: not known
  Place first_ = 0, high_ = 0;  // the first one seen, and the last one in use
  Place forgotten_ = 0;         // those below are not remembered
  Place acknowledged_ = 0;
  Place read_end_ = 0;  // the last PSN of a Read's responses, where the path MTU is not known
  std::optional<Ahead> ahead_;
  Credits credits_;
  std::optional<Excess> excess_;
  std::optional<Ahead> most_;  // the greatest MSN, if it was more than had been sent
  Outstanding outstanding_;
  bool told_depth_ = false;
  Rnr rnr_;
  std::uint32_t rnr_times_ = 0;  // a bit for each code
  Retry retry_;
  Retry newest_;  // the last request that was not sent before
  std::optional<Gap> gap_;
  std::uint64_t answers_ = 0;
  FrameRef first_request_;
};

}  // namespace parley::capture
