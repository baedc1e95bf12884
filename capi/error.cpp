// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capi/error.hpp"

#include <cerrno>
#include <iterator>
#include <optional>
#include <utility>

#include "base/errc_text.hpp"
#include "parley/xrc.hpp"

namespace parley::capi {
namespace {

// The error of this thread's last failed call.
struct LastError {
  int code = 0;
  std::optional<Error> error;  // if none: `sentence`
  std::string sentence;
  bool is_told = false;  // `told` has the text
  std::string told;      // what parley_last_error() returned: valid until another call fails
};
LastError& last() {
  static thread_local LastError value;
  return value;
}

constexpr std::string_view no_context =
    "there is no such context: it was never opened, or it is closed, or another process opened it";
constexpr std::string_view no_id =
    "the context has no such listener or connection: the handle was never issued, or it was destroyed";
constexpr std::string_view foreign_id = "the listener or connection belongs to another context";

struct Row {
  parley_error code;
  int number;  // errno
  const char* text;
};
constexpr Row rows[] = {
    {PARLEY_E_INVALID_ARGUMENT, EINVAL, text_of(Errc::invalid_argument)},
    {PARLEY_E_BAD_HANDLE, EINVAL, "there is no such object"},
    {PARLEY_E_WRONG_STATE, EINVAL, text_of(Errc::wrong_state)},
    {PARLEY_E_NO_SPACE, ENOMEM, text_of(Errc::no_space)},
    {PARLEY_E_NO_MEMORY, ENOMEM, "memory has run out"},
    {PARLEY_E_UNSUPPORTED, ENOSYS, text_of(Errc::unsupported)},
    {PARLEY_E_NOT_PERMITTED, EACCES, text_of(Errc::not_permitted)},
    {PARLEY_E_IO, EIO, text_of(Errc::io)},
    {PARLEY_E_BAD_ADDRESS, EINVAL, text_of(Errc::bad_address)},
    {PARLEY_E_ADDRESS_IN_USE, EADDRINUSE, text_of(Errc::address_in_use)},
    {PARLEY_E_REFUSED, ECONNREFUSED, text_of(Errc::refused)},
    {PARLEY_E_UNREACHABLE, EHOSTUNREACH, text_of(Errc::unreachable)},
    {PARLEY_E_TIMED_OUT, ETIMEDOUT, text_of(Errc::timed_out)},
    {PARLEY_E_REJECTED, ECONNREFUSED, text_of(Errc::rejected)},
    {PARLEY_E_PEER_CLOSED, EPIPE, text_of(Errc::peer_closed)},
    {PARLEY_E_PEER_RESET, ECONNRESET, text_of(Errc::peer_reset)},
    {PARLEY_E_PROTOCOL, EPROTO, text_of(Errc::malformed)},
    {PARLEY_E_TERMINATED, ECONNABORTED, text_of(Errc::terminated)},
    {PARLEY_E_PROTECTION, EFAULT, text_of(Errc::protection)},
    {PARLEY_E_NO_COMMON_TERMS, EOPNOTSUPP, "RTR, IRD or ORD of the two sides cannot be reconciled"},
    {PARLEY_E_CANCELLED, ECANCELED, text_of(Errc::cancelled)},
    {PARLEY_E_MAD_STATUS, EIO, "the answer's status is an error"},
    {PARLEY_E_MAD_NO_RECORDS, ENOENT, "subnet administration has no record to that question"},
    {PARLEY_E_MAD_CUT, EMSGSIZE, "the table is longer than one datagram, and the rest was not sent"},
    {PARLEY_E_INTERNAL, EIO, "a fault inside Parley"},
};

// The codes of xrc::Refusal, in its order. Failures of the registry in shared memory share codes with others.
constexpr parley_error refusal_codes[] = {PARLEY_E_XRC_NOT_FOUND,
                                          PARLEY_E_XRC_GONE,
                                          PARLEY_E_XRC_OTHER_DOMAIN,
                                          PARLEY_E_XRC_NOT_REGISTERED,
                                          PARLEY_E_XRC_WRONG_TYPE,
                                          PARLEY_E_XRC_STATE,
                                          PARLEY_E_XRC_CONFLICT,
                                          PARLEY_E_XRC_BUSY,
                                          PARLEY_E_XRC_NOT_MEMBER,
                                          PARLEY_E_XRC_STALE_EPOCH,
                                          PARLEY_E_NO_MEMORY,
                                          PARLEY_E_UNSUPPORTED,
                                          PARLEY_E_XRC_UNKNOWN_DOMAIN,
                                          PARLEY_E_XRC_DOMAIN_EXISTS,
                                          PARLEY_E_XRC_BAD_DESCRIPTOR,
                                          PARLEY_E_NOT_PERMITTED,
                                          PARLEY_E_XRC_TOO_MANY_MEMBERS,
                                          PARLEY_E_INVALID_ARGUMENT,
                                          PARLEY_E_PROTOCOL,
                                          PARLEY_E_PROTOCOL,
                                          PARLEY_E_XRC_WRONG_PROCESS,
                                          PARLEY_E_XRC_NO_BROKER,
                                          PARLEY_E_TIMED_OUT,
                                          PARLEY_E_XRC_NO_BROKER,
                                          PARLEY_E_NO_SPACE,
                                          PARLEY_E_NOT_PERMITTED,
                                          PARLEY_E_INVALID_ARGUMENT,
                                          PARLEY_E_PROTOCOL,
                                          PARLEY_E_UNSUPPORTED,
                                          PARLEY_E_NO_MEMORY,
                                          PARLEY_E_NO_MEMORY,
                                          PARLEY_E_NO_MEMORY,
                                          PARLEY_E_NO_MEMORY,
                                          PARLEY_E_NO_MEMORY,
                                          PARLEY_E_NO_MEMORY,
                                          PARLEY_E_XRC_NO_BROKER,
                                          PARLEY_E_XRC_NO_BROKER,
                                          PARLEY_E_XRC_NO_BROKER};
constexpr Row refusal_rows[] = {
#define PARLEY_X(name, number, text) \
  {refusal_codes[static_cast<std::size_t>(xrc::Refusal::name) - 1], static_cast<int>(std::errc::number), text},
    PARLEY_XRC_REFUSALS(PARLEY_X)
#undef PARLEY_X
};
static_assert(std::size(refusal_rows) == std::size(refusal_codes));

const Row* row_of(long long rc) {
  const long long code = rc < 0 ? -rc : rc;
  for (const Row& row : rows)
    if (row.code == code) return &row;
  for (const Row& row : refusal_rows)
    if (row.code == code) return &row;
  return nullptr;
}

// The names of an option in C++ and in C. Longer names precede their prefixes.
constexpr std::pair<std::string_view, std::string_view> names[] = {
    {"mpa::Options::revision", "mpa_revision"},
    {"mpa::Options::rtr", "mpa_rtr"},
    {"mpa::depth_not_negotiated", "PARLEY_DEPTH_NOT_NEGOTIATED"},
    {"ConnectOptions::retry.", "retry_"},
    {"ConnectOptions::transport_timeout", "timeout_ms"},
    {"ConnectOptions::", ""},
    {"ListenOptions::", ""},
    {"ManagerOptions::endpoints_max", "ids_max"},
    {"endpoints_max", "ids_max"},
    {"timeouts.reply", "reply_timeout_ms"},
    {"SendWr::opcode", "opcode"},
    {"; iwarp::QueuePair::post_immediate sends 64 bits", ""},
    {"accept() or reject()", "parley_accept() or parley_reject()"},
};

}  // namespace

std::string in_c(std::string text) {
  for (const auto& name : names)
    for (std::size_t at = 0; (at = text.find(name.first, at)) != std::string::npos; at += name.second.size())
      text.replace(at, name.first.size(), name.second);
  return text;
}

parley_error code_of(const std::error_code& code) {
  if (code.category() == xrc::refusal_category()) return refusal_codes[static_cast<std::size_t>(code.value()) - 1];
  if (code.category() != error_category()) return PARLEY_E_IO;
  switch (static_cast<Errc>(code.value())) {
    case Errc::ok: return PARLEY_E_INTERNAL;
    case Errc::invalid_argument: return PARLEY_E_INVALID_ARGUMENT;
    case Errc::wrong_state: return PARLEY_E_WRONG_STATE;
    case Errc::no_space: return PARLEY_E_NO_SPACE;
    case Errc::truncated:
    case Errc::malformed:
    case Errc::bad_key:
    case Errc::bad_revision:
    case Errc::bad_private_data:
    case Errc::extra_octets:
    case Errc::crc_mismatch:
    case Errc::marker_mismatch: return PARLEY_E_PROTOCOL;
    case Errc::rejected: return PARLEY_E_REJECTED;
    case Errc::timed_out: return PARLEY_E_TIMED_OUT;
    case Errc::peer_closed: return PARLEY_E_PEER_CLOSED;
    case Errc::peer_reset: return PARLEY_E_PEER_RESET;
    case Errc::refused: return PARLEY_E_REFUSED;
    case Errc::unreachable: return PARLEY_E_UNREACHABLE;
    case Errc::no_matching_rtr:
    case Errc::insufficient_ird: return PARLEY_E_NO_COMMON_TERMS;
    case Errc::terminated: return PARLEY_E_TERMINATED;
    case Errc::address_in_use: return PARLEY_E_ADDRESS_IN_USE;
    case Errc::bad_address: return PARLEY_E_BAD_ADDRESS;
    case Errc::not_permitted: return PARLEY_E_NOT_PERMITTED;
    case Errc::protection: return PARLEY_E_PROTECTION;
    case Errc::unsupported: return PARLEY_E_UNSUPPORTED;
    case Errc::cancelled: return PARLEY_E_CANCELLED;
    case Errc::unreadable:
    case Errc::io: return PARLEY_E_IO;
  }
  return PARLEY_E_INTERNAL;
}

int fail(const Error& error) noexcept {
  last().error = error;
  last().is_told = false;
  // From a call, this error is about the caller's private data.
  const bool own = error == Errc::bad_private_data;
  return last().code = own ? -PARLEY_E_INVALID_ARGUMENT : -code_of(error.code());
}

int fail(parley_error code, std::string_view sentence, std::int64_t a, std::int64_t b) noexcept {
  last().error = Error(Errc::io, sentence, a, b);  // only its sentence is used
  last().is_told = false;
  return last().code = -code;
}

int fail_with(parley_error code, std::string sentence) noexcept {
  last().error.reset();
  last().sentence = std::move(sentence);
  last().is_told = false;
  return last().code = -code;
}

int last_code() noexcept { return last().code; }

int bad_context() noexcept { return fail(PARLEY_E_BAD_HANDLE, no_context); }
int bad_id(bool foreign) noexcept { return fail(PARLEY_E_BAD_HANDLE, foreign ? foreign_id : no_id); }
int no_cq(std::uint32_t cq) noexcept {
  return fail(PARLEY_E_BAD_HANDLE, "the context has no completion queue {a}: destroyed, or another context's", cq);
}
int no_srq(std::uint32_t srq) noexcept {
  return fail(PARLEY_E_BAD_HANDLE, "the context has no shared receive queue {a}: destroyed, or another context's", srq);
}

}  // namespace parley::capi

using namespace parley::capi;

extern "C" const char* parley_strerror(int rc) {
  if (rc == 0) return "no error";
  const Row* row = row_of(rc);
  return row != nullptr ? row->text : "unknown error code";
}

extern "C" int parley_errno(int rc) {
  if (rc == 0) return 0;
  const Row* row = row_of(rc);
  return row != nullptr ? row->number : EIO;
}

extern "C" const char* parley_last_error(void) {
  LastError& l = last();
  if (l.is_told) return l.told.c_str();
  try {
    if (l.error) {
      l.told = in_c(l.error->sentence());
      if (l.told.empty()) l.told = l.error->code().message();
    } else {
      l.told = l.sentence;
    }
  } catch (const std::bad_alloc&) {
    return "memory has run out";
  }
  l.is_told = true;
  return l.told.c_str();
}

extern "C" const char* parley_version(void) { return PARLEY_VERSION; }
