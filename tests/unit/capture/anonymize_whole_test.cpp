// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What becomes of every octet of a stream (tests/states/capture_anonymized_*.txt): of set-ups a line for each packet, dots for
// octets that are kept, 00 and others for what they become; of messages how many are kept (=), become 0 or another value (x).
// Payload, STags and private data must not show; lengths, numbers and what a rule looks at must.
#include <gtest/gtest.h>

#include "tests/unit/capture/anonymize_kit.hpp"
#include "tests/unit/capture/runs.hpp"
#include "tests/unit/capture/stories.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::capture::anonymize_whole_test {
namespace {

using test::Exchange;
using test::fpdu;
using test::Frames;
using test::Message;
using test::startup;
using wire::MpaKey;

constexpr std::uint8_t C = PARLEY_MPA_FLAG_C, S = PARLEY_MPA_FLAG_S, M = PARLEY_MPA_FLAG_M;

std::string octets_that_change(ConstBytes was, ConstBytes is) {
  std::string out;
  for (std::size_t i = 0; i < was.size(); ++i) {
    if (i > 0 && i % 4 == 0) out += ' ';
    out += was[i] == is[i] ? ".." : fmt::format("{:02x}", is[i]);
  }
  return out;
}
std::vector<Bytes> packets_of(ConstBytes file) {
  std::vector<Bytes> out;
  (void)wire::read_capture(file,
                           [&](const wire::CapturedPacket& p) { out.emplace_back(p.octets.begin(), p.octets.end()); });
  return out;
}
/// "6= 2x 10=": octets that are kept, become 0 (0), or get another value (x).
std::string kinds_that_change(ConstBytes was, ConstBytes is) {
  std::string out;
  for (std::size_t i = 0; i < was.size();) {
    const auto kind = [&](std::size_t k) { return was[k] == is[k] ? '=' : is[k] == 0 ? '0' : 'x'; };
    std::size_t end = i + 1;
    while (end < was.size() && kind(end) == kind(i)) ++end;
    out += fmt::format("{}{}{}", i == 0 ? "" : " ", end - i, kind(i));
    i = end;
  }
  return out;
}
/// The payload of each packet of which some changes; headers are looked at elsewhere.
std::string shown(const Frames& frames, AnonymizeOptions options = {}, bool octets = false) {
  const test::Anonymized a = test::anonymize(test::to_pcap(frames), options);
  const std::vector<Bytes> now = packets_of(a.file);
  if (!a.refusal.empty() || now.size() != frames.size()) return "  " + a.refusal + "\n";
  std::string out;
  constexpr std::size_t headers = 54;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const ConstBytes was = frames[i].octets, is = now[i];
    if (was.size() > headers && !std::equal(was.begin() + headers, was.end(), is.begin() + headers, is.end()))
      out += fmt::format("  {}: {}\n", i + 1,
                         octets ? octets_that_change(was.subspan(headers), is.subspan(headers))
                                : kinds_that_change(was.subspan(headers), is.subspan(headers)));
  }
  out += fmt::format("  {} FPDUs, {} CRCs right, {} wrong, {} startup frames, {} octets of private data\n",
                     a.streams.fpdus, a.streams.crc_right, a.streams.crc_wrong, a.streams.startup_frames,
                     a.streams.private_data);
  return out;
}

TEST(AnonymizeWhole, SetUps) {
  std::string out;
  for (const test::Story& s : test::set_ups()) out += "== " + s.name + " ==\n" + shown(test::told(s).frames, {}, true);
  // Startup frames that are none, or not whole.
  const Bytes request = startup(MpaKey::req, C | S, 2, wire::MpaEnhanced{.ird = 1, .ord = 1}, Bytes{1, 2, 3});
  for (const std::size_t n : {8u, 12u, 16u, 18u, 20u, 22u, 24u, 26u})
    out += fmt::format("== {} octets of a Request ==\n", n) +
           shown(Exchange().open().send(0, ConstBytes(request).first(n)).fin(0).frames);
  for (const std::size_t at : {6u, 9u, 15u, 17u, 19u}) {
    Bytes odd = request;
    odd[at] ^= 2;
    out += fmt::format("== octet {} of a Request altered ==\n", at) +
           shown(Exchange().open().send(0, odd).send(1, startup(MpaKey::rep, C, 1, {}, Bytes{9})).fin(0).frames);
  }
  Bytes other = startup(MpaKey::rep, C, 1);
  other[0] = 'X';
  out += "== a Reply that is none ==\n" + shown(Exchange().open().send(0, request).send(1, other).fin(1).frames);
  expect_as_reviewed("capture_anonymized_set_ups.txt", out);
}

