// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Unpacks gzip, zstd and lz4 files as a stream. Memory is bounded by the decompression window. The output is not
// limited: the caller requests it piece by piece.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "parley/bytes.hpp"

namespace parley::tools {

enum class Packing : std::uint8_t { none, gzip, zstd, lz4 };
std::string_view to_string(Packing packing);
/// Detects the compression by the first four octets of a file.
Packing packing_of(ConstBytes head);

/// The result of one step of an unpacker.
struct Unpacked {
  std::size_t taken = 0, made = 0;
  bool frame_ended = false;  ///< no frame is open: another frame or the end of the file may follow
  std::string damage;        ///< why unpacking cannot continue; empty if it can
};

class Unpacker {
 public:
  /// A zstd frame may require a window of up to 4 GiB. This is the limit here, the same as zstd's default.
  static constexpr int zstd_window_log_max = 27;

  virtual ~Unpacker() = default;
  /// Consumes octets of `in` and fills `out`. After the end of a frame the next step begins another frame.
  virtual Unpacked step(ConstBytes in, MutBytes out) = 0;
  /// Null if this build lacks the library for `packing`.
  static std::unique_ptr<Unpacker> make(Packing packing);
};

}  // namespace parley::tools
