// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two promises: the verdict of an anonymized capture is that of the original, and nothing that was secret is left in
// it.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/rng.hpp"
#include "tests/unit/capture/anonymize_kit.hpp"

namespace parley::capture {
namespace {

using test::anonymize;
using test::comparable;
using test::contains;
using test::Frames;
using test::to_pcap;

void expect_same_verdict(const Frames& frames, const std::string& what) {
  const Bytes file = to_pcap(frames), other = anonymize(file).file;
  ASSERT_EQ(file.size(), other.size()) << what;
  ASSERT_EQ(comparable(file), comparable(other)) << what;
}

/// The DDP messages of one side in a file that has an FPDU in each of its packets from the sixth on.
std::vector<Bytes> messages(ConstBytes file) {
  std::vector<Bytes> out;
  std::size_t n = 0;
  (void)wire::read_capture(file, [&](const wire::CapturedPacket& p) {
    const auto view = wire::parse_packet(p.link_type, p.octets, p.original_length);
    if (++n < 6 || view.tcp.payload.size() < 6) return;
    const std::size_t size = static_cast<std::size_t>(view.tcp.payload[0] << 8 | view.tcp.payload[1]);
    const ConstBytes ulpdu = view.tcp.payload.subspan(2, size);
    out.emplace_back(ulpdu.begin(), ulpdu.end());
  });
  return out;
}

// Every place that has a STag or a tagged offset: one name for each, wherever it stands, and other fields as they were.
TEST(Anonymize, AStagAndItsOffsetsHaveTheSameNamesInEveryMessage) {
  const wire::ReadRequest original{0x11, 0x1000, 64, 0x22, 0x2000};
  test::Exchange x;
  x.set_up()
      .send(0, test::fpdu(test::tagged(wire::RdmapOpcode::rdma_write, 0x22, 0x2000, 8)))
      .send(0, test::fpdu(test::tagged(wire::RdmapOpcode::rdma_write, 0x22, 0x1000, 8)))
      .send(0, test::fpdu(test::tagged(wire::RdmapOpcode::rdma_write, 0x11, 0x1000, 8)))
      .send(0, test::fpdu(test::tagged(wire::RdmapOpcode::rdma_write, 0x11, 0x2000, 8)))
      .send(0, test::fpdu(test::read_request(1, original)))
      .send(1, test::fpdu(test::tagged(wire::RdmapOpcode::read_response, 0x11, 0x1000, 64)))
      .close();
  const auto tags = [](ConstBytes message) { return *wire::DdpHeader::parse(message); };
  const std::vector<Bytes> all = messages(anonymize(to_pcap(x.frames)).file);
  ASSERT_EQ(all.size(), 6u);
  const auto q = wire::ReadRequest::parse(ConstBytes(all[4]).subspan(PARLEY_DDP_UNTAGGED_LEN));
  ASSERT_TRUE(q.has_value());
  EXPECT_EQ(q->size, original.size);
  EXPECT_EQ(q->source_stag, tags(all[0]).stag);
  EXPECT_EQ(q->source_to, tags(all[0]).to);
  EXPECT_EQ(q->sink_stag, tags(all[2]).stag);
  EXPECT_EQ(q->sink_to, tags(all[2]).to);
  EXPECT_EQ(tags(all[1]).stag, tags(all[0]).stag);
  EXPECT_EQ(tags(all[3]).stag, tags(all[2]).stag);
  EXPECT_EQ(tags(all[5]).stag, q->sink_stag);
  EXPECT_EQ(tags(all[5]).to, q->sink_to);
  // Names of their own; a distance within a region stays.
  EXPECT_NE(q->source_stag, original.source_stag);
  EXPECT_NE(q->source_to, original.source_to);
  EXPECT_NE(q->sink_stag, original.sink_stag);
  EXPECT_NE(q->sink_to, original.sink_to);
  EXPECT_EQ(tags(all[1]).to - tags(all[0]).to, std::uint64_t{0x1000} - 0x2000);
  EXPECT_EQ(tags(all[3]).to - tags(all[2]).to, std::uint64_t{0x2000} - 0x1000);
  EXPECT_EQ(messages(anonymize(to_pcap(x.frames), {.keep_stags = true}).file)[4], test::read_request(1, original));
}

class AnonymizeCapture : public testing::TestWithParam<std::string> {};

TEST_P(AnonymizeCapture, KeepsTheVerdictTimesAndLengths) {
  const Bytes file = test::read_file(test::capture_path(GetParam()));
  ASSERT_FALSE(file.empty());
  const auto done = anonymize(file);
  EXPECT_EQ(done.refusal, "");
  EXPECT_EQ(comparable(file), comparable(done.file));
  std::vector<std::string> before, after;
  const auto facts = [](std::vector<std::string>& to) {
    return [&to](const wire::CapturedPacket& p) {
      to.push_back(std::to_string(p.at.time_since_epoch().count()) + " " + std::to_string(p.octets.size()) + " " +
                   std::to_string(p.original_length) + " " + std::to_string(p.link_type));
    };
  };
  (void)wire::read_capture(file, facts(before));
  (void)wire::read_capture(done.file, facts(after));
  EXPECT_EQ(before, after);
}

TEST_P(AnonymizeCapture, KeepsEvenTheNumbersOfFindingsWithItsStags) {
  const Bytes file = test::read_file(test::capture_path(GetParam()));
  EXPECT_EQ(comparable(file, true), comparable(anonymize(file, {.keep_stags = true}).file, true));
}

TEST_P(AnonymizeCapture, ShowsNoAddressOrPayloadOfTheOriginal) {
  const Bytes file = test::read_file(test::capture_path(GetParam()));
  const Bytes other = anonymize(file).file;
  std::size_t looked_for = 0;
  (void)wire::read_capture(file, [&](const wire::CapturedPacket& p) {
    const auto view = wire::parse_packet(p.link_type, p.octets, p.original_length);
    if (view.kind != wire::PacketKind::tcp) return;
    const std::size_t n = view.tcp.source.family == Address::Family::v4 ? 4 : 16;
    for (const Address* a : {&view.tcp.source, &view.tcp.destination})
      if (!a->is_any() && a->octets[0] != 127 && !Address::loopback(a->family, 0).is_any() &&
          *a != Address::loopback(a->family, a->port)) {
        ++looked_for;
        EXPECT_FALSE(contains(other, ConstBytes(a->octets).first(n))) << a->to_string();
      }
  });
  const FileReport r = test::analyse_file(file);
  for (const auto& c : r.connections)
    for (const auto* s : {&c.request, &c.reply})
      if (*s && (*s)->private_data.size() >= 8 &&
          std::any_of((*s)->private_data.begin(), (*s)->private_data.end(), [](std::uint8_t o) { return o != 0; })) {
        EXPECT_FALSE(contains(other, (*s)->private_data));
      }
  EXPECT_GT(looked_for, 0u);
}

INSTANTIATE_TEST_SUITE_P(Captures, AnonymizeCapture, testing::ValuesIn(test::capture_names()),
                         [](const auto& which) { return which.param; });

/// All that is said of negotiations but their addresses, labels, texts and attributes.
std::string negotiated(ConstBytes file) {
  std::string out;
  for (const NegotiationReport& n : test::analyse_file(file).negotiations) {
    out += fmt::format("{} {} {} {} {}", n.first_frame, n.last_frame, static_cast<int>(n.outcome), n.plugin, n.variant);
    out += fmt::format(" {} {} {}\n", to_string(n.judgement.standing), n.judgement.why, n.attributes.size());
    for (const Finding& f : n.findings) out += fmt::format("  {} {}\n", f.frame, f.rule);
  }
  return out;
}

/// Whether each queue pair's GID is an IPv4 address (RFC 4291 §2.5.5.2).
std::vector<bool> v4_gids(ConstBytes file) {
  std::vector<bool> out;
  for (const NegotiationReport& n : test::analyse_file(file).negotiations)
    for (const QpSeen& qp : n.attributes)
      if (qp.gid) out.push_back(is_v4_gid(*qp.gid));
  return out;
}

TEST(Anonymize, AGidOfAnIpv4AddressBecomesAnotherOne) {
  for (const char* name : {"manual", "ipv6_ud"}) {
    const Bytes file = test::read_file(std::string(PARLEY_SOURCE_DIR "/tests/captures/neg/") + name + ".pcap");
    EXPECT_FALSE(v4_gids(file).empty()) << name;
    EXPECT_EQ(v4_gids(file), v4_gids(anonymize(file).file)) << name;
  }
}

// Negotiations: what rules look at stays, labels, texts and attributes do not.
TEST(Anonymize, NegotiationsKeepTheirVerdictsAndNotTheirWords) {
  for (const char* name : {"manual", "refused", "xrc", "ipv6_ud"}) {
    const Bytes file = test::read_file(std::string(PARLEY_SOURCE_DIR "/tests/captures/neg/") + name + ".pcap");
    ASSERT_FALSE(file.empty()) << name;
    const Bytes other = anonymize(file).file;
    EXPECT_EQ(negotiated(file), negotiated(other)) << name;
    std::size_t changed = 0;
    std::vector<Bytes> before, after;
    const auto payloads = [](std::vector<Bytes>& to) {
      return [&to](const wire::CapturedPacket& p) {
        const auto view = wire::parse_packet(p.link_type, p.octets, p.original_length);
        to.emplace_back(view.tcp.payload.begin(), view.tcp.payload.end());
      };
    };
    (void)wire::read_capture(file, payloads(before));
    (void)wire::read_capture(other, payloads(after));
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(before[i].size(), after[i].size());
      EXPECT_TRUE(
          std::equal(before[i].begin(),
                     before[i].begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(before[i].size(), 16)),
                     after[i].begin()))
          << "the first header of frame " << i + 1;
      changed += before[i] != after[i];
    }
    EXPECT_GT(changed, 0u) << name;
  }
}

