// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Names of memory in a RoCE recording. An R_Key and a virtual address correspond to an STag and a tagged offset, so the
// rules of replay/mapping.hpp find them: this file converts messages to its terms, and its results back to packets.
#include <algorithm>

#include "replay/roce/roce_recording.hpp"
#include "wire/rdmap.hpp"

namespace parley::replay {

using capture::Side;
using wire::RdmapOpcode;
using wire::ib::CmMessageType;
using wire::ib::Operation;

namespace {

/// Maps a part of an item's octets to a step of the recording.
struct Part {
  std::size_t step = 0, begin = 0, size = 0;  // `begin`: in the item
};

class Messages {
 public:
  explicit Messages(Side side) : side_(side) {}

  void add(const RoceStep& step, std::size_t index) {
    if (step.from != side_ || step.again) return;
    if (step.cm) return add_private_data(*step.cm, index);
    if (step.is_response()) return;
    const wire::ib::Packet p = step.packet();
    switch (step.operation()) {
      case Operation::read_request: {
        const wire::ReadRequest read{.size = p.reth.dma_length, .source_stag = p.reth.r_key, .source_to = p.reth.va};
        Item& item = begin(RdmapOpcode::read_request, index, 0);
        item.payload.resize(PARLEY_RDMAP_READ_REQUEST_LEN);
        read.emit(item.payload);
        return;
      }
      case Operation::cmp_swap:
      case Operation::fetch_add: {
        const wire::AtomicRequest atomic{.stag = p.atomic.r_key, .to = p.atomic.va};
        Item& item = begin(RdmapOpcode::atomic_request, index, 0);
        item.payload.resize(PARLEY_RDMAP_ATOMIC_REQUEST_LEN);
        atomic.emit(item.payload);
        return;
      }
      case Operation::write_first:
      case Operation::write_only:
      case Operation::write_only_imm: {
        Item& item = begin(RdmapOpcode::rdma_write, index, 0);
        item.header.tagged = true;
        item.header.stag = p.reth.r_key;
        item.header.to = p.reth.va;
        item.length = p.reth.dma_length;
        return;
      }
      case Operation::send_first:
      case Operation::send_only:
      case Operation::send_only_imm:
      case Operation::send_only_inv: {
        Item& item = begin(p.invalidate != 0 ? RdmapOpcode::send_inv : RdmapOpcode::send, index, p.payload.size());
        item.header.stag = p.invalidate;
        item.payload.assign(p.payload.begin(), p.payload.end());
        return;
      }
      case Operation::send_middle:
      case Operation::send_last:
      case Operation::send_last_imm:
      case Operation::send_last_inv: return go_on(p, index);
      default: return;
    }
  }

  SideRecord record;
  std::vector<std::vector<Part>> parts;  ///< by item

 private:
  Item& begin(RdmapOpcode opcode, std::size_t step, std::size_t size) {
    Item& item = record.items.emplace_back();
    item.kind = Item::Kind::message;
    item.header.opcode = opcode;
    parts.push_back({{step, 0, size}});
    return item;
  }
  void go_on(const wire::ib::Packet& p, std::size_t step) {
    if (record.items.empty() || !record.items.back().is_send()) return;
    Item& item = record.items.back();
    if (item.payload.size() + p.payload.size() > Item::payload_max) return;
    parts.back().push_back({step, item.payload.size(), p.payload.size()});
    item.payload.insert(item.payload.end(), p.payload.begin(), p.payload.end());
  }
  void add_private_data(const wire::ib::CmMessage& message, std::size_t step) {
    std::visit(
        [&](const auto& m) {
          Item& item = record.items.emplace_back();
          item.kind = Item::Kind::startup;
          item.startup.emplace();
          item.startup->private_data.assign(m.private_data.begin(), m.private_data.end());
          parts.push_back({{step, 0, m.private_data.size()}});
        },
        message.body);
  }

  Side side_;
};

}  // namespace

RoceNames find_names(const RoceRecording& recording, Side owner) {
  Messages mine(owner), theirs(capture::other(owner));
  for (std::size_t i = 0; i < recording.steps.size(); ++i) {
    mine.add(recording.steps[i], i);
    theirs.add(recording.steps[i], i);
  }
  const Names found = find_names(mine.record, theirs.record);
  RoceNames out;
  out.uses = found.uses;
  for (const Field& field : found.fields)
    for (const Part& part : mine.parts[field.item])
      // A name that straddles two packets is dropped: programs do not announce memory that way.
      if (field.offset >= part.begin && field.offset + field.size() <= part.begin + part.size) {
        RoceName name{part.step, field};
        name.field.offset -= part.begin;
        out.names.push_back(name);
      }
  return out;
}

}  // namespace parley::replay
