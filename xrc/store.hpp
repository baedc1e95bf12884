// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Storage for a registry: the process's own memory, or an Arena that processes share. Both provide the parts of
// std::map, std::set and std::deque that the registry uses, under the same names.
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <map>
#include <new>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "parley/xrc.hpp"
#include "xrc/arena.hpp"

namespace parley::xrc {

/// The broker's storage, in the memory of one process; it ends with that process.
struct HeapStore {
  template <class K, class V>
  using Map = std::map<K, V>;
  template <class K>
  using Set = std::set<K>;
  template <class K>
  using SortedSet = std::set<K>;
  template <class T>
  using Deque = std::deque<T>;
  using ProcessRecord = Process;
  template <class T>
  static bool has_room(const std::deque<T>&) {
    return true;
  }
  static void checkpoint(const void*) {}
  /// Inserts a key that the set does not contain.
  template <class K>
  static void insert_new(std::set<K>& set, const K& key) {
    set.insert(key);
  }
};

// ---- in an arena -------------------------------------------------------------------------------------------------

inline std::uint64_t key_hash(std::uint64_t key) { return key; }
inline std::uint64_t key_hash(const Peer& p) { return p.ca_guid * 31 + p.qpn; }
inline std::uint64_t key_hash(const DomainKey& k) { return (k.device * 31 + k.st_dev) * 31 + k.st_ino; }
inline std::uint64_t key_hash(const std::pair<Instant, std::uint64_t>& k) {
  return static_cast<std::uint64_t>(k.first.time_since_epoch().count()) * 31 + k.second;
}

/// A list of entries that are also in the arena's hash table if they have keys. Entry has `first`, and possibly
/// `second`. An access through a non-const container logs the entry, so that the caller may change it until the next
/// checkpoint.
template <class Entry>
class ArenaList {
 protected:
  struct Node {
    std::uint32_t chain = 0, next = 0, previous = 0, owner = 0;
    std::uint64_t touched = 0;  // the transaction that has logged the entry
    Entry entry{};
  };
  template <bool is_const>
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Entry;
    using difference_type = std::ptrdiff_t;
    using reference = std::conditional_t<is_const, const Entry&, Entry&>;
    using pointer = std::conditional_t<is_const, const Entry*, Entry*>;
    Iterator() = default;
    Iterator(const void* home, std::uint32_t at) : home_(home), at_(at) {}
    reference operator*() const { return touched(); }
    pointer operator->() const { return &touched(); }
    Iterator& operator++() {
      at_ = node().next;
      return *this;
    }
    Iterator operator++(int) {
      Iterator out = *this;
      ++*this;
      return out;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }
    std::uint32_t at() const { return at_; }

   private:
    Node& node() const { return *Arena::of(home_).template at<Node>(at_); }
    reference touched() const {
      Node& n = node();
      if constexpr (!is_const) touch(Arena::of(home_), n);
      return n.entry;
    }
    const void* home_ = nullptr;
    std::uint32_t at_ = 0;
  };

  static void touch(Arena& arena, Node& node) {
    if (node.touched == arena.transaction()) return;
    arena.template log<sizeof(Entry)>(&node.entry);
    node.touched = arena.transaction();
  }

 public:
  using iterator = Iterator<false>;
  using const_iterator = Iterator<true>;

  ArenaList() = default;
  ArenaList(const ArenaList&) = delete;
  ArenaList& operator=(const ArenaList&) = delete;
  ~ArenaList() noexcept(false) {
    while (head_ != 0) remove(head_);
  }

