// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A little subnet administration that keeps subscriptions: docs/mad.md quotes it.
#pragma once
#include <functional>

#include "mad/scope.hpp"
#include "mad/subscriptions.hpp"

namespace parley::mad {

using wire::mad::Notice;

inline Task<void> administrate(Port& port, Subscriptions& subscriptions, std::function<Gid(std::uint16_t lid)> gid_of) {
  Scope telling(port.executor(), {.on_error = OnError::keep});
  while (const auto request = co_await port.next_request()) {
    const auto parsed = parse_request(request->mad);
    if (parsed && parsed->method == Method::trap) {
      if (const auto repress = reply_to(request->mad, parsed->body_view)) (void)port.post(request->from, *repress);
      const Notice notice = *Notice::parse(parsed->body_view);
      const Gid issuer = gid_of(notice.get(Notice::issuer_lid));
      if (telling.children() < 64) telling.spawn(report(port, subscriptions, notice, issuer));
      continue;
    }
    const Bytes reply = subscriptions.answer(request->from, gid_of(request->from.lid), request->mad);
    if (!reply.empty()) (void)port.post(request->from, reply);
  }
}

}  // namespace parley::mad
