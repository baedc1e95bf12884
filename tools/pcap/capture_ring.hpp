// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The files of an unlimited capture: BASE_00001.pcapng, BASE_00002.pcapng, ..., with a limit on their number and on the
// octets of each. The oldest file is removed before a new one is created. Files of an earlier run with the same BASE
// belong to the ring: the numbering continues after them, and they are removed in turn.
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
/// "64MiB": a number and a unit, at most 1 TiB. None if the text is anything else.
std::optional<std::uint64_t> parse_octets(std::string_view text);
/// "10x100MB". kB, MB and GB are powers of 1000; KiB, MiB and GiB are powers of 1024. Errors: a message.
tl::expected<RingSize, std::string> parse_ring_size(std::string_view text);

class CaptureRing {
 public:
  struct Options {
    std::string base;  ///< "dir/name" or "dir/name.pcapng"
    RingSize size;
    std::string interface;
    std::uint16_t link_type = 0;
    std::string comment;  ///< written into each file
  };
  /// The position of a packet.
  struct PacketPosition {
    std::string file;
    std::uint64_t frame = 0;  ///< in that file, as Wireshark numbers it
  };
  static constexpr std::uint64_t octets_min = 1'000'000;  // more than any packet needs
  static constexpr std::uint32_t files_min = 2, files_max = 100'000;

  /// Takes over the files of an earlier run and creates the first new file. Errors: environment.
  static Or<std::unique_ptr<CaptureRing>> open(const Options& options);
  ~CaptureRing();
  CaptureRing(const CaptureRing&) = delete;
  CaptureRing& operator=(const CaptureRing&) = delete;

  /// Frame numbers increase; the capture's first frame is 1. Errors: environment; nothing is written after an error.
  Or<void> packet(std::uint64_t frame, Instant at, ConstBytes octets, std::uint32_t original_length);
  /// Writes everything given so far to the file.
  Or<void> flush();
  /// flush(), then closes the last file.
  Or<void> finish();

  /// None if the frame was never written or has been removed since.
  std::optional<PacketPosition> place_of(std::uint64_t frame) const;
  const std::string& current() const { return files_.back().path; }

 private:
  struct File {
    std::string path;
    std::uint64_t first_frame = 0, frames = 0;  // first_frame: number in the capture; 0: earlier run
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
  std::optional<CommandError> failed_;
  static constexpr std::size_t buffer_max = 256 << 10;
};

}  // namespace parley::tools
