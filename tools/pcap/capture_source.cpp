// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap/capture_source.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace parley::tools {

namespace {

/// 0 if the size is unknown, because it is not a regular file.
std::uint64_t size_of(std::FILE* file) {
  struct stat s {};
  if (::fstat(::fileno(file), &s) != 0 || !S_ISREG(s.st_mode) || s.st_size < 0) return 0;
  return static_cast<std::uint64_t>(s.st_size);
}

}  // namespace

Or<std::unique_ptr<CaptureSource>> CaptureSource::open(const std::string& path, bool digest) {
  errno = 0;
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr) return command_error(Exit::environment, std::strerror(errno));
  std::unique_ptr<CaptureSource> source(new CaptureSource(path, file, digest));
  // A pipe may return fewer octets than requested. The first four octets identify the compression.
  while (source->end_ < 4 && source->error_.empty() && source->refill()) continue;
  source->packing_ = packing_of(ConstBytes(source->packed_).first(source->end_));
  if (source->packing_ == Packing::none) return source;
  source->unpacker_ = Unpacker::make(source->packing_);
  if (!source->unpacker_)
    return command_error(Exit::environment,
                         fmt::format("the file is packed with {}, which this build cannot read: unpack it "
                                     "first, or build Parley where {} is installed",
                                     to_string(source->packing_),
                                     source->packing_ == Packing::gzip   ? "zlib1g-dev"
                                     : source->packing_ == Packing::zstd ? "libzstd-dev"
                                                                         : "liblz4-dev"));
  return source;
}

CaptureSource::CaptureSource(std::string path, std::FILE* file, bool digest)
    : path_(std::move(path)), file_(file), total_(size_of(file)), packed_(chunk) {
  if (digest) digest_.emplace();
  std::setvbuf(file, nullptr, _IONBF, 0);  // no stdio buffer: reads go directly into the caller's memory
}

std::size_t CaptureSource::read_file(MutBytes into) {
  errno = 0;
  const std::size_t n = std::fread(into.data(), 1, into.size(), file_.get());
  if (n == 0 && std::ferror(file_.get()) != 0) error_ = std::strerror(errno != 0 ? errno : EIO);
  if (n == 0 && !into.empty() && error_.empty()) at_end_ = true;
  octets_ += n;
  if (digest_) digest_->add(into.first(n));
  return n;
}

draw::InputFile CaptureSource::input() {
  draw::InputFile out{.path = path_, .without_digest = !digest_};
  // A decoding error stays in error_. Only a read error ends this loop.
  const std::string said = std::exchange(error_, {});
  if (total_ > 0 && total_ - std::min(total_, octets_) <= unread_max)
    while (!at_end_ && error_.empty()) read_file(packed_);
  error_ = said;
  if (!at_end_) return out;
  out.size = octets_;
  if (digest_) out.sha256 = digest_->finish();
  return out;
}

/// Reads more octets after those in the buffer.
bool CaptureSource::refill() {
  if (begin_ == end_) begin_ = end_ = 0;
  const std::size_t n = read_file(MutBytes(packed_).subspan(end_));
  end_ += n;
  return n > 0;
}

std::size_t CaptureSource::read(MutBytes into) {
  if (!error_.empty() || into.empty()) return 0;
  if (unpacker_) return unpack(into);
  if (begin_ == end_) return read_file(into);
  const std::size_t n = std::min(into.size(), end_ - begin_);
  std::memcpy(into.data(), packed_.data() + begin_, n);
  begin_ += n;
  return n;
}

std::size_t CaptureSource::unpack(MutBytes into) {
  for (;;) {
    // An unpacker may still hold output after it has consumed the whole file, so that it is called once more at the
    // end.
    const bool at_end = begin_ == end_ && !refill();
    if (!error_.empty()) return 0;
    const Unpacked step = unpacker_->step(ConstBytes(packed_).subspan(begin_, end_ - begin_), into);
    begin_ += step.taken;
    unpacked_ += step.made;
    const bool idle = step.taken == 0 && step.made == 0 && !step.frame_ended;
    if (!step.damage.empty() || (idle && !at_end)) {
      error_ = between_frames_
                   ? fmt::format("behind its {} data, at octet {}, the file holds something else", to_string(packing_),
                                 octets_ - (end_ - begin_))
                   : fmt::format("the {} data is damaged near octet {} of the file: {}", to_string(packing_),
                                 octets_ - (end_ - begin_), step.damage.empty() ? "it does not go on" : step.damage);
      return step.made;
    }
    if (!idle) between_frames_ = step.frame_ended;
    if (step.made > 0) return step.made;
    if (!at_end || !idle) continue;
    if (!between_frames_)
      error_ = fmt::format("the file is cut: its {} data stops at octet {} without its end; {} octets came out",
                           to_string(packing_), octets_, unpacked_);
    return 0;
  }
}

}  // namespace parley::tools
