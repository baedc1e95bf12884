// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a report says of a file as a whole: packets that were not read, and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/capture/exchange.hpp"

namespace parley::capture {
namespace {

using test::Exchange;
using test::fpdu;
using test::Frame;
using test::Frames;
using test::send_segment;
using testing::ElementsAre;
using testing::IsEmpty;

Frames clean() {
  Exchange x;
  return x.set_up().send(0, fpdu(send_segment(1, 20))).close().frames;
}

/// A file of packets with link types and identifiers of their own.
class File {
 public:
  explicit File(const AnalyzerOptions& options = {}) : analyzer_(options) {}
  File& add(ConstBytes octets, std::uint16_t link_type = 1, std::optional<std::uint64_t> id = {},
            std::uint32_t original_length = 0, std::uint32_t interface = 0) {
    wire::CapturedPacket p;
    p.interface = interface;
    p.frame = ++number_;
    p.at = Instant{std::chrono::milliseconds(number_)};
    p.link_type = link_type;
    p.octets = octets;
    p.original_length = std::max(original_length, static_cast<std::uint32_t>(octets.size()));
    p.packet_id = id;
    analyzer_.push(p);
    return *this;
  }
  File& add(const Frames& frames) {
    for (const Frame& f : frames) add(f.octets);
    return *this;
  }
  FileReport report() { return analyzer_.finish(); }

 private:
  Analyzer analyzer_;
  std::uint64_t number_ = 0;
};

TEST(CaptureFileNotes, ACompleteFileNeedsNone) { EXPECT_THAT(File().add(clean()).report().notes, IsEmpty()); }

TEST(CaptureFileNotes, PacketsOfALinkTypeThatIsNotDecodedAreCounted) {
  const Bytes other(60);
  EXPECT_THAT(File().add(clean()).add(other, 195).report().notes,
              ElementsAre("1 packet of link type 195 (IEEE 802.15.4), which is not decoded"));
  const FileReport r = File().add(other, 195).add(clean()).add(other, 12345).report();
  EXPECT_THAT(r.notes, ElementsAre("2 packets of link type 12345, which is not decoded"));
  EXPECT_EQ(r.unsupported_packets, 2u);
  EXPECT_EQ(r.connections.size(), 1u);
}

TEST(CaptureFileNotes, FragmentsAreCountedAndTheFirstOnesReadAsFarAsTheyGo) {
  Frames frames = clean();
  const Bytes first = [&] {
    Bytes f = frames[5].octets;
    f[20] = 0x20;  // more fragments
    return f;
  }();
  Bytes later = first;
  later[20] = 0, later[21] = 9;
  EXPECT_THAT(File().add(clean()).add(later).report().notes,
              ElementsAre("1 IP fragment of TCP; fragments are not joined, their octets count as missing"));
  EXPECT_THAT(File().add(clean()).add(later).add(first).report().notes,
              ElementsAre("2 IP fragments of TCP; fragments are not joined, their octets count as missing"));
}

TEST(CaptureFileNotes, PacketsCutByTheSnapLengthAreCounted) {
  const Frames frames = clean();
  const Bytes& f = frames[5].octets;
  const auto size = static_cast<std::uint32_t>(f.size());
  const auto file = [&](std::size_t cut) {
    File all;
    for (std::size_t i = 0; i < frames.size(); ++i)
      all.add(ConstBytes(frames[i].octets).first(frames[i].octets.size() - (i == 5 ? cut : 0)), 1, {},
              static_cast<std::uint32_t>(frames[i].octets.size()));
    return all.report().notes;
  };
  EXPECT_THAT(file(0), IsEmpty());
  EXPECT_THAT(file(1), ElementsAre("1 packet cut by the snap length; what is lacking is not judged"));
  EXPECT_THAT(File().add(ConstBytes(f).first(30), 1, {}, size).add(ConstBytes(f).first(40), 1, {}, size).report().notes,
              ElementsAre("2 packets cut by the snap length; what is lacking is not judged"));
}

TEST(CaptureFileNotes, APacketOfAnotherInterfaceIsJudgedOnceAndAnAlteredCopyIsTold) {
  const Frames frames = clean();
  const auto file = [&](std::size_t altered) {
    File all;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      Bytes copy = frames[i].octets;
      if (i < altered) copy.back() ^= 1;
      all.add(frames[i].octets, 1, 100 + i).add(copy, 1, 100 + i, 0, 1);
    }
    return all.report();
  };
  const std::string n = std::to_string(frames.size()), both = std::to_string(2 * frames.size());
  const std::string copies = n + " of " + both +
                             " packets show one again that was captured elsewhere (the same epb_packetid): each is "
                             "judged once, as it was captured first";
  const FileReport same = file(0);
  EXPECT_THAT(same.notes, ElementsAre(copies));
  EXPECT_EQ(same.copies, frames.size());
  ASSERT_EQ(same.connections.size(), 1u);
  EXPECT_EQ(same.connections[0].from_initiator.retransmissions, 0u);
  EXPECT_THAT(file(2).notes, ElementsAre(copies,
                                         "2 of those hold other octets than before: altered on the way, so that what "
                                         "answers them may look like a fault here"));
}

TEST(CaptureFileNotes, OtherProtocolsOverEthernetAreCounted) {
  Bytes roce_v1(80);
  roce_v1[12] = 0x89, roce_v1[13] = 0x15;
  Bytes udp(14 + 20 + 8 + 12);
  udp[12] = 8, udp[14] = 0x45, udp[17] = 40, udp[22] = 64, udp[23] = 17;
  udp[14 + 20 + 5] = 20;
  Bytes roce_v2 = udp;
  roce_v2[14 + 20 + 2] = 4791 >> 8, roce_v2[14 + 20 + 3] = 4791 & 0xFF;
  const FileReport r = File().add(roce_v1).add(udp).add(roce_v2).add(roce_v2).add(roce_v1).add(roce_v1).report();
  EXPECT_EQ(r.packets, 6u);
  EXPECT_EQ(r.tcp_packets, 0u);
  EXPECT_EQ(r.other.rocev1, 3u);
  EXPECT_EQ(r.other.rocev2, 2u);
  EXPECT_EQ(r.other.udp, 1u);
}

TEST(CaptureFileNotes, AStreamThatIsTakenForMpaAndIsNotLeavesItsPlaceAmongThoseDrawn) {
  // One FPDU, and octets behind it that are none: picked up, and let go in the same packet.
  Exchange odd(Address::v4(192, 0, 2, 3, 5), Address::v4(192, 0, 2, 4, 6), 7, 8);
  for (int i = 0; i < 3; ++i) {
    Bytes octets = fpdu(send_segment(1, 600));
    octets.insert(octets.end(), 40, 0xFF);
    odd.send(0, octets);
  }
  const FileReport r = File({.events = true, .drawn_max = 1}).add(odd.frames).add(clean()).report();
  ASSERT_EQ(r.connections.size(), 1u) << test::words(r);
  EXPECT_EQ(r.connections[0].first_frame, 4u);
  EXPECT_FALSE(r.connections[0].events.empty());
}

}  // namespace
}  // namespace parley::capture
