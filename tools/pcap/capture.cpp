// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap/capture.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "drivers/asio/packet_frame.hpp"
#include "drivers/private_file.hpp"
#include "wire/packet.hpp"

namespace parley::tools {

namespace flag = wire::tcp_flag;

Or<std::unique_ptr<CaptureWriter>> CaptureWriter::create(const std::string& path) {
  std::FILE* file = create_private(path);
  if (file == nullptr)
    return command_error(Exit::environment, fmt::format("cannot create '{}': {}", path, std::strerror(errno)));
  return std::unique_ptr<CaptureWriter>(new CaptureWriter(path, file));
}

CaptureWriter::CaptureWriter(std::string path, std::FILE* file)
    : path_(std::move(path)),
      file_(file),
      writer_(buffer_,
              {.application = "parley " PARLEY_VERSION,
               .comment = "Written from the program's own sockets: octets and times are real, TCP segmentation, "
                          "sequence numbers and acknowledgements are reconstructed."}) {
  interface_ = writer_.add_interface("parley", static_cast<std::uint16_t>(wire::LinkType::ethernet));
  struct stat what {};
  at_once_ = fstat(fileno(file), &what) == 0 && !S_ISREG(what.st_mode);
  if (at_once_) flush();
}

void CaptureWriter::frame(Flow& flow, bool out, Instant at, std::uint8_t flags, ConstBytes payload) {
  Half& from = out ? flow.out : flow.in;
  const Half& to = out ? flow.in : flow.out;
  wire::TcpFrame tcp;
  tcp.source = from.from;
  tcp.destination = to.from;
  tcp.seq = from.next_seq;
  tcp.ack = (flags & flag::ack) != 0 ? to.next_seq : 0;
  tcp.flags = flags;
  tcp.mss = (flags & flag::syn) != 0 ? 32768 : 0;
  tcp.payload = payload;
  from.next_seq += static_cast<std::uint32_t>(payload.size()) + ((flags & (flag::syn | flag::fin)) != 0 ? 1 : 0);
  const auto made = wire::emit_tcp_frame(tcp);
  if (!made) return;
  write_held();
  held_.emplace(QueuedPacket{flow.out.from, flow.in.from, at, std::move(*made), out, !out, {}});
  if (out) {
    if (auto waiting = remarks_.extract(flow.connection)) held_->comments = std::move(waiting.mapped());
  }
  if (!commented_ || at_once_) write_held();
  if (at_once_ || buffer_.size() >= buffer_max) flush();
}

void CaptureWriter::write_held() {
  if (!held_) return;
  writer_.packet(interface_, held_->at + to_epoch_, held_->octets,
                 {.comments = held_->comments,
                  .direction = held_->out ? wire::PacketDirection::outbound : wire::PacketDirection::inbound});
  held_.reset();
}

void CaptureWriter::comment(const trace::Record& record) {
  if (record.connection == 0) return;
  commented_ = true;
  if (const auto flow = flows_.find({record.local, record.peer}); flow != flows_.end())
    flow->second.connection = record.connection;
  std::string text = fmt::format("#{} {}", record.connection, printable(trace::to_text(record.event), false));
  // Events carry the time at which the turn began. The tap reads the clock later, so that events that a frame caused
  // are not later than the frame.
  if (held_ && held_->causes && held_->peer == record.peer && held_->local == record.local && record.at <= held_->at &&
      !trace::is_of_sending(record.event)) {
    held_->comments.push_back(std::move(text));
    return;
  }
  if (remarks_.size() == waiting_max && !remarks_.contains(record.connection)) remarks_.erase(remarks_.begin());
  std::vector<std::string>& waiting = remarks_[record.connection];
  if (waiting.size() < remarks_max) waiting.push_back(std::move(text));
}

/// Writes the TCP handshake, which the sockets do not show.
void CaptureWriter::open_flow(const TapRecord& record, bool accepted) {
  const std::uint32_t base = ++flows_seen_ * 1'000'003;  // initial sequence numbers that differ between flows
  Flow& flow = flows_[{record.local, record.peer}];
  flow.out = {record.local, base, false};
  flow.in = {record.peer, base + 500'000, false};
  frame(flow, !accepted, record.at, flag::syn);
  frame(flow, accepted, record.at, flag::syn | flag::ack);
  frame(flow, !accepted, record.at, flag::ack);
}

void CaptureWriter::data(Flow& flow, bool out, Instant at, ConstBytes octets) {
  while (!octets.empty()) {
    const std::size_t n = std::min(octets.size(), segment_max);
    frame(flow, out, at, flag::psh | flag::ack, octets.first(n));
    octets = octets.subspan(n);
  }
}

void CaptureWriter::end_half(Flow& flow, bool out, Instant at) {
  Half& half = out ? flow.out : flow.in;
  if (half.fin) return;
  half.fin = true;
  frame(flow, out, at, flag::fin | flag::ack);
  frame(flow, !out, at, flag::ack);
  if (held_) held_->causes = true;
}

void CaptureWriter::set_clock(Instant at) {
  if (clock_known_) return;
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  to_epoch_ = std::chrono::duration_cast<Duration>(wall) - at.time_since_epoch();
  clock_known_ = true;
}

void CaptureWriter::add(const PacketTapRecord& record) {
  set_clock(record.at);
  writer_.packet(interface_, record.at + to_epoch_, asio_driver::frame_of(record),
                 {.direction = record.sent ? wire::PacketDirection::outbound : wire::PacketDirection::inbound});
  if (at_once_ || buffer_.size() >= buffer_max) flush();
}

void CaptureWriter::add(const TapRecord& record) {
  set_clock(record.at);
  using Kind = TapRecord::Kind;
  if (record.kind == Kind::connected || record.kind == Kind::accepted)
    return open_flow(record, record.kind == Kind::accepted);
  const auto at = flows_.find({record.local, record.peer});
  if (at == flows_.end()) return;
  Flow& flow = at->second;
  switch (record.kind) {
    case Kind::sent: data(flow, true, record.at, record.octets); break;
    case Kind::received: data(flow, false, record.at, record.octets); break;
    case Kind::fin_sent: end_half(flow, true, record.at); break;
    case Kind::fin_received: end_half(flow, false, record.at); break;
    case Kind::rst_sent:
    case Kind::rst_received:
      frame(flow, record.kind == Kind::rst_sent, record.at, flag::rst | flag::ack);
      flows_.erase(at);
      return;
    case Kind::connected:
    case Kind::accepted: break;
  }
  if (flow.out.fin && flow.in.fin) flows_.erase(at);
}

void CaptureWriter::flush() {
  if (!buffer_.empty() && !failed_ && std::fwrite(buffer_.data(), 1, buffer_.size(), file_.get()) != buffer_.size())
    failed_ = true;
  if (at_once_ && std::fflush(file_.get()) != 0) failed_ = true;
  buffer_.clear();
}

Or<void> CaptureWriter::finish() {
  // Comments that no later frame follows go on the last frame. Each contains the number of its connection.
  if (held_)
    for (auto& [connection, texts] : remarks_)
      for (std::string& text : texts)
        if (held_->comments.size() < remarks_max) held_->comments.push_back(std::move(text));
  write_held();
  flush();
  if (std::fflush(file_.get()) != 0) failed_ = true;
  const int error = errno;
  file_.reset();
  if (failed_)
    return command_error(Exit::environment, fmt::format("cannot write '{}': {}", path_, std::strerror(error)));
  return {};
}

}  // namespace parley::tools
