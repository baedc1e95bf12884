// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "replay/roce/roce_compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "wire/ib/cm_marker.hpp"
#include "wire/ib/cma.hpp"

namespace parley::replay {

using wire::ib::CmMessageType;
using wire::ib::Operation;

namespace {

using Found = std::optional<Mismatch>;

/// Compares field after field until one differs that is not ignored.
class RoceComparison {
 public:
  RoceComparison(const RoceStep& recorded, const RoceStep& live, std::span<const Field> masks, const Leniency& leniency)
      : recorded_(recorded), live_(live), masks_(masks), leniency_(leniency) {}
  Found packets();

 private:
  void say(Compared field, std::string what, std::string_view rule) {
    if (found_) return;
    Mismatch mismatch{std::move(what), std::string(rule)};
    if (!leniency_.ignored[static_cast<std::size_t>(field)])
      found_ = std::move(mismatch);
    else if (leniency_.told != nullptr)
      leniency_.told->push_back(std::move(mismatch));
  }
  template <class T>
  void same(Compared field, std::string_view name, const T& recorded, const T& live, std::string_view rule) {
    if (recorded == live) return;
    if constexpr (std::is_enum_v<T>)
      say(field, fmt::format("{}: recorded {}, live {}", name, to_string(recorded), to_string(live)), rule);
    else
      say(field, fmt::format("{}: recorded {}, live {}", name, +recorded, +live), rule);
  }
  void octets(Compared field, std::string_view name, ConstBytes recorded, ConstBytes live, std::string_view rule) {
    if (const auto at = differs_at(recorded, live, masks_))
      say(field,
          fmt::format("the {} differs at octet {}: recorded {:02x}, live {:02x}", name, *at, recorded[*at], live[*at]),
          rule);
  }
  template <class M>
  void private_data(const M& r, const M& l, std::string_view rule, std::size_t from = 0) {
    Bytes was(r.private_data.begin(), r.private_data.end()), is(l.private_data.begin(), l.private_data.end());
    for (Bytes* one : {&was, &is}) std::fill_n(one->begin(), from, std::uint8_t{0});
    octets(Compared::private_data, "private data", was, is, rule);
  }

  void message(const wire::ib::CmReq& r, const wire::ib::CmReq& l);
  void message(const wire::ib::CmRep& r, const wire::ib::CmRep& l);
  void message(const wire::ib::CmMra& r, const wire::ib::CmMra& l);
  void message(const wire::ib::CmRej& r, const wire::ib::CmRej& l);
  void message(const wire::ib::CmSidrReq& r, const wire::ib::CmSidrReq& l);
  void message(const wire::ib::CmSidrRep& r, const wire::ib::CmSidrRep& l);
  void message(const wire::ib::CmApr& r, const wire::ib::CmApr& l);
  void message(const wire::ib::CmRtu& r, const wire::ib::CmRtu& l) { private_data(r, l, "IBA §12.6.9"); }
  // Parley's note on how the sender ended is not part of its program's private data.
  void message(wire::ib::CmDreq r, wire::ib::CmDreq l) {
    for (wire::ib::CmDreq* dreq : {&r, &l}) wire::ib::marker::strip(dreq->private_data, wire::ib::marker::Kind::end);
    private_data(r, l, "IBA §12.6.10");
  }
  void message(const wire::ib::CmDrep& r, const wire::ib::CmDrep& l) { private_data(r, l, "IBA §12.6.11"); }
  void message(const wire::ib::CmLap& r, const wire::ib::CmLap& l) { private_data(r, l, "IBA §12.8.1"); }
  void data();

