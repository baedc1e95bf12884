// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/node/output.hpp"

#include "mad/serve.hpp"

namespace parley::ssa {

void answer(OutputQueue<Transmit>& out, const Received& to, ConstBytes body, AnswerStatus status) {
  if (const auto reply = mad::reply_to(to.mad, body, static_cast<std::uint16_t>(status))) out.push({to.from, *reply});
}

mad::Address address_of(const wire::mad::SsaEndpoint& endpoint) {
  using wire::mad::SsaEndpoint;
  mad::Address out;
  out.lid = endpoint.get(SsaEndpoint::lid);
  out.sl = endpoint.get(SsaEndpoint::sl);
  if (const std::uint16_t p_key = endpoint.get(SsaEndpoint::p_key); p_key != 0) out.pkey = p_key;
  if (out.lid == 0) out.grh.emplace().gid = endpoint.get(SsaEndpoint::gid);
  return out;
}

}  // namespace parley::ssa