Exchange talk(const Message& m, bool markers = false, bool crc = true, std::size_t mss = 1460) {
  Exchange x;
  const auto flags = static_cast<std::uint8_t>((markers ? M : 0) | (crc ? C : 0));
  x.open().send(0, startup(MpaKey::req, flags, 1)).send(1, startup(MpaKey::rep, flags, 1));
  std::array<std::uint64_t, 2> at{};
  for (const auto& [from, ulpdu] : m.ulpdus) {
    const Bytes f = fpdu(ulpdu, at[from], markers, crc);
    at[from] += f.size();
    x.send(from, f, mss);
  }
  return x;
}

TEST(AnonymizeWhole, Messages) {
  Runs runs;
  for (const Message& m : test::messages()) {
    runs.add(m.name, shown(talk(m).frames));
    if ((m.ulpdus[m.looked_at].second[1] & 0xF) != 3)
      runs.add(m.name + ", STags kept", shown(talk(m).frames, {.keep_stags = true}));
    Message cut = m;
    Bytes& ulpdu = cut.ulpdus[m.looked_at].second;
    ulpdu.resize(ulpdu.size() - std::min<std::size_t>(ulpdu.size(), 5));
    runs.add(m.name + ", five octets shorter", shown(talk(cut).frames));
    Frames bad = talk(m).frames;
    bad[5 + m.looked_at].octets.back() ^= 1;
    runs.add(m.name + ", CRC wrong", shown(bad));
    Frames lacking = talk(m).frames;
    Bytes& packet = lacking[5 + m.looked_at].octets;
    lacking[5 + m.looked_at].original_length = static_cast<std::uint32_t>(packet.size());
    packet.resize(packet.size() - 7);
    runs.add(m.name + ", cut by the snap length", shown(lacking));
  }
  expect_as_reviewed("capture_anonymized_messages.txt", runs.text());
}

/// The one packet that is looked at.
std::string looked_at(const Message& m, const Frames& frames) {
  const std::string all = shown(frames), head = fmt::format("  {}: ", 6 + m.looked_at);
  const std::size_t at = all.find(head);
  return at == std::string::npos ? "kept" : all.substr(at + head.size(), all.find('\n', at) - at - head.size());
}

TEST(AnonymizeWhole, MessagesOfEachLengthAndCutAtEach) {
  std::string out;
  for (const Message& m : test::messages()) {
    const std::size_t size = m.ulpdus[m.looked_at].second.size();
    if (size < 22 || m.name.starts_with("RDMA") || m.name.starts_with("Send")) continue;
    Runs runs;
    for (std::size_t n = 17; n < size; ++n) {
      Message other = m;
      other.ulpdus[m.looked_at].second.resize(n);
      runs.add(fmt::format("of {}", n), looked_at(m, talk(other).frames));
      Frames lacking = talk(m).frames;
      Bytes& packet = lacking[5 + m.looked_at].octets;
      lacking[5 + m.looked_at].original_length = static_cast<std::uint32_t>(packet.size());
      packet.resize(54 + 2 + n);
      runs.add(fmt::format("cut at {}", n), looked_at(m, lacking));
    }
    out += "== " + m.name + " ==\n" + runs.text();
  }
  expect_as_reviewed("capture_anonymized_lengths.txt", out);
}