  iterator begin() { return {this, head_}; }
  iterator end() { return {this, 0}; }
  const_iterator begin() const { return {this, head_}; }
  const_iterator end() const { return {this, 0}; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 protected:
  Arena& arena() const { return Arena::of(this); }
  Node& node(std::uint32_t at) const { return *arena().template at<Node>(at); }
  std::uint64_t hash(std::uint64_t key) const {
    std::uint64_t h = (key ^ (std::uint64_t{arena().offset_of(this)} << 40)) * 0x9E3779B97F4A7C15U;
    return h ^ (h >> 29);
  }
  template <class K>
  std::uint32_t lookup(const K& key) const {
    const std::uint32_t owner = arena().offset_of(this);
    for (std::uint32_t at = arena().bucket(hash(key_hash(key))); at != 0; at = node(at).chain)
      if (node(at).owner == owner && node(at).entry.first == key) return at;
    return 0;
  }
  /// Inserts behind `previous`; 0: at the front. The container's own three words are already logged, with the root
  /// object or with the entry that contains them.
  std::uint32_t insert_behind(std::uint32_t previous) {
    Arena& a = arena();
    const std::uint32_t at = a.allocate(sizeof(Node));
    Node& made = *new (a.at(at)) Node;
    made.owner = a.offset_of(this);
    made.touched = a.transaction();
    made.previous = previous;
    made.next = previous != 0 ? node(previous).next : head_;
    if (previous != 0)
      a.set(node(previous).next, at);
    else
      head_ = at;
    if (made.next != 0)
      a.set(node(made.next).previous, at);
    else
      tail_ = at;
    ++size_;
    return at;
  }
  template <class K>
  std::uint32_t insert_keyed(const K& key, std::uint32_t previous) {
    const std::uint32_t at = insert_behind(previous);
    Node& made = node(at);
    made.entry.first = key;
    std::uint32_t& bucket = arena().bucket(hash(key_hash(key)));
    made.chain = bucket;
    arena().set(bucket, at);
    return at;
  }
  void unhash(std::uint32_t at) {
    if constexpr (Entry::has_key) {
      Arena& a = arena();
      std::uint32_t* link = &a.bucket(hash(key_hash(node(at).entry.first)));
      while (*link != at) link = &node(*link).chain;
      a.set(*link, node(at).chain);
    }
  }
  void remove(std::uint32_t at) {
    Arena& a = arena();
    Node& old = node(at);
    unhash(at);
    touch(a, old);
    if (old.previous != 0)
      a.set(node(old.previous).next, old.next);
    else
      head_ = old.next;
    if (old.next != 0)
      a.set(node(old.next).previous, old.previous);
    else
      tail_ = old.previous;
    --size_;
    old.entry.~Entry();
    a.release(at, sizeof(Node));
  }
  template <class K>
  std::size_t remove_keyed(const K& key) {
    const std::uint32_t known = lookup(key);
    if (known != 0) remove(known);
    return known != 0 ? 1 : 0;
  }

  std::uint32_t head_ = 0, tail_ = 0, size_ = 0;
};

template <class K, class V>
struct ArenaMapEntry {
  static constexpr bool has_key = true;
  K first{};
  V second{};
};
template <class K>
struct ArenaSetEntry {
  static constexpr bool has_key = true;
  K first{};
};
template <class T>
struct ArenaDequeEntry {
  static constexpr bool has_key = false;
  T first{};
};

template <class K, class V>
class ArenaMap : public ArenaList<ArenaMapEntry<K, V>> {
  using List = ArenaList<ArenaMapEntry<K, V>>;

 public:
  using typename List::const_iterator;
  using typename List::iterator;
  iterator find(const K& key) { return {this, this->lookup(key)}; }
  const_iterator find(const K& key) const { return {this, this->lookup(key)}; }
  bool contains(const K& key) const { return this->lookup(key) != 0; }
  /// The key must exist: the registry uses only its own numbers here.
  V& at(const K& key) { return find(key)->second; }
  const V& at(const K& key) const { return find(key)->second; }
  V& operator[](const K& key) {
    const std::uint32_t known = this->lookup(key);
    return iterator(this, known != 0 ? known : this->insert_keyed(key, this->tail_))->second;
  }
  std::pair<iterator, bool> try_emplace(const K& key, const V& value) {
    if (const std::uint32_t known = this->lookup(key); known != 0) return {iterator(this, known), false};
    const iterator made(this, this->insert_keyed(key, this->tail_));
    made->second = value;
    return {made, true};
  }
  void erase(iterator at) { this->remove(at.at()); }
  std::size_t erase(const K& key) { return this->remove_keyed(key); }
};

/// A read-only view of the entries' `first`.
template <class Entry>
class ArenaValues : protected ArenaList<Entry> {
  using List = ArenaList<Entry>;
  using Value = decltype(Entry::first);

