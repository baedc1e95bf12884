// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Transactional memory that outlives the processes that write to it: a block of fixed size with a journal. The journal
// gets the old content before each change. A process may die between any two stores. The next process rolls back the
// journal and finds the block as it was before the transaction. The block contains offsets and no pointers, so that
// each process may map it at a different address.
//
// Pure: the driver (drivers/xrcshm) provides the block and the mutual exclusion.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace parley::xrc {

/// Thrown if the block or its journal is full, or if a test requests it: the transaction must be rolled back. It does
/// not leave transact() (shared_registry.hpp).
struct Exhausted {};

/// The head of a block. The block is aligned to its length, so that an address inside leads to the head.
class Arena {
 public:
  static constexpr std::size_t block = std::size_t{1} << 24;    ///< octets; also the alignment
  static constexpr std::size_t before = std::size_t{1} << 16;   ///< octets at the block's start, for the driver
  static constexpr std::size_t journal = std::size_t{1} << 22;  ///< octets
  static constexpr std::uint32_t buckets = 1U << 16;            ///< of the hash table, which all containers share
  static constexpr std::uint32_t unit = 16, largest = 1024;     ///< granularity and maximum of allocations, octets
  static constexpr std::uint32_t kept_back = std::uint32_t{2}
                                             << 20;  ///< octets that only transactions of Kind::lets_go may use

  static Arena& of(const void* inside) {
    return *reinterpret_cast<Arena*>((reinterpret_cast<std::uintptr_t>(inside) & ~(block - 1)) + before);
  }
  /// Formats a block, whatever its content. Reserves `root` octets for the user's object.
  static Arena& format(void* block_begin, std::uint32_t root);
  /// From now on only the first `octets` octets of the user's object change, and begin() logs only these.
  void only_changes(std::uint32_t octets) { changing_ = octets; }
  void* root() { return at(root_); }

  // ---- transactions

  enum class Kind : std::uint8_t { grows, lets_go };
  /// Logs the user's object, so that its scalars may be changed without log().
  void begin(Kind kind);
  void commit() {
    fence();
    set_end(0);
  }
  /// Commits, and begins a new transaction of the same kind. The content must be consistent at this point.
  void checkpoint() {
    commit();
    begin(kind_);
  }
  /// Rolls back the open transaction, whichever process began it. If undo() itself is interrupted, call it again.
  void undo();
  bool is_open() const { return end_ != 0; }
  /// Whether the head is plausible; otherwise the block is lost.
  bool is_sound() const;

  // ---- within a transaction

  /// Writes the old octets to the journal; call it before they change. Throws Exhausted.
  void log(const void* what, std::uint32_t length) {
    std::uint8_t* const entry = make_entry(what, length);
    std::memcpy(entry, what, length);
    finish_entry(entry, length);
  }
  /// The same for a length that is known at compile time. These calls are most of a transaction's cost.
  template <std::uint32_t length>
  [[gnu::always_inline]] void log(const void* what) {
    std::uint8_t* const entry = make_entry(what, length);
    std::memcpy(entry, what, length);
    finish_entry(entry, length);
  }
  template <class T>
  void set(T& what, std::type_identity_t<T> value) {
    static_assert(std::is_trivially_copyable_v<T>);
    log<sizeof(T)>(&what);
    what = value;
  }
  std::uint32_t allocate(std::uint32_t octets);  ///< throws Exhausted
  void release(std::uint32_t offset, std::uint32_t octets);
  /// For optional data: false if it would use the octets that are kept back.
  bool has_room() const { return room_.free_octets > std::uint64_t{kept_back} + largest; }
  std::uint64_t transaction() const { return transaction_; }

  // ---- places

  template <class T = void>
  T* at(std::uint32_t offset) {
    return reinterpret_cast<T*>(base() + offset);
  }
  std::uint32_t offset_of(const void* p) const {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(p) & (block - 1));
  }
  std::uint32_t& bucket(std::uint64_t hash) { return at<std::uint32_t>(table_at)[hash & (buckets - 1)]; }
  std::uint64_t free_octets() const { return room_.free_octets; }

  // ---- tests

  /// The process traps, as if it were killed, at the n-th point() from now. 0: never.
  void die_before(std::uint32_t n) { until_death_ = n; }
  /// The n-th allocation from now fails. 0: none.
  void fail_at(std::uint32_t n) { until_failure_ = n; }
  std::uint32_t until_death() const { return until_death_; }
  std::uint32_t until_failure() const { return until_failure_; }
  /// A place where a test may end the process. Each log() has one.
  void point() {
    if (until_death_ != 0 && --until_death_ == 0) __builtin_trap();
  }

 private:
  struct Footer {
    std::uint32_t offset, length;
  };
  static constexpr std::size_t head = 4096;
  static constexpr std::uint32_t table_at = before + head;
  static constexpr std::uint32_t journal_at = table_at + buckets * sizeof(std::uint32_t);
  static constexpr std::uint32_t nodes_at = journal_at + journal;

  std::uint8_t* base() const {
    return reinterpret_cast<std::uint8_t*>(reinterpret_cast<std::uintptr_t>(this) & ~(block - 1));
  }
  /// Keeps the compiler from reordering stores, so that a killed process has done exactly those before some point.
  static void fence() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
  static constexpr std::uint32_t padded(std::uint32_t length) { return (length + 7U) & ~7U; }
  [[gnu::always_inline]] std::uint8_t* make_entry(const void* what, std::uint32_t length) {
    point();
    if (end_ + padded(length) + sizeof(Footer) > journal) throw Exhausted{};
    std::uint8_t* const entry = base() + journal_at + end_;
    const Footer footer{offset_of(what), length};
    std::memcpy(entry + padded(length), &footer, sizeof(footer));
    return entry;
  }
  /// From here on the entry is part of the journal.
  [[gnu::always_inline]] void finish_entry(const std::uint8_t* entry, std::uint32_t length) {
    fence();
    const auto from = static_cast<std::uint32_t>(entry - base() - journal_at);
    set_end(from + padded(length) + static_cast<std::uint32_t>(sizeof(Footer)));
    fence();
  }
  void set_end(std::uint32_t end) { __atomic_store_n(&end_, end, __ATOMIC_RELEASE); }

  std::uint32_t end_ = 0;  // of the journal; 0: no transaction
  std::uint32_t until_death_ = 0, until_failure_ = 0;
  std::uint32_t root_ = 0, root_size_ = 0, changing_ = 0;
  Kind kind_ = Kind::grows;
  std::uint64_t transaction_ = 0;  // only increases, so that marks of an undone transaction do not match a later one
  struct Room {
    std::uint64_t free_octets = 0;
    std::uint64_t next = 0;  // offset of the first octet that was never allocated
  } room_{};
  std::array<std::uint32_t, largest / unit + 1> free_{};  // heads of the free lists, by size in units
};

}  // namespace parley::xrc
