// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The CM messages of one connection, or of one service ID resolution (SIDR): IBA vol. 1 §12.6 to §12.11. A capture
// shows what was sent, not what arrived, and may lack any message. Therefore no rule depends on the absence of a
// message. A rule depends on order only where the sender's PSNs prove that no packet is missing between.
#pragma once
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/rules/roce/rules.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/cma.hpp"
#include "wire/ib/roce.hpp"

namespace parley::capture {

/// Queue pairs 0 and 1 belong to subnet management and the GSI.
inline constexpr std::uint32_t first_free_qpn = 2;

/// A CM message in the capture.
struct CapturedCm {
  FrameRef ref;
  wire::ib::CmMessage message;
  ConstBytes mad;
  std::uint32_t psn = 0;                          ///< of its packet; each retransmission has a new one
  const wire::ib::RoceHeader* network = nullptr;  ///< null: an InfiniBand link; messages need not repeat its GIDs
  /// The previous packet of the sender's GSI, if the PSNs prove that none is missing between.
  std::optional<FrameRef> before;
};

/// The communication IDs in a message. In a REJ, 0 means none.
struct CmIds {
  std::uint32_t local = 0, remote = 0;
  bool has_remote = false;  ///< false for a REQ and for SIDR
};
CmIds ids_of(const wire::ib::CmMessage& message);
/// The side that sends such a message; none if both may.
std::optional<Side> sender_of(const wire::ib::CmMessage& message);
/// Whether the initiator sends such a message only after a REP: it answers the REP, or needs the connection.
bool follows_rep(const wire::ib::CmMessage& message);
/// "REQ QPN 0x000011 PSN 0x000017 ..." for the ladder. The name of the message is the first word.
std::string cm_event_text(const wire::ib::CmMessage& message);

/// The shortest wait that a CM timeout requires (4.096 us * 2^timeout, less the tolerance of least()).
inline Duration least_wait(std::uint8_t timeout) { return least(wire::ib::timeout_of(timeout)); }

class CmExchange {
 public:
  CmExchange(IbFindings& findings, IbSeen& seen) : findings_(findings), seen_(seen) {}

  /// Takes a message. False: it is a duplicate in the capture (same PSN).
  bool message(Side from, const CapturedCm& m);
  /// No message so far shows which side is the initiator; the sides are assumed.
  bool sides_assumed() const { return !req_ && !rep_ && !sidr_req_ && !sidr_rep_ && rtu_.frame == 0; }
  const std::optional<std::uint32_t>& id(Side side) const { return ids_[index_of(side)]; }
  bool has_req() const { return req_ != nullptr; }
  const wire::ib::CmReq* req() const { return req_.get(); }
  const wire::ib::CmRep* rep() const { return rep_.get(); }
  std::optional<std::uint64_t> transaction() const { return transaction_; }
  /// Rejected, disconnected or resolved. A later message with the same IDs belongs to another connection, unless it is
  /// a retransmission.
  bool over() const { return seen_.reject || drep_[0].frame != 0 || drep_[1].frame != 0 || sidr_rep_; }
  Instant last_at() const { return last_at_; }
  /// The first DREQ or DREP of the side.
  const FrameRef& left(Side side) const { return left_[index_of(side)]; }
  const FrameRef& rtu() const { return rtu_; }
  /// The last DREP of the side.
  const FrameRef& drep(Side side) const { return drep_[index_of(side)]; }
  /// A DREQ or DREP was seen, so the connection had been established.
  bool ended() const { return seen_.dreq_frame != 0 || seen_.drep_frame != 0; }
  /// The responder answered the REQ several times with different communication IDs. It is not known which answer the
  /// initiator accepted.
  bool answered_anew() const { return restarted_; }
  std::uint32_t q_key() const { return q_key_; }
  /// Call after the last message. Sets IbSeen::gave_up and notes if messages got no answer.
  void finish(bool data_of_initiator);

 private:
  struct Sendings {
    std::uint64_t count = 0;
    FrameRef first, last;
    std::array<std::uint32_t, 4> psns{};  // of the last 4
  };
  Sendings& sendings_of(wire::ib::CmMessageType type, Side from);
  static bool is_copy(const Sendings& s, const CapturedCm& m);
  static void count(Sendings& s, const CapturedCm& m);
  bool begins_transaction(Side from, const CapturedCm& m) const;