struct Variant {
  const char* name;
  bool v6, markers;
  std::uint32_t isn;
};
const Variant variants[] = {{"plain", false, false, 1000},
                            {"ipv6", true, false, 1000},
                            {"markers", false, true, 1000},
                            {"sequence numbers wrap", false, true, 0xFFFFF000}};

TEST(Anonymize, KeepsTheVerdictWhateverTheCaptureLacks) {
  for (const Variant& v : variants) {
    const Frames original = test::conversation(v.v6, v.markers, v.isn).frames;
    expect_same_verdict(original, v.name);
    for (std::size_t i = 0; i < original.size(); ++i) {
      const auto at = static_cast<std::ptrdiff_t>(i);
      const std::string where = std::string(v.name) + ", packet " + std::to_string(i + 1);
      Frames frames = original;
      frames.erase(frames.begin() + at);
      expect_same_verdict(frames, where + " missing");
      expect_same_verdict(Frames(original.begin() + at, original.end()), where + " is the first");
      expect_same_verdict(Frames(original.begin(), original.begin() + at), where + " is behind the last");
    }
  }
}

TEST(Anonymize, KeepsTheVerdictOfPacketsRepeatedLateOrAltered) {
  for (const Variant& v : variants) {
    const Frames original = test::conversation(v.v6, v.markers, v.isn).frames;
    for (std::size_t i = 0; i < original.size(); ++i) {
      const std::string where = std::string(v.name) + ", packet " + std::to_string(i + 1);
      Frames again = original, late = original, altered = original;
      again.insert(again.begin() + static_cast<std::ptrdiff_t>(std::min(i + 3, again.size())), original[i]);
      expect_same_verdict(again, where + " again");
      if (i + 2 < original.size())
        std::rotate(late.begin() + static_cast<std::ptrdiff_t>(i), late.begin() + static_cast<std::ptrdiff_t>(i + 1),
                    late.begin() + static_cast<std::ptrdiff_t>(i + 3));
      expect_same_verdict(late, where + " late");
      for (const std::size_t back : {1u, 5u, 20u}) {
        altered[i].octets[altered[i].octets.size() - back] ^= 0x10;
        altered.insert(altered.begin() + static_cast<std::ptrdiff_t>(i + 1), original[i]);
        expect_same_verdict(altered, where + " altered " + std::to_string(back) + " octets before its end, then right");
        altered = original;
      }
    }
  }
}

