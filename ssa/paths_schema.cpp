// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/paths_schema.hpp"

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::ssa {

namespace {

constexpr std::uint16_t p_keys_at = 24;

template <class Record>
TableDef table_of(const char* name, std::uint16_t ref_at = no_variable_part) {
  return {name, static_cast<std::uint16_t>(Record::size), ref_at};
}

}  // namespace

Schema path_schema() {
  return {{table_of<PathSubnet>("SUBNET"), table_of<PathNode>("NODE"), table_of<PathPort>("PORT", p_keys_at),
           table_of<PathLink>("LINK"), table_of<PathLft>("LFT"), table_of<PathPartition>("PARTITION"),
           table_of<PathSl>("SL")}};
}

Bytes PathSubnet::emit() const {
  Bytes out(size);
  Writer writer(out);
  writer.be64(gid_prefix);
  writer.u8(packet_life_time);
  writer.u8(sl);
  return out;
}

PathSubnet PathSubnet::parse(ConstBytes record) {
  Reader in(record);
  PathSubnet out;
  out.gid_prefix = in.be64();
  out.packet_life_time = in.u8();
  out.sl = in.u8();
  return out;
}

Bytes PathNode::emit() const {
  Bytes out(size);
  Writer writer(out);
  writer.be64(guid);
  writer.u8(type);
  writer.u8(ports);
  writer.be16(lft_top);
  return out;
}

PathNode PathNode::parse(ConstBytes record) {
  Reader in(record);
  PathNode out;
  out.guid = in.be64();
  out.type = in.u8();
  out.ports = in.u8();
  out.lft_top = in.be16();
  return out;
}

Bytes PathPort::emit() const {
  Bytes out(size);
  Writer writer(out);
  writer.be32(node);
  writer.be64(guid);
  writer.be16(lid);
  writer.u8(number);
  writer.u8(lmc);
  writer.u8(mtu);
  writer.u8(rate);
  return out;
}

PathPort PathPort::parse(ConstBytes record) {
  Reader in(record);
  PathPort out;
  out.node = in.be32();
  out.guid = in.be64();
  out.lid = in.be16();
  out.number = in.u8();
  out.lmc = in.u8();
  out.mtu = in.u8();
  out.rate = in.u8();
  return out;
}

Bytes PathLink::emit() const {
  Bytes out(size);
  Writer writer(out);
  for (const RecordId id : node) writer.be32(id);
  for (const std::uint8_t number : port) writer.u8(number);
  return out;
}

PathLink PathLink::parse(ConstBytes record) {
  Reader in(record);
  PathLink out;
  for (RecordId& id : out.node) id = in.be32();
  for (std::uint8_t& number : out.port) number = in.u8();
  return out;
}

template <PathTable Table>
Bytes PathBlock<Table>::emit() const {
  Bytes out(size);
  Writer writer(out);
  writer.be32(node);
  writer.be16(block);
  writer.zeros(2);
  writer.bytes(octets);
  return out;
}

template <PathTable Table>
PathBlock<Table> PathBlock<Table>::parse(ConstBytes record) {
  Reader in(record);
  PathBlock out;
  out.node = in.be32();
  out.block = in.be16();
  in.skip(2);
  const ConstBytes octets_in = in.bytes(lid_block);
  std::copy(octets_in.begin(), octets_in.end(), out.octets.begin());
  return out;
}

template struct PathBlock<PathTable::lft>;
template struct PathBlock<PathTable::sl>;

Bytes PathPartition::emit() const {
  Bytes out(size);
  Writer writer(out);
  writer.be16(p_key);
  writer.u8(sl);
  return out;
}

PathPartition PathPartition::parse(ConstBytes record) {
  Reader in(record);
  PathPartition out;
  out.p_key = in.be16();
  out.sl = in.u8();
  return out;
}

Bytes emit_p_keys(std::span<const std::uint16_t> p_keys) {
  Bytes out(p_keys.size() * 2);
  Writer writer(out);
  for (const std::uint16_t p_key : p_keys) writer.be16(p_key);
  return out;
}

}  // namespace parley::ssa