  /// The sender of the REQ is the initiator. Without a REQ the sides are assumed. Then, if two messages contradict each
  /// other, it is not known which one is wrong.
  bool roles_known() const { return req_ != nullptr; }
  bool asked_again(const CapturedCm& m);
  bool is_of_before(const CapturedCm& rep) const;
  bool may_be_next(const CapturedCm& m) const;
  bool may_be_of_next_answer(Side from, const CapturedCm& m) const;
  void check_restart(Side from, const CapturedCm& m);
  bool ids_exchanged(Side from, const CmIds& ids) const;
  void check_ids(Side from, const CapturedCm& m);
  void remember_wrong(Side from, const CapturedCm& m);
  bool answers_wrong(Side from, const CapturedCm& m) const;
  void check_transaction(Side from, const CapturedCm& m);
  void check_codes(Side from, const CapturedCm& m);
  void check_null_ids(Side from, const CapturedCm& m);
  void check_late_rej(Side from, const CapturedCm& m, const wire::ib::CmRej& rej);
  void check_unasked_rtu(const CapturedCm& rtu);
  void check_after_own_end(Side from, const CapturedCm& m);
  void check_rep_count(const CapturedCm& m);
  void check_dreq_count(Side from, const CapturedCm& m);
  void check_p_key(Side from, const CapturedCm& m, std::uint16_t p_key);
  void check_remote_qpn(Side from, const CapturedCm& m, std::uint32_t qpn);
  void report_unanswered_dreqs();
  void check_reserved(Side from, const CapturedCm& m);
  void handle_req(Side from, const CapturedCm& m, const wire::ib::CmReq& req);
  void check_req(Side from, const CapturedCm& m, const wire::ib::CmReq& req);
  void check_cma(Side from, const CapturedCm& m, std::uint64_t service_id, ConstBytes private_data);
  void handle_rep(Side from, const CapturedCm& m, const wire::ib::CmRep& rep);
  void check_rep(Side from, const CapturedCm& m, const wire::ib::CmRep& rep);
  void handle_rtu(const CapturedCm& m);
  void handle_mra(Side from, const CapturedCm& m, const wire::ib::CmMra& mra);
  void handle_rej(Side from, const CapturedCm& m, const wire::ib::CmRej& rej);
  void check_rej(Side from, const CapturedCm& m, const wire::ib::CmRej& rej);
  bool is_last_rej(Side from, const wire::ib::CmRej& rej) const;
  void handle_dreq(Side from, const CapturedCm& m, const wire::ib::CmDreq& dreq);
  void handle_sidr_req(Side from, const CapturedCm& m, const wire::ib::CmSidrReq& req);
  void handle_sidr_rep(Side from, const CapturedCm& m, const wire::ib::CmSidrRep& rep);
  void check_early(Side from, const CapturedCm& m, const Sendings& before, std::uint8_t timeout);
  void check_early_dreq(Side from, const CapturedCm& m, const Sendings& before);
  void report_early_rtu(const CapturedCm& rep);

  IbFindings& findings_;
  IbSeen& seen_;
  std::array<std::optional<std::uint32_t>, 2> ids_;
  std::optional<std::uint64_t> transaction_;
  std::unique_ptr<wire::ib::CmReq> req_;  // the first REQ
  std::unique_ptr<wire::ib::CmRep> rep_;
  std::unique_ptr<wire::ib::CmSidrReq> sidr_req_;
  std::unique_ptr<wire::ib::CmSidrRep> sidr_answer_;    // the first SIDR_REP
  std::array<std::array<Sendings, 2>, 11> sendings_{};  // by attribute (REQ is 0) and side
  FrameRef rep_first_, rtu_, mra_req_;
  FrameRef past_rep_;  // the initiator's first message that answers a REP, or that only an answered REP allows
  /// The last MRA about a message of the side, and the shortest time that any of them requested.
  struct Mra {
    FrameRef ref;
    std::uint8_t timeout = 0;
    std::optional<Duration> shortest;
  };
  std::array<Mra, 2> mras_{};
  /// The different transaction IDs of messages of one kind; the first `most` of them.
  class Transactions {
   public:
    void add(std::uint64_t id) {
      if (ids_.size() < most && !has(id)) ids_.push_back(id);
    }
    bool has(std::uint64_t id) const { return std::find(ids_.begin(), ids_.end(), id) != ids_.end(); }
    /// Whether there was a message, and none with this ID. False if IDs may be missing here.
    bool lacks(std::uint64_t id) const { return !ids_.empty() && ids_.size() < most && !has(id); }
    std::uint64_t last() const { return ids_.back(); }

   private:
    static constexpr std::size_t most = 16;
    std::vector<std::uint64_t> ids_;
  };
  std::array<Transactions, 2> dreq_transactions_, lap_transactions_, apr_transactions_;  // by sender
  std::array<std::optional<std::uint64_t>, 2> last_dreq_;  // by sender, the transaction ID of the last DREQ
  /// A DREQ or LAP whose communication IDs were reported as wrong: its answer repeats them.
  struct WrongIds {
    std::uint64_t transaction = 0;
    CmIds ids;
  };
  std::array<std::vector<WrongIds>, 2> wrong_ids_;  // by sender; at most wrong_ids_max, then the oldest are dropped
  static constexpr std::size_t wrong_ids_max = 16;
  std::array<FrameRef, 2> drep_{}, left_{};
  FrameRef rej_of_rep_;  // by the initiator
  struct LastRej {
    wire::ib::CmSubject about{};
    wire::ib::CmReject reason{};
  };
  std::array<std::optional<LastRej>, 2> last_rejs_{};
  FrameRef rej_;             // by the responder, of the REQ
  FrameRef answer_;          // the responder's last message
  bool answered_ = false;    // the responder has sent a message other than DREP
  bool restarted_ = false;   // the responder answered the REQ again under another communication ID
  std::uint64_t lives_ = 1;  // number of communication IDs under which the responder answered
  bool req_since_rej_ = false;
  bool sidr_rep_ = false;
  bool rep_exchanged_ = false;  // the first REP has its two communication IDs exchanged
  std::uint32_t q_key_ = 0;
  Instant last_at_{};
};

}  // namespace parley::capture
