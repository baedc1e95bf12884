// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/trace_events.hpp"

#include <array>
#include <string>
#include <utility>
#include <variant>

#include "base/gid.hpp"
#include "wire/ib/cm.hpp"

namespace parley::cm {
namespace {

using NicFields = trace::Established::Nic;

struct TraceVisitor {
  const trace::Scope& scope;
  std::string_view device;

  void operator()(const Established& e) const {
    trace::Established out{.mpa = {}, .nic = {}, .ird = e.ird, .ord = e.ord};
    if (const mpa::Parameters* p = e.mpa())
      out.mpa = trace::Established::Mpa{.revision = p->revision,
                                        .rtr = mpa::to_string(p->rtr),
                                        .crc = p->crc,
                                        .markers_sent = p->tx_markers,
                                        .markers_received = p->rx_markers};
    std::string gid, peer_gid;  // the event has views of them
    if (!device.empty()) out.nic = NicFields{.device = device, .local = scope.local, .gid = {}, .peer_gid = {}};
    if (const auto* ib = std::get_if<ib::Parameters>(&e.parameters); ib != nullptr && out.nic) {
      gid = gid_text(ib->sgid), peer_gid = gid_text(ib->dgid);
      out.nic->gid = gid, out.nic->peer_gid = peer_gid;
      out.nic->gid_index = ib->sgid_index;
      out.nic->qp_num = ib->qp_num, out.nic->peer_qp_num = ib->remote_qp_num;
      out.nic->path_mtu = 128U << static_cast<unsigned>(ib->path_mtu);
    }
    scope.record(out);
  }
  void operator()(const ConnectRequest& e) const { scope.record(trace::Requested{e.private_data.size(), device}); }
  void operator()(const Rejected& e) const { scope.record(trace::Rejected{e.private_data.size()}); }
  void operator()(const ConnectFailed& e) const { scope.record(trace::Failed{e.why}); }
  void operator()(const Retrying& e) const {
    scope.record(trace::Retrying{.next = e.peer, .wait = e.wait, .why = e.why});
  }
  void operator()(const Disconnected& e) const {
    if (e.graceful)
      scope.record(trace::Disconnected{});
    else
      scope.record(trace::Lost{e.why});
  }
  void operator()(const Listening& e) const { scope.record(trace::Listening{e.local}); }
  void operator()(const AddressChanged& e) const { scope.record(trace::AddressChanged{e.why}); }
  void operator()(const DeviceRemoved&) const { scope.record(trace::DeviceRemoved{device}); }
  void operator()(const TimewaitExit&) const { scope.record(trace::TimewaitExit{}); }
  void operator()(const Resolved& e) const {
    const auto* ib = std::get_if<ib::Parameters>(&e.parameters);
    const std::string gid = ib == nullptr ? std::string() : gid_text(ib->sgid);
    scope.record(trace::Resolved{.local = e.local, .device = device, .gid = gid});
  }
  // Not recorded: each peer that was turned away has its own record already, and user events belong to the program.
  void operator()(const TurnedAway&) const {}
  void operator()(const UserEvent&) const {}
};

enum class Side : std::uint8_t { initiator, responder, either };
enum class Protocol : std::uint8_t { ib, sidr, iwarp };
enum class Occurrence : std::uint8_t { any, first, answer };

struct ImpliedMessage {
  std::string_view by;
  Side side;
  Protocol over;
  bool sent;
  std::string_view kind;
  Occurrence turn = Occurrence::any;
};

// InfiniBand's CM: IBA 1.x §12.6. An iWARP device reports the whole set-up in one event, after TCP and both MPA frames.
// It has no row for REJECTED: its drivers report a Reply that rejects and a reset in the same way.
constexpr std::array<ImpliedMessage, 24> implied{{
    {"rdma_connect", Side::initiator, Protocol::ib, true, "REQ"},
    {"CONNECT_REQUEST", Side::responder, Protocol::ib, false, "REQ"},
    {"rdma_accept", Side::responder, Protocol::ib, true, "REP"},
    {"CONNECT_RESPONSE", Side::initiator, Protocol::ib, false, "REP"},
    {"rdma_establish", Side::initiator, Protocol::ib, true, "RTU"},
    {"ESTABLISHED", Side::responder, Protocol::ib, false, "RTU"},
    {"rdma_reject", Side::either, Protocol::ib, true, "REJ"},
    {"REJECTED", Side::either, Protocol::ib, false, "REJ"},
    // If both sides disconnect at once, the kernel reports the peer's DREQ like a DREP.
    {"rdma_disconnect", Side::either, Protocol::ib, true, "DREQ", Occurrence::first},
    {"rdma_disconnect", Side::either, Protocol::ib, true, "DREP", Occurrence::answer},
    {"DISCONNECTED", Side::either, Protocol::ib, false, "DREQ", Occurrence::first},
    {"DISCONNECTED", Side::either, Protocol::ib, false, "DREP", Occurrence::answer},
    {"rdma_connect", Side::initiator, Protocol::sidr, true, "SIDR_REQ"},
    {"CONNECT_REQUEST", Side::responder, Protocol::sidr, false, "SIDR_REQ"},
    {"rdma_accept", Side::responder, Protocol::sidr, true, "SIDR_REP"},
    {"rdma_reject", Side::responder, Protocol::sidr, true, "SIDR_REP"},
    {"ESTABLISHED", Side::initiator, Protocol::sidr, false, "SIDR_REP"},
    {"CONNECT_REQUEST", Side::responder, Protocol::iwarp, false, "Request"},
    {"rdma_accept", Side::responder, Protocol::iwarp, true, "Reply"},
    {"rdma_reject", Side::responder, Protocol::iwarp, true, "Reply"},
    {"ESTABLISHED", Side::initiator, Protocol::iwarp, true, "Request"},
    {"ESTABLISHED", Side::initiator, Protocol::iwarp, false, "Reply"},
    {"CONNECT_RESPONSE", Side::initiator, Protocol::iwarp, true, "Request"},
    {"CONNECT_RESPONSE", Side::initiator, Protocol::iwarp, false, "Reply"},
}};

bool fits(const ImpliedMessage& row, const RdmaCmStep& told) {
  const Protocol over = told.iwarp ? Protocol::iwarp : told.datagrams ? Protocol::sidr : Protocol::ib;
  if (row.by != told.by || row.over != over) return false;
  if (row.side != Side::either && (row.side == Side::initiator) != told.initiator) return false;
  // A status other than 0 means that the disconnect got no answer: it implies no message.
  if (row.turn != Occurrence::any && ((row.turn == Occurrence::answer) != told.answer || told.status != 0))
    return false;
  return true;
}

}  // namespace

std::string_view limit_word(ReachedLimit scarce) {
  switch (scarce) {
    case ReachedLimit::pending_max: return "pending_max";
    case ReachedLimit::endpoints_max: return "endpoints_max";
    case ReachedLimit::streams: return "streams_max";
  }
  return "unknown";
}

void trace_event(const trace::Scope& scope, const Event& event, std::string_view device) {
  std::visit(TraceVisitor{scope, device}, event);
}

void trace_kernel_messages(const trace::Scope& scope, const RdmaCmStep& told) {
  for (const ImpliedMessage& row : implied)
    if (fits(row, told))
      scope.record(trace::KernelMessage{.sent = row.sent,
                                        .kind = row.kind,
                                        .implied = row.by,
                                        .reason = row.kind == "REJ" ? reject_word(told.status) : std::string_view()});
}

std::string_view reject_word(int reason) {
  using wire::ib::CmReject;
  switch (static_cast<CmReject>(reason)) {
    case CmReject::no_qp: return "no_qp";
    case CmReject::no_eec: return "no_eec";
    case CmReject::no_resources: return "no_resources";
    case CmReject::timeout: return "timeout";
    case CmReject::unsupported_request: return "unsupported_request";
    case CmReject::invalid_comm_id: return "invalid_comm_id";
    case CmReject::invalid_service_id: return "invalid_service_id";
    case CmReject::invalid_transport_service: return "invalid_transport_type";
    case CmReject::stale_connection: return "stale_connection";
    case CmReject::primary_gid: return "invalid_gid";
    case CmReject::primary_lid: return "invalid_lid";
    case CmReject::port_and_cm_redirect: return "redirect";
    case CmReject::port_redirect: return "port_redirect";
    case CmReject::invalid_path_mtu: return "invalid_mtu";
    case CmReject::insufficient_responder_resources: return "insufficient_resources";
    case CmReject::consumer: return "consumer_reject";
    case CmReject::duplicate_local_comm_id: return "duplicate_comm_id";
    default: return "other";
  }
}

}  // namespace parley::cm
