// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/engine/engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "capture/engine/cm_links.hpp"
#include "capture/report/standing.hpp"
#include "capture/rules/roce/packet_faults.hpp"
#include "wire/ib/cma.hpp"

namespace parley::capture {
namespace {

AnalyzerOptions options_of(const parley_engine_options& options, RoceWatch& watch) {
  AnalyzerOptions out;
  out.no_icrc = options.no_icrc;
  out.roce_watch = &watch;
  return out;
}

std::uint8_t service_of(IbQp qp) {
  switch (qp) {
    case IbQp::rc: return static_cast<std::uint8_t>(wire::ib::Service::rc);
    case IbQp::uc: return static_cast<std::uint8_t>(wire::ib::Service::uc);
    case IbQp::ud: return static_cast<std::uint8_t>(wire::ib::Service::ud);
    case IbQp::xrc: return static_cast<std::uint8_t>(wire::ib::Service::xrc);
    case IbQp::unknown: break;
  }
  return 0;
}

parley_engine_outcome outcome_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::established: return PARLEY_ENGINE_ESTABLISHED;
    case Outcome::rejected: return PARLEY_ENGINE_REJECTED;
    case Outcome::failed: return PARLEY_ENGINE_FAILED;
    case Outcome::incomplete: return PARLEY_ENGINE_INCOMPLETE;
    case Outcome::not_captured: return PARLEY_ENGINE_NOT_CAPTURED;
  }
  return PARLEY_ENGINE_OPEN;
}

/// "tcp:7174", or the ID in hexadecimal digits.
std::string name_of(std::uint64_t service_id) {
  const auto cma = wire::ib::cma_service_of(service_id);
  if (!cma) return fmt::format("{:#018x}", service_id);
  switch (cma->space) {
#define PARLEY_X(name, value, text) \
  case wire::ib::PortSpace::name: return fmt::format(#name ":{}", cma->port);
    PARLEY_CMA_PORT_SPACES(PARLEY_X)
#undef PARLEY_X
  }
  return {};
}

/// The octets below the BTH that the ICRC covers; empty if the ICRC cannot be computed.
ConstBytes network_of(const parley_engine_packet& in) {
  if (!in.plain || in.below > in.bth || in.bth > in.captured) return {};
  return ConstBytes(in.octets + in.below, in.bth - in.below);
}

constexpr std::uint8_t syndrome_kind = 0x60, rnr_nak = 0x20, nak = 0x60;

}  // namespace

Engine::Engine(const parley_engine_options& options)
    : analyzer_(std::make_unique<Analyzer>(options_of(options, *this))) {}

TransportReader::Status Engine::Reader::read(const parley_engine_packet& in, RocePacket& out) {
  constexpr std::size_t packet_max = 65'535;
  out.network.v2 = in.carriage == PARLEY_ENGINE_ROCE_V2_IPV4 || in.carriage == PARLEY_ENGINE_ROCE_V2_IPV6;
  out.of_link = in.carriage == PARLEY_ENGINE_LINK;
  std::copy_n(in.source, out.network.source.size(), out.network.source.begin());
  std::copy_n(in.destination, out.network.destination.size(), out.network.destination.begin());
  out.network.source_port = in.source_port;
  out.bth_at = in.bth;
  wire::CapturedPacket captured;
  captured.frame = in.frame;
  captured.at = Instant(Duration(in.at));
  out.frame = captured.frame;
  out.at = captured.at;
  if (in.bth > in.captured || in.end < in.bth || in.end - in.bth > packet_max) return Status::cut;
  captured.octets = ConstBytes(in.octets, std::min(in.captured, in.end));
  const ConstBytes here = captured.octets.subspan(in.bth);
  return read_transport(captured, network_of(in), in.captured < in.end ? filled(here, in.end - in.bth) : here, out);
}

void Engine::roce(const parley_engine_packet& in, parley_engine_place& out) {
  findings_.reading(in.frame);
  if (!analyzer_) return;
  place_ = &out;
  at_ = nullptr;
  told_ = false;
  RocePacket p;
  switch (reader_.read(in, p)) {
    case TransportReader::Status::packet: break;
    case TransportReader::Status::malformed: {
      const std::size_t bth = std::min(in.bth, in.captured);
      if (!analyzer_->roce().malformed(p, ConstBytes(in.octets + bth, in.captured - bth), reader_.why()))
        of_nobody(in.frame, Rule::ib_malformed, " sent a packet that cannot be read: " + reader_.why());
      return;
    }
    default: return;
  }
  out.icrc_known = p.icrc_due.has_value();
  out.icrc = p.icrc_due.value_or(0);
  const bool wrong = p.icrc_wrong();
  analyzer_->roce().take(p);
  describe();
  // Management datagrams other than CM belong to no connection. Each is judged by itself.
  if (out.connection == nullptr && !told_ && !wrong)
    for (const PacketFault& fault : faults_of(p)) of_nobody(in.frame, fault.rule, fault.text);
}

