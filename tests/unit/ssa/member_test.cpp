// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A member of the tree: how old its database is, and what a master that meets a newer one says.
#include "ssa/member.hpp"

#include <gtest/gtest.h>

#include "tests/unit/ssa/node_kit.hpp"
#include "tests/unit/ssa/ssa_kit.hpp"

namespace parley::ssa {
namespace member_test {
namespace {

using namespace kit;

struct SsaMember : testing::Test {
  DataServer server{{.key = tree_key}};
  DataPuller puller{{.key = tree_key, .gid = gid_of(own_lid)}};
  Drawn drawn{1};
  Instant now = Instant{} + 1000s;

  static MemberOptions options(bool is_root) {
    MemberOptions out;
    out.node = NodeBench::defaults();
    out.node.is_root = is_root;
    if (is_root) out.node.roles = roles::core;
    out.host_of = [](const Gid&) -> Result<Address> { return fail(Errc::bad_address); };
    return out;
  }
};

TEST_F(SsaMember, KeepsTheAgeOfADatabaseThatItGetsAtTheStart) {
  const Instant known = now - 5s;
  Member member(options(false), server, puller, drawn.writer.commit(), known);
  member.start(now, at(master_lid));
  for (int i = 0; i < 3; ++i) member.run(now += 1s);
  EXPECT_FALSE(member.is_current());
  EXPECT_EQ(member.current_at(), known);
}

TEST_F(SsaMember, ARootIsCurrentWithAMasterAndAsLongAsItsDriverSaysSo) {
  Member member(options(true), server, puller);
  member.start(now, at(own_lid));
  EXPECT_FALSE(member.is_current());
  const SnapshotPtr first = drawn.writer.commit();
  MasterOptions master;
  master.epoch = first->epoch();
  member.lead(now, master);
  member.publish(now, first);
  EXPECT_TRUE(member.is_current());
  EXPECT_EQ(member.current_at(), now);
  member.set_root_current(false);
  EXPECT_FALSE(member.is_current());
}

TEST_F(SsaMember, AMasterNamesTheIncarnationOfANewerOne) {
  Member member(options(true), server, puller);
  member.start(now, at(own_lid));
  const SnapshotPtr first = drawn.writer.commit();
  MasterOptions master;
  master.epoch = first->epoch();
  member.lead(now, master);
  const Epoch newer{first->epoch().incarnation + 41, 3};
  member.handle_datagram(now, at(stranger_lid),
                         request_of<Method::set>(SsaHello{}
                                                     .set(SsaHello::port_gid, gid_of(stranger_lid))
                                                     .set(SsaHello::roles, roles::consumer)
                                                     .set(SsaHello::epoch, wire_of(newer))));
  std::optional<MemberNote> last;
  while (auto note = member.poll_note()) last = note;
  ASSERT_TRUE(last);
  EXPECT_EQ(last->kind, MemberNote::Kind::newer_master);
  EXPECT_EQ(last->epoch.incarnation, newer.incarnation);
}

}  // namespace
}  // namespace member_test
}  // namespace parley::ssa