TEST(Anonymize, KeepsTheVerdictAtAnySnapLength) {
  for (const Variant& v : variants)
    for (std::size_t snap = 0; snap < 1520; snap += snap < 220 ? 1 : 41) {
      Frames frames = test::conversation(v.v6, v.markers, v.isn).frames;
      for (auto& f : frames) {
        f.original_length = static_cast<std::uint32_t>(f.octets.size());
        f.octets.resize(std::min(f.octets.size(), snap));
      }
      expect_same_verdict(frames, std::string(v.name) + ", snap length " + std::to_string(snap));
    }
}

/// A connection of FPDUs cut into segments of `mss`, with or without markers, each FPDU with a text in it.
test::Exchange story(std::size_t mss, bool markers, bool crc = true) {
  const std::uint8_t flags =
      static_cast<std::uint8_t>((crc ? PARLEY_MPA_FLAG_C : 0) | (markers ? PARLEY_MPA_FLAG_M : 0));
  const std::string_view words = "private words of the initiator";
  test::Exchange x;
  x.open().send(0, test::startup(wire::MpaKey::req, flags, 1, {}, Bytes(words.begin(), words.end())), mss);
  x.send(1, test::startup(wire::MpaKey::rep, flags, 1), mss);
  Bytes stream;
  for (std::uint32_t msn = 1; msn <= 12; ++msn) {
    wire::DdpHeader h;
    h.msn = msn;
    std::string text;
    while (text.size() < msn * 150) text += "the quick brown fox " + std::to_string(text.size()) + " ";
    const Bytes f = test::fpdu(test::segment(h, Bytes(text.begin(), text.end())), stream.size(), markers, crc);
    stream.insert(stream.end(), f.begin(), f.end());
  }
  x.send(0, stream, mss).close();
  return x;
}

