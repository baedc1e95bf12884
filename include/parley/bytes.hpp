// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Octet spans. A call borrows a span only until it returns, unless the name says view.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace parley {

using ConstBytes = std::span<const std::uint8_t>;
using MutBytes = std::span<std::uint8_t>;
using Bytes = std::vector<std::uint8_t>;

}  // namespace parley
