// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Who may be in set-up, and who gives way.
#include "cm/admission.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace parley::cm {
namespace {

using Owner = Admission::Owner;

Address v4(std::uint8_t last, std::uint16_t port = 1000) { return Address::v4(192, 0, 2, last, port); }
Address v6(const char* text) { return *Address::parse(text); }

TEST(CmAdmission, TakesAsManyAsThereIsRoomFor) {
  Admission table(4, 0);
  for (Owner owner = 1; owner <= 4; ++owner) {
    const auto answer = table.arrive(v4(1), owner);
    EXPECT_TRUE(answer.ticket);
    EXPECT_EQ(answer.gave_way, 0U);
  }
  EXPECT_EQ(table.size(), 4U);
}

TEST(CmAdmission, OldestOfTheBusiestAddressGivesWay) {
  Admission table(5, 0);
  (void)table.arrive(v4(9), 90);  // older than all of the flood
  for (Owner owner = 1; owner <= 3; ++owner) (void)table.arrive(v4(1), owner);
  (void)table.arrive(v4(8), 80);
  EXPECT_EQ(table.arrive(v4(7), 70).gave_way, 1U);
  EXPECT_EQ(table.arrive(v4(1), 4).gave_way, 2U) << "the flood's next one costs the flood";
  EXPECT_EQ(table.arrive(v4(1), 5).gave_way, 3U);
  EXPECT_EQ(table.size(), 5U);
}

// With the newcomer its address is the busiest of all: it pays, and not what was its equal.
TEST(CmAdmission, NewcomerCountsForItsAddress) {
  Admission table(4, 0);
  (void)table.arrive(v4(1), 10);
  (void)table.arrive(v4(1), 11);
  (void)table.arrive(v4(2), 20);
  (void)table.arrive(v4(2), 21);
  EXPECT_EQ(table.arrive(v4(2), 22).gave_way, 20U);
}

TEST(CmAdmission, NewcomerThatOnlyBecomesAnEqualCostsTheOther) {
  Admission table(3, 0);
  (void)table.arrive(v4(2), 20);
  (void)table.arrive(v4(1), 10);
  (void)table.arrive(v4(1), 11);
  EXPECT_EQ(table.arrive(v4(2), 21).gave_way, 10U);
}

// As many addresses as places, one each: whoever came first has had most of the time.
TEST(CmAdmission, ManyAddressesWithOneEachGoInTheirOrder) {
  Admission table(8, 2);
  for (std::uint8_t i = 0; i < 8; ++i) EXPECT_EQ(table.arrive(v4(i), 100U + i).gave_way, 0U);
  for (std::uint8_t i = 0; i < 8; ++i)
    EXPECT_EQ(table.arrive(v4(static_cast<std::uint8_t>(100 + i)), 200U + i).gave_way, 100U + i);
}

TEST(CmAdmission, ShareIsForAddressesThatHaveNone) {
  Admission table(8, 2);
  for (Owner owner = 1; owner <= 6; ++owner) EXPECT_EQ(table.arrive(v4(1), owner).gave_way, 0U);
  EXPECT_EQ(table.arrive(v4(1), 7).gave_way, 1U) << "two places are not for it";
  EXPECT_EQ(table.arrive(v4(2), 20).gave_way, 0U);
  EXPECT_EQ(table.arrive(v4(3), 30).gave_way, 0U);
  EXPECT_EQ(table.size(), 8U);
  EXPECT_EQ(table.arrive(v4(4), 40).gave_way, 2U) << "the share is used up; the busiest pays";
}

// Requests that wait for the user are not their peers' fault, and cannot fill the share either.
TEST(CmAdmission, HeldOnesNeverGiveWay) {
  Admission table(4, 1);
  for (Owner owner = 1; owner <= 3; ++owner) table.hold(table.arrive(v4(1), owner).ticket);
  EXPECT_FALSE(table.arrive(v4(1), 4).ticket);
  const auto other = table.arrive(v4(2), 20);
  EXPECT_TRUE(other.ticket);
  EXPECT_EQ(other.gave_way, 0U);
  table.hold(other.ticket);
  EXPECT_FALSE(table.arrive(v4(3), 30).ticket);
  EXPECT_EQ(table.give_way(), 0U);
  EXPECT_EQ(table.size(), 4U);
}

// A peer that waited for the user is not the oldest as soon as it is its turn again.
TEST(CmAdmission, AgeCountsFromThePeersTurn) {
  Admission table(3, 0);
  const auto first = table.arrive(v4(1), 1).ticket;
  table.hold(first);
  (void)table.arrive(v4(1), 2);
  table.release(first);
  (void)table.arrive(v4(1), 3);
  EXPECT_EQ(table.arrive(v4(1), 4).gave_way, 2U);
  EXPECT_EQ(table.arrive(v4(1), 5).gave_way, 1U);
}

TEST(CmAdmission, StaleTicketsDoNothing) {
  Admission table(2, 0);
  const auto old = table.arrive(v4(1), 1).ticket;
  (void)table.arrive(v4(1), 2);
  EXPECT_EQ(table.arrive(v4(1), 3).gave_way, 1U);  // takes the place of the first
  table.hold(old);
  table.release(old);
  table.leave(old);
  table.leave({});
  EXPECT_EQ(table.size(), 2U);
  EXPECT_EQ(table.arrive(v4(1), 4).gave_way, 2U);
  EXPECT_EQ(table.arrive(v4(1), 5).gave_way, 3U);
}

// A subscriber holds a /64 and has as many addresses as it likes.
TEST(CmAdmission, NetworksOfIpv6CountAsOne) {
  Admission table(5, 0);
  (void)table.arrive(v6("2001:db8:1::9"), 90);
  (void)table.arrive(v6("2001:db8:1::9"), 91);
  for (Owner owner = 1; owner <= 3; ++owner)
    (void)table.arrive(v6(("2001:db8:2::" + std::to_string(owner)).c_str()), owner);
  EXPECT_EQ(table.arrive(v6("2001:db8:2::4"), 4).gave_way, 1U);
}

// A cluster may share one /64: within it the busiest host pays.
TEST(CmAdmission, WithinAnIpv6NetworkTheBusiestAddressPays) {
  Admission table(5, 0);
  (void)table.arrive(v6("2001:db8::9"), 90);
  for (Owner owner = 1; owner <= 4; ++owner) (void)table.arrive(v6("2001:db8::1"), owner);
  EXPECT_EQ(table.arrive(v6("2001:db8::8"), 80).gave_way, 1U);
  EXPECT_EQ(table.arrive(v6("2001:db8::7"), 70).gave_way, 2U);
}

TEST(CmAdmission, LinkLocalAddressesAreNetworksOfTheirOwn) {
  Admission table(4, 1);
  for (Owner owner = 1; owner <= 3; ++owner) (void)table.arrive(v6("fe80::1%2"), owner);
  EXPECT_EQ(table.arrive(v6("fe80::2%2"), 20).gave_way, 0U) << "the share is for it";
  EXPECT_EQ(table.arrive(v6("fe80::2%3"), 30).gave_way, 1U) << "and so it is for the same address of another link";
}

TEST(CmAdmission, RoomCanBeMadeForOtherReasons) {
  Admission table(8, 0);
  (void)table.arrive(v4(9), 90);
  (void)table.arrive(v4(1), 1);
  (void)table.arrive(v4(1), 2);
  EXPECT_EQ(table.give_way(), 1U);
  EXPECT_EQ(table.give_way(), 90U) << "equals: the longest waiting";
  EXPECT_EQ(table.give_way(), 2U);
  EXPECT_EQ(table.give_way(), 0U);
  EXPECT_EQ(table.size(), 0U);
}

/// The rules of admission.hpp, by looking at everything each time.
class Model {
 public:
  Model(std::size_t max, std::size_t share) : max_(max), share_(share) {}

