// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Memory that outlives whoever writes it: a block of fixed size, of which each change is written into a journal first. A
// process may die between any two stores; the one that comes after it undoes what the journal has, and finds the block
// as it was before the transaction began. Nothing in the block is a pointer, so that it may lie elsewhere in each process.
//
// Pure: where the block comes from, and who may enter it, is its driver's affair (drivers/xrcshm).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace parley::xrc {

/// The block or its journal is full, or a test said so: the transaction is to be rolled back. Nobody outside sees it.
struct Exhausted {};

/// The head of a block. The block is aligned to its length, so that whatever lies in it finds its head.
class Arena {
 public:
  static constexpr std::size_t block = std::size_t{1} << 24;    ///< octets; also the alignment
  static constexpr std::size_t before = std::size_t{1} << 16;   ///< octets of the block that are its driver's own
  static constexpr std::size_t journal = std::size_t{1} << 22;  ///< octets
  static constexpr std::uint32_t buckets = 1U << 16;            ///< of the one hash table of all containers
  static constexpr std::uint32_t unit = 16, largest = 1024;     ///< sizes of what is allocated, octets
  static constexpr std::uint32_t kept_back = std::uint32_t{2}
                                             << 20;  ///< octets for transactions that let go of something

  static Arena& of(const void* inside) {
    return *reinterpret_cast<Arena*>((reinterpret_cast<std::uintptr_t>(inside) & ~(block - 1)) + before);
  }
  /// In a block of zeros, or of anything. `root` octets are set aside for the user's object.
  static Arena& format(void* block_begin, std::uint32_t root);
  /// Of the user's object: its first octets alone, so many, change from now on.
  void only_changes(std::uint32_t octets) { changing_ = octets; }
  void* root() { return at(root_); }

  // ---- transactions

  enum class Kind : std::uint8_t { grows, lets_go };
  /// `root` is written down as it is: its scalars may be changed freely.
  void begin(Kind kind);
  void commit() {
    fence();
    set_end(0);
  }
  /// What is done is done; what comes is another transaction. Between the two all must be consistent.
  void checkpoint() {
    commit();
    begin(kind_);
  }
  /// Rolls back what was begun, by whomever. May itself be interrupted, and be begun again.
  void undo();
  bool is_open() const { return end_ != 0; }
  /// Whether the head makes sense; the block is lost if not.
  bool is_sound() const;

  // ---- within a transaction

  /// To be called before the octets are changed. Throws Exhausted.
  void log(const void* what, std::uint32_t length) {
    std::uint8_t* const entry = make_entry(what, length);
    std::memcpy(entry, what, length);
    finish_entry(entry, length);
  }
  /// The same of a length that the compiler knows: most of what a transaction costs.
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
  /// For what may be left out: false where it would use what others need.
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

  /// The process ends, without another word, before the n-th thing from now that it would do to the block. 0: not.
  void die_before(std::uint32_t n) { until_death_ = n; }
  /// The n-th allocation from now fails. 0: none.
  void fail_at(std::uint32_t n) { until_failure_ = n; }
  std::uint32_t until_death() const { return until_death_; }
  std::uint32_t until_failure() const { return until_failure_; }
  /// A place where a test may end the process; all of log() are such.
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
  /// The order of stores is the one that they are written in: a process that is killed has done all before some point.
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
  /// It counts from here on.
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
  std::uint64_t transaction_ =
      0;  // rises always, so that what was marked in one that was undone is not taken for this one's
  struct Room {
    std::uint64_t free_octets = 0;
    std::uint64_t next = 0;  // octets never used begin here
  } room_{};
  std::array<std::uint32_t, largest / unit + 1> free_{};  // heads of lists, by size in units
};

}  // namespace parley::xrc
