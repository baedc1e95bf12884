// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "conform/core/tester.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace parley::conform {

using tester::StartupOctets;

std::string_view to_string(Iut iut) { return iut == Iut::responder ? "responder" : "initiator"; }

std::string_view to_string(Level level) {
  switch (level) {
    case Level::must: return "MUST";
    case Level::should: return "SHOULD";
    case Level::may: return "MAY";
  }
  return "?";
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass: return "pass";
    case Verdict::fail: return "fail";
    case Verdict::inconclusive: return "inconclusive";
    case Verdict::not_run: return "not run";
  }
  return "?";
}

static std::string_view short_name(wire::MpaKey key) {
  switch (key) {
    case wire::MpaKey::req: return "Req";
    case wire::MpaKey::rep: return "Rep";
    case wire::MpaKey::rtr: return "Rtr";
    case wire::MpaKey::rtr_hex: return "RtR";
    case wire::MpaKey::unknown: break;
  }
  return "unknown key";
}

std::string frame_text(const Received& h) {
  if (h.kind != Received::Kind::startup) return h.text();
  std::string out = fmt::format("{} {:02x}/{:02x}/{:04x}", short_name(h.key), h.flags, h.revision, h.pd_length);
  if (h.enhanced && h.octets.size() >= PARLEY_MPA_HEADER_LEN + PARLEY_MPA_ENH_LEN)
    out += fmt::format(" with enhanced data {}", hex_text(ConstBytes(h.octets).subspan(PARLEY_MPA_HEADER_LEN, 4)));
  return out;
}

/// Text of what came instead of a startup frame: "48 54 54 50 ('HTTP'), then FIN".
static std::string octets_text(const Received& h, Duration within) {
  std::string end(h.kind == Received::Kind::silence ? "silence for " + milliseconds_text(within) : to_string(h.kind));
  if (h.octets.empty()) return h.kind == Received::Kind::silence ? end : end + " and not one octet";
  const std::string text = readable_text(ConstBytes(h.octets).first(std::min<std::size_t>(h.octets.size(), 32)), 32);
  const std::string octets = fmt::format("{} ('{}')", hex_text(h.octets, 32), text);
  return h.closed() || h.kind == Received::Kind::silence ? octets + ", then " + end : octets;
}

// ---- Conn ----------------------------------------------------------------------------------------------------------

Conn::Conn(Tester& tester, tester::TcpStream& stream, unsigned number)
    : tester_(tester), stream_(stream), number_(number), reader_(tester.peer(), stream) {}

void Conn::note(bool by_tester, std::string words, ConstBytes octets) {
  if (tester_.exchanges_.size() >= Tester::exchanges_max) return;
  const ConstBytes kept = octets.first(std::min(octets.size(), Tester::octets_max));
  tester_.exchanges_.push_back(
      {tester_.peer().now(), number_, by_tester, std::move(words), Bytes(kept.begin(), kept.end())});
}

void Conn::note(const Received& received) {
  note(false, received.kind == Received::Kind::startup ? frame_text(received) : received.text(), received.octets);
  if (!tester_.exchanges_.empty() && received.kind != Received::Kind::silence)
    tester_.exchanges_.back().at = received.at;
}

void Conn::send(std::string words, ConstBytes octets) {
  note(true, std::move(words), octets);
  stream_.send(octets);
}

void Conn::send_startup(const StartupOctets& frame) {
  const Bytes octets = tester::startup(frame);
  std::string words = fmt::format("{} {:02x}/{:02x}", frame.key, frame.flags, frame.revision);
  if (frame.enhanced) words += fmt::format(" with enhanced data {:08x}", *frame.enhanced);
  if (!frame.private_data.empty()) words += fmt::format(", {} octets of private data", frame.private_data.size());
  if (frame.pd_length) words += fmt::format(", PD_Length {}", *frame.pd_length);
  if (!frame.trailing.empty()) words += fmt::format(", {} octets behind it", frame.trailing.size());
  send(std::move(words), octets);
}

void Conn::send_fpdu(ConstBytes ulpdu, const tester::FpduFaults& faults) {
  const Bytes octets = out_.write(ulpdu, faults);
  Received as_heard;
  as_heard.kind = Received::Kind::fpdu;
  as_heard.octets.assign(ulpdu.begin(), ulpdu.end());
  if (const auto header = wire::DdpHeader::parse(ulpdu)) as_heard.ddp = *header;
  std::string words = as_heard.text();
  if (faults.bad_crc) words += ", bad CRC";
  if (faults.pad != 0) words += fmt::format(", pad {:02x}", faults.pad);
  if (faults.fpduptr_add != 0) words += fmt::format(", FPDUPTR + {}", faults.fpduptr_add);
  if (faults.length) words += fmt::format(", ULPDU_Length {}", *faults.length);
  send(std::move(words), octets);
}

