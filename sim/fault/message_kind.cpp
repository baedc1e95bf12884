// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/fault/message_kind.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/bytes_io.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

/// Source and destination: addresses and ports as in the packet.
struct Key {
  std::array<std::uint64_t, 4> addresses{};
  std::uint32_t ports = 0;
  bool ipv6 = false;
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  std::size_t operator()(const Key& k) const {
    std::uint64_t h = k.ports;
    for (std::uint64_t word : k.addresses) {
      h = (h ^ word) * 0x9E3779B97F4A7C15;
      h ^= h >> 29;
    }
    return static_cast<std::size_t>(h * 0xBF58476D1CE4E5B9 >> 7);
  }
};

Key key_of(ConstBytes frame, const FrameLayout& f) {
  Key k;
  k.ipv6 = f.ipv6;
  Reader r(frame.subspan(f.ip + (f.ipv6 ? 8u : 12u)));  // RFC 8200 §3, RFC 791 §3.1
  if (f.ipv6)
    for (std::uint64_t& word : k.addresses) word = r.be64();
  else
    k.addresses[0] = r.be64();
  Reader ports(frame.subspan(f.transport));
  k.ports = ports.be32();
  return k;
}

struct TrackedStream {
  Key key;
  MessageStream stream;
};

}  // namespace

std::size_t FrameContent::find(MessageKind message, std::uint32_t fpdu) const {
  if (kinds.has(message)) return 1;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].message == message && (fpdu == 0 || parts[i].fpdu == fpdu)) return i + 2;
  return 0;
}

bool FrameContent::has(Layer layer) const {
  return layer == Layer::any || kinds.has(layer) ||
         std::any_of(parts.begin(), parts.end(), [layer](const Part& p) { return p.message.layer == layer; });
}

struct MessageTracker::Impl {
  explicit Impl(StreamDepth d) : depth(d) {}

  std::uint32_t begin(const Key& key, std::uint32_t isn, bool active);
  std::uint32_t find(ConstBytes frame, const FrameLayout& layout);
  TrackedStream* of(std::uint32_t number) const {
    if (number == 0 || number > count) return nullptr;
    const std::size_t slot = (number - 1) % connections_max;
    return count - number < connections_max ? slots[slot].get() : nullptr;
  }
  static void list(const MessageStream& stream, std::uint64_t begin, std::uint64_t end, FrameContent& out);

  StreamDepth depth;
  StreamBudget budget;
  std::uint32_t count = 0;                                  // connections seen so far
  std::vector<std::unique_ptr<TrackedStream>> slots;        // connection n is in slot (n - 1) % connections_max
  std::unordered_map<Key, std::uint32_t, KeyHash> numbers;  // keys of the connections in slots; looked up, never
                                                            // iterated
};

MessageTracker::MessageTracker(StreamDepth depth) : impl_(std::make_unique<Impl>(depth)) {}
MessageTracker::~MessageTracker() = default;

std::uint32_t MessageTracker::Impl::begin(const Key& key, std::uint32_t isn, bool active) {
  const std::size_t slot = count % connections_max;
  if (slot == slots.size()) {
    slots.emplace_back();
  } else if (TrackedStream* old = slots[slot].get()) {
    old->stream.release(budget);
    const auto it = numbers.find(old->key);
    if (it != numbers.end() && it->second == count + 1 - connections_max)  // the key may have been reused since
      numbers.erase(it);
  }
  ++count;
  slots[slot] = std::make_unique<TrackedStream>(TrackedStream{key, MessageStream(isn, active, depth)});
  numbers[key] = count;
  return count;
}

std::uint32_t MessageTracker::Impl::find(ConstBytes frame, const FrameLayout& layout) {
  const Key key = key_of(frame, layout);
  const auto it = numbers.find(key);
  const bool syn = (layout.flags & wire::tcp_flag::syn) != 0 && (layout.flags & wire::tcp_flag::rst) == 0;
  if (it != numbers.end()) {
    // The same SYN again is a retransmission; another initial sequence number is another connection.
    const TrackedStream* c = of(it->second);
    if (!syn || (c != nullptr && c->stream.isn() == layout.seq)) return it->second;
  }
  return syn ? begin(key, layout.seq, (layout.flags & wire::tcp_flag::ack) == 0) : 0;
}

void MessageTracker::Impl::list(const MessageStream& stream, std::uint64_t begin, std::uint64_t end,
                                FrameContent& out) {
  stream.each(begin, end, [&](const StreamMessage& m) {
    Part p;
    p.fpdu = m.fpdu;
    p.whole = m.whole;
    p.position = m.start;
    const std::uint64_t first = std::max(m.start, begin);
    const std::uint64_t last = m.whole == 0 ? end : std::min(end, m.start + m.whole);
    p.offset = out.payload_offset + static_cast<std::uint32_t>(first - begin);
    p.size = static_cast<std::uint32_t>(last - first);
    p.message = m.message;
    if (m.start >= begin) out.parts.push_back(p);
    const std::uint64_t named = m.start + m.named_at;
    if (m.named == MessageKind::any || named < begin || named >= end) return;
    p.message = m.named;
    out.parts.push_back(p);
  });
}

FrameContent MessageTracker::look(ConstBytes frame) {
  FrameContent out;
  look(frame, lay_out(frame), out);
  return out;
}

void MessageTracker::look(ConstBytes frame, const FrameLayout& layout, FrameContent& out) {
  out.kind = layout.kind;
  out.kinds = layout.kinds;
  out.connection = 0;
  out.repeated = false;
  out.psn = layout.roce ? std::optional(layout.psn) : std::nullopt;
  out.payload_offset = layout.payload;
  out.payload_size = layout.payload_size;
  out.position = FrameContent::nowhere;
  out.parts.clear();
  if (!layout.tcp) return;
  out.connection = impl_->find(frame, layout);
  TrackedStream* c = impl_->of(out.connection);
  if (c == nullptr) return;
  MessageStream& stream = c->stream;
  const bool syn = (layout.flags & wire::tcp_flag::syn) != 0;
  const std::int64_t at = stream.position_of(layout.seq + (syn ? 1 : 0));
  if (at < 0) {
    out.repeated = out.payload_size != 0;  // the octet of a keepalive is before the stream
    return;
  }
  out.position = static_cast<std::uint64_t>(at);
  if (out.payload_size == 0) return;
  const auto seen = stream.offer(out.position, frame.subspan(out.payload_offset, out.payload_size), impl_->budget);
  out.repeated = seen == MessageStream::Seen::repeated;
  if (seen != MessageStream::Seen::ahead) Impl::list(stream, out.position, out.position + out.payload_size, out);
}

const MessageStream* MessageTracker::stream(std::uint32_t connection) const {
  const TrackedStream* c = impl_->of(connection);
  return c != nullptr ? &c->stream : nullptr;
}

}  // namespace parley::sim
