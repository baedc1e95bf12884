// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap/capture_unpack.hpp"

#include <algorithm>
#include <limits>

#ifdef PARLEY_HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef PARLEY_HAVE_ZSTD
#include <zstd.h>
#endif
#ifdef PARLEY_HAVE_LZ4
#include <lz4frame.h>
#endif

namespace parley::tools {
namespace {

#ifdef PARLEY_HAVE_ZLIB
class Gzip final : public Unpacker {
 public:
  Gzip() { ready_ = ::inflateInit2(&stream_, gzip_only) == Z_OK; }
  ~Gzip() override {
    if (ready_) ::inflateEnd(&stream_);
  }
  Unpacked step(ConstBytes in, MutBytes out) override {
    if (!ready_) return {.damage = "zlib has no memory"};
    constexpr std::size_t most = std::numeric_limits<uInt>::max();
    stream_.next_in = const_cast<Bytef*>(in.data());  // zlib does not modify its input despite the missing const
    stream_.avail_in = static_cast<uInt>(std::min(in.size(), most));
    stream_.next_out = out.data();
    stream_.avail_out = static_cast<uInt>(std::min(out.size(), most));
    const uInt had_in = stream_.avail_in, had_out = stream_.avail_out;
    const int status = ::inflate(&stream_, Z_NO_FLUSH);
    Unpacked done{.taken = had_in - stream_.avail_in, .made = had_out - stream_.avail_out};
    done.frame_ended = status == Z_STREAM_END;
    if (done.frame_ended)
      ::inflateReset(&stream_);
    else if (status != Z_OK && status != Z_BUF_ERROR)
      done.damage = stream_.msg != nullptr ? stream_.msg : ::zError(status);
    return done;
  }

 private:
  static constexpr int gzip_only = 16 + MAX_WBITS;  // zlib.h: windowBits + 16 accepts gzip only
  z_stream stream_{};
  bool ready_ = false;
};
#endif

#ifdef PARLEY_HAVE_ZSTD
class Zstd final : public Unpacker {
 public:
  Zstd() : stream_(::ZSTD_createDStream()) {
    if (stream_ != nullptr) ::ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, zstd_window_log_max);
  }
  ~Zstd() override { ::ZSTD_freeDStream(stream_); }
  Unpacked step(ConstBytes in, MutBytes out) override {
    if (stream_ == nullptr) return {.damage = "libzstd has no memory"};
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t left = ::ZSTD_decompressStream(stream_, &to, &from);
    Unpacked done{.taken = from.pos, .made = to.pos, .frame_ended = left == 0};
    if (::ZSTD_isError(left) != 0) done.damage = ::ZSTD_getErrorName(left);
    return done;
  }

 private:
  ZSTD_DStream* stream_;
};
#endif

#ifdef PARLEY_HAVE_LZ4
class Lz4 final : public Unpacker {
 public:
  Lz4() {
    if (::LZ4F_isError(::LZ4F_createDecompressionContext(&context_, LZ4F_VERSION)) != 0) context_ = nullptr;
  }
  ~Lz4() override { ::LZ4F_freeDecompressionContext(context_); }
  Unpacked step(ConstBytes in, MutBytes out) override {
    if (context_ == nullptr) return {.damage = "liblz4 has no memory"};
    std::size_t taken = in.size(), made = out.size();
    const std::size_t left = ::LZ4F_decompress(context_, out.data(), &made, in.data(), &taken, nullptr);
    if (::LZ4F_isError(left) != 0) return {.damage = ::LZ4F_getErrorName(left)};
    return {.taken = taken, .made = made, .frame_ended = left == 0, .damage = {}};
  }

 private:
  LZ4F_dctx* context_ = nullptr;
};
#endif

}  // namespace

std::string_view to_string(Packing packing) {
  switch (packing) {
    case Packing::none: break;
    case Packing::gzip: return "gzip";
    case Packing::zstd: return "zstd";
    case Packing::lz4: return "lz4";
  }
  return "none";
}

Packing packing_of(ConstBytes head) {
  if (head.size() < 4) return Packing::none;
  // RFC 1952 §2.3.1: ID1, ID2, and CM 8 (deflate), the only method defined.
  if (head[0] == 0x1F && head[1] == 0x8B && head[2] == 8) return Packing::gzip;
  const std::uint32_t magic = std::uint32_t{head[0]} | std::uint32_t{head[1]} << 8 | std::uint32_t{head[2]} << 16 |
                              std::uint32_t{head[3]} << 24;
  // RFC 8878 §3.1: a Zstandard frame, or a skippable frame, which pzstd writes first.
  if (magic == 0xFD2FB528 || (magic & 0xFFFFFFF0) == 0x184D2A50) return Packing::zstd;
  if (magic == 0x184D2204) return Packing::lz4;  // LZ4 frame format 1.6.x
  return Packing::none;
}

std::unique_ptr<Unpacker> Unpacker::make(Packing packing) {
  switch (packing) {
    case Packing::none: break;
    case Packing::gzip:
#ifdef PARLEY_HAVE_ZLIB
      return std::make_unique<Gzip>();
#else
      break;
#endif
    case Packing::zstd:
#ifdef PARLEY_HAVE_ZSTD
      return std::make_unique<Zstd>();
#else
      break;
#endif
    case Packing::lz4:
#ifdef PARLEY_HAVE_LZ4
      return std::make_unique<Lz4>();
#else
      break;
#endif
  }
  return nullptr;
}

}  // namespace parley::tools
