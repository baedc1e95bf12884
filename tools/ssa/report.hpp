// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a daemon answers to the commands status, tree, epoch and query.
#pragma once
#include "drivers/ssa/daemon.hpp"
#include "tools/ssa/answer.hpp"

namespace parley::tools {

/// `question`: "status", "tree", "epoch", or "query FROM TO", each a LID, or a port's GID or GUID.
Answer answer_question(std::string_view question, const ssa_driver::Daemon& daemon, Instant now);
std::string_view state_text(ssa::NodeState state);
/// "1764514800.3"; "none" if it is not valid.
std::string epoch_text(ssa::Epoch epoch);

}  // namespace parley::tools
