// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The octets of a capture file, uncompressed or compressed with gzip, zstd or lz4. Every command that reads captures
// reads them through this class.
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
  /// "-" is standard input. With `digest`, input() contains the SHA-256. Errors: environment.
  static Or<std::unique_ptr<CaptureSource>> open(const std::string& path, bool digest = false);

  /// The next octets, at most into.size(). 0 at the end, or after an error (see error()).
  std::size_t read(MutBytes into);
  /// One line; empty if there was no error.
  const std::string& error() const { return error_; }
  Packing packing() const { return packing_; }
  /// Octets read from the file so far (compressed), and its size; 0 if unknown (a pipe).
  std::uint64_t octets() const { return octets_; }
  std::uint64_t total() const { return total_; }
  /// Size and digest of the file on disk. If the file is damaged, up to `unread_max` unread octets are read for this.
  /// Size and digest stay empty if more is unread, or if a pipe was not read to its end. Call it once, at the end.
  draw::InputFile input();

 private:
  struct FileCloser {
    void operator()(std::FILE* f) const {
      if (f != stdin) std::fclose(f);
    }
  };
  static constexpr std::size_t chunk = 128 << 10;  ///< compressed octets per read
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
  Bytes packed_;  ///< at most `chunk`; read but not yet consumed
  std::size_t begin_ = 0, end_ = 0;
  std::string error_;
};

}  // namespace parley::tools
