// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The octets of a capture file, whether it is packed with gzip, zstd or lz4 or not: every command that reads captures
// reads them through here.
#pragma once
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "draw/provenance.hpp"
#include "tools/options.hpp"
#include "tools/pcap/capture_unpack.hpp"
#include "tools/pcap/digest.hpp"

namespace parley::tools {

class CaptureSource {
 public:
  /// "-" is standard input. With `digest` input() tells the SHA-256. Errors: environment.
  static Or<std::unique_ptr<CaptureSource>> open(const std::string& path, bool digest = false);

  /// The next octets, at most what fits; 0 at the end, or when error() says why there are no more.
  std::size_t read(MutBytes into);
  /// One line; empty while all is well.
  const std::string& error() const { return error_; }
  Packing packing() const { return packing_; }
  /// Read from the file so far, as it is packed, and its size; a size of 0 is unknown (a pipe).
  std::uint64_t octets() const { return octets_; }
  std::uint64_t total() const { return total_; }
  /// The file as it lies on the disk. Of a damaged file what is left is read for that, if it is no more than
  /// `unread_max`; of a pipe, or a longer one, that was not read to its end nothing is known. Once, at the end.
  draw::InputFile input();

 private:
  struct FileCloser {
    void operator()(std::FILE* f) const {
      if (f != stdin) std::fclose(f);
    }
  };
  static constexpr std::size_t chunk = 128 << 10;  ///< packed octets read at a time
  static constexpr std::uint64_t unread_max = 256 << 20;

  CaptureSource(std::string path, std::FILE* file, bool digest);
  std::size_t read_file(MutBytes into);
  std::size_t unpack(MutBytes into);
  bool refill();

  std::string path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
  std::optional<Sha256> digest_;
  bool at_end_ = false;
  std::uint64_t total_ = 0, octets_ = 0, unpacked_ = 0;
  Packing packing_ = Packing::none;
  std::unique_ptr<Unpacker> unpacker_;
  bool between_frames_ = false;
  Bytes packed_;  ///< at most chunk; what was read and not yet handed on
  std::size_t begin_ = 0, end_ = 0;
  std::string error_;
};

}  // namespace parley::tools
