// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tester/frame_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/after.hpp"
#include "base/text.hpp"

#include "tester/frames.hpp"

namespace parley::tester {
namespace {

void read_startup(const wire::MpaFrameView& view, Received& received) {
  received.key = view.key;
  received.flags = view.flags;
  received.revision = view.revision;
  received.pd_length = view.pd_length;
  ConstBytes data = view.private_data;
  // RFC 6581 §6: when S is set under revision 2, the enhanced data comes first in the private data.
  if (view.s() && view.revision == 2) {
    if (const auto words = wire::MpaEnhanced::parse(data)) {
      received.enhanced = *words;
      data = data.subspan(PARLEY_MPA_ENH_LEN);
    }
  }
  received.private_data.assign(data.begin(), data.end());
}

std::string_view name_of(wire::MpaKey key) {
  switch (key) {
    case wire::MpaKey::req: return "Request";
    case wire::MpaKey::rep: return "Reply";
    case wire::MpaKey::rtr: return "Rtr frame";
    case wire::MpaKey::rtr_hex: return "Rtr frame (RtR)";
    case wire::MpaKey::unknown: break;
  }
  return "frame of unknown key";
}

std::string startup_text(const Received& h) {
  std::string out = fmt::format("MPA {} rev={} flags={:02x}", name_of(h.key), h.revision, h.flags);
  if (h.enhanced) {
    const auto& e = *h.enhanced;
    out += fmt::format(" {}{}{}{}ird={:x} ord={:x}", e.a ? "A " : "", e.b ? "B " : "", e.c ? "C " : "", e.d ? "D " : "",
                       e.ird, e.ord);
  }
  return out + fmt::format(" pd={}", h.pd_length);
}

std::string fpdu_text(const Received& h) {
  if (!h.ddp)
    return fmt::format("an FPDU of {} octets, too short for a DDP header: {}", h.octets.size(), hex_text(h.octets));
  const auto& d = *h.ddp;
  if (const auto terminate = h.terminate()) {
    const auto& t = *terminate;
    const auto text = wire::terminate_text(t.layer, t.etype, t.code);
    return fmt::format("Terminate {:02x} {:02x} ({}{}{})", t.layer << 4 | t.etype, t.code,
                       text.empty() ? std::string_view("no such code") : text,
                       t.m || t.d || t.r ? fmt::format("; {}{}{}", t.m ? "M" : "", t.d ? "D" : "", t.r ? "R" : "") : "",
                       t.nibbles_swapped ? "; nibbles exchanged, as siw sends it" : "");
  }
  const std::size_t payload = h.payload().size();
  if (d.tagged)
    return fmt::format("{} stag={:#x} to={:#x} of {} octets", wire::to_string(d.opcode), d.stag, d.to, payload);
  return fmt::format("{} qn={} msn={} mo={} of {} octets", wire::to_string(d.opcode), d.qn, d.msn, d.mo, payload);
}

}  // namespace

std::string_view to_string(Received::Kind kind) {
  switch (kind) {
    case Received::Kind::startup: return "startup frame";
    case Received::Kind::fpdu: return "FPDU";
    case Received::Kind::bad: return "octets that are not a frame";
    case Received::Kind::fin: return "FIN";
    case Received::Kind::rst: return "RST";
    case Received::Kind::transport_timeout: return "TCP gave up";
    case Received::Kind::silence: return "silence";
  }
  return "?";
}

ConstBytes Received::payload() const {
  if (!ddp) return {};
  return ConstBytes(octets).subspan(std::min(ddp->size(), octets.size()));
}

std::optional<wire::Terminate> Received::terminate() const {
  if (!is(wire::RdmapOpcode::terminate) || ddp->tagged) return std::nullopt;
  const auto parsed = wire::Terminate::parse(payload());
  return parsed ? std::optional(*parsed) : std::nullopt;
}

std::string Received::text() const {
  if (kind == Kind::startup) return startup_text(*this);
  if (kind == Kind::fpdu) return fpdu_text(*this);
  std::string out(to_string(kind));
  if (!why.empty()) out += ": " + why;
  if (!octets.empty()) out += fmt::format(" [{}]", hex_text(octets, 64));
  return out;
}

Received FrameReader::ending(Received::Kind otherwise) const {
  Received h;
  h.at = peer_.now();
  h.kind = tcp_.fin_seen()    ? Received::Kind::fin
           : tcp_.rst_seen()  ? Received::Kind::rst
           : tcp_.timed_out() ? Received::Kind::transport_timeout
                              : otherwise;
  if (tcp_.ended()) h.at = tcp_.ended_at();
  const ConstBytes rest = tcp_.unread();
  h.octets.assign(rest.begin(), rest.end());
  return h;
}

Task<Received> FrameReader::startup(Duration patience) {
  const Instant limit = after(peer_.now(), patience);
  for (;;) {
    const ConstBytes in = tcp_.unread();
    const auto view = wire::MpaFrameView::parse(in);
    const bool key_ok = wire::may_become_mpa_key(in.first(std::min<std::size_t>(in.size(), PARLEY_MPA_KEY_LEN)));
    if (view && (view->complete() || !key_ok)) {
      Received h;
      h.at = tcp_.received_at();
      h.kind = key_ok ? Received::Kind::startup : Received::Kind::bad;
      const std::size_t size = key_ok ? view->frame_size() : in.size();
      h.octets.assign(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(size));
      if (key_ok) {
        read_startup(*view, h);
        tcp_.take(size);
      } else {
        h.why = "no startup frame";
      }
      co_return h;
    }
    if (tcp_.ended()) co_return ending(Received::Kind::fin);
    const bool came = co_await peer_.more(tcp_, in.size(), limit - peer_.now());
    if (!came) co_return ending(Received::Kind::silence);
  }
}

void FrameReader::fpdus(bool crc, bool markers) {
  deframer_.emplace(mpa::FramerOptions{.crc = crc, .markers = markers});
}

bool FrameReader::next_fpdu(Received& h) {
  mpa::FpduView view;
  const auto status = deframer_->next(view);
  if (status == mpa::DeframeStatus::need_more) return false;
  h.at = tcp_.received_at();
  if (status != mpa::DeframeStatus::fpdu) {
    h.kind = Received::Kind::bad;
    h.why = fmt::format("{} at octet {} of its FPDUs", mpa::to_string(status), deframer_->error_position());
    return true;
  }
  h.kind = Received::Kind::fpdu;
  for (const ConstBytes piece : view.pieces) h.octets.insert(h.octets.end(), piece.begin(), piece.end());
  if (const auto header = wire::DdpHeader::parse(h.octets)) h.ddp = *header;
  return true;
}

Task<Received> FrameReader::fpdu(Duration patience) {
  const Instant limit = after(peer_.now(), patience);
  if (!deframer_) fpdus(true, false);
  for (;;) {
    Received h;
    if (next_fpdu(h)) co_return h;
    const ConstBytes in = tcp_.unread();
    if (!in.empty()) {
      // The deframer keeps views of its input until it needs more, so it gets a copy that stays in place.
      fed_.assign(in.begin(), in.end());
      tcp_.take(fed_.size());
      deframer_->feed(fed_);
      continue;
    }
    if (tcp_.ended()) co_return ending(Received::Kind::fin);
    const bool came = co_await peer_.more(tcp_, 0, limit - peer_.now());
    if (!came) co_return ending(Received::Kind::silence);
  }
}

Task<Received> FrameReader::anything(Duration patience) {
  co_await peer_.more(tcp_, 0, patience);
  Received h = ending(Received::Kind::silence);
  if (!h.octets.empty()) {
    h.kind = Received::Kind::bad;
    h.at = tcp_.received_at();
    tcp_.take(h.octets.size());
  }
  co_return h;
}

}  // namespace parley::tester
