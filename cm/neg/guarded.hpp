// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Calls into plug-ins, and failures in short.
#pragma once
#include <exception>
#include <string>
#include <utility>

#include "base/escape.hpp"
#include "parley/neg.hpp"

namespace parley::neg {

/// A Failure of that problem.
inline tl::unexpected<Failure> failed(Problem problem, std::string text, std::string advice = {}) {
  return tl::unexpected(Failure{.problem = problem, .text = std::move(text), .advice = std::move(advice)});
}

inline constexpr std::size_t plugin_text_max = 1024;  // octets of a plug-in's words that are kept

/// A Failure as a plug-in may tell it: words that a terminal and a log can show, a problem that is not the transport's, and
/// nothing about the peer, stages and rounds, which the session knows better.
inline void make_sound(Failure& why) {
  why.text = printable(std::string_view(why.text).substr(0, plugin_text_max), false);
  why.advice = printable(std::string_view(why.advice).substr(0, plugin_text_max), false);
  if (to_string(why.problem) == "unknown" || layer_of(why.problem) == Layer::transport)
    why.problem = Problem::vendor_library_error;
  why.stage = Stage::none;
  why.round = 0;
  why.by_peer = false;
}

inline tl::unexpected<Failure> thrown(const char* words) {
  Failure why{.problem = Problem::unexpected_exception, .text = words};
  make_sound(why);
  return tl::unexpected(std::move(why));
}

/// A call into a plug-in: what it throws becomes a Failure, and what it says fails is made sound.
template <class F>
auto guarded(F&& call) -> decltype(call()) {
  try {
    auto said = call();
    if (!said) make_sound(said.error());
    return said;
  } catch (const std::exception& exception) {
    return thrown(exception.what());
  } catch (...) {
    return thrown("it is no std::exception");
  }
}

}  // namespace parley::neg
