// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Builds a PathMap. The records may come from anywhere: each reference and number is checked before it is an index.
#include <algorithm>

#include "parley/wire/ib_codes.h"
#include "ssa/paths.hpp"
#include "ssa/paths_rate.hpp"

namespace parley::ssa {

namespace {

constexpr std::uint32_t no_index = ~0U;
constexpr std::uint16_t lid_blocks_max = lids_max / lid_block;
constexpr std::uint8_t ports_max = 254, lmc_max = 7, mtu_max = PARLEY_IB_MTU_CODE_MAX, sl_max = 15, life_time_max = 63;

/// A port of a node, and what is known of its link.
struct Slot {
  std::uint8_t mtu = 0, rank = 0;  // rank 0: there is no record of the port
  std::uint32_t peer = no_index;   // the slot at the other end of its link
  EndId end = no_end;
};

struct NodePlace {
  RecordId record = 0;
  PathNode node;
  std::uint32_t first_slot = 0;
  SwitchId index = no_switch;
};

/// Octets for each port; slots_ and switch_of have one element for each.
constexpr std::size_t port_octets = sizeof(Slot) + sizeof(SwitchId);

}  // namespace

class PathMapBuilder {
 public:
  PathMapBuilder(const Snapshot& snapshot, const PathLimits& limits) : snapshot_(snapshot), limits_(limits) {}

  Result<std::shared_ptr<const PathMap>> build() {
    for (const auto step :
         {&PathMapBuilder::check_schema, &PathMapBuilder::take_subnet, &PathMapBuilder::take_nodes,
          &PathMapBuilder::take_ports, &PathMapBuilder::take_links, &PathMapBuilder::index_guids,
          &PathMapBuilder::take_tables, &PathMapBuilder::take_sls, &PathMapBuilder::take_partitions}) {
      if (const auto done = (this->*step)(); !done) return tl::unexpected(done.error());
    }
    connect();
    return std::shared_ptr<const PathMap>(std::move(map_));
  }

 private:
  /// Octets for each switch, without its rows: egress ports, and the blocks that were seen.
  static constexpr std::size_t switch_octets =
      256 * sizeof(PathMap::Egress) + sizeof(std::vector<bool>) + lid_blocks_max / 8;

  Result<void> check_schema() {
    const Schema wanted = path_schema();
    const std::vector<TableDef>& tables = snapshot_.schema().tables;
    for (std::size_t i = 0; i < wanted.tables.size(); ++i)
      if (i >= tables.size() || tables[i] != wanted.tables[i])
        return fail(Errc::malformed, "table {a} of the database is not the one that paths need there", shown(i));
    return {};
  }

  template <class Number>
  static std::int64_t shown(Number number) {
    return static_cast<std::int64_t>(number);
  }

  /// Calls `take(id, record)`, which returns a Result, until one fails.
  template <class Record, class Take>
  Result<void> each(Take&& take) {
    Result<void> out;
    each_record<Record>(snapshot_, [&](RecordId id, const Record& record) {
      if (out) out = take(id, record);
    });
    return out;
  }

  Result<void> take_subnet() {
    const std::size_t count = snapshot_.size(static_cast<std::size_t>(PathTable::subnet));
    if (count != 1) return fail(Errc::malformed, "the table SUBNET has {a} records; it must have 1", shown(count));
    each_record<PathSubnet>(snapshot_, [&](RecordId, const PathSubnet& record) { map_->subnet_ = record; });
    if (map_->subnet_.sl > sl_max || map_->subnet_.packet_life_time > life_time_max)
      return fail(Errc::malformed, "the SUBNET record has SL {a} and packet life time {b}; the greatest are 15 and 63",
                  map_->subnet_.sl, map_->subnet_.packet_life_time);
    return {};
  }

  Result<void> take_nodes() {
    std::uint32_t slots = 0;
    const auto taken = each<PathNode>([&](RecordId id, const PathNode& node) -> Result<void> {
      if (nodes_.size() == path_nodes_max)
        return fail(Errc::no_space, "the table NODE has more than {a} records", shown(path_nodes_max));
      if (node.type < PathNode::adapter || node.type > PathNode::router || node.ports > ports_max)
        return fail(Errc::malformed, "NODE record {a}: no such type, or {b} ports; there are at most 254", id,
                    node.ports);
      NodePlace place{id, node, slots, no_switch};
      slots += node.ports + 1U;
      const bool is_switch = node.type == PathNode::switch_;
      if (!reserve((node.ports + 1U) * port_octets + (is_switch ? switch_octets : 0)))
        return fail(Errc::no_space, "NODE record {a}: its ports and those before need more than {b} octets", id,
                    shown(limits_.octets_max));
      if (is_switch) {
        if (map_->switch_ends_.size() == subnet_switches_max)
          return fail(Errc::no_space, "NODE record {a}: more than {b} switches, which cannot all have a LID", id,
                      shown(subnet_switches_max));
        place.index = static_cast<SwitchId>(map_->switch_ends_.size());
        map_->switch_ends_.push_back(no_end);
      }
      nodes_.push_back(place);
      return {};
    });
    if (taken) slots_.resize(slots);
    return taken;
  }

