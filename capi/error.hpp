// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Results in C: a negative code, and a sentence that the thread can read with parley_last_error().
#pragma once
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "parley/parley.h"
#include "parley/result.hpp"

namespace parley::capi {

/// The C code for a C++ error code; PARLEY_E_IO for codes of other categories.
parley_error code_of(const std::error_code& code);

/// Each of these stores the error for parley_last_error() and returns the negative code. parley_last_error() formats
/// the sentence.
int fail(const Error& error) noexcept;
/// `sentence` must have static lifetime and may contain {a} and {b}.
int fail(parley_error code, std::string_view sentence, std::int64_t a = 0, std::int64_t b = 0) noexcept;
int fail_with(parley_error code, std::string sentence) noexcept;
/// An argument is wrong.
inline int wrong(std::string sentence) noexcept { return fail_with(PARLEY_E_INVALID_ARGUMENT, std::move(sentence)); }
/// The last result of fail() in this thread.
int last_code() noexcept;

/// Replaces the C++ names of options in a sentence by those in parley.h.
std::string in_c(std::string text);

int bad_context() noexcept;
/// `foreign`: the id belongs to another context.
int bad_id(bool foreign) noexcept;
int no_cq(std::uint32_t cq) noexcept;
int no_srq(std::uint32_t srq) noexcept;

/// Runs a call of the interface and turns exceptions into error codes.
template <class Call>
int guarded(Call&& call) noexcept {
  try {
    return std::forward<Call>(call)();
  } catch (const std::bad_alloc&) {
    return fail(PARLEY_E_NO_MEMORY, "memory has run out");
  } catch (const std::exception&) {
    return fail(PARLEY_E_INTERNAL, "an unexpected exception inside Parley; please report it");
  }
}

}  // namespace parley::capi
