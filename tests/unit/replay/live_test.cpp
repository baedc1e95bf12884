// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A player against live sides that a test makes up: slow, chatty, wrong, silent, gone. In a table for a reviewer.
#include <fmt/format.h>

#include "kit.hpp"
#include "medley.hpp"
#include "replay/machine.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::replay::test {
namespace {

using capture::test::end_a;
using capture::test::end_b;
using capture::test::fpdu;
using capture::test::send_segment;
using capture::test::startup;
using wire::MpaKey;
using wire::RdmapOpcode;

/// What a live side does, after so long a pause.
struct Act {
  Duration wait{};
  Bytes octets{};
  std::optional<StreamEnd> end{};
};

struct Played {
  std::string text;
  PlayResult result;
};

std::string ms(Instant at) { return fmt::format("{} ms", (at - Instant(1s)) / 1ms); }

/// One side of the recording against these acts; what it writes is taken at once.
Played against(const Recording& r, Side side, const std::vector<Act>& acts, const PlayOptions& options = {}) {
  Player p(r, side, options);
  Instant now(1s);
  std::string out;
  const auto take = [&] {
    for (;;) {
      const std::size_t n = p.output().size();
      if (n > 0) {
        out += fmt::format(" {} writes {};", ms(now), n);
        p.written(now, n);
      }
      const Player::Close close = p.take_close();
      constexpr std::array<std::string_view, 4> names{"", "FIN", "closes", "RST"};
      if (close != Player::Close::none) out += fmt::format(" {} {};", ms(now), names[static_cast<std::size_t>(close)]);
      if (n == 0 && close == Player::Close::none) return;
    }
  };
  const auto until = [&](Instant limit) {
    while (!p.done() && p.next_deadline() <= limit) {
      now = std::max(now, p.next_deadline());
      p.handle_deadline(now);
      take();
    }
    now = std::max(now, limit);
  };
  p.start(now, 1460);
  take();
  until(now + 5ms);
  for (const Act& a : acts) {
    until(now + a.wait);
    if (!a.octets.empty()) p.handle_bytes(now, a.octets);
    if (a.end) p.handle_end(now, *a.end);
    take();
  }
  for (int i = 0; i < 1000 && !p.done() && p.next_deadline() != never; ++i) {
    now = std::max(now, p.next_deadline());
    p.handle_deadline(now);
    take();
  }
  const PlayResult& result = p.result();
  out += fmt::format(" {} at {}: {}/{} played, {}/{} compared, {} more, {} differences;",
                     p.done() ? "over" : "waits for ever", ms(now), result.steps_played, result.steps, result.compared,
                     result.expected, result.not_compared, result.differences);
  for (const std::string& n : result.notes) out += " " + n + ";";
  if (result.difference) {
    const Difference& d = *result.difference;
    out += fmt::format(" DIFFERENCE: {} [{}];", d.what, d.rule);
    if (d.recorded)
      out +=
          fmt::format(" recorded: frame {} at {} ms: {};", d.recorded->frame, d.recorded->at / 1ms, d.recorded->words);
    if (d.live)
      out += fmt::format(" live: at {} ms: {}, {} octets;", d.live->at / 1ms, d.live->words, d.live->octets.size());
  }
  for (const LogLine& l : result.log)
    if (!l.played) out += fmt::format(" {} ms {} {};", l.at / 1ms, l.frame, l.text.substr(l.text.rfind(": ") + 2));
  out.back() = '\n';
  return {out, result};
}

/// A Send each way, a Read of the responder's; the responder closes first. With pauses.
Exchange short_talk(bool ends = true) {
  Exchange x;
  x.set_up().wait(100ms).send(0, fpdu(send_segment(1, 20))).wait(50ms).send(1, fpdu(send_segment(1, 30)));
  x.send(1, fpdu(capture::test::read_request(1, {0x11, 0x1000, 64, 0x22, 0x2000})));
  x.wait(20ms).send(0, fpdu(capture::test::tagged(RdmapOpcode::read_response, 0x11, 0x1000, 64)));
  x.wait(10ms).send(1, fpdu(send_segment(2, 3)));
  if (ends) x.fin(1).fin(0).acknowledge(1);
  return x;
}

Bytes join(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& p : parts) out.insert(out.end(), p.begin(), p.end());
  return out;
}