TEST(Anonymize, RewritesFpdusThatStraddleSegmentsOfAnyLength) {
  for (const bool markers : {false, true})
    for (const bool crc : {true, false})
      for (const std::size_t mss : {3u, 7u, 64u, 111u, 512u, 1000u, 1460u}) {
        const Bytes file = to_pcap(story(mss, markers, crc).frames);
        const auto done = anonymize(file);
        EXPECT_EQ(comparable(file), comparable(done.file)) << mss << markers << crc;
        EXPECT_EQ(done.streams.fpdus, 12u);
        for (const std::string_view secret : {"quick", "brown fox", "private", "words of", "initiator"})
          EXPECT_FALSE(contains(done.file, secret)) << secret;
      }
}

TEST(Anonymize, LeaksNothingOfStreamsWhoseBoundariesAreLost) {
  for (const bool markers : {false, true})
    for (std::size_t lost = 5; lost < 12; ++lost) {
      Frames frames = story(1000, markers).frames;
      frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(lost));
      const Bytes file = to_pcap(frames), other = anonymize(file).file;
      EXPECT_EQ(comparable(file), comparable(other)) << lost;
      for (const std::string_view secret : {"quick", "brown fox", "private"}) EXPECT_FALSE(contains(other, secret));
    }
}

TEST(Anonymize, AGivenKeyMakesTwoCapturesOfOneConnectionAlike) {
  const Frames frames = story(1000, false).frames;
  const Bytes all = anonymize(to_pcap(frames)).file;
  Frames fewer = frames;
  fewer.erase(fewer.begin() + 2);  // an acknowledgment that was not captured here
  fewer.pop_back();
  const Bytes some = anonymize(to_pcap(fewer)).file;
  std::vector<Bytes> first, second;
  (void)wire::read_capture(all, [&](const auto& p) { first.emplace_back(p.octets.begin(), p.octets.end()); });
  (void)wire::read_capture(some, [&](const auto& p) { second.emplace_back(p.octets.begin(), p.octets.end()); });
  first.erase(first.begin() + 2);
  first.pop_back();
  EXPECT_EQ(first, second);
  EXPECT_NE(all, anonymize(to_pcap(frames), {}, "another key").file);
}

TEST(Anonymize, ABadCrcStaysBadByAnotherAmount) {
  Bytes good = test::fpdu(test::send_segment(1, 100));
  Bytes bad = test::fpdu(test::send_segment(2, 100));
  bad[60] ^= 1;
  test::Exchange x;
  x.set_up().send(0, good).send(0, bad).close();
  const Bytes file = to_pcap(x.frames);
  const auto done = anonymize(file);
  EXPECT_EQ(done.streams.crc_right, 1u);
  EXPECT_EQ(done.streams.crc_wrong, 1u);
  EXPECT_EQ(comparable(file), comparable(done.file));
  EXPECT_NE(comparable(done.file).find("CRC #"), std::string::npos);
}

