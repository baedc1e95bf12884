// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the parts of FrameAnonymizer hand to each other: a cursor over a frame, and an IP packet's payload.
#pragma once
#include "base/bytes_io.hpp"
#include "capture/anonymize/frame.hpp"

namespace parley::capture {

/// Walks an input and the output of the same size. What is asked of a field that is not there whole leaves zeros.
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
  /// The next n octets as they were, of which nothing is written.
  ConstBytes drop(std::size_t n) {
    if (!ok_ || n > in_.size() - at_) {
      ok_ = false;
      return {};
    }
    at_ += n;
    return in_.subspan(at_ - n, n);
  }
  void put(ConstBytes octets) {  // in place of those that were dropped last
    if (ok_) Writer(out_.first(at_).last(octets.size())).bytes(octets);
  }
  /// The next n octets stay; the number that they are if they are one or two.
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

/// What transport needs to know of the packet around it.
struct FrameAnonymizer::Internet {
  ConstBytes before;  ///< what is captured of the transport's octets
  MutBytes after;
  std::size_t length = 0;                       ///< on the wire
  bool whole = false;                           ///< all of them are here
  ConstBytes header_before, with_header_after;  ///< the IP header, and it with `after`
  Bytes addresses_before, addresses_after;
  Address source, destination;  ///< as they were
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
