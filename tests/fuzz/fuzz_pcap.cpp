// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Any octets as a capture file, and any TCP exchange as a capture: the readers find the same packets however much of
// the file they are shown at a time, and the verdict can be said in every form.
#include <optional>
#include <string>
#include <vector>

#include "capture/analyzer.hpp"
#include "capture/read/mad/mad_reader.hpp"
#include "capture/report/json.hpp"
#include "capture/report/text.hpp"
#include "capture/report/text_ladder.hpp"
#include "mpa/framer.hpp"
#include "tests/fuzz/draw.hpp"
#include "wire/packet.hpp"
#include "wire/pcapng.hpp"

namespace parley::fuzz {
namespace {

struct Seen {
  std::uint64_t frame, offset;
  Instant at;
  std::uint16_t link_type;
  std::uint32_t original_length;
  Bytes octets;
  bool operator==(const Seen&) const = default;
};

Seen seen(const wire::CapturedPacket& p) {
  return {p.frame, p.offset, p.at, p.link_type, p.original_length, Bytes(p.octets.begin(), p.octets.end())};
}

void send(capture::Analyzer& analyzer) {
  const capture::FileReport report = analyzer.finish();
  (void)capture::to_text("file", report);
  (void)capture::to_json("file", report);
  for (const auto& connection : report.connections) (void)capture::to_ladder(connection);
}

/// The whole file at once.
std::vector<Seen> read_at_once(ConstBytes file, std::string& error) {
  std::vector<Seen> out;
  capture::Analyzer analyzer({.events = true});
  capture::MadReader mads;
  const auto failure = wire::read_capture(file, [&](const wire::CapturedPacket& packet) {
    out.push_back(seen(packet));
    analyzer.push(packet);
    capture::CapturedMad mad;
    if (mads.read(packet, mad) == capture::MadReader::Status::mad)
      PARLEY_ASSERT(!mad.damage.empty() || mad.octets.size() >= PARLEY_IB_MAD_LEN);
  });
  if (failure) {
    error = failure->to_string();
    analyzer.note(error);
  }
  send(analyzer);
  return out;
}

/// By windows that grow only when the reader asks for more.
std::vector<Seen> read_by_windows(ConstBytes file, Chunks chunks, std::string& error) {
  std::vector<Seen> out;
  wire::CaptureReader reader;
  std::size_t shown = 0;
  for (;;) {
    wire::CapturedPacket packet;
    std::size_t consumed = 0;
    const auto status = reader.next(file.first(shown), packet, consumed);
    PARLEY_ASSERT(consumed <= shown);
    if (status == wire::CaptureStatus::packet) out.push_back(seen(packet));
    file = file.subspan(consumed);
    shown -= consumed;
    if (status == wire::CaptureStatus::error) {
      error = reader.error().to_string();
      return out;
    }
    if (status != wire::CaptureStatus::need_more) continue;
    if (shown == file.size()) break;
    shown = std::min(file.size(), shown + chunks.next());
  }
  if (const auto failure = reader.finish(file.size())) error = failure->to_string();
  return out;
}

void read_file(Draw& draw) {
  const Chunks chunks(draw.u8());
  const ConstBytes file = draw.rest();
  std::string at_once_error, windows_error;
  const auto at_once = read_at_once(file, at_once_error);
  const auto windows = read_by_windows(file, chunks, windows_error);
  PARLEY_ASSERT(at_once == windows && at_once_error == windows_error);
}

/// One side of a made-up connection.
struct End {
  Address address;
  std::uint32_t seq = 0;
  mpa::Framer framer{{}};
};

/// A made-up exchange: segments whole and cut, again and out of order, with startup frames, FPDUs or anything in them.
class Exchange {
 public:
  explicit Exchange(Draw& draw) : draw_(draw) {
    const std::uint8_t flags = draw.u8();
    ends_[0] = {Address::v4(192, 0, 2, 1, 40000), draw.u32(), mpa::Framer({.markers = (flags & 1) != 0})};
    ends_[1] = {Address::v4(192, 0, 2, 2, 7471), draw.u32(), mpa::Framer({.markers = (flags & 2) != 0})};
  }

  void step() {
    const std::uint8_t what = draw_.u8();
    End& from = ends_[what & 1];
    const End& to = ends_[~what & 1];
    wire::TcpFrame segment{.source = from.address, .destination = to.address, .seq = from.seq, .ack = to.seq};
    segment.flags = (what & 2) != 0 ? draw_.u8() & 0x1F : wire::tcp_flag::ack;
    if ((what & 4) != 0) segment.seq += static_cast<std::uint32_t>(static_cast<std::int32_t>(draw_.u8()) - 128);
    Bytes payload;
    const ConstBytes octets = draw_.bytes(draw_.u8());
    if ((what & 8) != 0 && !octets.empty()) {
      payload.resize(from.framer.wire_size(octets.size()));
      (void)from.framer.frame({}, octets, payload);
    } else {
      payload.assign(octets.begin(), octets.end());
    }
    segment.payload = payload;
    push(segment, (what & 16) != 0 ? draw_.u8() : 0);
    if ((what & 32) == 0)
      from.seq = segment.seq + static_cast<std::uint32_t>(payload.size()) + ((segment.flags & 3) != 0 ? 1 : 0);
  }

  void finish() { send(analyzer_); }

 private:
  void push(const wire::TcpFrame& segment, std::size_t cut) {
    const auto frame = wire::emit_tcp_frame(segment);
    PARLEY_ASSERT(frame.has_value());
    wire::CapturedPacket packet;
    packet.frame = ++frames_;
    packet.at = Instant(Duration(frames_ * 1000));
    packet.link_type = static_cast<std::uint16_t>(wire::LinkType::ethernet);
    packet.original_length = static_cast<std::uint32_t>(frame->size());
    packet.octets = ConstBytes(*frame).first(frame->size() - std::min(cut, frame->size()));
    analyzer_.push(packet);
  }

  Draw& draw_;
  std::array<End, 2> ends_;
  std::uint64_t frames_ = 0;
  capture::Analyzer analyzer_{{.events = true}};
};

void run(ConstBytes in) {
  Draw draw(in);
  if (!draw.bit()) return read_file(draw);
  Exchange exchange(draw);
  while (!draw.empty()) exchange.step();
  exchange.finish();
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
