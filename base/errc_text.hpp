// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include "parley/result.hpp"

namespace parley {

/// The text of PARLEY_ERRC; null for a value that is not an Errc.
constexpr const char* text_of(Errc code) {
  switch (code) {
    case Errc::ok: return "no error";
#define PARLEY_X(name, text) \
  case Errc::name: return text;
      PARLEY_ERRC(PARLEY_X)
#undef PARLEY_X
  }
  return nullptr;
}

}  // namespace parley