struct Live {
  std::string name;
  std::vector<Act> acts;
};

/// What plays the responder of short_talk() may do.
std::vector<Live> responders() {
  const Bytes reply = startup(MpaKey::rep, PARLEY_MPA_FLAG_C, 1), said = fpdu(send_segment(1, 30)),
              read = fpdu(capture::test::read_request(1, {0x99, 0x7000, 64, 0x22, 0x2000})),
              longer = fpdu(capture::test::read_request(1, {0x99, 0x7000, 200, 0x22, 0x2000})),
              last = fpdu(send_segment(2, 3));
  Bytes bad = said;
  bad.back() ^= 1;
  Bytes terminate = [] {
    wire::DdpHeader h;
    h.opcode = RdmapOpcode::terminate;
    h.qn = 2;
    h.msn = 1;
    return fpdu(capture::test::segment(h, Bytes{0x12, 3, 0, 0}));
  }();
  const auto part = [](const Bytes& of, std::size_t n) {
    return Bytes(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(n));
  };
  const Act fin{.end = StreamEnd::fin}, rst{.end = StreamEnd::rst}, timeout{.end = StreamEnd::timeout};
  std::vector<Act> chatter{{.octets = reply}};
  for (std::uint32_t i = 1; i <= 30; ++i)
    chatter.push_back({.wait = 1s, .octets = Bytes(1, static_cast<std::uint8_t>(i == 1 ? 0xFF : 0))});
  std::vector<Act> trickle{{.octets = reply}};
  for (std::size_t i = 0; i < said.size(); ++i) trickle.push_back({.wait = 400ms, .octets = Bytes(1, said[i])});
  trickle.push_back({.octets = join({read, last})});
  trickle.push_back(fin);
  return {
      {"all as recorded", {{.octets = reply}, {.octets = join({said, read})}, {.wait = 100ms, .octets = last}, fin}},
      {"all at once", {{.octets = join({reply, said, read, last})}, fin}},
      {"nothing", {}},
      {"FIN at once", {fin}},
      {"RST at once", {rst}},
      {"TCP gives up", {{.octets = reply}, timeout}},
      {"half a Reply", {{.octets = part(reply, 11)}}},
      {"half a Reply, then FIN", {{.octets = part(reply, 11)}, fin}},
      {"half a Reply, then the rest late",
       {{.octets = part(reply, 11)}, {.wait = 4s, .octets = Bytes(reply.begin() + 11, reply.end())}}},
      {"no Reply", {{.octets = Bytes{'H', 'T', 'T', 'P', '/', '1', '.', '1'}}, fin}},
      {"a Reply and nothing", {{.octets = reply}}},
      {"a Reply, then FIN", {{.octets = reply}, fin}},
      {"a Reply, then RST", {{.octets = reply}, rst}},
      {"a rejection", {{.octets = startup(MpaKey::rep, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_R, 1)}, fin}},
      {"half an FPDU", {{.octets = join({reply, part(said, 30)})}}},
      {"half an FPDU, then FIN", {{.octets = join({reply, part(said, 30)})}, fin}},
      {"half an FPDU, then RST", {{.octets = join({reply, part(said, 30)})}, rst}},
      {"an octet of an FPDU, then FIN", {{.octets = join({reply, part(said, 1)})}, fin}},
      {"a wrong CRC", {{.octets = join({reply, bad})}, fin}},
      {"a Terminate", {{.octets = join({reply, terminate})}, fin}},
      {"octets that are not an FPDU", {{.octets = join({reply, Bytes(40, 0xFF)})}, fin}},
      {"no Read", {{.octets = join({reply, said, last})}, fin}},
      {"a longer Read", {{.octets = join({reply, said, longer})}, {.octets = last}, fin}},
      {"the Read late", {{.octets = join({reply, said})}, {.wait = 4s, .octets = read}, {.octets = last}, fin}},
      {"the Read too late", {{.octets = join({reply, said})}, {.wait = 6s, .octets = read}, {.octets = last}, fin}},
      {"one Send too many", {{.octets = join({reply, said, read, last, fpdu(send_segment(3, 1))})}, fin}},
      {"one Read too many",
       {{.octets = join({reply, said, read, last, fpdu(capture::test::read_request(2, {1, 2, 8, 4, 5}))})}, fin}},
      {"no FIN", {{.octets = join({reply, said, read, last})}}},
      {"RST for FIN", {{.octets = join({reply, said, read, last})}, rst}},
      {"FIN, then RST", {{.octets = join({reply, said, read, last})}, fin, rst}},
      {"octets behind the FIN", {{.octets = join({reply, said, read, last})}, fin, {.octets = Bytes(3, 1)}}},
      {"octets, but never an FPDU", chatter},
      {"an FPDU octet by octet", trickle},
  };
}

