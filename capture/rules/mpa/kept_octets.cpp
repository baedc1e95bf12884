// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/mpa/kept_octets.hpp"

#include <algorithm>
#include <utility>

namespace parley::capture {

void KeptOctets::keep(KeptPiece piece) {
  const bool overflowing = !pieces_.empty() && pieces_.back().overflow;
  if (!overflowing && used_ + piece.data.size() <= max) {
    used_ += piece.data.size() + per_piece;
    pieces_.push_back(std::move(piece));
    return;
  }
  const std::uint64_t n = piece.data.size() + piece.missing;
  if (!overflowing) {
    used_ += per_piece;
    pieces_.push_back({.ref = piece.ref, .at = piece.at, .overflow = true});
  }
  pieces_.back().missing += n;
  dropped_ += n;
}

KeptOctets::Head KeptOctets::head(std::size_t limit) const {
  Head out;
  for (const KeptPiece& piece : pieces_) {
    if (out.octets.size() == limit) break;
    out.hole = piece.missing > 0;
    if (out.hole) break;
    const ConstBytes part = ConstBytes(piece.data).first(std::min(piece.data.size(), limit - out.octets.size()));
    out.octets.insert(out.octets.end(), part.begin(), part.end());
  }
  return out;
}

SegmentRef KeptOctets::carrier(std::size_t n) const {
  auto piece = pieces_.begin();
  for (std::size_t seen = piece->data.size(); seen < n; seen += piece->data.size()) ++piece;
  return piece->ref;
}

void KeptOctets::drop(std::size_t n) {
  while (n > 0 && !pieces_.empty()) {
    KeptPiece& piece = pieces_.front();
    const std::size_t skip = std::min(n, piece.data.size());
    piece.data.erase(piece.data.begin(), piece.data.begin() + static_cast<std::ptrdiff_t>(skip));
    piece.start = false;
    piece.at += skip;
    used_ -= skip;
    n -= skip;
    if (piece.data.empty()) (void)take();
  }
}

std::optional<KeptPiece> KeptOctets::take() {
  if (pieces_.empty()) return {};
  KeptPiece piece = std::move(pieces_.front());
  pieces_.pop_front();
  used_ -= piece.data.size() + per_piece;
  return piece;
}

void KeptOctets::clear() {
  pieces_.clear();
  used_ = 0;
}

}  // namespace parley::capture
