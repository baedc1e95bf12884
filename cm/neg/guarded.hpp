// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Calls into plug-ins, and failures in short.
#pragma once
#include <exception>

#include "parley/neg.hpp"

namespace parley::neg {

/// A Failure of that problem.
inline tl::unexpected<Failure> failed(Problem problem, std::string text, std::string advice = {}) {
  return tl::unexpected(Failure{.problem = problem, .text = std::move(text), .advice = std::move(advice)});
}

/// What a plug-in throws becomes a Failure.
template <class F>
auto guarded(F&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::exception& thrown) {
    return tl::unexpected(Failure{.problem = Problem::unexpected_exception, .text = thrown.what()});
  } catch (...) {
    return tl::unexpected(Failure{.problem = Problem::unexpected_exception, .text = "it is no std::exception"});
  }
}

}  // namespace parley::neg
