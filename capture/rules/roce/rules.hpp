// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The rules of InfiniBand's transport and of its CM that captures are held to: name, clause and severity of each. What is
// said where one is broken stands in docs/pcap-check.md, beside the name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "capture/findings.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::capture {

// X(name, key, clause, severity).
#define PARLEY_CAPTURE_IB_RULES(X)                                    \
  X(cm_mad_header, "cm.mad-header", "IBA §13.4.2", error)             \
  X(cm_q_key, "cm.q-key", "IBA §9.6", error)                          \
  X(cm_p_key, "cm.p-key", "IBA §9.6", error)                          \
  X(cm_reserved, "cm.reserved", "IBA §12.6", warning)                 \
  X(cm_req_changed, "cm.req-changed", "IBA §12.6.5", error)           \
  X(cm_rep_changed, "cm.rep-changed", "IBA §12.6.8", error)           \
  X(cm_comm_id, "cm.comm-id", "IBA §12.6", error)                     \
  X(cm_transaction, "cm.transaction", "IBA §12.6.4", warning)         \
  X(cm_restarted, "cm.restarted", "IBA §12.9", warning)               \
  X(cm_role, "cm.role", "IBA §12.9", error)                           \
  X(cm_rtu_before_rep, "cm.rtu-before-rep", "IBA §12.9", error)       \
  X(cm_after_rej, "cm.after-rej", "IBA §12.9", warning)               \
  X(cm_rej_about, "cm.rej-about", "IBA §12.6.7", error)               \
  X(cm_rej_reason, "cm.rej-reason", "IBA §12.6.7.2", error)           \
  X(cm_rej_unassigned, "cm.rej-unassigned", "IBA §12.6.7.2", warning) \
  X(cm_rej_info, "cm.rej-info", "IBA §12.6.7", error)                 \
  X(cm_dreq_qpn, "cm.dreq-qpn", "IBA §12.6.10", error)                \
  X(cm_mra_about, "cm.mra-about", "IBA §12.6.6", error)               \
  X(cm_path_mtu, "cm.path-mtu", "IBA §12.6.5", error)                 \
  X(cm_service, "cm.service", "IBA §12.6.5", error)                   \
  X(cm_req_qpn, "cm.req-qpn", "IBA §12.6.5", error)                   \
  X(cm_rep_qpn, "cm.rep-qpn", "IBA §12.6.8", error)                   \
  X(cm_gid, "cm.gid", "IBA §12.6.5", warning)                         \
  X(cm_cma_header, "cm.cma-header", "IBA Annex A11", warning)         \
  X(cm_cma_address, "cm.cma-address", "IBA Annex A11", warning)       \
  X(cm_early, "cm.early", "IBA §12.9", warning)                       \
  X(cm_retries, "cm.retries", "IBA §12.6.5", error)                   \
  X(cm_rep_depths, "cm.rep-depths", "IBA §12.6.8", error)             \
  X(cm_after_drep, "cm.after-drep", "IBA §12.9", warning)             \
  X(cm_mad_packet, "cm.mad-packet", "IBA §13.5.1", error)             \
  X(cm_unassigned, "cm.unassigned", "IBA §12.6", warning)             \
  X(cm_sidr_service, "cm.sidr-service", "IBA §12.11.2", error)        \
  X(cm_sidr_qpn, "cm.sidr-qpn", "IBA §12.11.2", error)                \
  X(ib_malformed, "ib.malformed", "IBA §9.2", error)                  \
  X(ib_icrc, "ib.icrc", "IBA §7.8.1", error)                          \
  X(ib_icrc_unmade, "ib.icrc-unmade", "IBA §7.8.1", warning)          \
  X(ib_tver, "ib.tver", "IBA §9.2", error)                            \
  X(ib_reserved, "ib.reserved", "IBA §9.2", warning)                  \
  X(ib_eth_reserved, "ib.eth-reserved", "IBA §9.3", warning)          \
  X(ib_opcode, "ib.opcode", "IBA §9.2.1", error)                      \
  X(ib_service, "ib.service", "IBA §9.6", error)                      \
  X(ib_p_key, "ib.p-key", "IBA §9.6", error)                          \
  X(ib_ud_q_key, "ib.ud-q-key", "IBA §9.6", warning)                  \
  X(ib_pad, "ib.pad", "IBA §9.4", error)                              \
  X(ib_pad_octets, "ib.pad-octets", "IBA §9.4", warning)              \
  X(ib_length, "ib.length", "IBA §9.7.4", error)                      \
  X(ib_sequence, "ib.sequence", "IBA §9.7.4", error)                  \
  X(ib_psn_start, "ib.psn-start", "IBA §9.7.3", error)                \
  X(ib_psn_reused, "ib.psn-reused", "IBA §9.7.3", error)              \
  X(ib_payload_changed, "ib.payload-changed", "IBA §9.7.3", warning)  \
  X(ib_read_psn, "ib.read-psn", "IBA §9.7.3", error)                  \
  X(ib_dma_length, "ib.dma-length", "IBA §9.7.4", error)              \
  X(ib_atomic_address, "ib.atomic-address", "IBA §9.4.5", error)      \
  X(ib_message_size, "ib.message-size", "IBA §9.7.4", error)          \
  X(ib_outstanding, "ib.outstanding", "IBA §9.7.3", error)            \
  X(ib_rnr_wait, "ib.rnr-wait", "IBA §9.7.5.2.8", error)              \
  X(ib_rnr_retries, "ib.rnr-retries", "IBA §9.7.5.2.8", error)        \
  X(ib_retries, "ib.retries", "IBA §9.9.2.1.2", warning)              \
  X(ib_nak_ignored, "ib.nak-ignored", "IBA §9.7.5.2.1", error)        \
  X(ib_ack_form, "ib.ack-form", "IBA §9.7.5.1", error)                \
  X(ib_syndrome, "ib.syndrome", "IBA §9.7.5.1", error)                \
  X(ib_msn, "ib.msn", "IBA §9.7.7.1", error)                          \
  X(ib_credits, "ib.credits", "IBA §9.7.7.2", warning)                \
  X(ib_credit_limit, "ib.credit-limit", "IBA §9.7.7.2", warning)      \
  X(ib_ack_unsent, "ib.ack-unsent", "IBA §9.7.5", error)              \
  X(ib_read_response, "ib.read-response", "IBA §9.7.5", error)        \
  X(ib_response_kind, "ib.response-kind", "IBA §9.7.5", error)        \
  X(ib_atomic_response, "ib.atomic-response", "IBA §9.7.5", error)    \
  X(ib_early, "ib.early", "IBA §12.9", warning)                       \
  X(ib_after_end, "ib.after-end", "IBA §12.9", warning)

