// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/ssa/subnet_database.hpp"

#include <optional>
#include <vector>

#include "ssa/paths_rate.hpp"

namespace parley::ssa_driver {

namespace {

using mad::Topology;
using mad::TopologyNode;
using mad::TopologyPort;

constexpr std::size_t wasted_max = 1 << 20;  // octets of replaced P_Key tables, before the areas are rewritten

ssa::PathPort port_record(const TopologyPort& port, ssa::RecordId node, std::uint8_t number, bool end) {
  ssa::PathPort out{.node = node, .guid = end ? port.guid : 0, .lid = end ? port.lid : std::uint16_t{0}};
  out.number = number;
  out.lmc = end ? port.lmc : std::uint8_t{0};
  out.mtu = port.mtu_cap;
  out.rate = ssa::rate_code({port.width_active, port.speed_active, port.ext_active, port.ext2_active});
  return out;
}

}  // namespace

/// Puts records until one fails.
class SubnetDatabase::Update {
 public:
  Update(SubnetDatabase& database, const Topology& topology, const SubnetTables& tables)
      : database_(database), topology_(topology), tables_(tables) {
    ++database_.updates_;
  }

  Result<ssa::SnapshotPtr> run() {
    put(tables_.subnet, {});
    const auto count = static_cast<std::uint32_t>(topology_.nodes().size());
    for (std::uint32_t i = 0; i < count; ++i) ids_.push_back(put_node(i));
    for (std::uint32_t i = 0; i < count; ++i) put_links(i);
    for (const auto& [p_key, sl] : tables_.partitions) put(ssa::PathPartition{p_key, sl}, {p_key});
    erase_unseen();
    if (error_) return tl::unexpected(*error_);
    if (database_.writer_.wasted(static_cast<std::size_t>(ssa::PathTable::port)) > wasted_max)
      database_.writer_.compact();
    return database_.writer_.commit();
  }

 private:
  template <class Record>
  ssa::RecordId put(const Record& record, const Key& key, const Bytes& variable = {}) {
    if (error_) return 0;
    constexpr auto table = static_cast<std::size_t>(Record::table);
    auto& known = database_.known_[table];
    if (const auto at = known.find(key); at != known.end()) {
      at->second.seen = database_.updates_;
      check(database_.writer_.update(table, at->second.id, record.emit(), variable));
      return at->second.id;
    }
    const auto id = database_.writer_.insert(table, record.emit(), variable);
    if (!id) {
      error_ = id.error();
      return 0;
    }
    known[key] = {*id, database_.updates_};
    return *id;
  }

  ssa::RecordId put_node(std::uint32_t index) {
    const TopologyNode& node = topology_.nodes()[index];
    ssa::PathNode record{.guid = node.guid, .type = static_cast<std::uint8_t>(node.type), .ports = node.ports};
    const auto at = tables_.switches.find(index);
    if (at != tables_.switches.end()) record.lft_top = at->second.top;
    const ssa::RecordId id = put(record, {node.guid});
    put_ports(index, id);
    if (at == tables_.switches.end()) return id;
    for (const auto& [block, octets] : at->second.lft) put(ssa::PathLft{id, block, octets}, {id, block});
    for (const auto& [block, octets] : at->second.sls) put(ssa::PathSl{id, block, octets}, {id, block});
    return id;
  }

  void put_ports(std::uint32_t index, ssa::RecordId id) {
    const TopologyNode& node = topology_.nodes()[index];
    const auto ports = topology_.ports_of(node);
    for (std::size_t n = 0; n < ports.size(); ++n) {
      const bool end = is_end_port(node, n);
      if (!ports[n].known || (!end && (n == 0 || ports[n].peer == mad::no_node))) continue;
      const auto number = static_cast<std::uint8_t>(n);
      const auto keys = tables_.p_keys.find({index, number});
      put(port_record(ports[n], id, number, end), {id, number},
          keys == tables_.p_keys.end() ? Bytes() : ssa::emit_p_keys(keys->second));
    }
  }

  void put_links(std::uint32_t index) {
    for (unsigned n = 1; n <= topology_.nodes()[index].ports; ++n) {
      const auto number = static_cast<std::uint8_t>(n);
      const TopologyPort& port = topology_.port(index, number);
      if (port.peer == mad::no_node || !topology_.is_first_end(index, number)) continue;
      if (port.peer == index && port.peer_port == number) continue;  // a loopback plug: no path needs it
      if (!port.known || !topology_.port(port.peer, port.peer_port).known) continue;
      put(ssa::PathLink{{ids_[index], ids_[port.peer]}, {number, port.peer_port}}, {ids_[index], number});
    }
  }

  void erase_unseen() {
    for (std::size_t table = 0; table < ssa::path_tables; ++table)
      for (auto at = database_.known_[table].begin(); !error_ && at != database_.known_[table].end();) {
        if (at->second.seen == database_.updates_) {
          ++at;
          continue;
        }
        check(database_.writer_.erase(table, at->second.id));
        at = database_.known_[table].erase(at);
      }
  }

  void check(const Result<void>& done) {
    if (!done) error_ = done.error();
  }

  SubnetDatabase& database_;
  const Topology& topology_;
  const SubnetTables& tables_;
  std::vector<ssa::RecordId> ids_;  // by node
  std::optional<Error> error_;
};

Result<SubnetDatabase> SubnetDatabase::create(std::uint32_t incarnation) {
  auto writer = ssa::DatabaseWriter::create(ssa::path_schema(), incarnation);
  if (!writer) return tl::unexpected(writer.error());
  return SubnetDatabase(std::move(*writer));
}

Result<ssa::SnapshotPtr> SubnetDatabase::update(const Topology& topology, const SubnetTables& tables) {
  return Update(*this, topology, tables).run();
}

Result<ssa::SnapshotPtr> database_of(const Topology& topology, const SubnetTables& tables, std::uint32_t incarnation) {
  auto database = SubnetDatabase::create(incarnation);
  if (!database) return tl::unexpected(database.error());
  return database->update(topology, tables);
}

}  // namespace parley::ssa_driver
