// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a capture without end leaves on the disk: BASE_00001.pcapng, BASE_00002.pcapng, ... at most so many files of at
// most so many octets. The oldest goes before a new one comes. Files of an earlier run on the same BASE are part of the
// ring: their numbers go on, and they go as well.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "tools/options.hpp"
#include "wire/pcapng.hpp"

namespace parley::tools {

struct RingSize {
  std::uint32_t files = 0;
  std::uint64_t octets = 0;  ///< of each
};
/// "64MiB": a number and a unit, at most 1 TiB. None: it is no such thing.
std::optional<std::uint64_t> parse_octets(std::string_view text);
/// "10x100MB": kB, MB and GB count in thousands, KiB, MiB and GiB in 1024. Errors: in words.
tl::expected<RingSize, std::string> parse_ring_size(std::string_view text);

class CaptureRing {
 public:
  struct Options {
    std::string base;  ///< "dir/name" or "dir/name.pcapng"
    RingSize size;
    std::string interface;
    std::uint16_t link_type = 0;
    std::string comment;  ///< of each file
  };
  /// Where a packet stands.
  struct Place {
    std::string file;
    std::uint64_t frame = 0;  ///< in that file, as Wireshark numbers it
  };
  static constexpr std::uint64_t octets_min = 1'000'000;  // more than any packet takes
  static constexpr std::uint32_t files_min = 2, files_max = 100'000;

  /// Takes over what an earlier run left, and creates the first file. Errors: environment.
  static Or<std::unique_ptr<CaptureRing>> open(const Options& options);
  ~CaptureRing();
  CaptureRing(const CaptureRing&) = delete;
  CaptureRing& operator=(const CaptureRing&) = delete;

  /// Frames are numbered upwards, 1 for the first of the capture. Errors: environment; nothing more is written then.
  Or<void> packet(std::uint64_t frame, Instant at, ConstBytes octets, std::uint32_t original_length);
  /// What was given so far stands in the file afterwards.
  Or<void> flush();
  /// flush(), and the last file is closed.
  Or<void> finish();

  /// None: it was never written, or is overwritten by now.
  std::optional<Place> place_of(std::uint64_t frame) const;
  const std::string& current() const { return files_.back().path; }

 private:
  struct File {
    std::string path;
    std::uint64_t first_frame = 0, frames = 0;  // of the capture; 0: of an earlier run
  };
  explicit CaptureRing(Options options) : options_(std::move(options)) {}
  Or<void> find_earlier();
  Or<void> next_file();
  Or<void> close_file();
  Or<void> failed(std::string_view what, int error);
  std::string path_of(std::uint64_t number) const;

  Options options_;
  std::string stem_, extension_;
  std::deque<File> files_;  // oldest first, at most options_.size.files
  std::uint64_t last_number_ = 0;
  int fd_ = -1;
  std::uint64_t written_ = 0;  // octets of the current file, buffer_ included
  Bytes buffer_;
  std::optional<wire::PcapngWriter> writer_;
  std::uint32_t interface_ = 0;
  std::optional<Complaint> failed_;
  static constexpr std::size_t buffer_max = 256 << 10;
};

}  // namespace parley::tools