TEST(ReplayLive, WhatEachResponderIsToldAndHowLongItIsWaitedFor) {
  const Recording whole = record(short_talk()), open = record(short_talk(false));
  std::string out;
  for (const Live& l : responders()) {
    out += l.name + ":" + against(whole, Side::initiator, l.acts).text;
    const std::string of_open = against(open, Side::initiator, l.acts).text;
    out += "  the recording stops before the end:" + of_open;
  }
  expect_as_reviewed("replay_live.txt", out);
}

TEST(ReplayLive, AfterADifferenceTheRestIsPlayedIfAskedTo) {
  const Recording whole = record(short_talk());
  PlayOptions on;
  on.keep_going = true;
  on.speed_of = 0;
  std::string out;
  for (const Live& l : responders()) out += l.name + ":" + against(whole, Side::initiator, l.acts, on).text;
  expect_as_reviewed("replay_live_on.txt", out);
}

/// The other side's frames are not in the recording: what was acknowledged shows how much it said.
TEST(ReplayLive, APeerThatTheRecordingDoesNotShowIsWaitedForByItsOctets) {
  std::string out;
  for (const Side side : {Side::initiator, Side::responder}) {
    const Exchange x = short_talk();
    Frames half;
    for (const auto& f : x.frames) {
      const auto v = wire::parse_packet(1, f.octets, static_cast<std::uint32_t>(f.octets.size()));
      if (v.tcp.source == (side == Side::initiator ? end_a(false) : end_b(false))) half.push_back(f);
    }
    const Recording r = record(file_of(half));
    const bool first = side == Side::initiator;
    const Bytes frame = startup(first ? MpaKey::rep : MpaKey::req, PARLEY_MPA_FLAG_C, 1);
    const Bytes little = fpdu(send_segment(1, 1)), much = fpdu(send_segment(1, 150));
    const std::vector<Live> peers{
        {"nothing", {}},
        {"its startup frame", {{.octets = frame}}},
        {"as many octets", {{.octets = frame}, {.wait = 10ms, .octets = much}, {.end = StreamEnd::fin}}},
        {"fewer octets", {{.octets = frame}, {.wait = 10ms, .octets = little}, {.end = StreamEnd::fin}}},
        {"fewer octets, open", {{.octets = frame}, {.wait = 10ms, .octets = little}}},
        {"octets late", {{.octets = frame}, {.wait = 900ms, .octets = little}, {.wait = 900ms, .octets = much}}},
        {"RST", {{.octets = frame}, {.end = StreamEnd::rst}}}};
    for (const Live& l : peers)
      out += fmt::format("the {} alone, {}:", capture::to_string(side), l.name) + against(r, side, l.acts).text;
  }
  // What the recording has of the played side is cut by the snap length as well, or is an enhanced Reply.
  for (const Side side : {Side::initiator, Side::responder})
    for (const std::size_t snap : {std::size_t{83}, std::size_t{2000}}) {
      Frames half;
      for (auto f : medley().frames) {
        const auto v = wire::parse_packet(1, f.octets, static_cast<std::uint32_t>(f.octets.size()));
        if (v.tcp.source != (side == Side::initiator ? end_a(false) : end_b(false))) continue;
        f.original_length = static_cast<std::uint32_t>(f.octets.size());
        if (f.octets.size() > snap) f.octets.resize(snap);
        half.push_back(f);
      }
      const Recording r = record(file_of(half));
      const Bytes frame = startup(side == Side::initiator ? MpaKey::rep : MpaKey::req,
                                  PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S, 2, wire::MpaEnhanced{.ird = 9, .ord = 7});
      out +=
          fmt::format("the {} of a medley alone, {} octets of each frame, nothing:", capture::to_string(side), snap) +
          against(r, side, {}).text;
      out +=
          fmt::format("the {} of a medley alone, {} octets of each frame, a startup frame:", capture::to_string(side),
                      snap) +
          against(r, side, {{.octets = frame}}).text;
    }
  expect_as_reviewed("replay_unseen.txt", out);
}