  const RoceStep &recorded_, &live_;
  std::span<const Field> masks_;
  const Leniency& leniency_;
  Found found_;
};

/// The offset of the program's private data: after the header of the RDMA IP CM service, which has addresses and a port
/// (IBA Annex A11).
std::size_t behind_addresses(std::uint64_t service_id, ConstBytes private_data) {
  const bool header = wire::ib::cma_service_of(service_id) && wire::ib::CmaHeader::parse(private_data);
  return header ? PARLEY_CMA_HEADER_LEN : 0;
}

/// The service ID without its port, which the live peer chooses.
std::uint64_t space_of(std::uint64_t service_id) {
  return wire::ib::cma_service_of(service_id) ? service_id >> 16 : service_id;
}

void RoceComparison::message(const wire::ib::CmReq& r, const wire::ib::CmReq& l) {
  constexpr std::string_view rule = "IBA §12.6.5";
  same(Compared::service, "service ID, without its port", space_of(r.service_id), space_of(l.service_id), rule);
  same(Compared::service, "transport service", static_cast<int>(r.service), static_cast<int>(l.service), rule);
  same(Compared::service, "extended transport type", r.extended_service, l.extended_service, rule);
  same(Compared::p_key, "P_Key", r.p_key, l.p_key, rule);
  same(Compared::responder_resources, "responder resources", r.responder_resources, l.responder_resources, rule);
  same(Compared::initiator_depth, "initiator depth", r.initiator_depth, l.initiator_depth, rule);
  same(Compared::retry_count, "retry count", r.retry_count, l.retry_count, rule);
  same(Compared::rnr_retry_count, "RNR retry count", r.rnr_retry_count, l.rnr_retry_count, rule);
  same(Compared::flow_control, "end-to-end flow control", r.flow_control, l.flow_control, rule);
  same(Compared::srq, "SRQ", r.srq, l.srq, rule);
  same(Compared::path_mtu, "path MTU", r.path_mtu, l.path_mtu, rule);
  same(Compared::timeouts, "local CM response timeout", r.local_cm_response_timeout, l.local_cm_response_timeout, rule);
  same(Compared::timeouts, "remote CM response timeout", r.remote_cm_response_timeout, l.remote_cm_response_timeout,
       rule);
  same(Compared::timeouts, "local ACK timeout", r.primary.local_ack_timeout, l.primary.local_ack_timeout, rule);
  private_data(
      r, l, rule,
      std::min(behind_addresses(r.service_id, r.private_data), behind_addresses(l.service_id, l.private_data)));
}

void RoceComparison::message(const wire::ib::CmRep& r, const wire::ib::CmRep& l) {
  constexpr std::string_view rule = "IBA §12.6.8";
  same(Compared::responder_resources, "responder resources", r.responder_resources, l.responder_resources, rule);
  same(Compared::initiator_depth, "initiator depth", r.initiator_depth, l.initiator_depth, rule);
  same(Compared::rnr_retry_count, "RNR retry count", r.rnr_retry_count, l.rnr_retry_count, rule);
  same(Compared::flow_control, "end-to-end flow control", r.flow_control, l.flow_control, rule);
  same(Compared::srq, "SRQ", r.srq, l.srq, rule);
  same(Compared::failover, "failover accepted", r.failover_accepted, l.failover_accepted, rule);
  same(Compared::timeouts, "target ACK delay", r.target_ack_delay, l.target_ack_delay, rule);
  private_data(r, l, rule);
}

void RoceComparison::message(const wire::ib::CmMra& r, const wire::ib::CmMra& l) {
  same(Compared::reason, "MRA of", r.about, l.about, "IBA §12.6.6");
  same(Compared::timeouts, "service timeout", r.service_timeout, l.service_timeout, "IBA §12.6.6");
  private_data(r, l, "IBA §12.6.6");
}

void RoceComparison::message(const wire::ib::CmRej& r, const wire::ib::CmRej& l) {
  constexpr std::string_view rule = "IBA §12.6.7";
  same(Compared::reason, "REJ of", r.about, l.about, rule);
  same(Compared::reason, "reason", r.reason, l.reason, "IBA §12.6.7.2");
  private_data(r, l, rule);
}

void RoceComparison::message(const wire::ib::CmSidrReq& r, const wire::ib::CmSidrReq& l) {
  constexpr std::string_view rule = "IBA §12.11.1";
  same(Compared::service, "service ID, without its port", space_of(r.service_id), space_of(l.service_id), rule);
  same(Compared::p_key, "P_Key", r.p_key, l.p_key, rule);
  private_data(
      r, l, rule,
      std::min(behind_addresses(r.service_id, r.private_data), behind_addresses(l.service_id, l.private_data)));
}

void RoceComparison::message(const wire::ib::CmSidrRep& r, const wire::ib::CmSidrRep& l) {
  same(Compared::reason, "status", r.status, l.status, "IBA §12.11.2");
  private_data(r, l, "IBA §12.11.2");
}

void RoceComparison::message(const wire::ib::CmApr& r, const wire::ib::CmApr& l) {
  same(Compared::reason, "status", r.status, l.status, "IBA §12.8.2");
  private_data(r, l, "IBA §12.8.2");
}

// IBA §9.4, §9.7.
void RoceComparison::data() {
  const wire::ib::Packet r = recorded_.packet(), l = live_.packet();
  const unsigned headers = wire::ib::rule_of(r.bth.opcode).headers;
  same(Compared::solicited, "solicited event", r.bth.solicited, l.bth.solicited, "IBA §9.2.3");
  if ((headers & PARLEY_IB_RETH) != 0) {
    same(Compared::r_key, "R_Key", r.reth.r_key, l.reth.r_key, "IBA §9.3.3");
    same(Compared::va, "virtual address", r.reth.va, l.reth.va, "IBA §9.3.3");
    same(Compared::length, "DMA length", r.reth.dma_length, l.reth.dma_length, "IBA §9.3.3");
  }
  if ((headers & PARLEY_IB_ATOMIC_ETH) != 0) {
    same(Compared::r_key, "R_Key", r.atomic.r_key, l.atomic.r_key, "IBA §9.3.4");
    same(Compared::va, "virtual address", r.atomic.va, l.atomic.va, "IBA §9.3.4");
    same(Compared::payload, "swap (or add) data", r.atomic.swap_add, l.atomic.swap_add, "IBA §9.3.4");
    if (recorded_.operation() == Operation::cmp_swap)
      same(Compared::payload, "compare data", r.atomic.compare, l.atomic.compare, "IBA §9.3.4");
  }
  if ((headers & PARLEY_IB_ATOMIC_ACK_ETH) != 0)
    same(Compared::payload, "original value", r.atomic_original, l.atomic_original, "IBA §9.3.6");
  if ((headers & PARLEY_IB_IMM) != 0 && r.imm != l.imm)
    octets(Compared::immediate, "immediate data", r.imm, l.imm, "IBA §9.3.6");
  if ((headers & PARLEY_IB_IETH) != 0)
    same(Compared::r_key, "R_Key to invalidate", r.invalidate, l.invalidate, "IBA §9.3.7");
  same(Compared::length, "octets of payload", r.payload.size(), l.payload.size(), "IBA §9.7.4");
  const std::size_t begin = PARLEY_IB_BTH_LEN + wire::ib::size_of_headers(headers);
  const ConstBytes known =
      r.payload.first(std::min(r.payload.size(), recorded_.known - std::min(recorded_.known, begin)));
  octets(Compared::payload, "payload", known, l.payload, "IBA §9.7.4");
}

Found RoceComparison::packets() {
  const auto other_kind = [&] {
    return Mismatch{fmt::format("the live side sent {}, recorded was {}", describe(live_), describe(recorded_)), ""};
  };
  if (recorded_.cm.has_value() != live_.cm.has_value()) return other_kind();
  if (recorded_.cm) {
    if (recorded_.cm->type() != live_.cm->type()) return other_kind();
    std::visit([&](const auto& r) { message(r, *std::get_if<std::decay_t<decltype(r)>>(&live_.cm->body)); },
               recorded_.cm->body);
    return found_;
  }
  if (recorded_.octets.front() != live_.octets.front()) return other_kind();
  if (recorded_.is_nak() || live_.is_nak()) {
    const std::uint8_t was = recorded_.packet().aeth.syndrome, is = live_.packet().aeth.syndrome;
    // The receiver chooses the timer of an RNR NAK.
    const bool both_rnr = (was & is & 0xE0) == PARLEY_IB_SYNDROME_RNR_NAK && ((was | is) & 0xC0) == 0;
    if (was != is && !both_rnr) return other_kind();
  }
  data();
  return found_;
}

}  // namespace

Found compare(const RoceStep& recorded, const RoceStep& live, std::span<const Field> masks, const Leniency& leniency) {
  return RoceComparison(recorded, live, masks, leniency).packets();
}

}  // namespace parley::replay