Bytes frame_of(const Bytes& file, std::size_t number) {
  Bytes out;
  (void)wire::read_capture(file, [&](const wire::CapturedPacket& p) {
    if (p.frame == number) out.assign(p.octets.begin(), p.octets.end());
  });
  return out;
}

bool ip_checksum_right(ConstBytes frame) {
  const ConstBytes pieces[] = {frame.subspan(14, 20)};
  return wire::internet_checksum(pieces) == 0;
}
bool tcp_checksum_right(ConstBytes frame) {
  const ConstBytes tcp = frame.subspan(34);
  const Bytes pseudo{0, 6, static_cast<std::uint8_t>(tcp.size() >> 8), static_cast<std::uint8_t>(tcp.size())};
  const ConstBytes pieces[] = {frame.subspan(26, 8), pseudo, tcp};
  return wire::internet_checksum(pieces) == 0;
}

TEST(Anonymize, RightChecksumsStayRightAndWrongOnesWrong) {
  for (const bool ip_wrong : {false, true})
    for (const bool tcp_wrong : {false, true}) {
      Frames frames = story(1000, false).frames;
      if (ip_wrong) frames[6].octets[24] ^= 0x40;
      if (tcp_wrong) frames[6].octets[50] ^= 0x40;
      const Bytes file = to_pcap(frames);
      const Bytes frame = frame_of(anonymize(file).file, 7);
      EXPECT_EQ(ip_checksum_right(frame), !ip_wrong);
      EXPECT_EQ(tcp_checksum_right(frame), !tcp_wrong);
      EXPECT_TRUE(tcp_checksum_right(frame_of(anonymize(file).file, 8)));
    }
}

TEST(Anonymize, AChecksumLeftToTheNicStaysPartial) {
  Frames frames = story(1000, false).frames;
  Bytes& f = frames[6].octets;
  const std::size_t tcp_length = f.size() - 34;
  const auto partial = [&](ConstBytes frame) {
    const Bytes pseudo{0, 6, static_cast<std::uint8_t>(tcp_length >> 8), static_cast<std::uint8_t>(tcp_length)};
    const ConstBytes pieces[] = {frame.subspan(26, 8), pseudo};
    const auto sum = static_cast<std::uint16_t>(~wire::internet_checksum(pieces));
    return Bytes{static_cast<std::uint8_t>(sum >> 8), static_cast<std::uint8_t>(sum)};
  };
  const Bytes stored = partial(f);
  std::copy(stored.begin(), stored.end(), f.begin() + 50);
  const Bytes other = frame_of(anonymize(to_pcap(frames)).file, 7);
  EXPECT_EQ(Bytes(other.begin() + 50, other.begin() + 52), partial(other));
}

TEST(Anonymize, ZeroesWhatIsNotMpa) {
  test::Exchange web;
  const std::string_view words = "GET /secret HTTP/1.1 and more of that";
  web.open().send(0, Bytes(words.begin(), words.end())).close();
  const auto done = anonymize(to_pcap(web.frames));
  EXPECT_EQ(done.streams.zeroed, words.size());
  const Bytes frame = frame_of(done.file, 4);
  EXPECT_TRUE(std::all_of(frame.begin() + 54, frame.end(), [](std::uint8_t o) { return o == 0; }));
  EXPECT_TRUE(tcp_checksum_right(frame));
}

TEST(Anonymize, ZeroesTheSecondConnectionOnTheSamePortsIfItIsNotMpa) {
  test::Exchange x;
  x.set_up().send(0, test::fpdu(test::send_segment(1, 400))).close();
  test::Exchange y(test::end_a(false), test::end_b(false), 5000, 700000);
  const std::string words(400, 's');
  y.frames = {};
  y.open().send(0, Bytes(words.begin(), words.end()));
  Frames all = x.frames;
  all.insert(all.end(), y.frames.begin(), y.frames.end());
  const Bytes other = anonymize(to_pcap(all)).file;
  EXPECT_FALSE(contains(other, "ssss"));
  const Bytes last = frame_of(other, all.size());
  EXPECT_TRUE(std::all_of(last.begin() + 54, last.end(), [](std::uint8_t o) { return o == 0; }));
}