TEST(ReplayLive, WrongPadsAndMarkersArePlayedAsTheyWere) {
  const auto fixed = [](Bytes f) {  // the CRC is right
    const std::uint32_t sum = mpa::crc32c(ConstBytes(f).first(f.size() - 4));
    for (std::size_t i = 0; i < 4; ++i) f[f.size() - 4 + i] = static_cast<std::uint8_t>(sum >> (8 * i));
    return f;
  };
  for (const bool markers : {false, true})
    for (const std::size_t before :
         {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{446}, std::size_t{470}})
      for (std::size_t size = 15; size < 24; ++size)
        for (const bool marker : {false, true}) {
          const std::uint8_t flags = PARLEY_MPA_FLAG_C | (markers ? PARLEY_MPA_FLAG_M : 0);
          Exchange x;
          x.open().send(0, startup(MpaKey::req, flags, 1)).send(1, startup(MpaKey::rep, flags, 1));
          const Bytes first = fpdu(send_segment(1, before), 0, markers);
          Bytes second = fpdu(send_segment(2, size), first.size(), markers);
          const std::size_t pad = (0 - (2 + 18 + size)) & 3;
          const std::size_t ahead = (512 - first.size() % 512) % 512;
          if (marker) {
            if (!markers || ahead + 4 > second.size() - 4) continue;
            second[ahead + 3] ^= 4;
          } else {
            if (pad == 0) continue;
            const bool marker_last = markers && (first.size() + second.size() - 8) % 512 == 0;
            second[second.size() - 5 - (marker_last ? 4 : 0)] = 0xFF;
          }
          second = fixed(second);
          x.send(0, first).send(0, second).close();
          const Recording r = record(x);
          Player a(r, Side::initiator, {}), b(r, Side::responder, {});
          Duel duel(a, b);
          ASSERT_TRUE(duel.run());
          EXPECT_FALSE(b.result().difference) << words(b.result());
          EXPECT_EQ(Bytes(duel.said[0].begin() + 20, duel.said[0].end()), join({first, second}))
              << before << " " << size << " " << markers << marker;
        }
}

