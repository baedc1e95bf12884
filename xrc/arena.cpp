// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "xrc/arena.hpp"

#include <new>

namespace parley::xrc {
namespace {

constexpr std::uint32_t units(std::uint32_t octets) { return (octets + Arena::unit - 1) / Arena::unit; }

}  // namespace

Arena& Arena::format(void* block_begin, std::uint32_t root) {
  auto* const begin = static_cast<std::uint8_t*>(block_begin);
  std::memset(begin + table_at, 0, buckets * sizeof(std::uint32_t));
  static_assert(sizeof(Arena) <= head);
  Arena& arena = *new (begin + before) Arena;
  arena.root_ = nodes_at;
  arena.root_size_ = units(root) * unit;
  arena.changing_ = arena.root_size_;
  arena.room_.next = arena.root_ + arena.root_size_;
  arena.room_.free_octets = block - arena.room_.next;
  return arena;
}

bool Arena::is_sound() const {
  bool sound = end_ <= journal && root_ == nodes_at && room_.next >= nodes_at + root_size_ && room_.next <= block &&
               room_.free_octets <= block - nodes_at;
  for (const std::uint32_t list : free_) sound = sound && (list == 0 || (list >= nodes_at && list < room_.next));
  return sound;
}

// ---- the journal: each entry is the old content and then a footer, so that undo() reads from the end
// ------------------

void Arena::begin(Kind kind) {
  kind_ = kind;
  ++transaction_;
  log<sizeof(room_)>(&room_);  // the first entry opens the transaction
  log(at(root_), changing_);
}

void Arena::undo() {
  std::uint32_t end = end_;
  while (end >= sizeof(Footer)) {
    Footer footer{};
    std::memcpy(&footer, base() + journal_at + end - sizeof(Footer), sizeof(footer));
    const std::uint32_t taken = padded(footer.length) + static_cast<std::uint32_t>(sizeof(Footer));
    if (footer.length > journal || taken > end || footer.offset < before || footer.offset > block - footer.length)
      break;  // no valid entry
    end -= taken;
    std::memcpy(base() + footer.offset, base() + journal_at + end, footer.length);
  }
  until_death_ = until_failure_ = 0;
  fence();
  set_end(0);
}

// ---- allocation --------------------------------------------------------------------------------------------------

std::uint32_t Arena::allocate(std::uint32_t octets) {
  if (until_failure_ != 0 && --until_failure_ == 0) throw Exhausted{};
  const std::uint32_t size = units(octets);
  if (size >= free_.size()) throw Exhausted{};
  if (kind_ == Kind::grows && room_.free_octets < std::uint64_t{kept_back} + size * unit) throw Exhausted{};
  std::uint32_t& list = free_[size];
  std::uint32_t out = list;
  if (out != 0) {
    log(at(out), size * unit);  // undo() needs its content: it may have been released in this transaction
    std::uint32_t next = 0;
    std::memcpy(&next, at(out), sizeof(next));
    set(list, next);
  } else {
    if (room_.next > block - size * unit) throw Exhausted{};
    out = static_cast<std::uint32_t>(room_.next);
    room_.next += size * unit;  // begin() has logged it
  }
  room_.free_octets -= size * unit;
  return out;
}

void Arena::release(std::uint32_t offset, std::uint32_t octets) {
  const std::uint32_t size = units(octets);
  log(at(offset), sizeof(std::uint32_t));
  std::memcpy(at(offset), &free_[size], sizeof(std::uint32_t));
  set(free_[size], offset);
  room_.free_octets += size * unit;
}

}  // namespace parley::xrc
