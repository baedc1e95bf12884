// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap/capture_feed.hpp"

#include <algorithm>
#include <cstring>

#include "tools/pcap/capture_source.hpp"

namespace parley::tools {
namespace {

class Feeder {
 public:
  Feeder(CaptureSource& source, const OnPacket& on_packet, const OnFeedProgress& on_progress,
         pcap_driver::PacketFilter* filter)
      : source_(source),
        on_packet_(on_packet),
        on_progress_(on_progress),
        filter_(filter),
        buffer_(wire::capture_window_min + chunk) {}

  FeedResult run() {
    FeedResult result;
    for (;;) {
      std::size_t consumed = 0;
      wire::CapturedPacket packet;
      const auto status = reader_.next(ConstBytes(buffer_).subspan(begin_, end_ - begin_), packet, consumed);
      if (status == wire::CaptureStatus::packet) {
        const bool wanted =
            filter_ == nullptr || filter_->passes(packet.link_type, packet.octets, packet.original_length);
        ++(wanted ? result.packets : result.passed_over);
        if (wanted) on_packet_(packet);
      }
      begin_ += consumed;
      if (status == wire::CaptureStatus::error) {
        result.error = reader_.error().to_string();
        return result;
      }
      if (status == wire::CaptureStatus::packet || fill()) continue;
      if (!source_.error().empty()) {
        result.error = source_.error();
      } else if (const auto error = reader_.finish(end_ - begin_)) {
        result.error = error->to_string();
      }
      return result;
    }
  }

 private:
  // Octets per read: small enough to stay in the processor's cache until they are decoded. The window grows beyond this
  // only for longer packets.
  static constexpr std::size_t chunk = 128 << 10;
  static constexpr std::size_t progress_step = 1 << 20;

  bool fill() {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    const std::size_t n = source_.read(MutBytes(buffer_).subspan(end_, std::min(chunk, buffer_.size() - end_)));
    end_ += n;
    const std::uint64_t octets = source_.octets();
    if (on_progress_ && n > 0 && (octets >= told_ + progress_step || octets == source_.total())) {
      told_ = octets;
      on_progress_(octets, source_.total());
    }
    return n > 0;
  }

  CaptureSource& source_;
  const OnPacket& on_packet_;
  const OnFeedProgress& on_progress_;
  pcap_driver::PacketFilter* filter_;
  std::uint64_t told_ = 0;
  wire::CaptureReader reader_;
  Bytes buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace

FeedResult feed_capture(const std::string& path, const OnPacket& on_packet, const OnFeedProgress& on_progress,
                        pcap_driver::PacketFilter* filter, bool digest) {
  const auto source = CaptureSource::open(path, digest);
  if (!source) return {.error = source.error().text, .input = {.path = path}};
  FeedResult result = Feeder(**source, on_packet, on_progress, filter).run();
  if (result.error.empty() && filter != nullptr) result.error = filter->error();
  result.input = (*source)->input();
  return result;
}

}  // namespace parley::tools
