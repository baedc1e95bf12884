// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Results as C has them: a code below 0, and a sentence that the thread can ask for.
#pragma once
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "parley/parley.h"
#include "parley/result.hpp"

namespace parley::capi {

/// The code for C of a C++ one; PARLEY_E_IO for what is none of Parley's.
parley_error code_of(const std::error_code& code);

/// Each notes the sentence for parley_last_error() and returns the negative code. The sentence is put together when
/// somebody asks.
int fail(const Error& error) noexcept;
/// `sentence` has static lifetime and may have {a} and {b} in it.
int fail(parley_error code, std::string_view sentence, std::int64_t a = 0, std::int64_t b = 0) noexcept;
int fail_with(parley_error code, std::string sentence) noexcept;
/// An argument is.
inline int wrong(std::string sentence) noexcept { return fail_with(PARLEY_E_INVALID_ARGUMENT, std::move(sentence)); }
/// What fail() returned last in this thread.
int last_code() noexcept;

/// A sentence with the names of options that parley.h has for them.
std::string in_c(std::string text);

int bad_context() noexcept;
/// `foreign`: it is another context's.
int bad_id(bool foreign) noexcept;
int no_cq(std::uint32_t cq) noexcept;
int no_srq(std::uint32_t srq) noexcept;

/// Runs a call of the interface; nothing is thrown out of it.
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