 public:
  class iterator : public List::const_iterator {
   public:
    using value_type = Value;
    using reference = const Value&;
    using pointer = const Value*;
    using List::const_iterator::const_iterator;
    explicit iterator(typename List::const_iterator at) : List::const_iterator(at) {}
    const Value& operator*() const { return List::const_iterator::operator*().first; }
    const Value* operator->() const { return &**this; }
    iterator& operator++() {
      List::const_iterator::operator++();
      return *this;
    }
    iterator operator++(int) {
      iterator out = *this;
      ++*this;
      return out;
    }
  };
  iterator begin() const { return iterator(List::begin()); }
  iterator end() const { return iterator(List::end()); }
  using List::empty;
  using List::size;
};

template <class K, bool is_sorted>
class ArenaSet : public ArenaValues<ArenaSetEntry<K>> {
 public:
  bool contains(const K& key) const { return this->lookup(key) != 0; }
  void insert(const K& key) {
    if (!contains(key)) insert_new(key);
  }
  void insert_new(const K& key) {
    std::uint32_t previous = this->tail_;
    if constexpr (is_sorted)
      while (previous != 0 && key < this->node(previous).entry.first) previous = this->node(previous).previous;
    this->insert_keyed(key, previous);
  }
  std::size_t erase(const K& key) { return this->remove_keyed(key); }
};

template <class T>
class ArenaDeque : public ArenaValues<ArenaDequeEntry<T>> {
  using Values = ArenaValues<ArenaDequeEntry<T>>;

 public:
  using typename Values::iterator;
  const T& front() const { return *this->begin(); }
  void push_back(const T& value) { this->node(this->insert_behind(this->tail_)).entry.first = value; }
  void emplace_back(const auto&... parts) { push_back(T(parts...)); }
  void pop_front() { this->remove(this->head_); }
  void erase(iterator at) { this->remove(at.at()); }
  template <class Predicate>
  std::size_t remove_if(Predicate unwanted) {
    std::size_t out = 0;
    for (std::uint32_t at = this->head_; at != 0;) {
      const std::uint32_t next = this->node(at).next;
      if (unwanted(this->node(at).entry.first)) this->remove(at), ++out;
      at = next;
    }
    return out;
  }
  bool has_room() const { return this->arena().has_room(); }
};
template <class T, class Predicate>
std::size_t erase_if(ArenaDeque<T>& from, Predicate unwanted) {
  return from.remove_if(unwanted);
}

/// Storage that processes share: each sees the same registry, and one process at a time uses it.
struct ArenaStore {
  template <class K, class V>
  using Map = ArenaMap<K, V>;
  template <class K>
  using Set = ArenaSet<K, false>;
  template <class K>
  using SortedSet = ArenaSet<K, true>;
  template <class T>
  using Deque = ArenaDeque<T>;

  struct ProcessRecord {
    ProcessRecord() = default;
    ProcessRecord(const Process& p) : pid(p.pid), uid(p.uid), start(p.start) {  // NOLINT(google-explicit-constructor)
      p.command.copy(command.data(), command.size() - 1);
    }
    operator Process() const { return {pid, uid, start, command.data()}; }  // NOLINT(google-explicit-constructor)
    std::uint32_t pid = 0, uid = 0;
    std::uint64_t start = 0;
    std::array<char, 16> command{};
  };

  template <class T>
  static bool has_room(const ArenaDeque<T>& queue) {
    return queue.has_room();
  }
  template <class K, bool is_sorted>
  static void insert_new(ArenaSet<K, is_sorted>& set, const K& key) {
    set.insert_new(key);
  }
  static void checkpoint(const void* registry) { Arena::of(registry).checkpoint(); }
};

}  // namespace parley::xrc