TEST(AnonymizeWhole, WrongOctets) {
  Runs runs;
  Message two{"two Sends", {{0, test::send_segment(1, 3)}, {0, test::send_segment(2, 9)}}, 0};
  for (const bool crc : {true, false})
    for (const std::size_t at : {0u, 1u, 2u, 3u, 8u, 20u, 23u, 25u}) {
      Frames f = talk(two, false, crc).frames;
      f[5].octets[54 + at] ^= 0x41;
      runs.add(fmt::format("octet {} altered{}", at, crc ? "" : ", no CRC"), shown(f));
    }
  Message three{"", {}, 0};
  for (std::uint32_t msn = 1; msn < 5; ++msn) three.ulpdus.emplace_back(0, test::send_segment(msn, 230));
  runs.add("markers", shown(talk(three, true, true, 300).frames));
  for (const std::size_t lost : {5u, 6u, 7u}) {
    Frames f = talk(three, true, true, 300).frames;
    f.erase(f.begin() + static_cast<std::ptrdiff_t>(lost));
    runs.add(fmt::format("markers, packet {} lost", lost + 1), shown(f));
  }
  for (const std::size_t at : {2u, 3u, 5u, 7u}) {
    Frames f = talk(three, true, false, 300).frames;
    f[5].octets[54 + at] ^= 0x40;
    runs.add(fmt::format("markers, no CRC, octet {} altered", at), shown(f));
  }
  expect_as_reviewed("capture_anonymized_wrong.txt", runs.text());
}

/// One packet cut at each length, as by a snap length of its own, or lost: the verdict is that of the original.
void expect_same_verdict_when_cut(const Frames& whole, std::size_t packet, const std::string& what) {
  constexpr std::size_t headers = 54;
  for (std::size_t n = headers; n <= whole[packet].octets.size(); ++n) {
    Frames f = whole;
    f[packet].original_length = static_cast<std::uint32_t>(f[packet].octets.size());
    f[packet].octets.resize(n);
    if (n == headers) f.erase(f.begin() + static_cast<std::ptrdiff_t>(packet));
    const Bytes file = test::to_pcap(f);
    const test::Anonymized a = test::anonymize(file);
    if (!a.refusal.empty()) continue;
    EXPECT_EQ(test::comparable(a.file), test::comparable(file)) << what << ", " << n - headers << " octets left";
  }
}

TEST(AnonymizeWhole, KeepsTheVerdictOfWhatIsNotWholeInTheCapture) {
  const Bytes words(12, 'w');
  for (const std::uint8_t rejects : {std::uint8_t{0}, std::uint8_t{PARLEY_MPA_FLAG_R}}) {
    Exchange x;
    x.open().send(0, startup(MpaKey::req, C, 1, {}, words));
    x.send(1, startup(MpaKey::rep, static_cast<std::uint8_t>(C | rejects), 1, {}, words)).close();
    expect_same_verdict_when_cut(x.frames, 3, rejects != 0 ? "a rejected Request" : "a Request");
    expect_same_verdict_when_cut(x.frames, 4, rejects != 0 ? "a rejection" : "a Reply");
  }
  for (const std::uint8_t flags : {C, M}) {
    Exchange x;
    x.open().send(0, startup(MpaKey::req, flags | S, 1)).send(1, startup(MpaKey::rep, flags | S, 1));
    x.send(0, startup(MpaKey::rtr, 0, 1)).send(0, fpdu(test::send_segment(1, 5), 0, flags == M, flags == C)).close();
    expect_same_verdict_when_cut(x.frames, 5, flags == M ? "an Rtr frame, markers, no CRC" : "an Rtr frame");
  }
  const wire::MpaEnhanced read{.a = true, .d = true, .ird = 1, .ord = 1};
  Exchange rtr;
  rtr.open().send(0, startup(MpaKey::req, C | S, 2, read)).send(1, startup(MpaKey::rep, C | S, 2, read));
  rtr.send(0, fpdu(test::read_request(1, {1, 0, 0, 1, 0})));
  rtr.send(1, fpdu(test::tagged(wire::RdmapOpcode::read_response, 1, 0, 0))).close();
  expect_same_verdict_when_cut(rtr.frames, 5, "an RTR by RDMA Read");
  Exchange markers;  // agreed, and not there
  markers.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C | M, 1));
  markers.send(0, fpdu(test::send_segment(1, 12))).send(0, fpdu(test::send_segment(2, 12))).close();
  expect_same_verdict_when_cut(markers.frames, 5, "a stream without the markers that were agreed");
}

}  // namespace
}  // namespace parley::capture::anonymize_whole_test
