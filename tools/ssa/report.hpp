// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a daemon answers to the commands status, tree, epoch and query.
#pragma once
#include "drivers/ssa/daemon.hpp"
#include "tools/ssa/answer.hpp"

namespace parley::tools {

/// Questions that were answered.
struct QuestionCounts {
  std::uint64_t status = 0, tree = 0, epoch = 0, query = 0, other = 0;
  std::uint64_t found = 0, missing = 0;  ///< queries: with a path; without one
};

/// `question`: "status", "tree", "epoch", or "query FROM TO", each a LID, or a port's GID or GUID.
Answer answer_question(std::string_view question, const ssa_driver::Daemon& daemon, Instant now,
                       QuestionCounts& counts);
std::string_view state_text(ssa::NodeState state);
inline constexpr std::string_view no_manager_text = "no_subnet_manager";  ///< the state of a node that has no Member
/// "1764514800.3"; "none" if it is not valid.
std::string epoch_text(ssa::Epoch epoch);

}  // namespace parley::tools