  const NodePlace* find_node(RecordId id) const {
    const auto at = std::lower_bound(nodes_.begin(), nodes_.end(), id,
                                     [](const NodePlace& place, RecordId wanted) { return place.record < wanted; });
    return at == nodes_.end() || at->record != id ? nullptr : &*at;
  }

  Result<void> take_ports() {
    map_->owner_.assign(lids_max, no_end);
    const auto taken = each<PathPort>([this](RecordId id, const PathPort& port) { return take_port(id, port); });
    if (!taken) return taken;
    std::size_t top = lids_max;
    while (top > 0 && map_->owner_[top - 1] == no_end) --top;
    map_->stride_ = std::max<std::size_t>(top, 1);
    map_->owner_.resize(map_->stride_);
    return {};
  }

  Result<void> take_port(RecordId id, const PathPort& port) {
    const NodePlace* const node = find_node(port.node);
    if (node == nullptr) return fail(Errc::malformed, "PORT record {a}: there is no NODE record {b}", id, port.node);
    const bool is_switch = node->index != no_switch;
    if (port.number > node->node.ports || (port.number == 0 && !is_switch))
      return fail(Errc::malformed, "PORT record {a}: its node has no port {b}", id, port.number);
    if (port.mtu < 1 || port.mtu > mtu_max)
      return fail(Errc::malformed, "PORT record {a}: no such MTU: {b}", id, port.mtu);
    if (rate_rank(port.rate) == 0) return fail(Errc::malformed, "PORT record {a}: no such rate: {b}", id, port.rate);
    Slot& slot = slots_[node->first_slot + port.number];
    if (slot.rank != 0)
      return fail(Errc::malformed, "PORT record {a}: there is another one for port {b}", id, port.number);
    slot.mtu = port.mtu;
    slot.rank = rate_rank(port.rate);
    if (is_switch && port.number != 0) return {};
    return take_end(id, port, *node, slot);
  }

  Result<void> take_end(RecordId id, const PathPort& port, const NodePlace& node, Slot& slot) {
    if (port.lmc > lmc_max || std::size_t{port.lid} + (1U << port.lmc) > lids_max)
      return fail(Errc::malformed, "PORT record {a}: LID {b} with its LMC is not a unicast LID", id, port.lid);
    PathEnd end{.guid = port.guid, .lid = port.lid, .lmc = port.lmc, .mtu = slot.mtu, .rank = slot.rank};
    end.link_mtu = slot.mtu;
    end.link_rank = slot.rank;
    if (map_->ends_.size() == path_ends_max)
      return fail(Errc::no_space, "PORT record {a}: more than {b} end ports", id, shown(path_ends_max));
    const ConstBytes p_keys = snapshot_.variable(static_cast<std::size_t>(PathTable::port), id);
    const auto set = map_->p_keys_.add(p_keys, limits_.p_keys_max);
    if (!set)
      return fail(Errc::no_space, "PORT record {a}: its P_Key table and those before have more than {b} entries", id,
                  shown(limits_.p_keys_max));
    end.p_keys = *set;
    slot.end = static_cast<EndId>(map_->ends_.size());
    if (node.index != no_switch) {
      end.leaf = node.index;
      map_->switch_ends_[node.index] = slot.end;
    }
    for (unsigned i = 0; port.lid != 0 && i < 1U << port.lmc; ++i) {
      EndId& owner = map_->owner_[port.lid + i];
      if (owner != no_end) return fail(Errc::malformed, "PORT record {a}: another port has LID {b}", id, port.lid + i);
      owner = slot.end;
    }
    map_->ends_.push_back(end);
    return {};
  }