TEST(Anonymize, NothingOfRandomFramesIsPassedThrough) {
  // Frames of noise behind each kind of header: whatever they claim to be, no eight octets of them are in the output.
  Rng rng(7);
  for (const std::uint16_t link : std::initializer_list<std::uint16_t>{0, 1, 12, 101, 108, 113, 228, 229, 276})
    for (int round = 0; round < 300; ++round) {
      Bytes frame(40 + rng.below(200));
      for (auto& o : frame) o = static_cast<std::uint8_t>(rng.next());
      if (link == 1) {
        const std::uint16_t types[] = {0x0800, 0x86DD, 0x0806, 0x8100, 0x88CC, 0x8915};
        const std::uint16_t type = types[rng.below(6)];
        frame[12] = static_cast<std::uint8_t>(type >> 8);
        frame[13] = static_cast<std::uint8_t>(type);
        if (type == 0x0800) frame[14] = 0x45, frame[23] = static_cast<std::uint8_t>(rng.below(2) * 11 + 6);
        if (type == 0x86DD) frame[14] = 0x60, frame[20] = static_cast<std::uint8_t>(rng.below(2) * 52 + 6);
      }
      const Bytes file = to_pcap({{frame, {}, 0}}, link);
      const auto done = anonymize(file);
      ASSERT_EQ(done.file.size(), file.size());
      // Twelve octets of a TCP header (numbers, flags, window) are the longest run that is kept.
      for (std::size_t i = 0; i + 13 <= frame.size(); ++i)
        ASSERT_FALSE(contains(done.file, ConstBytes(frame).subspan(i, 13))) << link << " " << round << " " << i;
    }
}

TEST(Anonymize, RefusesAFileOfWhichNoFrameIsUnderstood) {
  EXPECT_TRUE(anonymize(to_pcap({{Bytes(60, 7), {}, 0}}, 147)).file.empty());
}

TEST(Anonymize, DamagedFilesNeverHurtAndTheirBeginningIsKept) {
  const Bytes whole = to_pcap(story(700, true).frames);
  Rng rng(3);
  for (std::size_t n = 0; n < whole.size(); n += 1 + n / 40) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    (void)anonymize(cut);
    Bytes damaged = whole;
    for (int i = 0; i < 5; ++i) damaged[rng.below(damaged.size())] = static_cast<std::uint8_t>(rng.next());
    (void)anonymize(damaged);
  }
}

TEST(Anonymize, APcapngFileLosesNamesAndCommentsAndKeepsTimesAndPacketIdentity) {
  const test::Exchange x = story(1000, true);
  Bytes file;
  wire::PcapngWriter w(file, {.application = "secret program", .hardware = "secret machine", .comment = "secret note"});
  for (const char* name : {"secret-port-0", "secret-port-1"}) (void)w.add_interface(name, 1, "secret description", 10);
  const std::pair<Address, std::string> names[] = {{test::end_a(false), "secret.example"}};
  w.add_names(names);
  std::uint64_t id = 0;
  for (const auto& f : x.frames) {
    const std::string comment = "secret remark";
    ++id;
    for (const std::uint32_t interface : {0u, 1u})
      w.packet(interface, f.at, f.octets,
               {.comments = {&comment, 1}, .direction = wire::PacketDirection::inbound, .packet_id = id});
  }
  const auto done = anonymize(file);
  EXPECT_EQ(comparable(file), comparable(done.file));
  EXPECT_FALSE(contains(done.file, "secret"));
  EXPECT_FALSE(contains(done.file, "quick"));
  EXPECT_EQ(done.container.blocks_dropped, 1u);
  EXPECT_GE(done.container.options_dropped, 2 * x.frames.size());
  std::vector<std::string> before, after;
  const auto facts = [](std::vector<std::string>& to) {
    return [&to](const wire::CapturedPacket& p) {
      to.push_back(std::to_string(p.at.time_since_epoch().count()) + " " + std::to_string(p.interface) + " " +
                   (p.packet_id ? "identified" : ""));
    };
  };
  (void)wire::read_capture(file, facts(before));
  EXPECT_EQ(wire::read_capture(done.file, facts(after)), std::nullopt);
  EXPECT_EQ(before, after);
  Instant first = Instant::max(), last{};
  (void)wire::read_capture(anonymize(file, {.shift_time = true}).file, [&](const wire::CapturedPacket& p) {
    first = std::min(first, p.at);
    last = std::max(last, p.at);
  });
  EXPECT_EQ(first, Instant{});
  EXPECT_EQ(last - first, x.frames.back().at - x.frames.front().at);
}