  struct Item {
    Owner owner;
    Address address, network;
    bool held = false;
  };

  /// Who gives way; 0: nobody can.
  Owner choose(const Item* newcomer) const {
    const Item* best = nullptr;
    for (const Item& item : items_) {
      if (item.held) continue;
      const Item& would_go = *first_of(item.network, newcomer);
      if (best == nullptr || goes_before(would_go, *best, &Item::network, newcomer)) best = &would_go;
    }
    return best == nullptr ? 0 : best->owner;
  }

  bool arrive(const Item& item, Owner& gave_way) {
    const bool known =
        std::any_of(items_.begin(), items_.end(), [&](const Item& i) { return i.network == item.network; });
    gave_way = 0;
    if (items_.size() >= (known ? max_ - share_ : max_)) {
      gave_way = choose(&item);
      if (gave_way == 0) return false;
      erase(gave_way);
    }
    items_.push_back(item);
    return true;
  }
  void hold(Owner owner) {
    for (Item& item : items_)
      if (item.owner == owner) item.held = true;
  }
  void release(Owner owner) {
    const auto at = std::find_if(items_.begin(), items_.end(), [&](const Item& i) { return i.owner == owner; });
    if (at == items_.end() || !at->held) return;
    at->held = false;
    std::rotate(at, at + 1, items_.end());
  }
  void erase(Owner owner) {
    std::erase_if(items_, [&](const Item& i) { return i.owner == owner; });
  }
  std::size_t size() const { return items_.size(); }
  bool rivals() const { return rivals_; }

