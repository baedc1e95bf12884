// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Types shared by the parts of FrameAnonymizer: a cursor over a frame, and an IP packet's payload.
#pragma once
#include "base/bytes_io.hpp"
#include "capture/anonymize/frame.hpp"

namespace parley::capture {

/// Walks an input and an output of the same size. A field that is not captured whole stays zero in the output.
class FrameAnonymizer::Cursor {
 public:
  Cursor(ConstBytes in, MutBytes out) : in_(in), out_(out) {}
  bool ok() const { return ok_; }
  std::size_t at() const { return at_; }
  std::size_t left() const { return ok_ ? in_.size() - at_ : 0; }
  ConstBytes before() const { return in_; }
  MutBytes after() const { return out_; }
  ConstBytes rest_before() const { return in_.subspan(at_); }
  MutBytes rest_after() const { return out_.subspan(at_); }
  /// Returns the next n input octets, and writes nothing.
  ConstBytes drop(std::size_t n) {
    if (!ok_ || n > in_.size() - at_) {
      ok_ = false;
      return {};
    }
    at_ += n;
    return in_.subspan(at_ - n, n);
  }
  void put(ConstBytes octets) {  // writes in place of the octets dropped last
    if (ok_) Writer(out_.first(at_).last(octets.size())).bytes(octets);
  }
  /// Copies the next n octets to the output. Returns their value if n is 1 or 2.
  std::uint16_t keep(std::size_t n) {
    const ConstBytes octets = drop(n);
    put(octets);
    Reader r(octets);
    return n == 1 ? r.u8() : r.be16();
  }

 private:
  ConstBytes in_;
  MutBytes out_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

/// The IP packet around a transport segment.
struct FrameAnonymizer::Internet {
  ConstBytes before;  ///< the captured octets of the IP payload
  MutBytes after;
  std::size_t length = 0;                       ///< of the IP payload on the wire
  bool whole = false;                           ///< the IP payload is captured whole
  ConstBytes header_before, with_header_after;  ///< the old IP header; the new IP header followed by `after`
  Bytes addresses_before, addresses_after;
  Address source, destination;  ///< the original ones
  Bytes pseudo(ConstBytes addresses, std::uint8_t protocol) const {
    Bytes out(addresses.begin(), addresses.end());
    out.resize(out.size() + 8);
    Writer w(MutBytes(out).last(8));
    w.be32(static_cast<std::uint32_t>(length));
    w.be32(protocol);
    return out;
  }
};

}  // namespace parley::capture