TEST(Anonymize, AddressesInArpAndNeighbourDiscoveryGetTheNamesThatTheyHaveElsewhere) {
  Pseudonyms names(AnonymizeKey::from_text("a key"));
  const wire::Mac mac{0x02, 0, 0xC0, 0, 2, 1};
  const wire::ArpPacket ask{false, mac, {192, 0, 2, 1}, {}, {192, 0, 2, 2}};
  Bytes arp(14 + wire::ArpPacket::wire_size + 18, 0x77);  // with a trailer that is nobody's business
  std::copy(mac.begin(), mac.end(), arp.begin() + 6);
  arp[12] = 8, arp[13] = 6;
  wire::emit_arp(ask, MutBytes(arp).subspan(14, wire::ArpPacket::wire_size));
  const Bytes other = frame_of(anonymize(to_pcap({{arp, {}, 0}})).file, 1);
  const auto seen = wire::parse_arp(ConstBytes(other).subspan(14));
  ASSERT_TRUE(seen);
  EXPECT_EQ(*seen, (wire::ArpPacket{false, names.mac(mac), names.v4({192, 0, 2, 1}), {}, names.v4({192, 0, 2, 2})}));
  EXPECT_FALSE(contains(other, std::string_view("ww")));

  wire::NeighbourMessage solicit;
  const wire::Ip6 source = test::end_a(true).octets;
  solicit.target = test::end_b(true).octets;
  solicit.link_address = mac;
  const wire::Ip6 group = wire::solicited_node(solicit.target);
  Bytes nd(14 + 40 + solicit.wire_size());
  nd[12] = 0x86, nd[13] = 0xDD, nd[14] = 0x60, nd[19] = static_cast<std::uint8_t>(solicit.wire_size());
  nd[20] = wire::protocol_icmp6, nd[21] = 255;
  std::copy(source.begin(), source.end(), nd.begin() + 22);
  std::copy(group.begin(), group.end(), nd.begin() + 38);
  wire::emit_neighbour(solicit, source, group, MutBytes(nd).subspan(54));
  const Bytes renamed = frame_of(anonymize(to_pcap({{nd, {}, 0}})).file, 1);
  const auto message = wire::parse_neighbour(ConstBytes(renamed).subspan(54), names.v6(source), names.v6(group), 255);
  ASSERT_TRUE(message) << "its checksum is right, or this would not be one";
  EXPECT_EQ(message->target, names.v6(solicit.target));
  EXPECT_EQ(message->link_address, names.mac(mac));
}

TEST(Anonymize, SipHashIsTheRealOne) {
  Bytes in(15);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(siphash({0x0706050403020100, 0x0F0E0D0C0B0A0908}, in), 0xA129CA6149BE45E5u);
}

TEST(Anonymize, NamesOfPortsStagsAndVlansAreEachUsedOnce) {
  const Pseudonyms names(AnonymizeKey::from_text("k"));
  std::vector<bool> ports(65536), vlans(4096);
  for (unsigned p = 0; p < 65536; ++p) ports[names.port(static_cast<std::uint16_t>(p))] = true;
  for (unsigned v = 0; v < 4096; ++v) vlans[names.vlan(static_cast<std::uint16_t>(v))] = true;
  EXPECT_EQ(std::count(ports.begin(), ports.end(), true), 65536);
  EXPECT_EQ(std::count(vlans.begin(), vlans.end(), true), 4096);
  EXPECT_EQ(names.port(0), 0);
  EXPECT_EQ(names.stag(0), 0u);
  EXPECT_NE(names.stag(1), names.stag(2));
}

TEST(Anonymize, ASolicitedNodeGroupStaysThatOfItsAddress) {
  Pseudonyms names(AnonymizeKey::from_text("k"));
  const wire::Ip6 address{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0x56};
  EXPECT_EQ(names.v6(wire::solicited_node(address)), wire::solicited_node(names.v6(address)));
  EXPECT_EQ(names.mac(wire::group_mac(wire::solicited_node(address))),
            wire::group_mac(wire::solicited_node(names.v6(address))));
  EXPECT_EQ(names.v6(address)[0], 0xFD);
}

}  // namespace
}  // namespace parley::capture
