// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/xrc/service.hpp"

#include "cm/core.hpp"
#include "cm/ibcm/events.hpp"
#include "cm/xrc/srqn.hpp"

namespace parley::xrc {

Service::~Service() {
  for (auto& [number, held] : held_) (void)attachment_.release(held.tgt);
  abandon();
}

void Service::abandon() {
  for (auto& [number, held] : held_) held.id.destroy();
  held_.clear();
  for (auto& [number, id] : answering_) id.destroy();
  answering_.clear();
  requests_.destroy();
  questions_.destroy();
}

Result<void> Service::start() {
  cm::ListenOptions listen = options_.listen;
  listen.transport = ib::Options{.qp_type = QpType::xrc_tgt};
  auto requests = manager_.listen(options_.local, listen);
  if (!requests) return tl::unexpected(requests.error());
  requests_ = *requests;
  listen.transport = ib::Options{.qp_type = QpType::ud};
  auto questions = manager_.listen(options_.local, listen);
  if (!questions) return tl::unexpected(questions.error());
  questions_ = *questions;
  return {};
}

bool Service::handle(const cm::Event& event) {
  if (const auto* request = std::get_if<cm::ConnectRequest>(&event)) return on_request(*request);
  const std::uint64_t number = cm::endpoint_of(event);
  if (const auto asked = answering_.find(number); asked != answering_.end()) {
    // Established or not: the SIDR_REQ was answered, and the provider keeps the answer for duplicates.
    asked->second.destroy();
    answering_.erase(asked);
    return true;
  }
  const auto at = held_.find(number);
  if (at == held_.end())
    return std::holds_alternative<cm::Listening>(event) && number != 0 &&
           (number == requests_.number() || number == questions_.number());
  if (std::holds_alternative<cm::Established>(event)) {
    on_established(at->second);
  } else if (const auto* over = std::get_if<cm::Disconnected>(&event)) {
    // IBA §12.9: a new REQ with the queue pair or ID of this connection shows that the peer has lost the connection.
    const bool reused = over->why.received == cm::ibcm::stale_words;
    release(number, reused ? EventKind::peer_reused : EventKind::peer_gone);
  } else if (std::holds_alternative<cm::ConnectFailed>(event) || std::holds_alternative<cm::Rejected>(event)) {
    release(number, EventKind::peer_gone);
  }
  return true;
}

bool Service::on_request(const cm::ConnectRequest& request) {
  if (request.listener == requests_) return set_up(request), true;
  if (request.listener == questions_) return answer_srqn(request), true;
  return false;
}

void Service::set_up(const cm::ConnectRequest& request) {
  cm::Id id = request.id;
  const auto& offered = std::get<ib::Parameters>(request.offered);
  const Peer peer{offered.remote_ca_guid, offered.remote_qp_num};
  const auto qp = id.create_qp({.type = QpType::xrc_tgt, .xrcd = &attachment_.device().domain()});
  const auto tgt = qp ? attachment_.adopt((*qp)->qp_num(), peer) : Result<TgtId>(tl::unexpected(qp.error()));
  const auto accepted = tgt ? id.accept() : Result<void>(tl::unexpected(tgt.error()));
  if (accepted) {
    held_[id.number()] = {id, *tgt, peer};
    (void)attachment_.registrar().modify(*tgt, State::init, 1);
    return;
  }
  if (tgt) (void)attachment_.release(*tgt);
  (void)id.reject();
  id.destroy();
}

void Service::answer_srqn(const cm::ConnectRequest& request) {
  cm::Id id = request.id;
  const auto which = parse_srqn_question(request.private_data);
  const auto srqn = which && options_.srqn ? options_.srqn(*which) : std::nullopt;
  if (!srqn) {
    (void)id.reject();
    id.destroy();
    return;
  }
  const Bytes answer = srqn_answer(*srqn);
  if (id.accept({.private_data = answer}))
    answering_[id.number()] = id;
  else
    id.destroy();
}

// The connection manager has already moved the queue pair; this updates the registry.
void Service::on_established(TgtConnection& held) {
  (void)attachment_.registrar().modify(held.tgt, State::rtr, 1);
  (void)attachment_.registrar().modify(held.tgt, State::rts, 1);
  if (options_.on_up) options_.on_up(held.tgt, held.peer);
}

/// Reports `kind` to the registrants, and releases the service's own registration.
void Service::release(std::uint64_t number, EventKind kind) {
  const auto at = held_.find(number);
  (void)attachment_.registrar().report(at->second.tgt, kind, 0);
  (void)attachment_.release(at->second.tgt);
  at->second.id.destroy();
  held_.erase(at);
}

}  // namespace parley::xrc
