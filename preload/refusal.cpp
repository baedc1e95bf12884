// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Refused calls: errno for the program and, with PARLEY_VERBS_LOG, the reason on standard error.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "preload/objects.hpp"

#include "drivers/secure_env.hpp"

namespace parley::preload {

namespace {

int number_of(const Error& error) {
  const std::error_code& code = error.code();
  if (code.category() == std::system_category() || code.category() == std::generic_category()) return code.value();
  if (code.category() != error_category()) return EIO;
  switch (static_cast<Errc>(code.value())) {
    case Errc::no_space: return ENOMEM;
    case Errc::unsupported: return EOPNOTSUPP;
    case Errc::not_permitted: return EPERM;
    case Errc::address_in_use: return EADDRINUSE;
    case Errc::bad_address: return EADDRNOTAVAIL;
    case Errc::unreachable: return EHOSTUNREACH;
    case Errc::timed_out: return ETIMEDOUT;
    case Errc::io: return EIO;
    default: return EINVAL;
  }
}

bool logs() {
  static const bool wanted = [] {
    const char* const text = secure_env("PARLEY_VERBS_LOG");
    return text != nullptr && *text != '\0';
  }();
  return wanted;
}

}  // namespace

void print_line(const std::string& what, const std::string& why) {
  const std::string line = "parley run: " + what + ": " + why + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

void note(const std::string& what, const std::string& why) {
  if (logs()) print_line(what, why);
}

std::string words_of(const Error& error) { return error.sentence().empty() ? error.message() : error.sentence(); }

int refused(const char* call, int number, const char* why) {
  if (logs()) print_line(call, why);
  errno = number;
  return number;
}

int refused(const char* call, const Error& error) { return refused(call, number_of(error), words_of(error).c_str()); }

int outcome(const char* call, const Result<void>& result) { return result ? 0 : refused(call, result.error()); }

}  // namespace parley::preload