  Result<void> take_links() {
    return each<PathLink>([this](RecordId id, const PathLink& link) -> Result<void> {
      std::array<std::uint32_t, 2> ends{};
      for (std::size_t i = 0; i < 2; ++i) {
        const NodePlace* const node = find_node(link.node[i]);
        if (node == nullptr)
          return fail(Errc::malformed, "LINK record {a}: there is no NODE record {b}", id, link.node[i]);
        if (link.port[i] == 0 || link.port[i] > node->node.ports)
          return fail(Errc::malformed, "LINK record {a}: its node has no port {b} with a link", id, link.port[i]);
        ends[i] = node->first_slot + link.port[i];
        if (slots_[ends[i]].rank == 0)
          return fail(Errc::malformed, "LINK record {a}: port {b} of its node has no PORT record", id, link.port[i]);
        if (slots_[ends[i]].peer != no_index)
          return fail(Errc::malformed, "LINK record {a}: port {b} of its node has another link", id, link.port[i]);
      }
      if (ends[0] == ends[1])
        return fail(Errc::malformed, "LINK record {a}: port {b} is linked to itself", id, link.port[0]);
      slots_[ends[0]].peer = ends[1];
      slots_[ends[1]].peer = ends[0];
      return {};
    });
  }

  Result<void> index_guids() {
    auto& guids = map_->guids_;
    for (EndId id = 0; id < map_->ends_.size(); ++id) guids.emplace_back(map_->ends_[id].guid, id);
    std::sort(guids.begin(), guids.end());
    for (std::size_t i = 1; i < guids.size(); ++i)
      if (guids[i].first == guids[i - 1].first)
        return fail(Errc::malformed, "the ports with LIDs {a} and {b} have the same GUID",
                    map_->ends_[guids[i - 1].second].lid, map_->ends_[guids[i].second].lid);
    return {};
  }

  /// The switch of a block that is the first one at its place. The texts are the sentences of errors, with {a} for the
  /// record and {b} for the node or the block: the node is not a switch, the block is out of range, there was one before.
  template <class Block>
  Result<const NodePlace*> check_block(RecordId id, const Block& block, std::string_view no_switch_text,
                                       std::string_view range_text, std::string_view again_text) {
    const NodePlace* const node = find_node(block.node);
    if (node == nullptr || node->index == no_switch) return fail(Errc::malformed, no_switch_text, id, block.node);
    if (block.block >= lid_blocks_max) return fail(Errc::malformed, range_text, id, block.block);
    std::vector<bool>& seen = seen_[node->index];
    if (seen.empty()) seen.resize(lid_blocks_max);
    if (seen[block.block]) return fail(Errc::malformed, again_text, id, block.block);
    seen[block.block] = true;
    return node;
  }

  /// False: all parts together would need more than the limit.
  bool reserve(std::size_t octets) {
    if (octets > limits_.octets_max - octets_) return false;
    octets_ += octets;
    return true;
  }

  Result<void> take_tables() {
    const std::size_t switches = map_->switch_ends_.size(), stride = map_->stride_;
    if (!reserve(switches * stride))
      return fail(Errc::no_space, "the table LFT of {a} switches needs more than the rest of {b} octets",
                  shown(switches), shown(limits_.octets_max));
    map_->lft_.assign(switches * stride, no_port);
    seen_.assign(switches, {});
    return each<PathLft>([&](RecordId id, const PathLft& block) -> Result<void> {
      const auto node = check_block(id, block, "LFT record {a}: NODE record {b} is not there or no switch",
                                    "LFT record {a}: block {b} is beyond the unicast LIDs",
                                    "LFT record {a}: there is another one for block {b}");
      if (!node) return tl::unexpected(node.error());
      const std::size_t begin = block.block * lid_block;
      const std::size_t end = std::min({begin + lid_block, stride, std::size_t{(*node)->node.lft_top} + 1});
      if (begin < end)
        std::copy_n(block.octets.begin(), end - begin,
                    map_->lft_.begin() + static_cast<std::ptrdiff_t>((*node)->index * stride + begin));
      return {};
    });
  }

  Result<void> take_sls() {
    const std::size_t stride = map_->stride_;
    map_->sl_row_.assign(map_->switch_ends_.size(), no_switch);
    seen_.assign(map_->switch_ends_.size(), {});
    std::uint32_t rows = 0;
    return each<PathSl>([&](RecordId id, const PathSl& block) -> Result<void> {
      const auto node = check_block(id, block, "SL record {a}: NODE record {b} is not there or no switch",
                                    "SL record {a}: block {b} is beyond the unicast LIDs",
                                    "SL record {a}: there is another one for block {b}");
      if (!node) return tl::unexpected(node.error());
      for (const std::uint8_t sl : block.octets)
        if (sl > sl_max && sl != no_sl) return fail(Errc::malformed, "SL record {a}: no such SL: {b}", id, sl);
      std::uint32_t& row = map_->sl_row_[(*node)->index];
      if (row == no_switch) {
        if (!reserve(stride))
          return fail(Errc::no_space, "SL record {a}: its row and those before need more than the rest of {b} octets",
                      id, shown(limits_.octets_max));
        row = rows++;
        map_->sls_.resize(rows * stride, no_sl);
      }
      const std::size_t begin = block.block * lid_block, end = std::min(begin + lid_block, stride);
      if (begin < end)
        std::copy_n(block.octets.begin(), end - begin,
                    map_->sls_.begin() + static_cast<std::ptrdiff_t>(row * stride + begin));
      return {};
    });
  }