 private:
  /// Whom a network would give up.
  const Item* first_of(const Address& network, const Item* newcomer) const {
    const Item* best = nullptr;
    for (const Item& item : items_)
      if (!item.held && item.network == network &&
          (best == nullptr || goes_before(item, *best, &Item::address, newcomer)))
        best = &item;
    return best;
  }
  /// More half-open ones where `part` is equal; then not the newcomer's own; then whose first has waited longest.
  bool goes_before(const Item& a, const Item& b, Address Item::*part, const Item* newcomer) const {
    if (a.*part == b.*part) return &a < &b;
    const auto count = [&](const Item& like, const Item* with) {
      std::size_t n = with != nullptr && with->*part == like.*part ? 1 : 0;
      for (const Item& item : items_) n += !item.held && item.*part == like.*part ? 1 : 0;
      return n;
    };
    const auto own = [&](const Item& like) { return newcomer != nullptr && newcomer->*part == like.*part; };
    if (count(a, newcomer) != count(b, newcomer)) return count(a, newcomer) > count(b, newcomer);
    if (own(a) != own(b)) return own(b);
    rivals_ = true;
    return &a < &b;
  }

  std::size_t max_, share_;
  std::vector<Item> items_;
  mutable bool rivals_ = false;
};

// Any order of arrivals, holds, releases and leaves, of few and of many addresses, in one network and in several.
TEST(CmAdmission, DoesAsItsRulesSayInAnyOrder) {
  bool rivals = false;
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](std::uint32_t below) { return static_cast<std::uint32_t>(random() % below); };
    const std::uint32_t max = 1 + draw(24), share = draw(std::min(max, 6U));
    const std::uint32_t networks = 1 + draw(6), hosts = 1 + draw(4), leaves = draw(4), holds = draw(4);
    Admission table(max, share);
    Model model(max, share);
    std::vector<std::pair<Owner, Admission::Ticket>> given;  // stale ones too
    Owner next = 0;
    for (int step = 0; step < 300; ++step) {
      const std::uint32_t what = draw(4 + leaves + holds);
      if (what < 4 || given.empty()) {
        Model::Item item{.owner = ++next, .address = {}, .network = {}};
        item.network = v6("2001:db8::");
        item.network.octets[7] = static_cast<std::uint8_t>(draw(networks));
        item.address = item.network;
        item.address.octets[15] = static_cast<std::uint8_t>(draw(hosts));
        Address from = item.address;
        from.port = static_cast<std::uint16_t>(step);
        Owner expected = 0;
        const bool in = model.arrive(item, expected);
        const auto answer = table.arrive(from, item.owner);
        ASSERT_EQ(static_cast<bool>(answer.ticket), in) << "seed " << seed << " step " << step;
        ASSERT_EQ(answer.gave_way, expected) << "seed " << seed << " step " << step;
        if (in) given.emplace_back(item.owner, answer.ticket);
      } else {
        const auto& [owner, ticket] = given[draw(static_cast<std::uint32_t>(given.size()))];
        if (what < 4 + leaves) {
          model.erase(owner);
          table.leave(ticket);
        } else if (draw(2) == 0) {
          model.hold(owner);
          table.hold(ticket);
        } else {
          model.release(owner);
          table.release(ticket);
        }
      }
      ASSERT_EQ(table.size(), model.size()) << "seed " << seed << " step " << step;
      ASSERT_LE(table.size(), max);
    }
    for (Owner expected = model.choose(nullptr); expected != 0; expected = model.choose(nullptr)) {
      ASSERT_EQ(table.give_way(), expected) << "seed " << seed;
      model.erase(expected);
    }
    ASSERT_EQ(table.give_way(), 0U);
    rivals = rivals || model.rivals();
  }
  EXPECT_TRUE(rivals) << "no draw had two networks alike";
}

// What a flood's order of arrivals can do: whoever comes alone stays until everybody else has as little.
TEST(CmAdmission, NoOrderOfOneAddressTouchesAnother) {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    Admission table(64, 8);
    std::vector<Admission::Ticket> flood;
    Owner next = 1000;
    const auto honest = table.arrive(v4(2), 1);
    for (int step = 0; step < 2000; ++step) {
      if (random() % 3 == 0 && !flood.empty()) {
        table.leave(flood[random() % flood.size()]);
        continue;
      }
      const auto answer = table.arrive(v4(1), ++next);
      ASSERT_NE(answer.gave_way, 1U) << "seed " << seed << " step " << step;
      ASSERT_TRUE(answer.ticket);
      flood.push_back(answer.ticket);
    }
    const std::size_t before = table.size();
    table.leave(honest.ticket);
    EXPECT_EQ(table.size(), before - 1) << "still there";
  }
}

}  // namespace
}  // namespace parley::cm
