// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ops/http/metrics_server.hpp"

#include <algorithm>

namespace parley::ops {
namespace {

constexpr StreamId listener_id = 1;

}  // namespace

void MetricsServer::listen(const Address& local) {
  commands_.push_back({.kind = StreamCommand::Kind::listen, .id = listener_id, .address = local, .backlog = 16});
}

void MetricsServer::handle_listening(Instant, StreamId, const Address& local) { listening_ = local; }
void MetricsServer::handle_listen_failed(Instant, StreamId, std::error_code why) { failure_ = why; }

MetricsServer::Clients::iterator MetricsServer::oldest() {
  return std::min_element(clients_.begin(), clients_.end(),
                          [](const auto& a, const auto& b) { return a.second.until < b.second.until; });
}

bool MetricsServer::handle_accepted(Instant now, StreamId, StreamId stream, const StreamInfo&) {
  if (limits_.connections_max == 0) return false;
  if (clients_.size() >= limits_.connections_max) drop(oldest(), StreamCommand::Kind::reset);
  clients_[stream].until = now + limits_.connection_max;
  return true;
}

bool MetricsServer::handle_no_room(Instant, StreamId) {
  if (clients_.empty()) return false;
  drop(oldest(), StreamCommand::Kind::reset);
  return true;
}

void MetricsServer::drop(Clients::iterator at, StreamCommand::Kind how) {
  commands_.push_back({.kind = how, .id = at->first});
  clients_.erase(at);
}

void MetricsServer::handle_bytes(Instant, StreamId stream, ConstBytes in) {
  const auto at = clients_.find(stream);
  if (at == clients_.end() || !at->second.out.empty()) return;
  Client& client = at->second;
  const std::size_t room = limits_.header_max - client.in.size();
  client.in.append(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(std::min(room, in.size())));
  answer(stream, client);
}

void MetricsServer::answer(StreamId stream, Client& client) {
  const std::string text = http_answer(client.in, limits_.header_max, metrics_);
  if (text.empty()) return;
  client.out.assign(text.begin(), text.end());
  client.in = {};
  ready_.push_back(stream);
}

void MetricsServer::handle_end(Instant, StreamId stream, StreamEnd end) {
  const auto at = clients_.find(stream);
  if (at == clients_.end()) return;
  Client& client = at->second;
  client.peer_ended = true;
  if (end != StreamEnd::fin)
    clients_.erase(at);  // the driver has already dropped the stream
  else if (client.out.empty() || client.out_at == client.out.size())
    drop(at, StreamCommand::Kind::close);
}

void MetricsServer::handle_deadline(Instant now) {
  for (auto at = clients_.begin(); at != clients_.end();) {
    const auto next = std::next(at);
    if (at->second.until <= now) drop(at, StreamCommand::Kind::reset);
    at = next;
  }
}

Instant MetricsServer::next_deadline() const {
  Instant first = never;
  for (const auto& [stream, client] : clients_) first = std::min(first, client.until);
  return first;
}

bool MetricsServer::poll_command(StreamCommand& out) {
  if (commands_.empty()) return false;
  out = commands_.front();
  commands_.pop_front();
  return true;
}

StreamId MetricsServer::poll_ready() {
  while (!ready_.empty()) {
    const StreamId stream = ready_.front();
    ready_.pop_front();
    if (clients_.contains(stream)) return stream;
  }
  return 0;
}

std::size_t MetricsServer::gather(StreamId stream, std::span<ConstBytes> out) {
  const auto at = clients_.find(stream);
  if (at == clients_.end() || out.empty()) return 0;
  const Client& client = at->second;
  if (client.out_at == client.out.size()) return 0;
  out[0] = ConstBytes(client.out).subspan(client.out_at);
  return 1;
}

void MetricsServer::sent(Instant, StreamId stream, std::size_t n) {
  const auto at = clients_.find(stream);
  if (at == clients_.end() || n == 0) return;
  Client& client = at->second;
  client.out_at += std::min(n, client.out.size() - client.out_at);
  if (client.out_at < client.out.size()) return;
  // Send the FIN first and close later: closing with unread octets sends a RST, which may overtake the answer.
  if (client.peer_ended)
    drop(at, StreamCommand::Kind::close);
  else
    commands_.push_back({.kind = StreamCommand::Kind::shutdown, .id = stream});
}

}  // namespace parley::ops