  Result<void> take_partitions() {
    auto& sls = map_->partition_sls_;
    const auto taken = each<PathPartition>([&](RecordId id, const PathPartition& record) -> Result<void> {
      if (record.sl > sl_max) return fail(Errc::malformed, "PARTITION record {a}: no such SL: {b}", id, record.sl);
      sls.emplace_back(p_key_base(record.p_key), record.sl);
      return {};
    });
    if (!taken) return taken;
    std::sort(sls.begin(), sls.end());
    for (std::size_t i = 1; i < sls.size(); ++i)
      if (sls[i].first == sls[i - 1].first)
        return fail(Errc::malformed, "the table PARTITION has two records for the P_Key {a}", sls[i].first);
    return {};
  }

  /// Egress ports of the switches, the links of the ends, and what is looked up by LID.
  void connect() {
    std::vector<SwitchId> switch_of(slots_.size(), no_switch);
    for (const NodePlace& node : nodes_)
      for (unsigned i = 0; i <= node.node.ports; ++i) switch_of[node.first_slot + i] = node.index;
    map_->egress_.assign(map_->switch_ends_.size() * 256, {});
    for (const NodePlace& node : nodes_)
      for (unsigned i = 0; node.index != no_switch && i <= node.node.ports; ++i)
        map_->egress_[std::size_t{node.index} * 256 + i] = egress_of(slots_[node.first_slot + i], i, switch_of);
    for (const Slot& slot : slots_)
      if (slot.end != no_end && slot.peer != no_index) connect_end(map_->ends_[slot.end], slot, switch_of);
    map_->p_keys_of_lid_.assign(map_->stride_, 0);
    map_->leaf_of_lid_.assign(map_->stride_, static_cast<SwitchId>(map_->switches()));
    for (std::size_t lid = 0; lid < map_->stride_; ++lid) {
      if (map_->owner_[lid] == no_end) continue;
      const PathEnd& end = map_->ends_[map_->owner_[lid]];
      map_->p_keys_of_lid_[lid] = end.p_keys;
      if (end.leaf != no_switch) map_->leaf_of_lid_[lid] = end.leaf;
    }
  }

  PathMap::Egress egress_of(const Slot& slot, unsigned number, const std::vector<SwitchId>& switch_of) const {
    using Egress = PathMap::Egress;
    if (number == 0) {
      if (slot.end == no_end) return {.kind = Egress::no_link};
      return {slot.end, slot.mtu, slot.rank, Egress::to_end};
    }
    if (slot.peer == no_index) return {.kind = Egress::no_link};
    const Slot& peer = slots_[slot.peer];
    const std::uint8_t mtu = std::min(slot.mtu, peer.mtu), rank = std::min(slot.rank, peer.rank);
    if (switch_of[slot.peer] != no_switch) return {switch_of[slot.peer], mtu, rank, Egress::to_switch};
    return {peer.end, mtu, rank, Egress::to_end};
  }

  void connect_end(PathEnd& end, const Slot& slot, const std::vector<SwitchId>& switch_of) const {
    const Slot& peer = slots_[slot.peer];
    end.link_mtu = std::min(slot.mtu, peer.mtu);
    end.link_rank = std::min(slot.rank, peer.rank);
    end.leaf = switch_of[slot.peer];
    if (end.leaf == no_switch) end.peer = peer.end;
  }

  const Snapshot& snapshot_;
  PathLimits limits_;
  std::shared_ptr<PathMap> map_ = std::make_shared<PathMap>();
  std::vector<NodePlace> nodes_;         // in the order of the records
  std::size_t octets_ = 0;               // of PathLimits::octets_max
  std::vector<Slot> slots_;              // by NodePlace::first_slot + port
  std::vector<std::vector<bool>> seen_;  // by switch and block
};

Result<std::shared_ptr<const PathMap>> PathMap::create(const Snapshot& snapshot, const PathLimits& limits) {
  return PathMapBuilder(snapshot, limits).build();
}

}  // namespace parley::ssa
