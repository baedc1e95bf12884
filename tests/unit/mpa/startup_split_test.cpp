// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// TCP may cut the stream anywhere and a peer may send anything: neither changes what happens, and neither breaks it.
#include <map>
#include <random>

#include "tests/unit/mpa/startup_kit.hpp"

namespace parley::mpa::startup_split_test {
namespace {
using namespace kit;
using kit::to_hex;

struct Stream {
  std::string name;
  std::function<Startup()> machine;
  Bytes octets;
  std::size_t whole = 0;  // a cut here is another story; 0: none
};
void PrintTo(const Stream& s, std::ostream* os) { *os << s.name; }

// The events and what remains for the deframer.
std::string transcript(const Stream& s, const std::vector<std::size_t>& cuts) {
  Startup m = s.machine();
  (void)m.poll_transmit();
  (void)events(m);
  std::string out;
  Bytes deframed;
  std::size_t from = 0;
  const auto feed = [&](std::size_t to) {
    const ConstBytes piece = ConstBytes(s.octets).subspan(from, to - from);
    from = to;
    const std::size_t taken = m.handle_bytes(t0, piece);
    ASSERT_LE(taken, piece.size());
    for (const auto& e : events(m)) out += describe(e) + '\n';
    deframed.insert(deframed.end(), m.leftover().begin(), m.leftover().end());
    deframed.insert(deframed.end(), piece.begin() + static_cast<std::ptrdiff_t>(taken), piece.end());
  };
  for (std::size_t cut : cuts) feed(cut);
  feed(s.octets.size());
  return out + "state " + std::string(to_string(m.state())) + " tx " + to_hex(m.poll_transmit()) + " deframer " +
         to_hex(deframed);
}

class AnySplit : public ::testing::TestWithParam<Stream> {};

TEST_P(AnySplit, GivesTheSameEvents) {
  const Stream& s = GetParam();
  std::vector<std::size_t> every;
  for (std::size_t i = 1; i < s.octets.size(); ++i)
    if (i != s.whole) every.push_back(i);
  const std::string expected = transcript(s, {});
  for (std::size_t cut : every) ASSERT_EQ(transcript(s, {cut}), expected) << "cut at " << cut;
  if (s.whole == 0) {
    ASSERT_EQ(transcript(s, every), expected) << "octet by octet";
  }
}

Startup waiting_for_rtr_frame() {
  Startup m = asked(req(0x50, 1));
  EXPECT_TRUE(m.accept(t0, {}, {}));
  return m;
}
StartupOptions offering_all() {
  StartupOptions o;
  o.rtr = Rtr::read;
  o.rtr_offer = {true, true, true};
  return o;
}
StartupOptions wanting_frame() {
  StartupOptions o = rev1();
  o.rtr = Rtr::frame;
  return o;
}
const auto r = [] { return responder(); };
const auto r1 = [] { return responder(rev1()); };
const auto i1 = [] { return initiator(rev1()); };
const auto i2 = [] { return initiator(); };

INSTANTIATE_TEST_SUITE_P(
    Streams, AnySplit,
    ::testing::Values(
        Stream{"request_v1", r, req(0x40, 1)}, Stream{"request_v1_data", r, req(0x40, 1, text_bytes("private data"))},
        Stream{"request_v1_full", r, req(0x40, 1, Bytes(512, 0xA5))}, Stream{"request_v1_s", r, req(0x50, 1)},
        Stream{"request_v2", r, req(0x50, 2, hex("8008c008 616263"))}, Stream{"request_v2_plain", r, req(0x40, 2)},
        Stream{"request_extra", r, join(req(0x40, 1), Bytes(4))},
        Stream{"request_bad_key", r, raw_frame("MPA ID Foo Frame", 0, 1, 0)},
        Stream{"request_is_reply", r, rep(0x40, 1)},
        Stream{"request_http", r, text_bytes("GET / HTTP/1.1\r\nHost: x\r\n")}, Stream{"request_rev0", r, req(0xC0, 0)},
        Stream{"request_rev3", r, req(0, 3)}, Stream{"request_rev129", r, req(0, 129, Bytes(8))},
        Stream{"request_rev2_to_v1", r1, req(0x50, 2, hex("00080008"))},
        Stream{"request_600", r, raw_frame(PARLEY_MPA_KEY_REQ, 0x40, 1, 600, Bytes(600))},
        Stream{"request_short_enhanced", r, req(0x50, 2, Bytes(3))}, Stream{"reply_v1", i1, rep(0x40, 1)},
        Stream{"reply_v1_data", i1, rep(0x40, 1, text_bytes("private data"))},
        Stream{"reply_v1_reject", i1, rep(0x60, 1, text_bytes("no"))},
        Stream{"reply_reject_extra", i1, join(rep(0x60, 1, text_bytes("no")), Bytes(9))},
        Stream{"reply_v1_frame", [] { return initiator(wanting_frame()); }, rep(0x50, 1)},
        Stream{"reply_v2", i2, rep(0x50, 2, hex("00080008 616263"))},
        Stream{"reply_v2_peer_to_peer", [] { return initiator(offering_all()); }, rep(0x50, 2, hex("80088008"))},
        Stream{"reply_v2_no_rtr", [] { return initiator(offering_all()); }, rep(0x50, 2, hex("80080008"))},
        Stream{"reply_v2_ird", i2, rep(0x50, 2, hex("000800c8"))},
        Stream{"reply_v2_reject", i2, rep(0x70, 2, hex("00080008 6e6f7065"))},
        Stream{"reply_v1_to_v2", i2, rep(0x40, 1)}, Stream{"reply_no_s", i2, rep(0x40, 2)},
        Stream{"reply_rev2_to_v1", i1, rep(0x40, 2)}, Stream{"reply_is_request", i1, req(0x40, 1)},
        Stream{"reply_fpdu_glued", i1, join(rep(0x40, 1), hex("0012 4143 00000000")), 20},
        Stream{"rtr_text", waiting_for_rtr_frame, rtr_frame()},
        Stream{"rtr_hex", waiting_for_rtr_frame, rtr_frame(RtrSpelling::hex)},
        Stream{"rtr_then_fpdu", waiting_for_rtr_frame, join(rtr_frame(), hex("0012 4143 00000000"))},
        Stream{"rtr_with_data", waiting_for_rtr_frame, rtr_frame(RtrSpelling::text, 4)},
        Stream{"rtr_is_request", waiting_for_rtr_frame, req(0x40, 1)},
        Stream{"fpdu_for_rtr", waiting_for_rtr_frame, hex("0012 4143 00000000 00000000 00000001 00000000 587BE8C4")},
        // The length field may look like the key for up to three octets: they go back to the deframer.
        Stream{"fpdu_like_rtr_1", waiting_for_rtr_frame, hex("4d12 4143 00000000")},
        Stream{"fpdu_like_rtr_2", waiting_for_rtr_frame, hex("4d50 4343 00000000")},
        Stream{"fpdu_like_rtr_3", waiting_for_rtr_frame, hex("4d50 4143 00000000")},
        Stream{"marker_for_rtr", waiting_for_rtr_frame, hex("00000000 0012 4143")}),
    [](const auto& s) { return s.param.name; });

TEST(MpaStartupSplit, AReplyAloneIsGoodEvenIfAnFpduFollowsLater) {
  // Once the Reply was whole, the machine cannot know whether the first FPDU was out: the octets are the deframer's.
  Startup m = initiator(rev1());
  EXPECT_EQ(m.handle_bytes(t0, rep(0x40, 1)), 20u);
  EXPECT_EQ(m.state(), State::open);
  EXPECT_EQ(m.handle_bytes(t0, Bytes(8)), 0u);
}

TEST(MpaStartupSplit, OctetsHeldForTheRtrKeyComeBackInLeftover) {  // OFA 2007-10 Rtr §2
  Startup m = waiting_for_rtr_frame();
  (void)events(m);
  EXPECT_EQ(m.handle_bytes(t0, hex("4d50")), 2u);
  EXPECT_TRUE(events(m).empty());
  EXPECT_EQ(m.handle_bytes(t0, hex("4143")), 0u);
  EXPECT_EQ(to_hex(m.leftover()), "4d50");
  EXPECT_EQ(only_event(m).kind, Kind::fpdu_mode);
  m.handle_first_fpdu(t0, Rtr::none);
  EXPECT_EQ(to_hex(m.leftover()), "4d50");  // still there while the deframer works
  (void)m.handle_bytes(t0, {});
  EXPECT_TRUE(m.leftover().empty());
}

TEST(MpaStartupSplit, AWrongOctetIsReportedAsSoonAsItIsThere) {  // RFC 5044 §7.1.2 rule 5
  Startup m = responder();
  (void)m.handle_bytes(t0, text_bytes("MPA I"));
  EXPECT_TRUE(events(m).empty());
  (void)m.handle_bytes(t0, text_bytes("X"));
  const StartupEvent e = only_event(m);
  EXPECT_EQ(e.failure.offset, 5u);
  EXPECT_EQ(e.failure.received, "key \"MPA IX\"");
}

// ---- anything at all ----------------------------------------------------------------------------------------------

bool settled(const Startup& m) {
  return m.state() == State::open || m.state() == State::rejected || m.state() == State::failed;
}

// The property: whatever happens, a machine that still waits has a deadline, or waits for its own user.
void check_waits_with_reason(const Startup& m) {
  const bool for_the_user = m.state() == State::ulp_decision;
  const bool for_the_first_message = m.state() == State::wait_first_fpdu && m.parameters().rtr == Rtr::none;
  ASSERT_TRUE(settled(m) || for_the_user || for_the_first_message || m.next_deadline() != never)
      << to_string(m.state()) << " waits for ever";
  ASSERT_LE(m.parameters().reasons.size(), reasons_max);
}

Bytes mutated(std::mt19937& rng, Bytes b) {
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  if (pick(2) == 0) return b;  // whole frames lead to the later states
  for (std::size_t n = pick(4); n > 0 && !b.empty(); --n) {
    switch (pick(4)) {
      case 0: b[pick(b.size())] = static_cast<std::uint8_t>(rng()); break;
      case 1: b[pick(b.size())] ^= static_cast<std::uint8_t>(1u << pick(8)); break;
      case 2: b.resize(pick(b.size() + 1)); break;
      default: b.resize(b.size() + pick(600), static_cast<std::uint8_t>(rng())); break;
    }
  }
  return b;
}

StartupOptions any_options(std::mt19937& rng) {
  StartupOptions o;
  o.revision = static_cast<std::uint8_t>(1 + rng() % 2);
  o.fall_back_to_v1 = rng() % 2 != 0;
  o.rtr = static_cast<Rtr>(rng() % 5);
  if (o.rtr == Rtr::frame) o.revision = 1;
  o.rtr_by_s = rng() % 2 != 0;
  o.rtr_offer = {rng() % 2 != 0, rng() % 2 != 0, rng() % 2 != 0};
  o.ird = static_cast<std::uint16_t>(rng() % 3 == 0 ? 0x3FFF : rng() % 0x4000);
  o.ord = static_cast<std::uint16_t>(rng() % 3 == 0 ? 0x3FFF : rng() % 0x4000);
  o.accept_rtr_frame = rng() % 2 != 0;
  o.private_data_max = static_cast<std::uint16_t>(rng() % 513);
  const auto quirks = all_quirks();
  if (rng() % 3 == 0) o.peer_quirk = quirks[rng() % quirks.size()].name;
  if (rng() % 3 == 0) o.play_quirk = quirks[rng() % quirks.size()].name;
  return o;
}

TEST(MpaStartupRandom, NoOctetsAndNoOrderOfInputsBreakIt) {
  std::mt19937 rng(20071);
  const std::vector<Bytes> for_initiator{rep(0x40, 1), rep(0x50, 1), rep(0x50, 2, hex("80088008")),
                                         rep(0x50, 2, hex("c008c008")), rep(0x70, 2, hex("00080008 6e6f"))};
  const std::vector<Bytes> for_responder{req(0x40, 1), req(0x50, 1, text_bytes("x")), req(0x50, 2, hex("8008c008")),
                                         rtr_frame(), rtr_frame(RtrSpelling::hex)};
  const std::vector<Bytes> for_nobody{hex("0012414300000000"), Bytes(700, 1), text_bytes("GET / HTTP/1.1"),
                                      req(0, 129)};
  std::map<Kind, int> seen;
  for (int round = 0; round < 20000; ++round) {
    const StartupOptions o = any_options(rng);
    const Role role = rng() % 2 ? Role::initiator : Role::responder;
    auto made = Startup::create(role, o, {}, t0);
    ASSERT_TRUE(made);
    Startup m = std::move(*made);
    Instant now = t0;
    for (int step = 0; step < 8; ++step) {
      now += std::chrono::milliseconds(rng() % 3000);
      switch (rng() % 16) {
        case 0: m.handle_end(now, rng() % 2); break;
        case 1: m.handle_deadline(now); break;
        case 2:
        case 12:
        case 13: (void)m.accept(now, o, Bytes(rng() % 520)); break;
        case 3: (void)m.reject(now, Bytes(rng() % 520)); break;
        case 4: m.handle_first_fpdu(now, static_cast<Rtr>(rng() % 5)); break;
        case 5: m.handle_local_error(now, "local"); break;
        default: {
          const auto& seeds = rng() % 8 == 0 ? for_nobody : role == Role::initiator ? for_initiator : for_responder;
          const Bytes in = mutated(rng, seeds[rng() % seeds.size()]);
          const std::size_t cut = rng() % 2 ? in.size() : rng() % (in.size() + 1);
          ASSERT_LE(m.handle_bytes(now, ConstBytes(in).first(cut)), cut);
          ASSERT_LE(m.handle_bytes(now, ConstBytes(in).subspan(cut)), in.size() - cut);
          break;
        }
      }
      for (const auto& e : events(m)) {
        ++seen[e.kind];
        if (e.kind == Kind::failed || e.kind == Kind::terminate || e.kind == Kind::retry_v1) {
          ASSERT_TRUE(e.failure.code);
          ASSERT_FALSE(e.failure.to_string().empty());
        }
      }
      ASSERT_LE(m.poll_transmit().size(), 2u * PARLEY_MPA_STARTUP_MAX);
      check_waits_with_reason(m);
    }
    if (m.next_deadline() != never) {
      m.handle_deadline(m.next_deadline());
      ASSERT_EQ(m.state(), State::failed);
      ASSERT_EQ(only_event(m).failure.code, Errc::timed_out);
    }
  }
  // The test is worth something only while it reaches every outcome.
  for (const Kind kind : {Kind::request, Kind::fpdu_mode, Kind::established, Kind::rejected, Kind::terminate,
                          Kind::failed, Kind::retry_v1})
    EXPECT_GT(seen[kind], 100) << to_string(kind);
}

}  // namespace
}  // namespace parley::mpa::startup_split_test
