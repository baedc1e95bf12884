// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/report.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/gid.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"

namespace parley::tools {

namespace {

Json kinds_json(const mpa::RtrSet& set) {
  Json kinds = Json::array();
  for (const mpa::Rtr rtr : {mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read})
    if (set.has(rtr)) kinds.push_back(mpa::to_string(rtr));
  return kinds;
}

std::string kinds_text(const mpa::RtrSet& set) {
  std::string text;
  for (const mpa::Rtr rtr : {mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read})
    if (set.has(rtr)) text.append(text.empty() ? "" : "+").append(mpa::to_string(rtr));
  return text.empty() ? "none" : text;
}

std::string depth_text(std::uint16_t depth) {
  return depth == mpa::depth_not_negotiated ? "left to the ULP" : std::to_string(depth);
}

Json times_json(const cm::Steps& times, mpa::Role role) {
  Json json{{"transport", in_microseconds(times.transport)}, {"request", in_microseconds(times.request)}};
  if (role == mpa::Role::responder) json["decision"] = in_microseconds(times.decision);
  json["reply"] = in_microseconds(times.reply);
  json["established"] = in_microseconds(times.established);
  return json;
}

std::string times_text(const cm::Steps& times, mpa::Role role, std::string_view transport) {
  if (role == mpa::Role::initiator)
    return fmt::format("{} {}, Request sent {}, Reply received {}, established {}", transport,
                       measured_duration_text(times.transport), measured_duration_text(times.request),
                       measured_duration_text(times.reply), measured_duration_text(times.established));
  return fmt::format("Request received {}, decided {}, Reply sent {}, established {}",
                     measured_duration_text(times.request), measured_duration_text(times.decision),
                     measured_duration_text(times.reply), measured_duration_text(times.established));
}

/// The peer's offer in a Request, before it is answered.
std::string offer_text(const mpa::Parameters& p) {
  std::string text = fmt::format("revision {}, CRC {}, markers {}", p.revision, p.crc ? "on" : "off",
                                 p.tx_markers ? "wanted" : "not wanted");
  if (p.depths_negotiated || p.peer_ird != 0 || p.peer_ord != 0)
    text += fmt::format(", IRD {}, ORD {}", depth_text(p.peer_ird), depth_text(p.peer_ord));
  if (!p.offered.empty()) text += ", RTR " + kinds_text(p.offered);
  if (p.rtr == mpa::Rtr::frame) text += ", RTR frame";
  return text;
}

/// For UD: there are no negotiated parameters beyond the addressing of datagrams.
std::string datagram_text(const ib::Parameters& ib) {
  const std::string gids = fmt::format("GID {} to {}", gid_text(ib.sgid), gid_text(ib.dgid));
  if (ib.qp_num == 0) return "UD, " + gids;
  if (ib.remote_qp_num == 0) return fmt::format("UD queue pair {}, {}", ib.qp_num, gids);
  return fmt::format("UD queue pair {} to {}, Q_Key 0x{:08x}, {}", ib.qp_num, ib.remote_qp_num, ib.remote_qkey, gids);
}

/// The parameters of a connection whose transport is not MPA.
std::string kernel_text(const cm::TransportParameters& parameters, cm::Id id, std::uint16_t ird, std::uint16_t ord) {
  const Device* device = id.device();
  std::string text = device == nullptr ? "a NIC" : device->query().name;
  if (const auto* ib = std::get_if<ib::Parameters>(&parameters); ib != nullptr && ib->qp_type == QpType::ud)
    return text + ", " + datagram_text(*ib);
  if (const auto* ib = std::get_if<ib::Parameters>(&parameters); ib != nullptr && ib->qp_num != 0)
    text += fmt::format(", QP {} to {}, GID {} to {}, path MTU {}, retries {}, RNR retries {}", ib->qp_num,
                        ib->remote_qp_num, gid_text(ib->sgid), gid_text(ib->dgid),
                        128U << static_cast<unsigned>(ib->path_mtu), ib->retry_count, ib->rnr_retry_count);
  return fmt::format("{}, IRD {}, ORD {}", text, depth_text(ird), depth_text(ord));
}

std::string role_name(mpa::Role role) { return role == mpa::Role::initiator ? "initiator" : "responder"; }

}  // namespace

std::string agreed_text(const cm::Established& e) { return kernel_text(e.parameters, e.id, e.ird, e.ord); }

std::string message_of(const Error& error) { return error.message(); }
std::string message_of(const std::error_code& error) { return error ? error.message() : "no error"; }

std::string end_text(const cm::Disconnected& end, const std::string& peer) {
  std::string text = end.why.to_string(peer);
  // The failure usually quotes the Terminate, which is then not repeated.
  const iwarp::TerminateInfo* terminate = end.terminate();
  if (terminate != nullptr && text.find(terminate->text) == std::string::npos)
    text += fmt::format("; Terminate {}: {}", terminate->sent ? "sent" : "received", terminate->text);
  return text;
}

std::string listen_failure_text(const cm::Failure& why, const Address& local) {
  // For a removed device or a RoCE port in use, `received` says more than the code.
  const bool more = why.code == make_error_code(Errc::unreachable) || why.step == ib::step::send_request;
  std::string text =
      more ? why.received : fmt::format("cannot listen on {}: {}", local.to_string(), message_of(why.code));
  // For example, what a link-local address lacks.
  if (why.code == make_error_code(Errc::bad_address) && !why.advice.empty()) text += "; " + why.advice;
  return text;
}

std::string turned_away_text(const cm::TurnedAway& event) {
  return fmt::format("no room: {} half-open {} gave way, {} refused; the last: {}", event.gave_way,
                     event.gave_way == 1 ? "connection" : "connections", event.refused,
                     event.why.to_string(event.peer.to_string()));
}

void TurnedAwayNews::add(const cm::TurnedAway& event) {
  const std::uint64_t gave_way = news_ ? news_->gave_way : 0, refused = news_ ? news_->refused : 0;
  news_ = event;
  news_->gave_way += gave_way;
  news_->refused += refused;
}

std::optional<cm::TurnedAway> TurnedAwayNews::poll(Instant now) {
  if (!news_ || now < not_before_) return std::nullopt;
  not_before_ = now + interval;
  return finish();
}

std::string private_data_text(ConstBytes octets) {
  if (octets.empty()) return "no private data";
  const std::string length = "private data of " + counted(octets.size(), "octet");
  // Private data of the InfiniBand CM has no length field: the sender pads it with zeros.
  std::size_t used = octets.size();
  while (used > 0 && octets[used - 1] == 0) --used;
  if (used == 0) return length + ", all zero";
  const std::size_t zeros = octets.size() - used;
  if (zeros < 8) used = octets.size();
  const ConstBytes shown = octets.first(used);
  const std::string text = is_printable(shown) ? fmt::format("\"{}\"", std::string(shown.begin(), shown.end()))
                                               : fmt::format("hex:{}", hex_digits(shown));
  return used == octets.size() ? length + ": " + text : fmt::format("{}: {}, then zeros", length, text);
}

Json parameters_json(const mpa::Parameters& p, mpa::Role role) {
  const bool initiator = role == mpa::Role::initiator;
  return Json{{"transport", "iwarp"},
              {"protocol", "mpa"},
              {"ird", p.ird},
              {"ord", p.ord},
              {"depths_negotiated", p.depths_negotiated},
              {"peer_ird", p.peer_ird},
              {"peer_ord", p.peer_ord},
              {"mpa",
               {{"revision", p.revision},
                {"crc", p.crc},
                {"markers",
                 {{"to_responder", initiator ? p.tx_markers : p.rx_markers},
                  {"to_initiator", initiator ? p.rx_markers : p.tx_markers}}},
                {"rtr", mpa::to_string(p.rtr)},
                {"peer_to_peer", p.peer_to_peer},
                {"peer_flags", fmt::format("0x{:02x}", p.peer_flags)},
                {"offered", kinds_json(p.offered)},
                {"answered", kinds_json(p.answered)}}},
              {"reasons", p.reasons.texts()}};
}

std::string parameters_text(const mpa::Parameters& p, mpa::Role role) {
  const bool initiator = role == mpa::Role::initiator;
  const bool to_responder = initiator ? p.tx_markers : p.rx_markers;
  const bool to_initiator = initiator ? p.rx_markers : p.tx_markers;
  const char* markers = to_responder && to_initiator ? "both ways"
                        : to_responder               ? "to the responder"
                        : to_initiator               ? "to the initiator"
                                                     : "none";
  return fmt::format("revision {}, CRC {}, markers {}, RTR {}, IRD {}, ORD {} ({})", p.revision, p.crc ? "on" : "off",
                     markers, mpa::to_string(p.rtr), depth_text(p.ird), depth_text(p.ord),
                     p.depths_negotiated ? "negotiated" : "not negotiated");
}

Json parameters_json(const cm::TransportParameters& parameters, mpa::Role role, cm::Id id, std::uint16_t ird,
                     std::uint16_t ord) {
  if (const auto* mpa = std::get_if<mpa::Parameters>(&parameters)) return parameters_json(*mpa, role);
  const Device* device = id.device();
  const bool iwarp = device != nullptr && device->query().transport == Transport::iwarp;
  Json json{{"transport", iwarp ? "iwarp" : "roce"},
            {"protocol", iwarp ? "kernel-mpa" : "ib-cm"},
            {"device", device == nullptr ? "" : device->query().name},
            {"ird", ird},
            {"ord", ord}};
  if (const auto* ib = std::get_if<ib::Parameters>(&parameters);
      ib != nullptr && ib->qp_num != 0 && ib->qp_type == QpType::rc)
    json["ib"] = {{"qp_num", ib->qp_num},
                  {"remote_qp_num", ib->remote_qp_num},
                  {"port", ib->port_num},
                  {"sgid_index", ib->sgid_index},
                  {"sgid", gid_text(ib->sgid)},
                  {"dgid", gid_text(ib->dgid)},
                  {"path_mtu", 128U << static_cast<unsigned>(ib->path_mtu)},
                  {"retry_count", ib->retry_count},
                  {"rnr_retry_count", ib->rnr_retry_count},
                  {"timeout", ib->timeout}};
  if (const auto* ib = std::get_if<ib::Parameters>(&parameters); ib != nullptr && ib->qp_type == QpType::ud)
    json["ud"] = {{"qp_num", ib->qp_num},           {"remote_qp_num", ib->remote_qp_num},
                  {"remote_qkey", ib->remote_qkey}, {"sgid", gid_text(ib->sgid)},
                  {"dgid", gid_text(ib->dgid)},     {"path_mtu", 128U << static_cast<unsigned>(ib->path_mtu)}};
  return json;
}

Json failure_json(const cm::Failure& failure, const std::string& peer) {
  return Json{{"stage", to_string(failure.stage())},
              {"step", failure.step.name},
              {"error", message_of(failure.code)},
              {"rule", failure.rule},
              {"received", failure.received},
              {"advice", failure.advice},
              {"offset", failure.offset},
              {"text", failure.to_string(peer)}};
}

Json terminate_json(const parley::iwarp::TerminateInfo& t) {
  return Json{{"layer", t.layer}, {"etype", t.etype}, {"code", t.code},
              {"sent", t.sent},   {"text", t.text},   {"nibbles_swapped", t.nibbles_swapped}};
}

Exit exit_for(const cm::Failure& failure) {
  const std::error_code& error = failure.code;
  for (const Errc errc :
       {Errc::address_in_use, Errc::bad_address, Errc::not_permitted, Errc::unreachable, Errc::io, Errc::unreadable})
    if (error == make_error_code(errc)) return Exit::environment;
  // An unanswered SYN is for the user the same as an unreachable host.
  if (error == make_error_code(Errc::timed_out) && failure.stage() == cm::Stage::transport) return Exit::environment;
  if (failure.stage() == cm::Stage::resolve) return Exit::environment;
  return Exit::failed;
}

void Reporter::started(cm::Id id, const Address& peer) { learn(id, peer, mpa::Role::initiator); }

void Reporter::learn(cm::Id id, const Address& peer, mpa::Role role) {
  ++tally_.started;
  known_[id.number()] = {tally_.started, peer.to_string(), role};
}

namespace {

/// Adds the local address and the device, as far as they are known.
Json with_this_side(Json object, cm::Id id) {
  if (const auto local = id.local_address(); local && local->port != 0) object["local"] = local->to_string();
  const Device* const device = id.device();
  if (device != nullptr && !device->query().name.empty()) object["device"] = device->query().name;
  return object;
}

}  // namespace

Reporter::ReportedConnection Reporter::known(cm::Id id) const {
  if (const auto at = known_.find(id.number()); at != known_.end()) return at->second;
  // The set-up failed before its Request arrived.
  const auto peer = id.peer_address();
  return {0, peer ? peer->to_string() : "an unknown peer", mpa::Role::responder};
}

std::string Reporter::peer(cm::Id id) const { return known(id).peer; }

void Reporter::emit(const std::string& text, const Json& object, bool tell) {
  if (quiet_) return;
  if (tell) out_.text(text);
  out_.object(object);
}

void Reporter::event(const cm::Event& event) {
  std::visit([this](const auto& e) { on(e); }, event);
}

void Reporter::on(const cm::Listening& e) {
  // Printed even if quiet: the user of port 0 must learn the port.
  out_.text("listening on " + e.local.to_string());
  out_.object({{"event", "listening"}, {"local", e.local.to_string()}, {"port", e.local.port}});
}

void Reporter::on(const cm::ConnectRequest& e) {
  learn(e.id, e.peer, mpa::Role::responder);
  const std::string offer = e.mpa() != nullptr ? offer_text(*e.mpa()) : kernel_text(e.offered, e.id, e.ird, e.ord);
  emit(fmt::format("[{}] request from {}: {}; {}", number(e.id), e.peer.to_string(), offer,
                   private_data_text(e.private_data)),
       {{"event", "connect_request"},
        {"id", number(e.id)},
        {"peer", e.peer.to_string()},
        {"offered", parameters_json(e.offered, mpa::Role::responder, e.id, e.ird, e.ord)},
        {"private_data", json_octets(e.private_data)}});
}

void Reporter::on(const cm::Established& e) {
  ++tally_.established;
  const ReportedConnection with = known(e.id);
  const mpa::Parameters* agreed = e.mpa();
  std::string text = fmt::format(
      "[{}] established with {}: {}", with.number, with.peer,
      agreed != nullptr ? parameters_text(*agreed, with.role) : kernel_text(e.parameters, e.id, e.ird, e.ord));
  if (!e.private_data.empty()) text += "; " + private_data_text(e.private_data);
  if (agreed != nullptr)
    for (const std::string& reason : agreed->reasons) text += "\n      because " + reason;
  text += "\n      steps: " + times_text(e.steps, with.role, agreed != nullptr ? "TCP" : "resolved");
  Json object{{"event", "established"}, {"id", with.number}, {"role", role_name(with.role)}};
  if (const auto local = e.id.local_address()) object["local"] = local->to_string();
  object["peer"] = with.peer;
  object["parameters"] = parameters_json(e.parameters, with.role, e.id, e.ird, e.ord);
  object["private_data"] = json_octets(e.private_data);
  object["times_us"] = times_json(e.steps, with.role);
  emit(text, object);
}

void Reporter::on(const cm::Rejected& e) {
  ++tally_.rejected;
  const ReportedConnection with = known(e.id);
  std::string text = fmt::format("[{}] rejected by {}: {}", with.number, with.peer, private_data_text(e.private_data));
  const mpa::Parameters* theirs = e.mpa();
  if (theirs != nullptr && (theirs->peer_ird != 0 || theirs->peer_ord != 0))
    text += fmt::format("; the peer says IRD {}, ORD {}", theirs->peer_ird, theirs->peer_ord);
  emit(text,
       with_this_side({{"event", "rejected"},
                       {"id", with.number},
                       {"peer", with.peer},
                       {"private_data", json_octets(e.private_data)},
                       {"parameters", parameters_json(e.parameters, with.role, e.id, 0, 0)},
                       {"why", failure_json(e.why, with.peer)}},
                      e.id),
       report_failures_);
  known_.erase(e.id.number());
}

void Reporter::on(const cm::ConnectFailed& e) {
  ++tally_.failed;
  const ReportedConnection with = known(e.id);
  const std::string tried =
      e.attempts > 1 ? fmt::format(" ({} in {})", counted(e.attempts, "attempt"), measured_duration_text(e.elapsed))
                     : "";
  emit(fmt::format("[{}] failed: {}{}", with.number, e.why.to_string(with.peer), tried),
       with_this_side({{"event", "connect_failed"},
                       {"id", with.number},
                       {"peer", with.peer},
                       {"role", role_name(e.responder ? mpa::Role::responder : mpa::Role::initiator)},
                       {"attempts", e.attempts},
                       {"elapsed_us", in_microseconds(e.elapsed)},
                       {"why", failure_json(e.why, with.peer)}},
                      e.id),
       report_failures_);
  known_.erase(e.id.number());
}

void Reporter::on(const cm::Retrying& e) {
  ++tally_.retried;
  const ReportedConnection with = known(e.id);
  const std::string next = e.peer.to_string();
  const std::string where = e.peer != e.failed || e.wait > Duration{} ? next : "again";
  const std::string when = e.wait > Duration{} ? " in " + measured_duration_text(e.wait) : "";
  emit(fmt::format("[{}] trying {}{}: {}", with.number, where, when, e.why.to_string(e.failed.to_string())),
       {{"event", "retrying"},
        {"id", with.number},
        {"peer", e.failed.to_string()},
        {"next", next},
        {"wait_us", in_microseconds(e.wait)},
        {"why", failure_json(e.why, with.peer)}});
  if (const auto at = known_.find(e.id.number()); at != known_.end()) at->second.peer = next;
}

void Reporter::on(const cm::Disconnected& e) {
  ++tally_.disconnected;
  if (!e.graceful) ++tally_.broken;
  const ReportedConnection with = known(e.id);
  std::string text = fmt::format("[{}] disconnected from {}", with.number, with.peer);
  text += e.graceful ? ", gracefully" : ": " + e.why.to_string(with.peer);
  Json object = with_this_side(
      {{"event", "disconnected"}, {"id", with.number}, {"peer", with.peer}, {"graceful", e.graceful}}, e.id);
  if (!e.graceful) object["why"] = failure_json(e.why, with.peer);
  if (const iwarp::TerminateInfo* terminate = e.terminate()) {
    text += fmt::format("\n      Terminate {}: {}", terminate->sent ? "sent" : "received", terminate->text);
    object["terminate"] = terminate_json(*terminate);
  }
  emit(text, object);
  known_.erase(e.id.number());
}

void Reporter::on(const cm::TurnedAway& e) {
  tally_.gave_way += e.gave_way;
  tally_.refused += e.refused;
  emit(turned_away_text(e), {{"event", "turned_away"},
                             {"gave_way", e.gave_way},
                             {"refused", e.refused},
                             {"peer", e.peer.to_string()},
                             {"why", failure_json(e.why, e.peer.to_string())}});
}

void Reporter::on(const cm::AddressChanged& e) {
  const ReportedConnection with = known(e.id);
  emit(fmt::format("[{}] {}: {}", with.number, with.peer, e.why.received), {{"event", "address_changed"},
                                                                            {"id", with.number},
                                                                            {"peer", with.peer},
                                                                            {"why", failure_json(e.why, with.peer)}});
}

void Reporter::on(const cm::DeviceRemoved& e) {
  const ReportedConnection with = known(e.id);
  emit(
      fmt::format("[{}] {}: {}", with.number, with.peer, e.why.received),
      {{"event", "device_removed"}, {"id", with.number}, {"peer", with.peer}, {"why", failure_json(e.why, with.peer)}});
}

Json Reporter::tally_json() const {
  return Json{{"started", tally_.started}, {"established", tally_.established}, {"rejected", tally_.rejected},
              {"failed", tally_.failed},   {"retried", tally_.retried},         {"disconnected", tally_.disconnected},
              {"broken", tally_.broken}};
}

}  // namespace parley::tools
