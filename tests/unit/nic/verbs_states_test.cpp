// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Verbs' table of transitions, by type of queue pair, as reviewed in tests/states/verbs_qp.txt; and what it refuses.
#include <gtest/gtest.h>

#include <string>

#include "nic/common/qp_modify.hpp"
#include "parley/verbs.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::nic {
namespace {

constexpr QpState states[] = {QpState::reset, QpState::init, QpState::rtr, QpState::rts,
                              QpState::sqd,   QpState::sqe,  QpState::err};
constexpr QpType types[] = {QpType::rc, QpType::uc, QpType::ud, QpType::xrc_ini, QpType::xrc_tgt};

std::string names(QpAttrSet set) {
  std::string out;
  for (int i = 0; i < static_cast<int>(QpAttrIndex::count); ++i)
    if ((set >> i & 1) != 0) out += (out.empty() ? "" : " ") + std::string(name_of(static_cast<QpAttrIndex>(i)));
  return out.empty() ? "-" : out;
}

std::string table() {
  std::string out = pad("from", 7) + pad("to", 7) + pad("type", 9) + "needs; may change\n";
  for (const QpState from : states) {
    for (const QpState to : states) {
      if (!check_transition(from, to)) continue;
      for (const QpType type : types) {
        const QpStep step = step_of(type, from, to);
        out += pad(to_string(from), 7) + pad(to_string(to), 7) + pad(to_string(type), 9) + names(step.required) + "; " +
               names(step.optional) + "\n";
      }
    }
  }
  return out;
}

TEST(VerbsQpStates, TableIsAsReviewed) { expect_as_reviewed("verbs_qp.txt", table()); }

TEST(VerbsQpStates, NothingIsBothNeededAndLeftToTheCaller) {
  for (const QpState from : states)
    for (const QpState to : states)
      for (const QpType type : types) {
        const QpStep step = step_of(type, from, to);
        EXPECT_EQ(step.required & step.optional, 0U) << to_string(type);
        if (!check_transition(from, to)) {
          EXPECT_EQ(step.required | step.optional, 0U) << to_string(from) << to_string(to);
        }
      }
}

TEST(VerbsQpStates, ATransitionThatIsNoneSaysWhereOneCanGo) {
  const auto sentence = [](QpState from, QpState to) {
    const auto result = check_transition(from, to);
    if (result) return std::string("ok");
    EXPECT_EQ(result.error(), Errc::wrong_state);
    return result.error().sentence();
  };
  EXPECT_EQ(sentence(QpState::reset, QpState::rts), "QpAttr::state: from RESET a queue pair goes to INIT");
  EXPECT_EQ(sentence(QpState::init, QpState::rts), "QpAttr::state: from INIT a queue pair goes to RTR, ERR or RESET");
  EXPECT_EQ(sentence(QpState::err, QpState::rts), "QpAttr::state: from ERR a queue pair goes to RESET");
  for (const QpState from : states) {
    EXPECT_EQ(sentence(from, QpState::reset), "ok");
    if (from != QpState::reset) {
      EXPECT_EQ(sentence(from, QpState::err), "ok");
    }
    // Only an error of the queue pair's own leads to SQE; and nothing goes back to INIT but through RESET.
    EXPECT_NE(sentence(from, QpState::sqe), "ok");
    if (from != QpState::reset && from != QpState::init) {
      EXPECT_NE(sentence(from, QpState::init), "ok");
    }
  }
}

// The calls of ibv_rc_pingpong and of a datagram program, one attribute left out and one too many.
TEST(VerbsQpStates, ModifyNamesWhatIsMissingAndWhatIsTooMuch) {
  const auto sentence = [](QpType type, QpState from, const QpAttr& attr) {
    const auto result = check_modify(type, from, attr);
    return result ? std::string("ok") : result.error().sentence();
  };
  QpAttr init{.state = QpState::init, .access = Access::remote_write, .pkey_index = 0, .port_num = 1};
  EXPECT_EQ(sentence(QpType::rc, QpState::reset, init), "ok");
  EXPECT_EQ(sentence(QpType::ud, QpState::reset, init),
            "QpAttr::access cannot be changed by this transition of this type");
  init.access.reset();
  EXPECT_EQ(sentence(QpType::rc, QpState::reset, init), "QpAttr::access is not set, and this transition needs it");
  EXPECT_EQ(sentence(QpType::ud, QpState::reset, init), "QpAttr::qkey is not set, and this transition needs it");
  QpAttr rtr{.state = QpState::rtr, .ah = AhAttr{}, .path_mtu = Mtu::octets_1024, .rq_psn = 1, .dest_qp_num = 17};
  EXPECT_EQ(sentence(QpType::uc, QpState::init, rtr), "ok");
  EXPECT_EQ(sentence(QpType::rc, QpState::init, rtr), "QpAttr::min_rnr_timer is not set, and this transition needs it");
  rtr.min_rnr_timer = 12;
  rtr.max_dest_rd_atomic = 1;
  EXPECT_EQ(sentence(QpType::rc, QpState::init, rtr), "ok");
  EXPECT_EQ(sentence(QpType::rc, QpState::rtr, {.cur_state = QpState::rts}),
            "QpAttr::cur_state is not the state of the queue pair, which query() tells");
  EXPECT_EQ(sentence(QpType::rc, QpState::rts, {.min_rnr_timer = 3}), "ok");  // no state: it stays where it is
}

}  // namespace
}  // namespace parley::nic
