// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "parley/result.hpp"

namespace parley {
namespace {

struct Category final : std::error_category {
  const char* name() const noexcept override { return "parley"; }
  std::string message(int value) const override {
    switch (static_cast<Errc>(value)) {
      case Errc::ok: return "no error";
#define PARLEY_X(name, text) \
  case Errc::name: return text;
        PARLEY_ERRC(PARLEY_X)
#undef PARLEY_X
    }
    return "unknown parley error " + std::to_string(value);
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const Category category;
  return category;
}

}  // namespace parley
