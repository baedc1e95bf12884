// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap/capture_ring.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "drivers/private_file.hpp"

namespace parley::tools {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t digits_min = 5;
constexpr std::size_t record_overhead = 64;  // of an enhanced packet block with its padding and flags

struct OctetUnit {
  std::string_view name;
  std::uint64_t octets;
};
constexpr std::array octet_units = {OctetUnit{"kB", 1000},          OctetUnit{"MB", 1'000'000},
                                    OctetUnit{"GB", 1'000'000'000}, OctetUnit{"KiB", 1 << 10},
                                    OctetUnit{"MiB", 1 << 20},      OctetUnit{"GiB", 1 << 30}};

/// Removes the number at the beginning of `text` and returns it.
std::optional<std::uint64_t> number(std::string_view& text) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return n;
}

/// The number in "STEM_00012.EXT"; none for any other name.
std::optional<std::uint64_t> number_in(std::string_view name, std::string_view stem, std::string_view extension) {
  if (!name.starts_with(stem) || !name.ends_with(extension) || name.size() <= stem.size() + extension.size())
    return std::nullopt;
  std::string_view digits = name.substr(stem.size(), name.size() - stem.size() - extension.size());
  if (digits.front() != '_' || digits.size() < 1 + digits_min || digits.size() > 16) return std::nullopt;
  digits.remove_prefix(1);
  const auto n = number(digits);
  return digits.empty() ? n : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> parse_octets(std::string_view text) {
  const auto n = number(text);
  const auto unit =
      std::find_if(octet_units.begin(), octet_units.end(), [&](const OctetUnit& u) { return u.name == text; });
  if (!n || unit == octet_units.end() || *n > (std::uint64_t{1} << 40) / unit->octets) return std::nullopt;
  return *n * unit->octets;
}

tl::expected<RingSize, std::string> parse_ring_size(std::string_view text) {
  std::string_view rest = text;
  const auto files = number(rest);
  const bool two = files && rest.starts_with('x');
  const auto octets = two ? parse_octets(rest.substr(1)) : std::nullopt;
  if (!octets)
    return tl::unexpected(
        fmt::format("'{}' is not FILESxSIZE, such as 10x100MB (units kB MB GB KiB MiB GiB, at most 1 TiB)", text));
  if (*files < CaptureRing::files_min || *files > CaptureRing::files_max)
    return tl::unexpected(
        fmt::format("a ring has {} to {} files, not {}", CaptureRing::files_min, CaptureRing::files_max, *files));
  if (*octets < CaptureRing::octets_min)
    return tl::unexpected(fmt::format("the files of a ring have 1 MB at least, not {}", rest.substr(1)));
  return RingSize{static_cast<std::uint32_t>(*files), *octets};
}

Or<std::unique_ptr<CaptureRing>> CaptureRing::open(const Options& options) {
  std::unique_ptr<CaptureRing> ring(new CaptureRing(options));
  const fs::path base(options.base);
  const std::string extension = base.extension().string();
  const bool named = extension == ".pcapng" || extension == ".pcap";  // the files are pcapng in both cases
  ring->extension_ = ".pcapng";
  ring->stem_ = named ? base.stem().string() : base.filename().string();
  ring->options_.base = base.parent_path().string();
  if (ring->stem_.empty())
    return command_error(Exit::usage, fmt::format("'{}' is not a file name; a ring needs a base name", options.base));
  if (auto found = ring->find_earlier(); !found) return tl::unexpected(found.error());
  if (auto made = ring->next_file(); !made) return tl::unexpected(made.error());
  return ring;
}

CaptureRing::~CaptureRing() {
  if (fd_ >= 0) ::close(fd_);
}

std::string CaptureRing::path_of(std::uint64_t n) const {
  return (fs::path(options_.base) / fmt::format("{}_{:0{}}{}", stem_, n, digits_min, extension_)).string();
}

Or<void> CaptureRing::find_earlier() {
  const std::string directory = options_.base.empty() ? "." : options_.base;
  std::map<std::uint64_t, std::string> earlier;  // bounded by the number of files in the directory
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    if (const auto n = number_in(at->path().filename().string(), stem_, extension_))
      if (at->path().filename() == fs::path(path_of(*n)).filename()) earlier.emplace(*n, at->path().string());
  if (error) return command_error(Exit::environment, fmt::format("cannot read '{}': {}", directory, error.message()));
  for (auto& [n, path] : earlier) {
    files_.push_back({std::move(path), 0, 0});
    last_number_ = n;
  }
  return {};
}

Or<void> CaptureRing::failed(std::string_view what, int error) {
  failed_ = CommandError{Exit::environment, fmt::format("cannot {}: {}", what, std::strerror(error))};
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  buffer_.clear();
  return tl::unexpected(*failed_);
}

Or<void> CaptureRing::next_file() {
  while (files_.size() >= options_.size.files) {
    if (::unlink(files_.front().path.c_str()) != 0 && errno != ENOENT)
      return failed(fmt::format("remove '{}'", files_.front().path), errno);
    files_.pop_front();
  }
  const std::string path = path_of(++last_number_);
  // The number is new. A file or link that already has this name is not ours, so that it is not overwritten.
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, private_mode);
  if (fd_ < 0) return failed(fmt::format("create '{}'", path), errno);
  files_.push_back({path, 0, 0});
  buffer_.clear();
  writer_.emplace(buffer_, wire::PcapngSection{.application = "parley " PARLEY_VERSION, .comment = options_.comment});
  interface_ = writer_->add_interface(options_.interface, options_.link_type);
  written_ = buffer_.size();
  return {};
}

Or<void> CaptureRing::packet(std::uint64_t frame, Instant at, ConstBytes octets, std::uint32_t original_length) {
  if (failed_) return tl::unexpected(*failed_);
  if (files_.back().frames > 0 && written_ + octets.size() + record_overhead > options_.size.octets) {
    if (auto closed = close_file(); !closed) return closed;
    if (auto made = next_file(); !made) return made;
  }
  const std::size_t before = buffer_.size();
  writer_->packet(interface_, at, octets, {}, wire::PacketDirection::unknown, original_length);
  written_ += buffer_.size() - before;
  File& file = files_.back();
  if (file.frames++ == 0) file.first_frame = frame;
  return buffer_.size() < buffer_max ? Or<void>{} : flush();
}

Or<void> CaptureRing::flush() {
  if (failed_) return tl::unexpected(*failed_);
  for (std::size_t done = 0; done < buffer_.size();) {
    const ssize_t n = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(fmt::format("write '{}'", current()), n == 0 ? ENOSPC : errno);
    done += static_cast<std::size_t>(n);
  }
  buffer_.clear();
  return {};
}

Or<void> CaptureRing::close_file() {
  if (auto flushed = flush(); !flushed) return flushed;
  // Some file systems report a full disk only at close().
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR)
    return failed(fmt::format("write '{}'", current()), errno);
  return {};
}

Or<void> CaptureRing::finish() {
  if (failed_) return tl::unexpected(*failed_);
  return close_file();
}

std::optional<CaptureRing::PacketPosition> CaptureRing::place_of(std::uint64_t frame) const {
  for (const File& file : files_)
    if (file.frames > 0 && frame >= file.first_frame && frame - file.first_frame < file.frames)
      return PacketPosition{file.path, frame - file.first_frame + 1};
  return std::nullopt;
}

}  // namespace parley::tools
