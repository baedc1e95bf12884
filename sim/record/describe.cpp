// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/record/describe.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/fnv1a.hpp"
#include "sim/record/describe_headers.hpp"

namespace parley::sim {
namespace {

std::string tcp_names(const wire::TcpHeader& t) {
  if (t.rst()) return "RST";
  if (t.syn()) return t.has_ack() ? "SYN ACK" : "SYN";
  return "";
}

std::string tcp_options(const wire::TcpHeader& t) {
  std::string out;
  const auto add = [&out](std::string_view text) { out += fmt::format("{}{}", out.empty() ? "" : " ", text); };
  if (t.mss != 0) add(fmt::format("mss={}", t.mss));
  if (t.window_scale >= 0) add(fmt::format("ws={}", t.window_scale));
  if (t.sack_permitted) add("sack");
  if (t.timestamps) add("ts");
  return out;
}

std::string ack_detail(const wire::TcpHeader& t, std::uint64_t acked) {
  std::string out = fmt::format("{}", acked);
  for (std::size_t i = 0; i < std::min<std::size_t>(t.sack_count, t.sack.size()); ++i)
    out += fmt::format(" sack={}..{}", acked + (t.sack[i].left - t.ack), acked + (t.sack[i].right - t.ack));
  return out;
}

/// "2x Send", "MPA Reply + Send", "RDMA Write + 3x Send".
std::string join_names(const std::vector<std::string>& names) {
  std::string out;
  std::size_t parts = 0;
  for (std::size_t i = 0; i < names.size();) {
    std::size_t n = 1;
    while (i + n < names.size() && names[i + n] == names[i]) ++n;
    if (++parts > 3) return out + " + ...";
    if (!out.empty()) out += " + ";
    out += n == 1 ? names[i] : fmt::format("{}x {}", n, names[i]);
    i += n;
  }
  return out;
}

int rank(std::string_view layer) { return layer == "terminate" ? 3 : layer == "mpa" ? 2 : layer == "rdmap" ? 1 : 0; }

constexpr std::size_t described_max = 8;  // messages per frame whose fields are listed

struct Payload {
  std::vector<std::string> names;
  std::string detail, layer = "tcp";
  Fields fields;
};

/// The messages in the octets [begin, end) of a stream.
Payload payload_text(const DescribedStream& stream, std::uint64_t begin, std::uint64_t end) {
  Payload out;
  const auto messages = stream.messages(begin, end);
  std::uint64_t at = begin;
  std::uint32_t first_fpdu = 0, last_fpdu = 0;
  std::size_t listed = 0;
  for (const DescribedMessage* m : messages) {
    const bool starts = m->begin >= begin;
    out.names.push_back(starts ? m->text : m->text + " continued");
    if (rank(m->layer) > rank(out.layer)) out.layer = m->layer;
    if (m->fpdu != 0) {
      last_fpdu = m->fpdu;
      if (first_fpdu == 0) first_fpdu = m->fpdu;
    }
    if (++listed <= described_max) out.fields.insert(out.fields.end(), m->fields.begin(), m->fields.end());
    at = std::max(at, m->end);
  }
  if (listed > described_max)
    out.fields.emplace_back(fmt::format("{} more messages in this frame", listed - described_max), "");
  if (messages.size() == 1) {
    const DescribedMessage& m = *messages.front();
    out.detail = m.detail;
    if (m.begin < begin || m.end > end)
      out.detail += fmt::format(" (octets {}..{} of {})", std::max(begin, m.begin) - m.begin,
                                std::min(end, m.end) - m.begin, m.end - m.begin);
  } else if (first_fpdu != 0 && last_fpdu != first_fpdu) {
    out.detail = fmt::format("FPDUs {} to {}", first_fpdu, last_fpdu);
  }
  if (at < end) {
    if (stream.is_mpa() && rank(out.layer) == 0) out.layer = "rdmap";
    out.names.push_back(fmt::format("{} octets{}", end - at, stream.is_mpa() ? " of a message that does not end" : ""));
  }
  return out;
}

}  // namespace

std::uint32_t Describer::stream_of(const Key& key, bool fresh) {
  const auto [it, added] = live_.try_emplace(key, static_cast<std::uint32_t>(streams_.size()));
  if (added || fresh) {
    it->second = static_cast<std::uint32_t>(streams_.size());
    streams_.push_back(std::make_unique<DescribedStream>());
  }
  return it->second;
}

void Describer::look_tcp(ConstBytes segment, const Address& source, const Address& destination, Instant at, Seen& out) {
  const auto parsed = wire::parse_tcp_header(segment);
  if (!parsed) return;
  const wire::TcpHeader& t = parsed->header;
  Key key{source, destination};
  key.from.port = t.source_port;
  key.to.port = t.destination_port;
  out.from_port = t.source_port;
  out.to_port = t.destination_port;
  const Key back{key.to, key.from};
  const auto known = live_.find(key);
  const bool fresh = t.syn() && known != live_.end() && streams_[known->second]->is_new(t.seq);
  out.stream = stream_of(key, fresh);
  // A SYN of another incarnation: the peer's later segments belong to it.
  out.opposite = stream_of(back, fresh && !t.has_ack());
  DescribedStream& stream = *streams_[out.stream];
  const bool syn_again = t.syn() && stream.syn(t.seq);
  const ConstBytes payload = segment.subspan(parsed->size);
  const auto place = stream.segment(t.syn() ? t.seq + 1 : t.seq, payload, at);
  const bool fin_again = t.fin() && stream.fin();
  out.begin = place.begin;
  out.end = place.end;
  out.repeated = t.syn() ? syn_again : !payload.empty() ? place.repeated : fin_again;
  if (t.has_ack()) out.acked = streams_[out.opposite]->acked(t.ack);
}

/// A packet that its sender has sent before. PSNs are compared modulo 2^24 (IBA §9.7.2).
bool Describer::roce_again(const FrameHeaders& h) {
  constexpr std::uint32_t psn_mask = 0xFFFFFF, half = 1U << 23;
  if (!h.source || !h.target || !h.request) return false;
  if (!h.cm.empty()) {
    const std::uint64_t digest = fnv1a(h.cm);
    if (messages_.contains(digest)) return true;
    if (messages_.size() < messages_max) messages_.insert(digest);
    return false;
  }
  const auto [at, fresh] = next_psn_.try_emplace({*h.source, *h.target, h.qpn}, h.psn);
  if (!fresh && ((h.psn - at->second) & psn_mask) >= half) return true;
  at->second = (h.psn + 1) & psn_mask;
  return false;
}

Describer::Seen Describer::look(ConstBytes frame, Instant at) {
  Seen out;
  const FrameHeaders h = parse_headers(frame);
  const std::size_t kept = h.cm.empty() ? std::min(frame.size(), head_max) : frame.size();
  out.head.assign(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(kept));
  out.size = static_cast<std::uint32_t>(frame.size());
  out.from = h.source;
  out.to = h.target;
  if (h.roce) {
    out.repeated = roce_again(h);
    out.roce_connection = roce_.look(frame, lay_out(frame));
  }
  if (h.lowest == Layer::tcp) look_tcp(frame.subspan(h.body_at, h.body_size), *h.source, *h.target, at, out);
  return out;
}

Describer::RowText Describer::row_text(const Seen& seen) const {
  RowText out;
  const FrameHeaders h = parse_headers(seen.head);
  describe_headers(seen.head, seen.size, h, out.fields);
  out.layer = h.layer;
  out.text = h.text;
  out.detail = h.detail;
  if (h.lowest != Layer::tcp || seen.stream == Seen::no_stream) return out;
  const auto parsed = wire::parse_tcp_header(ConstBytes(seen.head).subspan(h.body_at));
  if (!parsed) return out;
  const wire::TcpHeader& t = parsed->header;
  describe_tcp(t, parsed->size, seen, out.fields);
  out.layer = "tcp";
  out.text = tcp_names(t);
  out.detail = t.syn() ? tcp_options(t) : "";
  if (seen.end > seen.begin) {
    Payload p = payload_text(*streams_[seen.stream], seen.begin, seen.end);
    if (!out.text.empty()) p.names.insert(p.names.begin(), out.text);
    if (t.fin()) p.names.emplace_back("FIN");
    out.text = join_names(p.names);
    out.detail += (out.detail.empty() ? "" : " ") + p.detail;
    out.layer = p.layer;
    out.fields.insert(out.fields.end(), p.fields.begin(), p.fields.end());
  } else if (out.text.empty()) {
    out.text = t.fin() ? "FIN" : "ACK";
    if (!t.fin()) out.detail = ack_detail(t, seen.acked);
    if (!t.fin()) out.layer = "ack";
  }
  if (t.window == 0 && !t.rst()) out.detail += (out.detail.empty() ? "" : " ") + std::string("window=0");
  return out;
}

}  // namespace parley::sim
