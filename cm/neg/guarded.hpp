// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Guarded calls into plug-ins, and short forms of failures.
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

inline constexpr std::size_t plugin_text_max = 1024;  // octets of a plug-in's text that are kept

/// Sanitizes a plug-in's Failure: printable text, a problem outside the transport, and no statement about the peer, stages and
/// rounds, which the session sets.
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

/// A call into a plug-in: an exception becomes a Failure, and a reported Failure is sanitized.
template <class F>
auto guarded(F&& call) -> decltype(call()) {
  try {
    auto said = call();
    if (!said) make_sound(said.error());
    return said;
  } catch (const std::exception& exception) {
    return thrown(exception.what());
  } catch (...) {
    return thrown("it is not a std::exception");
  }
}

}  // namespace parley::neg
