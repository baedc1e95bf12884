// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include <cerrno>

#include "parley/result.hpp"

namespace parley {

/// errno's, of the system call that has just failed.
inline Error system_error() { return {std::error_code(errno, std::generic_category())}; }

}  // namespace parley
