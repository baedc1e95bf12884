// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A client of ibacm's protocol that sends any octets, whole requests with any records, cut anywhere. Answers are whole messages, as many as
// requests; input that is cut differently has the same answers; a file of addresses is read or refused. The same octets as messages of the
// kernel: answers can be read, and what can be read has the same octets again.
#include "ssa/acm/kernel.hpp"
#include "ssa/writer.hpp"
#include "tests/fuzz/draw.hpp"

namespace parley::fuzz {
namespace {

using namespace ssa;

constexpr std::uint64_t prefix = 0xFE80000000000000;

/// Two hosts at a switch, with LIDs 1, 2 and 3 for the switch.
std::shared_ptr<const PathMap> small_map() {
  DatabaseWriter writer = *DatabaseWriter::create(path_schema(), 1);
  const auto put = [&](const auto& record, const Bytes& variable = {}) {
    PARLEY_ASSERT(writer.insert(static_cast<std::size_t>(record.table), record.emit(), variable).has_value());
  };
  put(PathSubnet{.gid_prefix = prefix});
  put(PathNode{.guid = 1, .type = PathNode::switch_, .ports = 2, .lft_top = 3});
  const Bytes keys = emit_p_keys(std::vector<std::uint16_t>{0xFFFF});
  for (std::uint8_t n = 0; n <= 2; ++n)
    put(PathPort{.node = 0,
                 .guid = n == 0 ? 30U : 0U,
                 .lid = static_cast<std::uint16_t>(n == 0 ? 3 : 0),
                 .number = n,
                 .lmc = 0,
                 .mtu = 5,
                 .rate = 7},
        n == 0 ? keys : Bytes());
  PathLft lft{.node = 0, .block = 0, .octets = {}};
  lft.octets.fill(no_port);
  for (std::uint8_t n = 1; n <= 2; ++n) {
    put(PathNode{.guid = n + 1U, .type = PathNode::adapter, .ports = 1});
    put(PathPort{.node = n, .guid = 10U + n, .lid = n, .number = 1, .lmc = 0, .mtu = 5, .rate = 7}, keys);
    PathLink link{.node = {0, n}};
    link.port = {n, 1};
    put(link);
    lft.octets[n] = n;
  }
  lft.octets[3] = 0;
  put(lft);
  return *PathMap::create(*writer.commit());
}

std::shared_ptr<const acm::Data> make_data() {
  const auto data = std::make_shared<acm::Data>();
  data->map = small_map();
  const auto addresses = std::make_shared<acm::Addresses>();
  PARLEY_ASSERT(addresses->add_file("a fe80::b\n192.0.2.1 fe80::b\nb fe80::c").has_value());
  data->addresses = addresses;
  data->endpoints = {{1, gid_of_port(prefix, 11), 1, 1, 0xFFFF, {"a"}}};
  return data;
}

/// Requests, mostly with right headers.
Bytes drawn_requests(Draw& draw) {
  Bytes out;
  for (std::size_t count = draw.below(8); count > 0; --count) {
    const auto operation = static_cast<acm::Operation>(1 + draw.below(3));
    const std::size_t records = draw.below(4);
    acm::Header header{.operation = operation,
                       .length = static_cast<std::uint16_t>(acm::header_octets + records * acm::record_octets)};
    header.data = {draw.u8(), draw.u8(), draw.u8()};
    if (draw.u8() == 1) header.length = draw.u16();
    append(out, header);
    for (std::size_t i = 0; i < records; ++i) {
      const std::uint8_t shape = draw.u8();
      acm::Record record{.flags = shape & 3U, .type = static_cast<std::uint16_t>((shape & 4) != 0 ? 0x10 : shape >> 5)};
      if ((shape & 8) != 0) record.flags |= acm::flag::query_sa;
      if ((shape & 16) != 0) {
        const ConstBytes info = draw.bytes(record.info.size());
        std::copy(info.begin(), info.end(), record.info.begin());
      } else {
        record.info[draw.below(record.info.size())] = draw.u8();
      }
      append(out, record);
    }
  }
  return out;
}

/// Everything that a session answers. Subnet administration answers each question with the next octet.
Bytes answers(acm::Server& server, ConstBytes in, Chunks chunks) {
  acm::Session session(server);
  Bytes out;
  for (std::size_t at = 0; at < in.size();) {
    const std::size_t size = std::min(chunks.next(), in.size() - at);
    if (!session.feed(in.subspan(at, size), out)) return out;
    at += size;
    while (const auto* const query = session.query())
      if (!session.handle_answer(*query, out)) return out;
  }
  return out;
}

void check_whole(ConstBytes out) {
  while (!out.empty()) {
    PARLEY_ASSERT(out.size() >= acm::header_octets);
    const auto header = acm::parse_header(out);
    PARLEY_ASSERT(header && header->is_answer && header->length <= out.size());
    out = out.subspan(header->length);
  }
}

void check_kernel(ConstBytes in, const acm::Data& data) {
  Bytes out;
  (void)acm::answer_kernel(in, data, 1, out);
  for (ConstBytes rest = out; !rest.empty();) {
    const auto header = acm::parse_netlink_header(rest);
    PARLEY_ASSERT(header && header->is_local_service() && header->length % 4 == 0);
    rest = rest.subspan(header->length);
  }
  const auto message = acm::parse_netlink(in);
  if (!message) return;
  Bytes again;
  acm::append_netlink(again, *message);
  const auto parsed = acm::parse_netlink(again);
  PARLEY_ASSERT(parsed && *parsed == *message);
}

void run(ConstBytes in) {
  static acm::Server server(true);
  static const auto data = make_data();
  server.set_data(data);
  check_kernel(in, *data);
  Draw draw(in);
  const std::uint8_t seed = draw.u8();
  const bool raw = draw.bit();
  acm::Addresses addresses;
  const Bytes requests = raw ? Bytes(in.begin(), in.end()) : drawn_requests(draw);
  const Bytes cut = answers(server, requests, Chunks(seed));
  check_whole(cut);
  const ConstBytes rest = draw.rest();
  (void)addresses.add_file({reinterpret_cast<const char*>(rest.data()), rest.size()});
  const auto is_counter = [&](std::size_t at) { return cut[at + 1] == 0x82; };
  const Bytes whole = answers(server, requests, Chunks(12));
  PARLEY_ASSERT(whole.size() == cut.size());
  for (std::size_t at = 0; at < cut.size();) {  // counters have changed meanwhile
    const std::size_t length = acm::parse_header(ConstBytes(cut).subspan(at))->length;
    const auto from = static_cast<std::ptrdiff_t>(at), to = static_cast<std::ptrdiff_t>(at + length);
    PARLEY_ASSERT(is_counter(at) || std::equal(cut.begin() + from, cut.begin() + to, whole.begin() + from));
    at += length;
  }
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