void Conn::send_fin() {
  note(true, "FIN", {});
  stream_.fin();
}

Task<Received> Conn::receive_startup(Duration patience) {
  Received received = co_await reader_.startup(patience);
  note(received);
  co_return received;
}

Task<Received> Conn::receive_fpdu(Duration patience) {
  Received received = co_await reader_.fpdu(patience);
  note(received);
  co_return received;
}

Task<Received> Conn::receive_anything(Duration patience) {
  Received received = co_await reader_.anything(patience);
  note(received);
  co_return received;
}

Task<Received> Conn::receive_terminate(Duration patience) {
  const Instant limit = tester_.peer().now() + patience;
  for (unsigned i = 0;; ++i) {
    Received received = co_await receive_fpdu(std::max(limit - tester_.peer().now(), Duration{}));
    const bool terminate = received.is(wire::RdmapOpcode::terminate) && !received.ddp->tagged;
    if (received.kind != Received::Kind::fpdu || terminate || i >= Tester::exchanges_max) co_return received;
    ++passed_over;
  }
}

void Conn::full_operation(bool crc, bool markers_out, bool markers_in) {
  crc_ = crc;
  markers_out_ = markers_out;
  markers_in_ = markers_in;
  out_ = tester::FpduWriter(crc, markers_out);
  reader_.fpdus(crc, markers_in);
}

// ---- Tester: connections --------------------------------------------------------------------------------------------

void Tester::note_rest() {
  for (Conn& conn : conns_) {
    const ConstBytes rest = conn.stream().unread();
    if (!rest.empty()) conn.note(false, "and more", rest);
  }
}

bool Tester::finish() {
  bool open = false;
  for (Conn& conn : conns_) {
    if (conn.stream().over()) continue;
    conn.stream().fin();
    open = true;
  }
  return open;
}

bool Tester::all_over() const {
  return std::all_of(conns_.begin(), conns_.end(), [](const Conn& conn) { return conn.stream().ended(); });
}

void Tester::clear() {
  std::vector<tester::TcpStream*> streams;
  for (Conn& conn : conns_) streams.push_back(&conn.stream());
  conns_.clear();
  if (initiator()) {
    // A waiting connection is the peer's next attempt.
    for (tester::TcpStream* stream : streams) peer_.forget_stream(*stream);
  } else {
    peer_.forget_streams();
  }
  exchanges_.clear();
  trouble_ = {};
}

Task<Conn*> Tester::open(std::optional<Duration> patience) {
  refused_ = false;
  closed_early_ = false;
  if (initiator()) {
    const Instant until = peer_.now() + patience.value_or(settings_.patience);
    tester::TcpStream* stream = nullptr;
    do {
      if (stream != nullptr) peer_.forget_stream(*stream);  // the peer closed it before it was used
      stream = co_await peer_.accept(std::max(until - peer_.now(), Duration{}));
    } while (stream != nullptr && stream->ended());
    if (stream != nullptr) co_return &conns_.emplace_back(*this, *stream, static_cast<unsigned>(conns_.size() + 1));
    trouble_ = {Verdict::inconclusive, "the initiator opened no connection"};
    co_return nullptr;
  }
  const Instant limit = peer_.now() + settings_.connect;
  for (;;) {
    const Duration left = limit - peer_.now();
    tester::TcpStream* stream = co_await peer_.connect(settings_.target, left);
    if (stream != nullptr) co_return &conns_.emplace_back(*this, *stream, static_cast<unsigned>(conns_.size() + 1));
    // After a connection a program may need a moment before it listens again.
    if (limit - peer_.now() <= 300ms) break;
    co_await peer_.sleep(250ms);
  }
  refused_ = true;
  trouble_ = {Verdict::inconclusive, "the responder takes no TCP connection: " + peer_.why()};
  co_return nullptr;
}

Task<Conn*> Tester::ask(StartupOctets request) {
  Conn* conn = co_await open();
  if (conn == nullptr) co_return nullptr;
  conn->send_startup(request);
  conn->reply = co_await conn->receive_startup(settings_.reply);
  learn(request, conn->reply);
  co_return conn;
}

// Only a Reply to a Request counts: an echo server answers a Reply with a Reply.
void Tester::learn(const StartupOctets& request, const Received& reply) {
  if (request.key != PARLEY_MPA_KEY_REQ || !reply.is(wire::MpaKey::rep)) return;
  spoke_mpa_ = true;
  accepted_ = accepted_ || (reply.flags & PARLEY_MPA_FLAG_R) == 0;
}

