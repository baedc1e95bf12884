// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The two judges of a RoCEv2 peer side by side: the cases, and the check of a capture of the same packets.
#include <algorithm>

#include "capture/analyzer.hpp"
#include "ibcm_mangle.hpp"
#include "wire/ib/roce.hpp"
#include "wire/ib/sealer.hpp"
#include "wire/packet.hpp"

namespace parley::conform::ibcm {
namespace {

using namespace kit;
using wire::ib::CmDrep;

/// Judges the packets of a Stage as a capture.
class Watcher {
 public:
  explicit Watcher(Stage& stage) {
    stage.tap = [this](Instant now, const PacketPath& path, ConstBytes packet) { add(now, path, packet); };
  }
  capture::FileReport finish() { return analyzer_.finish(); }

 private:
  void add(Instant now, const PacketPath& path, ConstBytes packet) {
    wire::ib::RoceHeader header;
    header.source = gid_of(path.peer);
    header.destination = gid_of(path.local);
    header.source_port = PARLEY_ROCE_UDP_PORT;
    Bytes frame(wire::ethernet_header + header.size() + packet.size());
    Writer w(frame);
    w.bytes(std::array<std::uint8_t, 12>{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2});
    w.be16(wire::ethertype_ipv4);
    header.emit(MutBytes(frame).subspan(wire::ethernet_header), packet.size());
    std::copy(packet.begin(), packet.end(), frame.end() - std::ssize(packet));
    const MutBytes sealed = MutBytes(frame).last(packet.size());
    wire::ib::Sealer(header).seal(header.identification, sealed);
    analyzer_.push({.frame = ++frames_,
                    .at = now,
                    .link_type = 1,
                    .original_length = static_cast<std::uint32_t>(frame.size()),
                    .octets = frame});
  }
  capture::Analyzer analyzer_;
  std::uint64_t frames_ = 0;
};

constexpr std::uint8_t peers_last_octet = 2;  // of 192.0.2.2

/// The errors of the peer under test, as lines.
std::string errors_of_peer(const capture::FileReport& report) {
  std::string out;
  for (const capture::ConnectionReport& c : report.connections)
    for (const capture::Finding& f : c.findings) {
      if (f.severity != capture::Severity::error || !f.side) continue;
      const Address& by = *f.side == capture::Side::initiator ? c.initiator : c.responder;
      if (by.octets[3] == peers_last_octet) out += f.line() + "\n";
    }
  return out;
}

// The stimuli break rules, and sound answers to them must not: a DREP, for example, repeats the communication IDs of a DREQ
// that belongs to no connection.
TEST(ConformIbcmCheck, ASoundPeerIsNotAccusedOfItsAnswersToTheCases) {
  for (const unsigned connects : {0U, 2U}) {
    Stage stage({.receives = 4, .receive_size = 4096, .rping = connects == 0, .connects = connects});
    Watcher watcher(stage);
    const auto results = stage.run();
    EXPECT_TRUE(std::none_of(results.begin(), results.end(), [](const Result& r) {
      return r.finding.verdict == Verdict::fail;
    })) << words(results);
    const capture::FileReport report = watcher.finish();
    EXPECT_GT(report.connections.size(), 10U);
    EXPECT_EQ(errors_of_peer(report), "") << (connects == 0 ? "responder" : "initiator");
  }
}

// The answer to a DREQ of the connection repeats nothing that is wrong.
TEST(ConformIbcmCheck, AWrongIdInTheAnswerToASoundDreqIsReported) {
  Stage stage;
  stage.settings.connect = stage.settings.reply = 1s;
  stage.out = changes<CmDrep>([](CmDrep& m, CmMessage&) { m.local_comm_id ^= 1; });
  Watcher watcher(stage);
  (void)stage.run([](const Case& c) { return c.what.name == "disconnect"; });
  const std::string errors = errors_of_peer(watcher.finish());
  EXPECT_NE(errors.find("cm.comm-id"), std::string::npos) << errors;
}

}  // namespace
}  // namespace parley::conform::ibcm
