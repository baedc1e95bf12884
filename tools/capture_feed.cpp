// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/capture_feed.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace parley::tools {
namespace {

struct FileCloser {
  void operator()(std::FILE* f) const {
    if (f != stdin) std::fclose(f);
  }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

/// 0: not a regular file, so nobody knows.
std::uint64_t size_of(std::FILE* file) {
  struct stat s {};
  if (::fstat(::fileno(file), &s) != 0 || !S_ISREG(s.st_mode) || s.st_size < 0) return 0;
  return static_cast<std::uint64_t>(s.st_size);
}

class Feeder {
 public:
  Feeder(std::FILE* file, const OnPacket& on_packet, const OnFeedProgress& on_progress)
      : file_(file),
        on_packet_(on_packet),
        on_progress_(on_progress),
        total_(size_of(file)),
        buffer_(wire::capture_window_min + chunk) {
    std::setvbuf(file_, nullptr, _IONBF, 0);  // pieces go where they are wanted, and as large as they are asked for
  }

  FeedResult run() {
    FeedResult result;
    for (;;) {
      std::size_t consumed = 0;
      wire::CapturedPacket packet;
      const auto status = reader_.next(ConstBytes(buffer_).subspan(begin_, end_ - begin_), packet, consumed);
      if (status == wire::CaptureStatus::packet) {
        ++result.packets;
        on_packet_(packet);
      }
      begin_ += consumed;
      if (status == wire::CaptureStatus::error) {
        result.error = reader_.error().to_string();
        return result;
      }
      if (status == wire::CaptureStatus::packet || fill()) continue;
      if (read_error_ != 0) {
        result.error = std::strerror(read_error_);
      } else if (const auto error = reader_.finish(end_ - begin_)) {
        result.error = error->to_string();
      }
      return result;
    }
  }

 private:
  // What is read at a time: small enough to stay in a processor's cache until it is looked at. The window grows beyond
  // it only for packets that are longer.
  static constexpr std::size_t chunk = 128 << 10;
  static constexpr std::size_t progress_step = 1 << 20;

  bool fill() {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    const std::size_t n = std::fread(buffer_.data() + end_, 1, std::min(chunk, buffer_.size() - end_), file_);
    if (n == 0 && std::ferror(file_) != 0) read_error_ = errno != 0 ? errno : EIO;
    end_ += n;
    octets_ += n;
    if (on_progress_ && n > 0 && (octets_ >= told_ + progress_step || octets_ == total_)) {
      told_ = octets_;
      on_progress_(octets_, total_);
    }
    return n > 0;
  }

  std::FILE* file_;
  const OnPacket& on_packet_;
  const OnFeedProgress& on_progress_;
  std::uint64_t total_, octets_ = 0, told_ = 0;
  wire::CaptureReader reader_;
  Bytes buffer_;
  std::size_t begin_ = 0, end_ = 0;
  int read_error_ = 0;
};

}  // namespace

FeedResult feed_capture(const std::string& path, const OnPacket& on_packet, const OnFeedProgress& on_progress) {
  errno = 0;
  const File file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
  if (!file) return {.error = std::strerror(errno)};
  return Feeder(file.get(), on_packet, on_progress).run();
}

}  // namespace parley::tools
