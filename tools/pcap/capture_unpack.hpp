// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// gzip, zstd and lz4 files unpacked as a stream: octets in, octets out, and never more memory than a window's. How long
// what comes out may be is the caller's affair, who asks for it piece by piece.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "parley/bytes.hpp"

namespace parley::tools {

enum class Packing : std::uint8_t { none, gzip, zstd, lz4 };
std::string_view to_string(Packing packing);
/// By the first four octets of a file.
Packing packing_of(ConstBytes head);

/// One step of an unpacker.
struct Unpacked {
  std::size_t taken = 0, made = 0;
  bool frame_ended = false;  ///< nothing is owed any more: a further frame or the end of the file may follow
  std::string damage;        ///< why it cannot go on; empty when it can
};

class Unpacker {
 public:
  /// A zstd frame may ask its reader for any window up to 4 GiB; here is how far that goes, as zstd's own default has
  /// it.
  static constexpr int zstd_window_log_max = 27;

  virtual ~Unpacker() = default;
  /// Takes from `in`, fills `out`. After the end of a frame the next step begins another.
  virtual Unpacked step(ConstBytes in, MutBytes out) = 0;
  /// Null where this build has no library for that packing.
  static std::unique_ptr<Unpacker> make(Packing packing);
};

}  // namespace parley::tools