TEST(ReplayLive, APeerThatReadsNothingIsToldAfterThePatience) {
  const Recording r = record(short_talk());
  PlayOptions on;
  on.speed_of = 0;
  on.keep_going = true;  // the Read is longer than the recorded one
  Player p(r, Side::initiator, on);
  Instant now(1s);
  p.start(now, 1460);
  p.written(now, p.output().size());
  p.handle_bytes(now, join({startup(MpaKey::rep, PARLEY_MPA_FLAG_C, 1), fpdu(send_segment(1, 30)),
                            fpdu(capture::test::read_request(1, {0x99, 0x7000, 32 << 20, 0x22, 0x2000}))}));
  EXPECT_GE(p.output().size(), 4U << 20);
  EXPECT_LT(p.output().size(), (4U << 20) + 2000) << "no more is made than may wait";
  const std::size_t size = p.output().size();
  p.written(now, 3 << 20);
  EXPECT_GE(p.output().size(), 4U << 20) << "what was read made room";
  EXPECT_EQ(p.result().differences, 1U);
  p.written(now += 1s, 1000);
  EXPECT_LT(p.output().size(), size + 2000) << "there is enough to write";
  while (!p.done() && p.next_deadline() != never && p.result().differences < 2)
    p.handle_deadline(now = p.next_deadline());
  EXPECT_EQ(p.result().differences, 2U);
  EXPECT_EQ(now, Instant(11s)) << "counted from the segment for which those 1000 octets made room";
  EXPECT_NE(p.result().log.back().text.find("nothing read for 5000 ms: DIFFERENT: the live side reads nothing: "),
            std::string::npos)
      << p.result().log.back().text;
  EXPECT_EQ(p.take_close(), Player::Close::reset);
}

/// A PlayerMachine, and what it asks of its driver.
struct Machine {
  Machine(const Recording& r, Side side, bool listen) : player(r, side, {}), machine(player, end_b(false), listen) {}
  std::vector<StreamCommand> commands() {
    std::vector<StreamCommand> out;
    StreamCommand c;
    while (machine.poll_command(c)) out.push_back(c);
    return out;
  }
  std::size_t write(StreamId id) {
    ConstBytes piece;
    if (machine.gather(id, std::span(&piece, 1)) == 0) return 0;
    const std::size_t n = piece.size();
    machine.sent(now, id, n);
    return n;
  }
  Instant now{1s};
  Player player;
  PlayerMachine machine;
};

const StreamInfo a_stream{end_a(false), end_b(false), 1460};

TEST(ReplayMachine, ConnectsWritesAndEndsItsOneStream) {
  const Recording r = record(short_talk());
  Machine m(r, Side::initiator, false);
  auto commands = m.commands();
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].kind, StreamCommand::Kind::open);
  EXPECT_EQ(commands[0].id, 1U);
  EXPECT_EQ(commands[0].address, end_b(false));
  EXPECT_TRUE(commands[0].local.is_any());
  EXPECT_EQ(m.machine.poll_ready(), 0U);
  m.machine.handle_deadline(m.now);
  EXPECT_EQ(m.machine.next_deadline(), never);
  EXPECT_FALSE(m.machine.stream());
  m.machine.handle_connected(m.now, 1, a_stream);
  EXPECT_EQ(m.machine.stream()->emss, 1460);
  EXPECT_EQ(m.machine.next_deadline(), m.now + 3ms) << "from the SYN to the Request";
  m.machine.handle_deadline(m.now += 3ms);
  EXPECT_EQ(m.machine.poll_ready(), 1U);
  EXPECT_EQ(m.machine.poll_ready(), 0U) << "once";
  EXPECT_EQ(m.write(3), 0U) << "another stream";
  EXPECT_EQ(m.machine.gather(1, {}), 0U);
  m.machine.sent(m.now, 3, 5);
  EXPECT_EQ(m.write(1), 20U);
  EXPECT_EQ(m.write(1), 0U);
  const Bytes reply = startup(MpaKey::rep, PARLEY_MPA_FLAG_C, 1);
  m.machine.handle_bytes(m.now, 3, reply);
  EXPECT_EQ(m.machine.next_deadline(), m.now + 5001ms) << "the recorded answer took 1 ms";
  m.machine.handle_bytes(m.now, 1, reply);
  EXPECT_EQ(m.machine.next_deadline(), m.now + 101ms) << "the recorded pause";
  m.machine.handle_deadline(m.now + 100ms);
  EXPECT_EQ(m.machine.poll_ready(), 0U) << "too early";
  m.machine.handle_deadline(m.now += 101ms);
  EXPECT_EQ(m.machine.poll_ready(), 1U);
  EXPECT_TRUE(m.commands().empty());
  m.machine.handle_end(m.now, 3, StreamEnd::rst);
  EXPECT_FALSE(m.machine.over());
  m.machine.handle_end(m.now, 1, StreamEnd::rst);
  EXPECT_EQ(m.machine.poll_ready(), 0U);
  EXPECT_TRUE(m.commands().empty()) << "nothing to close any more";
  EXPECT_TRUE(m.player.done());
  EXPECT_TRUE(m.player.result().difference);
}

