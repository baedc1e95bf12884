// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/mad/segments.hpp"

#include <algorithm>

#include "base/bits.hpp"
#include "wire/mad/sa.hpp"

namespace parley::tools {

using mad::rmpp::Outcome;
using wire::mad::RmppHeader;
namespace flags = wire::mad::rmpp_flags;

Segments::Key Segments::key_of(const capture::CapturedMad& mad) {
  const auto place = [](const capture::CapturedMad::End& end) { return Place{end.lid, end.gid, end.qpn}; };
  return {place(mad.source), place(mad.destination), read_bits(mad.octets, 64, 64), mad.octets[1], mad.octets[3]};
}

std::optional<Segments::Table> Segments::take(const capture::CapturedMad& mad) {
  if (mad.octets.size() != PARLEY_IB_MAD_LEN || !mad::rmpp::has_rmpp(mad.octets[1])) return std::nullopt;
  const auto header = *RmppHeader::parse(mad.octets);
  const auto set = header.get(RmppHeader::rmpp_flags);
  if ((set & flags::active) == 0 || header.get(RmppHeader::rmpp_type) != wire::mad::RmppType::data) return std::nullopt;
  const std::uint32_t segment = header.get(RmppHeader::data1);
  if (segment == 1 && (set & flags::last) != 0) return std::nullopt;
  auto it = tables_.find(key_of(mad));
  if (it == tables_.end()) {
    if (segment != 1) return std::nullopt;  // its start is not in the capture
    if (tables_.size() >= tables_max) drop_oldest();
    it = tables_.try_emplace(key_of(mad), OpenTransfer{mad::rmpp::Receiver({.octets_max = octets_max}), 0, 0, 0, false})
             .first;
  }
  OpenTransfer& table = it->second;
  table.news = ++datagrams_;
  if (table.given) return std::nullopt;
  table.segments = std::max(table.segments, segment);
  table.receiver.handle(mad.at, mad.octets);
  octets_ += table.receiver.message().size() - table.octets;
  table.octets = table.receiver.message().size();
  if (table.receiver.outcome() != Outcome::done) {
    while (octets_ > octets_max) drop_oldest();
    return std::nullopt;
  }
  octets_ -= table.octets;
  table.octets = 0;
  table.given = true;
  return Table{table.receiver.take_message(), table.segments};
}

void Segments::drop_oldest() {
  const auto it = std::min_element(tables_.begin(), tables_.end(),
                                   [](const auto& a, const auto& b) { return a.second.news < b.second.news; });
  octets_ -= it->second.octets;
  if (!it->second.given) ++dropped_;
  tables_.erase(it);
}

std::uint64_t Segments::not_whole() const {
  return dropped_ + static_cast<std::uint64_t>(std::count_if(tables_.begin(), tables_.end(),
                                                             [](const auto& table) { return !table.second.given; }));
}

}  // namespace parley::tools
