// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "peer/ear.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "peer/frames.hpp"

namespace parley::peer {
namespace {

void read_startup(const wire::MpaFrameView& view, Heard& heard) {
  heard.key = view.key;
  heard.flags = view.flags;
  heard.revision = view.revision;
  heard.pd_length = view.pd_length;
  ConstBytes data = view.private_data;
  // RFC 6581 §6: the enhanced data stands first in the private data when S is set under revision 2.
  if (view.s() && view.revision == 2) {
    if (const auto words = wire::MpaEnhanced::parse(data)) {
      heard.enhanced = *words;
      data = data.subspan(PARLEY_MPA_ENH_LEN);
    }
  }
  heard.private_data.assign(data.begin(), data.end());
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

std::string startup_words(const Heard& h) {
  std::string out = fmt::format("MPA {} rev={} flags={:02x}", name_of(h.key), h.revision, h.flags);
  if (h.enhanced) {
    const auto& e = *h.enhanced;
    out += fmt::format(" {}{}{}{}ird={:x} ord={:x}", e.a ? "A " : "", e.b ? "B " : "", e.c ? "C " : "", e.d ? "D " : "",
                       e.ird, e.ord);
  }
  return out + fmt::format(" pd={}", h.pd_length);
}

std::string fpdu_words(const Heard& h) {
  if (!h.ddp)
    return fmt::format("an FPDU of {} octets, too short for a DDP header: {}", h.octets.size(), hex(h.octets));
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

std::string_view to_string(Heard::Kind kind) {
  switch (kind) {
    case Heard::Kind::startup: return "startup frame";
    case Heard::Kind::fpdu: return "FPDU";
    case Heard::Kind::bad: return "octets that are no frame";
    case Heard::Kind::fin: return "FIN";
    case Heard::Kind::rst: return "RST";
    case Heard::Kind::tcp_timeout: return "TCP gave up";
    case Heard::Kind::silence: return "silence";
  }
  return "?";
}

ConstBytes Heard::payload() const {
  if (kind != Kind::fpdu || !ddp) return {};
  return ConstBytes(octets).subspan(std::min(ddp->size(), octets.size()));
}

std::optional<wire::Terminate> Heard::terminate() const {
  if (!is(wire::RdmapOpcode::terminate) || ddp->tagged) return std::nullopt;
  const auto parsed = wire::Terminate::parse(payload());
  return parsed ? std::optional(*parsed) : std::nullopt;
}

std::string Heard::words() const {
  if (kind == Kind::startup) return startup_words(*this);
  if (kind == Kind::fpdu) return fpdu_words(*this);
  std::string out(to_string(kind));
  if (!why.empty()) out += ": " + why;
  if (!octets.empty()) out += fmt::format(" [{}]", hex(octets));
  return out;
}

Heard Ear::ending(Heard::Kind otherwise) const {
  Heard h;
  h.at = stage_.now();
  h.kind = line_.fin_seen()    ? Heard::Kind::fin
           : line_.rst_seen()  ? Heard::Kind::rst
           : line_.timed_out() ? Heard::Kind::tcp_timeout
                               : otherwise;
  if (line_.ended()) h.at = line_.ended_at();
  const ConstBytes rest = line_.unread();
  h.octets.assign(rest.begin(), rest.end());
  return h;
}

Task<Heard> Ear::startup(Duration patience) {
  const Instant limit = patience < never - stage_.now() ? stage_.now() + patience : never;
  for (;;) {
    const ConstBytes in = line_.unread();
    const auto view = wire::MpaFrameView::parse(in);
    const bool key_ok = wire::may_become_mpa_key(in.first(std::min<std::size_t>(in.size(), PARLEY_MPA_KEY_LEN)));
    if (view && (view->complete() || !key_ok)) {
      Heard h;
      h.at = line_.heard_at();
      h.kind = key_ok ? Heard::Kind::startup : Heard::Kind::bad;
      const std::size_t size = key_ok ? view->frame_size() : in.size();
      h.octets.assign(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(size));
      if (key_ok) {
        read_startup(*view, h);
        line_.take(size);
      } else {
        h.why = "no startup frame";
      }
      co_return h;
    }
    if (line_.ended()) co_return ending(Heard::Kind::fin);
    const bool came = co_await stage_.more(line_, in.size(), limit - stage_.now());
    if (!came) co_return ending(Heard::Kind::silence);
  }
}

void Ear::fpdus(bool crc, bool markers) { deframer_.emplace(mpa::FramerOptions{.crc = crc, .markers = markers}); }

bool Ear::next_fpdu(Heard& h) {
  mpa::FpduView view;
  const auto status = deframer_->next(view);
  if (status == mpa::DeframeStatus::need_more) return false;
  h.at = line_.heard_at();
  if (status != mpa::DeframeStatus::fpdu) {
    h.kind = Heard::Kind::bad;
    h.why = fmt::format("{} at octet {} of its FPDUs", mpa::to_string(status), deframer_->error_position());
    return true;
  }
  h.kind = Heard::Kind::fpdu;
  for (const ConstBytes piece : view.pieces) h.octets.insert(h.octets.end(), piece.begin(), piece.end());
  if (const auto header = wire::DdpHeader::parse(h.octets)) h.ddp = *header;
  return true;
}

Task<Heard> Ear::fpdu(Duration patience) {
  const Instant limit = patience < never - stage_.now() ? stage_.now() + patience : never;
  if (!deframer_) fpdus(true, false);
  for (;;) {
    Heard h;
    if (next_fpdu(h)) co_return h;
    const ConstBytes in = line_.unread();
    if (!in.empty()) {
      // The deframer borrows what it is fed until it asks for more, so it gets a copy that stays.
      fed_.assign(in.begin(), in.end());
      line_.take(fed_.size());
      deframer_->feed(fed_);
      continue;
    }
    if (line_.ended()) co_return ending(Heard::Kind::fin);
    const bool came = co_await stage_.more(line_, 0, limit - stage_.now());
    if (!came) co_return ending(Heard::Kind::silence);
  }
}

Task<Heard> Ear::anything(Duration patience) {
  co_await stage_.more(line_, 0, patience);
  Heard h = ending(Heard::Kind::silence);
  if (!h.octets.empty()) {
    h.kind = Heard::Kind::bad;
    h.at = line_.heard_at();
    line_.take(h.octets.size());
  }
  co_return h;
}

}  // namespace parley::peer