enum class IbRule : std::uint8_t {
#define PARLEY_X(name, key, clause, severity) name,
  PARLEY_CAPTURE_IB_RULES(PARLEY_X)
#undef PARLEY_X
};

struct IbRuleFacts {
  std::string_view key, clause;
  Severity severity;
};
constexpr IbRuleFacts facts_of(IbRule rule) {
  constexpr IbRuleFacts all[] = {
#define PARLEY_X(name, key, clause, severity) {key, clause, Severity::severity},
      PARLEY_CAPTURE_IB_RULES(PARLEY_X)
#undef PARLEY_X
  };
  return all[static_cast<std::size_t>(rule)];
}

/// A frame, and when it was captured.
struct FrameRef {
  std::uint64_t frame = 0;
  Instant at{};
};

/// A capture with several queues may show packets of one moment in another order: what is so near to each other proves
/// no order.
inline constexpr Duration same_moment = std::chrono::milliseconds(2);
/// So it is with packets that go opposite ways, or from different queue pairs, for they may take paths of different length.
inline constexpr Duration paths_apart = std::chrono::milliseconds(20);

/// Of one connection.
class IbFindings {
 public:
  /// `text` goes on after "the initiator" or "the responder".
  void tell(IbRule rule, std::uint64_t frame, Side side, std::string_view text) {
    const IbRuleFacts facts = facts_of(rule);
    if (facts.severity == Severity::warning && is_habit(rule, frame, side, text)) return;
    all_.add(frame, side, facts.severity, facts.clause,
             std::string("the ") + std::string(to_string(side)) + std::string(text), FindingId::none, facts.key);
  }
  void note(std::uint64_t frame, std::optional<Side> side, std::string text) {
    all_.note(frame, side, "", std::move(text));
  }
  /// A departure that a known peer is known for, so that it is no finding: "the responder <text>". The first of each.
  void departs(wire::ib::Departure what, std::uint64_t frame, Side side, std::string_view text) {
    if (departed_.has(what)) return;
    departed_.add({what});
    const wire::ib::DepartureFacts& facts = wire::ib::facts_of(what);
    all_.note(frame, side, facts.clause,
              std::string("the ") + std::string(to_string(side)) + std::string(text) + ", as Linux does (quirk " +
                  std::string(facts.name) + ")");
  }
  const Findings& all() const { return all_; }
  /// As many lines as are to be read: of what a side does again and again the first, and how often.
  std::vector<Finding> list() const {
    std::vector<Finding> out = all_.list();
    for (const Habit& h : habits_)
      for (Finding& f : out)
        if (h.count > 1 && f.frame == h.first && f.key == facts_of(h.rule).key && f.side == h.side)
          f.text += ", in " + std::to_string(h.count) + " packets, the last of them frame " + std::to_string(h.last);
    return out;
  }

 private:
  /// One sentence that several packets have earned.
  struct Habit {
    IbRule rule{};
    Side side{};
    std::string text;
    std::uint64_t first = 0, last = 0, count = 1;
  };
  static constexpr std::size_t habits_max = 32;
  /// The sentence was said before.
  bool is_habit(IbRule rule, std::uint64_t frame, Side side, std::string_view text) {
    for (Habit& h : habits_)
      if (h.rule == rule && h.side == side && h.text == text) {
        ++h.count;
        h.last = frame;
        return true;
      }
    if (habits_.size() < habits_max) habits_.push_back({rule, side, std::string(text), frame, frame, 1});
    return false;
  }
  std::vector<Habit> habits_;
  Findings all_;
  wire::ib::DepartureSet departed_;
};

}  // namespace parley::capture
