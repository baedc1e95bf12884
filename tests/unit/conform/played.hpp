// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Peers that conformance cases are put to in tests: what each answers is fixed, so that what a case sends and how it
// judges can be read in a table.
#pragma once
#include "kit.hpp"

namespace parley::conform::played {

using namespace kit;
using tester::FrameReader;
using tester::Received;
using tester::StartupOctets;
using wire::MpaKey;
using wire::RdmapOpcode;

inline constexpr std::uint8_t flag_c = PARLEY_MPA_FLAG_C, flag_m = PARLEY_MPA_FLAG_M, flag_r = PARLEY_MPA_FLAG_R,
                              flag_s = PARLEY_MPA_FLAG_S;

/// One connection as the played peer sees it, in full operation.
struct Line {
  tester::ScriptedPeer& peer;
  tester::TcpStream& stream;
  FrameReader& reader;
  tester::FpduWriter out;
};

/// How a Terminate differs from the right one.
enum class Form { full, bare, no_read_request, wrong_header, wrong_length, low_bits, siw, siw_bare, cut };

inline Bytes terminate_about(TermCode code, Form form, const Received& about) {
  Bytes segment = about.octets;
  if (about.kind != Received::Kind::fpdu) segment.clear();
  wire::Terminate t;
  t.layer = code.layer;
  t.etype = code.etype;
  t.code = code.code;
  t.nibbles_swapped = form == Form::siw || form == Form::siw_bare;
  const std::size_t header = about.ddp ? about.ddp->size() : 0;
  if (form == Form::wrong_header && header > 0) segment[1] ^= 1;
  if (form != Form::bare && form != Form::siw_bare && segment.size() >= header && header > 0) {
    t.m = t.d = true;
    t.ddp_segment_length = static_cast<std::uint16_t>(segment.size() + (form == Form::wrong_length ? 1 : 0));
    t.ddp_header = ConstBytes(segment).first(header);
    t.r = about.is(RdmapOpcode::read_request) && form != Form::no_read_request;
    if (t.r) t.read_request = ConstBytes(segment).subspan(header);
  }
  Bytes body(t.size());
  t.emit(body);
  if (form == Form::low_bits) body[2] = static_cast<std::uint8_t>(body[2] >> 5);
  if (form == Form::cut) body.resize(3);
  wire::DdpHeader h = tester::send_header(1);
  h.opcode = RdmapOpcode::terminate;
  h.qn = PARLEY_DDP_QN_TERMINATE;
  return tester::segment(h, body);
}

using After = std::function<Task<void>(Line&)>;

inline Task<void> says_nothing(Line&) { co_return; }
inline Task<void> ends(Line& line) {
  (void)co_await line.reader.fpdu(70s);
  line.stream.fin();
}
inline Task<void> resets(Line& line) {
  (void)co_await line.reader.fpdu(70s);
  line.stream.reset();
}

/// Takes what comes at once, and answers by a Terminate about the last of it.
inline After terminates(TermCode code, Form form = Form::full, bool rst = false) {
  return [=](Line& line) -> Task<void> {
    Received last = co_await line.reader.fpdu(70s);
    for (int i = 0; i < 100 && last.kind == Received::Kind::fpdu; ++i) {
      Received next = co_await line.reader.fpdu(10ms);
      if (next.kind == Received::Kind::silence) break;
      last = std::move(next);
    }
    line.stream.send(line.out.write(terminate_about(code, form, last)));
    if (!rst) co_return line.stream.fin();
    (void)co_await line.reader.fpdu(1s);
    line.stream.reset();
  };
}

/// Answers Reads, reads what is advertised as rping's server does, and refuses a wrong RDMAP version; the rest it takes.
/// `twice`: before each right Read Response goes one to another STag.
inline Task<void> takes_all(Line& line, std::uint32_t read_size, bool twice = false) {
  std::uint32_t reads = 1;
  for (int i = 0; i < 1000; ++i) {
    const Received got = co_await line.reader.fpdu(100s);
    if (got.kind != Received::Kind::fpdu || got.terminate()) break;
    if (got.ddp && got.ddp->rdmap_version != 1) {
      line.stream.send(line.out.write(terminate_about({0, 2, 5}, Form::full, got)));
      break;
    }
    if (const auto q = wire::ReadRequest::parse(got.payload()); q && got.is(RdmapOpcode::read_request)) {
      const Bytes data(std::min<std::uint32_t>(q->size, 60'000), 0);
      if (twice)
        line.stream.send(
            line.out.write(tester::segment(tester::read_response_header(~q->sink_stag, q->sink_to), data)));
      line.stream.send(line.out.write(tester::segment(tester::read_response_header(q->sink_stag, q->sink_to), data)));
    }
    if (got.is(RdmapOpcode::send) && got.payload().size() == 16) {
      const Region at = rping_region(got.payload());
      line.stream.send(line.out.write(tester::read_request(
          reads++,
          {.sink_stag = 0x500, .sink_to = 0x9000, .size = read_size, .source_stag = at.stag, .source_to = at.to})));
    }
  }
  line.stream.fin();
}

inline Task<void> takes_everything(Line& line) { return takes_all(line, 64); }
inline Task<void> answers_twice(Line& line) { return takes_all(line, 64, true); }
inline Task<void> reads_little(Line& line) { return takes_all(line, 2); }

/// The Reply that fits a sound Request.
inline StartupOctets fitting(const Received& request) {
  StartupOctets out{
      .key = PARLEY_MPA_KEY_REP, .flags = flag_c, .revision = std::min<std::uint8_t>(request.revision, 2)};
  if (!request.enhanced) return out;
  const wire::MpaEnhanced& q = *request.enhanced;
  out.flags |= flag_s;
  unsigned ird = q.ord, ord = q.ird;
  if (q.a) {
    ird |= PARLEY_MPA_ENH_A | (q.c || q.d || !q.b ? 0U : PARLEY_MPA_ENH_B);
    ord |= q.c || !(q.d || q.b) ? PARLEY_MPA_ENH_C : q.d ? PARLEY_MPA_ENH_D : 0U;
  }
  out.enhanced = tester::enhanced(ird, ord);
  return out;
}
inline bool sound(const Received& request) {
  return request.is(MpaKey::req) && request.revision >= 1 && request.revision <= 2 && request.pd_length <= 512 &&
         ((request.flags & flag_s) == 0 || request.revision == 1 || request.enhanced);
}

using Change = std::function<void(StartupOctets&)>;
using Takes = std::function<bool(const Received& request)>;
inline bool any(const Received&) { return true; }

/// Answers each sound Request by the fitting Reply, changed; others by FIN.
inline Script responder(const After& after, const Change& change = {}, const Takes& takes = sound) {
  return [=](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
    FrameReader reader(peer, stream);
    const Received request = co_await reader.startup(60s);
    if (request.kind != Received::Kind::startup || !takes(request)) {
      stream.fin();
      co_return;
    }
    StartupOctets reply = fitting(request);
    if (change) change(reply);
    stream.send(tester::startup(reply));
    const bool crc = ((reply.flags | request.flags) & flag_c) != 0;
    reader.fpdus(crc, (reply.flags & flag_m) != 0);
    Line line{peer, stream, reader, tester::FpduWriter(crc, (request.flags & flag_m) != 0)};
    co_await after(line);
  };
}

/// Sends that Request and, behind a Reply that accepts, what it agreed to send first, or that ULPDU.
inline Script initiator(const After& after, const StartupOctets& request, bool picky = true, bool speaks = true,
                        const Bytes& first = {}) {
  return [=](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
    FrameReader reader(peer, stream);
    stream.send(tester::startup(request));
    const Received reply = co_await reader.startup(60s);
    const bool takes = reply.is(MpaKey::rep) && (reply.flags & flag_r) == 0 && reply.revision <= request.revision &&
                       reply.pd_length <= 512;
    if (reply.kind != Received::Kind::startup || (picky && !takes)) {
      stream.fin();
      co_return;
    }
    const bool crc = ((reply.flags | request.flags) & flag_c) != 0;
    reader.fpdus(crc, (request.flags & flag_m) != 0);
    Line line{peer, stream, reader, tester::FpduWriter(crc, (reply.flags & flag_m) != 0)};
    if (!first.empty()) {
      stream.send(line.out.write(first));
    } else if (speaks && reply.enhanced && reply.enhanced->a) {
      const wire::MpaEnhanced& e = *reply.enhanced;
      const Bytes write = tester::segment(tester::write_header(1, 0)), send = tester::segment(tester::send_header(1));
      stream.send(line.out.write(e.c ? write : e.d ? tester::read_request(1, {.sink_stag = 1}) : send));
    } else if (speaks) {
      stream.send(line.out.write(tester::segment(tester::send_header(1), rping_advertisement())));
    }
    co_await after(line);
  };
}

}  // namespace parley::conform::played
