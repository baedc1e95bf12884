// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Intrusive lists: nothing is allocated, and an element leaves its list when it is destroyed.
#pragma once

namespace parley::mad {

/// The base of an element of a list. `Tag` distinguishes the bases of an object that can be in several lists.
template <class Tag>
class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() { unlink(); }

  bool linked() const { return next_ != this; }
  void unlink() {
    previous_->next_ = next_;
    next_->previous_ = previous_;
    previous_ = next_ = this;
  }

 private:
  template <class T, class U>
  friend class List;
  void link_before(Link& other) {
    previous_ = other.previous_;
    next_ = &other;
    previous_->next_ = other.previous_ = this;
  }
  Link *previous_ = this, *next_ = this;
};

template <class T, class Tag>
class List {
 public:
  ~List() {
    while (!empty()) head_.next_->unlink();
  }
  bool empty() const { return !head_.linked(); }
  T& front() { return static_cast<T&>(*head_.next_); }
  /// Moves the element from its current list, if any, to the end of this one.
  void push_back(T& element) {
    Link<Tag>& link = element;
    link.unlink();
    link.link_before(head_);
  }
  void push_front(T& element) {
    Link<Tag>& link = element;
    link.unlink();
    link.link_before(*head_.next_);
  }
  /// Null if there is none.
  T* pop_front() {
    if (empty()) return nullptr;
    T& first = front();
    static_cast<Link<Tag>&>(first).unlink();
    return &first;
  }
  /// `visit` may unlink the element that it gets.
  template <class F>
  void for_each(F visit) {
    for (Link<Tag>* link = head_.next_; link != &head_;) {
      Link<Tag>* next = link->next_;
      visit(static_cast<T&>(*link));
      link = next;
    }
  }

 private:
  Link<Tag> head_;
};

}  // namespace parley::mad
