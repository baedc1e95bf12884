// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <fmt/format.h>

#include "parley/neg.hpp"

namespace parley::neg {

std::string_view to_string(Stage stage) {
  switch (stage) {
    case Stage::none: return "none";
    case Stage::info: return "info";
    case Stage::ready: return "ready";
    case Stage::done: return "done";
  }
  return "unknown";
}

std::string_view to_string(Layer layer) {
  switch (layer) {
    case Layer::transport: return "transport";
    case Layer::plugin: return "plug-in";
    case Layer::framework: return "framework";
  }
  return "unknown";
}

std::string_view to_string(Problem problem) {
  switch (problem) {
#define PARLEY_X(name, value, layer, text) \
  case Problem::name: return #name;
    PARLEY_NEG_ERRORS(PARLEY_X)
#undef PARLEY_X
  }
  return "unknown";
}

std::string_view text_of(Problem problem) {
  switch (problem) {
#define PARLEY_X(name, value, layer, text) \
  case Problem::name: return text;
    PARLEY_NEG_ERRORS(PARLEY_X)
#undef PARLEY_X
  }
  return "unknown";
}

Layer layer_of(Problem problem) {
  switch (problem) {
#define PARLEY_X(name, value, layer, text) \
  case Problem::name: return Layer::layer;
    PARLEY_NEG_ERRORS(PARLEY_X)
#undef PARLEY_X
  }
  return Layer::framework;
}

std::string_view to_string(Transport transport) {
  switch (transport) {
    case Transport::rc: return "rc";
    case Transport::uc: return "uc";
    case Transport::ud: return "ud";
    case Transport::xrc: return "xrc";
  }
  return "unknown";
}

std::string Failure::to_string() const {
  std::string out;
  if (stage != Stage::none) out = fmt::format("{}, round {}: ", neg::to_string(stage), round);
  out += by_peer ? "the peer says: " : "";
  out += text_of(problem);
  if (!text.empty()) out += ": " + text;
  if (!advice.empty()) out += "; " + advice;
  return out;
}

}  // namespace parley::neg