/// Updates the connection with what the packet may have shown: QPNs, service, service ID.
void Engine::describe() {
  if (at_ == nullptr || at_->watched == nullptr) return;
  parley_engine_connection& c = *static_cast<parley_engine_connection*>(at_->watched);
  for (const Side side : {Side::initiator, Side::responder})
    if (c.qpn[index_of(side)] == 0) c.qpn[index_of(side)] = at_->qpn(side).value_or(0);
  if (!c.service_known) {
    c.service_known = at_->qp() != IbQp::unknown;
    c.service = service_of(at_->qp());
  }
  c.sidr = at_->sidr();
  if (c.service_name[0] == '\0' && at_->service_id()) {
    const std::string name = name_of(*at_->service_id());
    std::copy_n(name.begin(), std::min(name.size(), sizeof c.service_name - 1), c.service_name);
  }
  place_->named = c.service_name[0] != '\0';
}

void Engine::of_nobody(std::uint64_t frame, Rule rule, std::string_view text) {
  const RuleFacts& facts = facts_of(rule);
  findings_.add(
      {frame, facts.severity, std::string(facts.clause), "the sender" + std::string(text), std::nullopt, rule});
}

void Engine::finish() {
  findings_.reading(std::numeric_limits<std::uint64_t>::max());
  if (analyzer_) analyzer_->finish();
  analyzer_.reset();
}

parley_engine_connection* Engine::seen(RoceConnection& connection, Side from, std::uint64_t frame) {
  auto* out = static_cast<parley_engine_connection*>(connection.watched);
  if (out == nullptr) {
    if (connections_.size() >= PARLEY_ENGINE_CONNECTIONS_MAX) return nullptr;
    connection.watched = out = &connections_.emplace_back();
    *out = {};
    out->verdict = out->reason = "";
    out->first_frame = frame;
    for (const Side side : {Side::initiator, Side::responder})
      std::copy_n(connection.gid(side).begin(), connection.gid(side).size(), out->address[index_of(side)]);
  }
  out->last_frame = frame;
  at_ = &connection;
  if (place_ != nullptr) {
    place_->connection = out;
    place_->from = static_cast<std::uint8_t>(from);
  }
  return out;
}

void Engine::message(RoceConnection& connection, Side from, const RocePacket& p, const CapturedCm& m) {
  parley_engine_connection* const c = seen(connection, from, p.frame);
  if (c == nullptr) return;
  if (c->number == 0) c->number = ++numbers_;
  link(*c, from, m, *place_);
}

void Engine::data(RoceConnection& connection, Side from, const RocePacket& p) {
  parley_engine_connection* const c = seen(connection, from, p.frame);
  if (c == nullptr) return;
  ++c->packets[index_of(from)];
  c->octets[index_of(from)] += p.packet.payload.size();
  if ((wire::ib::rule_of(p.packet.bth.opcode).headers & PARLEY_IB_AETH) == 0 || !p.headers_known()) return;
  if ((p.packet.aeth.syndrome & syndrome_kind) == nak) ++c->naks;
  if ((p.packet.aeth.syndrome & syndrome_kind) == rnr_nak) ++c->rnr_naks;
}

void Engine::found(RoceConnection& connection, const Finding& finding) {
  if (auto* const c = static_cast<parley_engine_connection*>(connection.watched); c != nullptr) {
    c->errors += finding.severity == Severity::error;
    c->warnings += finding.severity == Severity::warning;
  }
  told_ = true;
  findings_.add(finding);
}

void Engine::ended(RoceConnection& connection, const ConnectionReport& report) {
  if (at_ == &connection) at_ = nullptr;
  auto* const c = static_cast<parley_engine_connection*>(connection.watched);
  if (c == nullptr) return;
  const Judgement judgement = judge(report);
  c->outcome = outcome_of(report.outcome);
  c->verdict = findings_.keep(std::string(to_string(judgement.standing)));
  c->reason = findings_.keep(judgement.why);
}

}  // namespace parley::capture