TEST(ReplayMachine, ListensForOnePeerAndRefusesTheOthers) {
  const Recording r = record(short_talk());
  Machine m(r, Side::responder, true);
  const auto commands = m.commands();
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].kind, StreamCommand::Kind::listen);
  EXPECT_EQ(commands[0].backlog, 1);
  m.machine.handle_listening(m.now, 1, end_b(false));
  EXPECT_EQ(m.machine.listening(), end_b(false));
  EXPECT_TRUE(m.machine.handle_accepted(m.now, 1, 2, a_stream));
  EXPECT_FALSE(m.machine.handle_accepted(m.now, 1, 4, a_stream));
  EXPECT_EQ(m.machine.poll_ready(), 0U) << "a responder does not speak first";
  m.machine.handle_bytes(m.now, 2, startup(MpaKey::req, PARLEY_MPA_FLAG_C, 1));
  m.machine.handle_deadline(m.now += 1ms);
  EXPECT_EQ(m.machine.poll_ready(), 2U);
  EXPECT_EQ(m.write(2), 20U);
}

TEST(ReplayMachine, EachWayToEndIsOneCommand) {
  Exchange reset;
  reset.set_up().rst(0);
  Exchange closed;
  closed.set_up().fin(0).fin(1).acknowledge(0);
  using Kind = StreamCommand::Kind;
  for (const auto& [x, kinds] : {std::pair(reset, std::vector<Kind>{Kind::reset}),
                                 std::pair(closed, std::vector<Kind>{Kind::shutdown, Kind::close})}) {
    const Recording r = record(x);
    Machine m(r, Side::initiator, false);
    (void)m.commands();
    m.machine.handle_connected(m.now, 1, a_stream);
    m.machine.handle_deadline(m.now += 3ms);
    m.write(1);
    m.machine.handle_bytes(m.now, 1, startup(MpaKey::rep, PARLEY_MPA_FLAG_C, 1));
    m.machine.handle_deadline(m.now += 2ms);
    if (kinds.size() > 1) m.machine.handle_end(m.now, 1, StreamEnd::fin);
    std::vector<Kind> seen;
    for (int i = 0; i < 10; ++i) {
      for (const StreamCommand& c : m.commands()) {
        EXPECT_EQ(c.id, 1U);
        seen.push_back(c.kind);
      }
      if (m.machine.next_deadline() != never) m.machine.handle_deadline(m.now = m.machine.next_deadline());
    }
    EXPECT_EQ(seen, kinds);
    EXPECT_TRUE(m.machine.over());
    EXPECT_FALSE(m.player.result().difference) << words(m.player.result());
  }
}

TEST(ReplayMachine, WhoCannotBeReachedIsTold) {
  const Recording r = record(short_talk());
  Machine connecting(r, Side::initiator, false), listening(r, Side::responder, true);
  connecting.machine.handle_connect_failed(connecting.now, 1, std::make_error_code(std::errc::connection_refused));
  listening.machine.handle_listen_failed(listening.now, 1, std::make_error_code(std::errc::address_in_use));
  EXPECT_TRUE(connecting.machine.over() && listening.machine.over());
  EXPECT_EQ(connecting.machine.failed(), std::errc::connection_refused);
  EXPECT_EQ(connecting.player.result().notes, std::vector<std::string>{"cannot connect: Connection refused"});
  EXPECT_EQ(listening.player.result().notes, std::vector<std::string>{"cannot listen: Address already in use"});
}

}  // namespace
}  // namespace parley::replay::test