Task<Conn*> Tester::await_request() {
  Conn* conn = nullptr;
  for (unsigned attempt = 0; attempt < 3; ++attempt) {
    conn = co_await open();
    if (conn == nullptr) co_return nullptr;
    conn->request = co_await conn->receive_startup(settings_.reply);
    if (!conn->request.is(wire::MpaKey::req)) break;
    accepted_ = spoke_mpa_ = true;
    // RFC 6581 §10: a lower revision than before is the peer's retry after the previous case.
    if (conn->request.revision >= revision_) {
      revision_ = conn->request.revision;
      co_return conn;
    }
    conn->send("RST: a late attempt", {});
    conn->stream().reset();
  }
  trouble_ = {Verdict::inconclusive, "the initiator sent no Request but " + conn->request.text()};
  if (instead_.empty()) instead_ = octets_text(conn->request, settings_.reply);
  co_return nullptr;
}

Task<bool> Tester::accepts_plain() {
  if (plain_accepted_) co_return *plain_accepted_;
  const StartupOctets request{.flags = PARLEY_MPA_FLAG_C};
  Conn* conn = co_await ask(request);
  if (conn == nullptr) co_return false;
  plain_accepted_ = conn->reply.is(wire::MpaKey::rep) && (conn->reply.flags & PARLEY_MPA_FLAG_R) == 0;
  conn->stream().fin();
  co_return *plain_accepted_;
}

Task<> Tester::ask_form(unsigned form) {
  constexpr Form order[form_count] = {Form::v1, Form::v2_client_server, Form::v2_peer_to_peer};
  if (initiator() || form >= form_count) co_return;
  (void)co_await try_form(order[form], {});
  if (!instead_.empty()) co_return;
  const Received* reply = conns_.empty() ? nullptr : &conns_.back().reply;
  instead_ = reply != nullptr ? octets_text(*reply, settings_.reply) : trouble_.observed;
  gone_ = reply == nullptr;
  foreign_ = reply != nullptr && !reply->closed() && !reply->is(wire::MpaKey::rep);
}

Task<Conn*> Tester::set_up(SetUp wanted) {
  Conn* conn = nullptr;
  if (initiator()) {
    conn = co_await set_up_initiator(wanted);
  } else {
    conn = co_await set_up_responder(wanted);
  }
  co_return conn;
}

// ---- Tester: as initiator -------------------------------------------------------------------------------------------

Task<Conn*> Tester::try_form(Form form, SetUp wanted) {
  StartupOctets request;
  request.flags =
      static_cast<std::uint8_t>((wanted.crc ? PARLEY_MPA_FLAG_C : 0) | (wanted.markers ? PARLEY_MPA_FLAG_M : 0));
  if (form != Form::v1) {
    request.flags |= PARLEY_MPA_FLAG_S;
    request.revision = 2;
    const bool p2p = form == Form::v2_peer_to_peer;
    request.enhanced = tester::enhanced(8U | (p2p ? PARLEY_MPA_ENH_A : 0U),
                                        wanted.ord | (p2p ? PARLEY_MPA_ENH_C | PARLEY_MPA_ENH_D : 0U));
  }
  Conn* conn = co_await ask(request);
  if (conn == nullptr) co_return nullptr;
  const Received& reply = conn->reply;
  if (!reply.is(wire::MpaKey::rep) || (reply.flags & PARLEY_MPA_FLAG_R) != 0) {
    trouble_ = {Verdict::inconclusive, "the responder accepts no connection: " + frame_text(reply)};
    conn->stream().fin();
    co_return nullptr;
  }
  conn->full_operation(wanted.crc || (reply.flags & PARLEY_MPA_FLAG_C) != 0, (reply.flags & PARLEY_MPA_FLAG_M) != 0,
                       wanted.markers);
  if (reply.enhanced && reply.enhanced->ird != PARLEY_MPA_ENH_NOT_NEGOTIATED)
    conn->ird = std::min<unsigned>(reply.enhanced->ird, wanted.ord);
  co_await peer_.sleep(settings_.first_fpdu);
  if (form == Form::v2_peer_to_peer) send_rtr(*conn);
  co_return conn;
}

// RFC 6581 §9.2: the first FPDU is one of the kinds that the Reply names.
void Tester::send_rtr(Conn& conn) {
  const auto& reply = conn.reply.enhanced;
  if (!reply || !reply->a) return;
  if (reply->c) {
    conn.send_fpdu(tester::segment(tester::write_header(1, 0)));
  } else if (reply->d) {
    conn.send_fpdu(tester::read_request(conn.next_read(), {.sink_stag = 1, .source_stag = 1}));
  } else {
    conn.send_fpdu(tester::segment(tester::send_header(conn.next_send())));
  }
}

