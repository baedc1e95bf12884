// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley's own stack passes all of its own cases, in both roles, however it is set up.
#include "kit.hpp"

namespace parley::conform {
namespace {

using namespace kit;

std::vector<Under> setups(Iut iut) {
  std::vector<Under> all;
  // An initiator sends nothing by itself unless it has to.
  const auto speaks = iut == Iut::initiator ? mpa::Rtr::write : mpa::Rtr::none;
  const auto add = [&](auto change) {
    Under u{.iut = iut};
    u.mpa.rtr = speaks;
    change(u);
    all.push_back(u);
  };
  add([](Under&) {});
  add([](Under& u) { u.mpa.markers = true; });
  add([](Under& u) { u.mpa.crc = false; });
  add([](Under& u) {
    u.mpa.revision = 1;
    u.mpa.rtr = mpa::Rtr::none;
    u.sends_first = true;
  });
  add([](Under& u) {
    u.rping = true;
    u.mpa.rtr = mpa::Rtr::none;
  });
  add([](Under& u) { u.sends_first = true; });
  add([](Under& u) { u.receives = 0; });
  if (iut == Iut::responder) {
    for (const mpa::Rtr kind : {mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read})
      add([&](Under& u) { u.mpa.rtr_accept = mpa::RtrSet::of(kind); });
    add([](Under& u) { u.mpa.accept_rtr_frame = false; });
  } else {
    for (const mpa::Rtr kind : {mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read})
      add([&](Under& u) { u.mpa.rtr = kind; });
    add([](Under& u) {
      u.mpa.revision = 1;
      u.mpa.rtr = mpa::Rtr::frame;
    });
    add([](Under& u) {
      u.rping = true;
      u.rping_size = 8192;
    });
  }
  return all;
}

void passes_all(Iut iut) {
  std::set<std::string_view> passed, tested;
  for (const Under& under : setups(iut)) {
    const auto results = run(under);
    for (const Result& r : results) {
      if (under.mpa.crc == false && r.what->name == "crc-by-default") continue;  // its administrator asked for less
      EXPECT_NE(r.finding.verdict, Verdict::fail)
          << r.what->name << ": " << r.finding.observed << "\nmarkers " << under.mpa.markers << " crc " << under.mpa.crc
          << " revision " << int{under.mpa.revision} << " rtr " << to_string(under.mpa.rtr);
      if (r.what->run != nullptr) tested.insert(r.what->name);
      if (r.finding.verdict == Verdict::pass) passed.insert(r.what->name);
    }
  }
  for (const std::string_view name : tested) EXPECT_TRUE(passed.count(name) > 0) << name << " was never passed";
}

TEST(ConformSelf, ParleyAsResponderPassesEachCase) { passes_all(Iut::responder); }
TEST(ConformSelf, ParleyAsInitiatorPassesEachCase) { passes_all(Iut::initiator); }

TEST(ConformSelf, NamesAreUniqueAndEachCaseSaysWhatItDoes) {
  for (const Iut iut : {Iut::responder, Iut::initiator}) {
    std::set<std::string_view> names;
    for (const Case* c : cases(iut)) {
      EXPECT_TRUE(names.insert(c->name).second) << c->name;
      EXPECT_FALSE(c->row.empty() || c->clause.empty() || c->stimulus.empty() || c->expected.empty()) << c->name;
    }
  }
}

}  // namespace
}  // namespace parley::conform
