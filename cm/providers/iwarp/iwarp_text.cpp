// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Texts for lost streams and Terminates.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/text.hpp"
#include "cm/providers/iwarp/iwarp_impl.hpp"

namespace parley::cm::iwarp {

Failure stream_lost(const Step& step, StreamEnd end, const Connection& c) {
  switch (end) {
    case StreamEnd::rst:
      // RFC 5044 §8: error 1, the TCP connection is lost; no Terminate can be sent.
      return plain_failure(step, Errc::peer_reset, "RFC 5044 §8", "RST",
                           "look at the peer's log for the reason, then connect again");
    case StreamEnd::timeout:
      // TCP reports that it gave up, but not after which time: Linux gives up to 1 s before dead_after is over.
      return no_answer(step, "RFC 5044 §8", c.peer,
                       c.dead_after > Duration{} ? "; dead_after is " + limit_text(c.dead_after) : "");
    case StreamEnd::fin:
    case StreamEnd::delivered: break;
  }
  return plain_failure(step, Errc::peer_closed, "RFC 5044 §7.2", "FIN", "connect again if more is to be sent");
}

Failure not_acknowledged(std::optional<StreamEnd> end, Duration linger) {
  const bool reset = end == StreamEnd::rst;
  return plain_failure(step::closing, reset ? Errc::peer_reset : Errc::timed_out, "RFC 5044 §7.2",
                       std::string("FIN, then ") +
                           (reset ? "RST"
                            : end ? "silence"
                                  : "nothing for " + limit_text(linger)) +
                           ", and the last octets of this side were not acknowledged",
                       "let the peer read until it has our FIN");
}

std::string terminate_text(const parley::iwarp::TerminateInfo& info) {
  return fmt::format("Terminate with layer {}, error type {}, code {:#04x}{}{}", info.layer, info.etype, info.code,
                     info.text.empty() ? "" : ": ", info.text);
}

}  // namespace parley::cm::iwarp
