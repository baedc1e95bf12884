// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley mad decode --read`: the datagrams of a capture in order, and tables reassembled from their segments.
#include <optional>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "capture/link_type.hpp"
#include "capture/read/mad/mad_reader.hpp"
#include "tools/mad/decode.hpp"
#include "tools/mad/segments.hpp"
#include "tools/pcap/capture_feed.hpp"

namespace parley::tools {

namespace {

using capture::CapturedMad;
using capture::MadReader;

constexpr std::uint64_t told_max = 20;  // unreadable frames that are reported; the others are counted. JSON has all

Json json_of(const CapturedMad::End& end) {
  return {{"lid", end.lid ? Json(*end.lid) : Json()},
          {"gid", end.gid ? Json(gid_text(*end.gid)) : Json()},
          {"qpn", end.qpn}};
}

std::string members_of(std::string_view name, const CapturedMad::End& end) {
  std::string out;
  if (end.lid) out += fmt::format("{}.lid={}\n", name, *end.lid);
  if (end.gid) out += fmt::format("{}.gid={}\n", name, gid_text(*end.gid));
  return out + fmt::format("{}.qpn={}\n", name, end.qpn);
}

/// `at`: since the first packet of the capture. `segments`: of a reassembled table, else 0.
FoundAt found_at(const CapturedMad& mad, Duration at, std::uint32_t segments) {
  FoundAt out;
  const std::string seconds = decimal_seconds(at, 9);
  out.heading =
      fmt::format("frame {}, {} s, {} -> {}\n", mad.frame, seconds, end_text(mad.source), end_text(mad.destination));
  out.members = fmt::format("frame={}\nat_s={}\n{}{}", mad.frame, seconds, members_of("source", mad.source),
                            members_of("destination", mad.destination));
  out.keys = {{"frame", mad.frame},
              {"at_s", in_seconds(at)},
              {"source", json_of(mad.source)},
              {"destination", json_of(mad.destination)},
              {"damage", mad.damage.empty() ? Json() : Json(mad.damage)}};
  if (!mad.damage.empty()) {
    out.heading += fmt::format("damaged: {}\n", mad.damage);
    out.members += fmt::format("damage={}\n", mad.damage);
  }
  if (segments != 0) {
    out.heading += fmt::format("reassembled from {} segments\n", segments);
    out.members += fmt::format("segments={}\n", segments);
    out.keys["segments"] = segments;
  }
  return out;
}

class Decoder {
 public:
  Decoder(const DecodeOptions& options, Output& out) : options_(options), out_(out) {}

  int run() {
    const FeedResult fed = feed_capture(options_.capture, [this](const wire::CapturedPacket& packet) { take(packet); });
    if (unreadable_ > told_max) note(fmt::format("{} more cannot be read", counted(unreadable_ - told_max, "frame")));
    if (segments_.not_whole() > 0)
      note(fmt::format("{} without all segments in order", counted(segments_.not_whole(), "table")));
    if (unsupported_ > 0 && unsupported_ < fed.packets)
      note(fmt::format("{} left out: {}", counted(unsupported_, "packet"), link_type_text()));
    out_.object({{"event", "decoded"},
                 {"packets", fed.packets},
                 {"datagrams", datagrams_},
                 {"tables", tables_},
                 {"damaged", damaged_},
                 {"unreadable", unreadable_}});
    if (!fed.error.empty()) return error(Exit::environment, fed.error);
    if (fed.packets > 0 && unsupported_ == fed.packets) return error(Exit::environment, link_type_text());
    if (datagrams_ == 0)
      return error(Exit::failed, fmt::format("no management datagram in {}", counted(fed.packets, "packet")));
    note(fmt::format("{} in {}, {} damaged", counted(datagrams_, "management datagram"), counted(fed.packets, "packet"),
                     damaged_));
    return code(damaged_ + unreadable_ > 0 ? Exit::failed : Exit::ok);
  }

 private:
  void take(const wire::CapturedPacket& packet) {
    if (!began_) began_ = packet.at;
    CapturedMad mad;
    switch (reader_.read(packet, mad)) {
      case MadReader::Status::mad: return show(mad);
      case MadReader::Status::none: return;
      case MadReader::Status::unreadable: return unreadable(packet.frame, reader_.why());
      case MadReader::Status::unsupported:
        ++unsupported_;
        link_type_ = packet.link_type;
        return;
    }
  }

  void show(const CapturedMad& mad) {
    if (mad.octets.size() < PARLEY_IB_MAD_HEADER_LEN)
      return unreadable(mad.frame, fmt::format("frame {}: a management datagram to {}: {}", mad.frame,
                                               end_text(mad.destination), mad.damage));
    ++datagrams_;
    if (!mad.damage.empty()) ++damaged_;
    show_mad(mad.octets, ++number_, options_.form, found_at(mad, since_first(mad.at), 0), out_);
    if (!mad.damage.empty()) return;
    const auto table = segments_.take(mad);
    tables_ += table.has_value();
    if (table)
      show_mad(table->octets, ++number_, options_.form, found_at(mad, since_first(mad.at), table->segments), out_);
  }

  /// Times in a faulty file may differ by more than a Duration can hold.
  Duration since_first(Instant at) const {
    const Duration half = at.time_since_epoch() / 2 - began_->time_since_epoch() / 2;
    constexpr Duration most = Duration::max() / 2 - Duration(1);
    return half > most ? Duration::max() : half < -most ? -Duration::max() : at - *began_;
  }

  void unreadable(std::uint64_t frame, const std::string& why) {
    if (++unreadable_ <= told_max) note(why);
    out_.object({{"event", "unreadable"}, {"frame", frame}, {"text", why}});
  }

  std::string link_type_text() const {
    return fmt::format("link type {} is not decoded; InfiniBand, ERF, Ethernet, Linux cooked, loopback and raw IP are",
                       capture::link_type_text(link_type_));
  }
  void note(const std::string& text) { out_.note(fmt::format("parley mad decode: {}: {}", options_.capture, text)); }
  int error(Exit exit, const std::string& text) {
    return out_.error(exit, fmt::format("{}: {}", options_.capture, text));
  }

  const DecodeOptions& options_;
  Output& out_;
  MadReader reader_;
  Segments segments_;
  std::optional<Instant> began_;
  std::uint64_t number_ = 0, datagrams_ = 0, tables_ = 0, damaged_ = 0, unreadable_ = 0, unsupported_ = 0;
  std::uint16_t link_type_ = 0;  // the last unsupported one
};

}  // namespace

int decode_capture(const DecodeOptions& options, Output& out) { return Decoder(options, out).run(); }

}  // namespace parley::tools