Task<Conn*> Tester::set_up_responder(SetUp wanted) {
  if (!wanted.enhanced) {
    Conn* conn = co_await try_form(Form::v1, wanted);
    co_return conn;
  }
  if (form_ != Form::untried) {
    Conn* conn = co_await try_form(form_, wanted);
    co_return conn;
  }
  // Some hardware accepts revision 2 in the peer-to-peer model only; some peers accept only revision 1.
  const Form forms[] = {Form::v2_client_server, Form::v2_peer_to_peer, Form::v1};
  Observation first_trouble;
  for (const Form form : forms) {
    Conn* conn = co_await try_form(form, wanted);
    if (conn != nullptr) {
      // With markers a peer may refuse any form, so only set-ups without markers decide the form.
      if (!wanted.markers) form_ = form;
      co_return conn;
    }
    if (form == Form::v2_client_server) first_trouble = trouble_;
    if (refused_) break;
  }
  if (!refused_) trouble_ = first_trouble;
  co_return nullptr;
}

// ---- Tester: as responder -------------------------------------------------------------------------------------------

StartupOctets Tester::fitting_reply(const Received& request, const SetUp& wanted) const {
  StartupOctets reply;
  reply.key = PARLEY_MPA_KEY_REP;
  reply.revision = std::min<std::uint8_t>(request.revision, 2);
  reply.flags =
      static_cast<std::uint8_t>((wanted.crc ? PARLEY_MPA_FLAG_C : 0) | (wanted.markers ? PARLEY_MPA_FLAG_M : 0));
  if (!request.enhanced) return reply;
  const wire::MpaEnhanced& asked = *request.enhanced;
  reply.flags |= PARLEY_MPA_FLAG_S;
  // RFC 6581 §9.1: IRD at least the initiator's ORD, ORD at most its IRD; 0x3FFF answers 0x3FFF.
  const unsigned ird = asked.ord == PARLEY_MPA_ENH_NOT_NEGOTIATED ? asked.ord : std::max<unsigned>(asked.ord, 1);
  const unsigned ord =
      asked.ird == PARLEY_MPA_ENH_NOT_NEGOTIATED ? asked.ird : std::min<unsigned>(asked.ird, wanted.ord);
  unsigned ird_bits = 0, ord_bits = 0;
  if (asked.a) {
    // Exactly one kind, out of those offered: some peers insist on that.
    ird_bits = PARLEY_MPA_ENH_A;
    if (asked.c) {
      ord_bits = PARLEY_MPA_ENH_C;
    } else if (asked.d) {
      ord_bits = PARLEY_MPA_ENH_D;
    } else {
      ird_bits |= PARLEY_MPA_ENH_B;
    }
  }
  reply.enhanced = tester::enhanced(ird | ird_bits, ord | ord_bits);
  return reply;
}

Task<bool> Tester::first_fpdu(Conn& conn) {
  conn.first = co_await conn.receive_fpdu(settings_.reply);
  if (conn.first.kind != Received::Kind::fpdu) {
    closed_early_ = conn.first.closed();
    // RFC 5044 §7.1.2 rule 4: a responder sends nothing until it has received an FPDU.
    trouble_ = {Verdict::inconclusive,
                "the initiator sent no FPDU, and until then the tester may send none: " + conn.first.text()};
    co_return false;
  }
  if (conn.first.is(wire::RdmapOpcode::terminate)) {
    trouble_ = {Verdict::inconclusive, "the initiator ended the set-up: " + conn.first.text()};
    co_return false;
  }
  if (conn.first.is(wire::RdmapOpcode::read_request)) {
    const auto read = wire::ReadRequest::parse(conn.first.payload());
    if (read && read->size == 0)
      conn.send_fpdu(tester::segment(tester::read_response_header(read->sink_stag, read->sink_to)));
  }
  co_return true;
}

Task<Conn*> Tester::set_up_initiator(SetUp wanted) {
  Conn* conn = co_await await_request();
  if (conn == nullptr) co_return nullptr;
  const Received& request = conn->request;
  const StartupOctets reply = fitting_reply(request, wanted);
  conn->send_startup(reply);
  conn->full_operation(wanted.crc || (request.flags & PARLEY_MPA_FLAG_C) != 0, (request.flags & PARLEY_MPA_FLAG_M) != 0,
                       wanted.markers);
  if (request.enhanced && request.enhanced->ird != PARLEY_MPA_ENH_NOT_NEGOTIATED)
    conn->ird = std::min<unsigned>(request.enhanced->ird, wanted.ord);
  const bool spoke = co_await first_fpdu(*conn);
  co_return spoke ? conn : nullptr;
}

}  // namespace parley::conform
