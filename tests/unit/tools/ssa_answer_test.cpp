// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a daemon answers, also with lies, and the file that assigns roles.
#include "tools/ssa/answer.hpp"

#include <gtest/gtest.h>

#include "tools/output.hpp"
#include "tools/ssa/nodes.hpp"

namespace parley::tools {
namespace ssa_answer_test {
namespace {

TEST(SsaAnswer, ComesBackAsItWasMade) {
  Answer made;
  made.text("a line");
  made.event("status", {{"flag", true}, {"number", std::uint64_t{7}}, {"real", 0.5}, {"text", "x"}, {"none", {}}});
  made.record(Bytes{1, 2, 0xFF});
  made.error(code(Exit::failed), "why\x1b[2J\nX0");
  const auto read = parse_answer(emit(made));
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->lines.size(), 4U);
  EXPECT_EQ(read->lines[0].text, "a line");
  EXPECT_EQ(read->lines[1].members, made.lines[1].members);
  EXPECT_EQ(read->lines[2].record, made.lines[2].record);
  EXPECT_EQ(read->lines[3].text, "why [2J X0");
  EXPECT_EQ(read->exit, code(Exit::failed));
}

TEST(SsaAnswer, LiesAreRefused) {
  for (const char* text : {"",
                           "X",
                           "X0",
                           "\nX0\n",
                           "Tx\n",
                           "X0\nTx\n",
                           "X0\nX0\n",
                           "X00x\n",
                           "Zx\nX0\n",
                           "Pzz\nX0\n",
                           "P0\nX0\n",
                           "Jname\nX0\n",
                           "J\x1fs\nX0\n",
                           "Jname\x1fq\nX0\n",
                           "Jname\x1fn-1\nX0\n",
                           "Jname\x1f"
                           "b2\nX0\n",
                           "Ewhy\nX0\n",
                           "Tx\nX1\n",
                           "Ewhy\nX4\n",
                           "Ewhy\nX-1\n",
                           "Ewhy\nX256\n"})
    EXPECT_FALSE(parse_answer(text)) << text;
  EXPECT_FALSE(parse_answer("P" + std::string(2 * 300, '0') + "\nX0\n"));
  EXPECT_TRUE(parse_answer("X0\n"));
  EXPECT_TRUE(parse_answer("Ewhy\nX3\n"));
}

TEST(SsaAnswer, EachPrefixOfAnAnswerIsIncomplete) {
  Answer made;
  made.text("a line");
  made.event("status", {{"number", std::uint64_t{7}}});
  const std::string whole = emit(made);
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(parse_answer(whole.substr(0, size))) << size;
}

TEST(SsaNodes, APortHasItsOwnLineOrThatOfAllOthers) {
  const auto file =
      parse_nodes("# all\n0x10 core 192.0.2.1\n\n20 access,distribution # no address\n* consumer 192.0.2.9\n");
  ASSERT_TRUE(file) << file.error();
  ASSERT_NE(file->find(0x10), nullptr);
  EXPECT_EQ(roles_text(file->find(0x10)->roles), "core");
  EXPECT_EQ(roles_text(file->find(0x20)->roles), "distribution,access");
  EXPECT_EQ(roles_text(file->find(0x30)->roles), "consumer");
  EXPECT_EQ(parse_nodes("0x10 core")->find(0x30), nullptr);
}

TEST(SsaNodes, AParentWithoutAnAddressHasNone) {
  const auto file = parse_nodes("0x10 core 192.0.2.1\n0x20 access\n");
  ASSERT_TRUE(file) << file.error();
  Gid gid{0xFE, 0x80};
  gid[15] = 0x10;
  EXPECT_EQ(*address_in(*file, gid), Address::v4(192, 0, 2, 1, 0));
  for (const std::uint8_t other : {std::uint8_t{0x20}, std::uint8_t{0x30}}) {
    gid[15] = other;
    const auto none = address_in(*file, gid);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error(), Errc::bad_address);
  }
}

TEST(SsaNodes, WrongLinesAreRefused) {
  for (const char* line : {"0x10", "0x10 king", "0x10 core,", "0x10 core,core", "0 core", "0xg core",
                           "0x10 core 192.0.2.1:7", "0x10 core 0.0.0.0", "0x10 core host", "0x10 core 192.0.2.1 more",
                           "0x10 core\n0x10 core", "* core\n* core", "0x10000000000000000 core"})
    EXPECT_FALSE(parse_nodes(line)) << line;
}

}  // namespace
}  // namespace ssa_answer_test
}  // namespace parley::tools
