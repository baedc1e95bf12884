// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The driver "manual": attributes of a queue pair that somebody else has made, as a configuration gives them. It moves
// nothing and tests nothing.
#pragma once
#include "base/gid.hpp"
#include "parley/neg_qp.hpp"

namespace parley::neg {

/// What all drivers' variants take.
std::vector<Parameter> manual_parameters();
/// The number of queue pair `index`: those in the configuration are the first one's, the others follow.
Outcome<std::unique_ptr<QpDriver>> make_manual_driver(const Config& config, std::uint32_t index);

/// "::ffff:192.0.2.1", "fe80::1", "192.0.2.1". Errors: configuration_error.
Outcome<Gid> parse_gid(std::string_view text);
/// The number that the configuration has; it was checked before. 0 if there is none.
std::uint64_t number_of(const Config& config, std::string_view name);
bool flag_of(const Config& config, std::string_view name);
std::string text_in(const Config& config, std::string_view name);

}  // namespace parley::neg
