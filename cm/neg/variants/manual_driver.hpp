// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The driver "manual": attributes of a queue pair that was created elsewhere, from the configuration. It transfers nothing and
// tests nothing.
#pragma once
#include "base/gid.hpp"
#include "parley/neg_qp.hpp"

namespace parley::neg {

/// Parameters of the variants of all drivers.
std::vector<Parameter> manual_parameters();
/// Creates queue pair `index`: the numbers in the configuration are those of the first one, the others follow.
Outcome<std::unique_ptr<QpDriver>> make_manual_driver(const Config& config, std::uint32_t index);

/// "::ffff:192.0.2.1", "fe80::1", "192.0.2.1". Errors: configuration_error.
Outcome<Gid> parse_gid(std::string_view text);
/// The number in the configuration, which has already been checked; 0 if not set.
std::uint64_t number_of(const Config& config, std::string_view name);
bool flag_of(const Config& config, std::string_view name);
std::string text_in(const Config& config, std::string_view name);

}  // namespace parley::neg
