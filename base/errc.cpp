// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "base/errc_text.hpp"
#include "parley/result.hpp"

namespace parley {
namespace {

struct Category final : std::error_category {
  const char* name() const noexcept override { return "parley"; }
  std::string message(int value) const override {
    if (const char* text = text_of(static_cast<Errc>(value)); text != nullptr) return text;
    return "unknown parley error " + std::to_string(value);
  }
};

}  // namespace

std::string Error::sentence() const {
  std::string out;
  for (std::size_t i = 0; i < sentence_.size(); ++i) {
    if (const std::string_view place = sentence_.substr(i, 3); place == "{a}" || place == "{b}") {
      out += std::to_string(place == "{a}" ? a_ : b_);
      i += 2;
    } else {
      out += sentence_[i];
    }
  }
  return out;
}

std::string Error::message() const { return sentence_.empty() ? code_.message() : code_.message() + ": " + sentence(); }

const std::error_category& error_category() noexcept {
  static const Category category;
  return category;
}

}  // namespace parley
