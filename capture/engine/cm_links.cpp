// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/engine/cm_links.hpp"

#include <optional>
#include <variant>

#include "base/fnv1a.hpp"
#include "wire/ib/mad.hpp"

namespace parley::capture {

using wire::ib::CmMessageType;
using wire::ib::CmSubject;

namespace {

std::size_t slot_of(CmMessageType type) {
  return (static_cast<std::size_t>(type) - static_cast<std::size_t>(CmMessageType::req)) % PARLEY_ENGINE_CM_KINDS;
}

std::optional<CmMessageType> asked_by(CmSubject about) {
  if (about == CmSubject::req) return CmMessageType::req;
  if (about == CmSubject::rep) return CmMessageType::rep;
  return std::nullopt;
}

std::optional<CmMessageType> answered_by(const wire::ib::CmMessage& m) {
  switch (m.type()) {
    case CmMessageType::rep: return CmMessageType::req;
    case CmMessageType::rtu: return CmMessageType::rep;
    case CmMessageType::drep: return CmMessageType::dreq;
    case CmMessageType::sidr_rep: return CmMessageType::sidr_req;
    case CmMessageType::apr: return CmMessageType::lap;
    case CmMessageType::rej: return asked_by(std::get<wire::ib::CmRej>(m.body).about);
    case CmMessageType::mra: {
      const auto asked = asked_by(std::get<wire::ib::CmMra>(m.body).about);
      return asked ? asked : CmMessageType::lap;
    }
    default: return std::nullopt;
  }
}

}  // namespace

void link(parley_engine_connection& connection, Side from, const CapturedCm& m, parley_engine_place& out) {
  const CmMessageType type = m.message.type();
  parley_engine_sent& sent = connection.sent[index_of(from)][slot_of(type)];
  const std::uint64_t digest = fnv1a(m.mad.subspan(PARLEY_IB_MAD_HEADER_LEN));
  out.message = true;
  out.first = 0;
  out.copy = 1;
  if (sent.frame == 0) {
    sent.frame = m.ref.frame;
    sent.copies = 1;
    sent.digest = digest;
    sent.at = m.ref.at.time_since_epoch().count();
  } else if (sent.digest == digest) {
    out.first = sent.frame;
    out.copy = ++sent.copies;
  }
  const auto asked = answered_by(m.message);
  if (!asked) return;
  parley_engine_sent& request = connection.sent[index_of(other(from))][slot_of(*asked)];
  if (request.frame == 0) return;
  out.request = request.frame;
  out.request_at = request.at;
  // A MRA only announces the answer.
  if (request.answer == 0 && type != CmMessageType::mra) request.answer = out.first != 0 ? out.first : m.ref.frame;
}

}  // namespace parley::capture
