// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/umad_preload/agents.hpp"

#include <algorithm>
#include <cerrno>

#include "base/bits.hpp"

namespace parley::umad {

namespace {

using wire::mad::RmppType;

constexpr std::size_t mad_octets = PARLEY_IB_MAD_LEN, header_octets = 24;

// The type in RMPP's header, IBA §13.6.2.1.
RmppType type_of(ConstBytes mad) { return static_cast<RmppType>(mad[25]); }
std::uint64_t tid_of(ConstBytes mad) { return read_bits(mad, 64, 64); }

}  // namespace

void File::put(Received received) {
  if (queue.size() >= queue_max)
    ++dropped;
  else
    queue.push_back(std::move(received));
}

std::optional<std::uint32_t> Agents::add(File& file, const Registration& registration) {
  const auto place = std::find(file.agents.begin(), file.agents.end(), std::nullopt);
  if (place == file.agents.end()) return std::nullopt;
  std::size_t index = 0;
  while (index < agents_.size() && agents_[index].file != nullptr) ++index;
  if (index > 0xFFFF) return std::nullopt;
  if (index == agents_.size()) agents_.emplace_back();
  const auto id = static_cast<std::uint32_t>(place - file.agents.begin());
  agents_[index] = {&file, id, registration};
  *place = static_cast<std::uint16_t>(index);
  return id;
}

bool Agents::remove(File& file, std::uint32_t id) {
  if (id >= file.agents.size() || !file.agents[id]) return false;
  const std::uint16_t agent = *file.agents[id];
  std::erase_if(requests_, [agent](const auto& entry) { return entry.second.agent == agent; });
  std::erase_if(sending_, [agent](const auto& entry) { return entry.second.agent == agent; });
  agents_[agent].file = nullptr;
  file.agents[id].reset();
  return true;
}

void Agents::close(File& file) {
  for (std::uint32_t id = 0; id < file.agents.size(); ++id) remove(file, id);
}

int Agents::write(Instant now, File& file, const Header& header, ConstBytes mad) {
  if (header.agent >= file.agents.size() || !file.agents[header.agent] || mad.size() < header_octets) return EINVAL;
  const std::uint16_t index = *file.agents[header.agent];
  const Registration& agent = agents_[index].of;
  Bytes octets(mad.begin(), mad.end());
  const bool asks = !wire::mad::is_answer(octets[3]);
  const bool active = mad::rmpp::is_rmpp(octets);
  const bool rmpp = agent.rmpp_version != 0 && active, by_program = active && !rmpp;
  if (!rmpp && octets.size() > mad_octets) return EINVAL;
  // The upper half of a request's transaction ID belongs to the kernel, and identifies the agent.
  if (asks) write_bits(octets, 64, 32, std::uint32_t{client_} << 16 | index);
  const Key key{tid_of(octets), octets[1]};
  if (asks && !by_program && requests_.contains(key)) return EINVAL;
  const bool waits = asks && header.timeout_ms != 0;
  if (waits && requests_.size() >= requests_max) return ENOMEM;
  if (rmpp) {
    if (sending_.size() >= messages_max || sending_.contains(key)) return ENOMEM;
    auto sender = mad::rmpp::Sender::create(octets);
    if (!sender) return EINVAL;
    sender->start(now);
    sending_.emplace(key, Sending{index, header, std::move(*sender), asks});
  }
  if (waits)
    requests_.emplace(
        key, Request{index, header, octets, now + std::chrono::milliseconds(header.timeout_ms), header.retries});
  if (rmpp) {
    pump(now);
  } else {
    octets.resize(mad_octets);
    transmit(header, octets);
  }
  return 0;
}

void Agents::transmit(const Header& to, ConstBytes mad) {
  ibsim::Data data{};
  std::copy(to.lid.begin(), to.lid.end(), data.dlid.begin());
  if (to.lid == std::array<std::uint8_t, 2>{0xFF, 0xFF}) data.slid = {0xFF, 0xFF, 0, 0};
  data.dqp = to.qpn;
  write_bits(data.sqp, 0, 32, wire::mad::is_smp(mad[1]) ? 0U : 1U);
  std::copy_n(mad.begin(), mad_octets, data.mad.begin());
  if (outgoing_.size() < outgoing_max) outgoing_.push_back(data);
}

/// Sends back to the source of `to`.
void Agents::transmit_to(const ibsim::Data& to, const wire::mad::Datagram& mad) {
  ibsim::Data data{};
  data.dlid = to.slid;
  data.dqp = to.sqp;
  data.sqp = to.dqp;
  data.mad = mad;
  if (outgoing_.size() < outgoing_max) outgoing_.push_back(data);
}

void Agents::handle(Instant now, const ibsim::Data& data) {
  if (read_bits(data.status, 0, 32) != 0) return;  // a server that does not know our timers: they expire by themselves
  const ConstBytes mad(data.mad);
  if (mad::rmpp::is_rmpp(mad) && handle_rmpp(now, data)) return;
  deliver(data, mad);
}

/// False: not part of a message for an agent with RMPP.
bool Agents::handle_rmpp(Instant now, const ibsim::Data& data) {
  const ConstBytes mad(data.mad);
  const Key key{tid_of(mad), static_cast<std::uint8_t>(mad[1])};
  if (type_of(mad) != RmppType::data) {
    if (const auto found = sending_.find(key); found != sending_.end()) {
      found->second.sender.handle(now, mad);
      pump(now);
      return true;
    }
  }
  const auto agent = find_agent(mad);
  if (type_of(mad) == RmppType::none || (agent && agents_[*agent].of.rmpp_version == 0)) return false;
  auto found = receiving_.find(key);
  if (found == receiving_.end()) {
    if (type_of(mad) != RmppType::data || !agent || receiving_.size() >= messages_max) return true;
    found = receiving_.emplace(key, Receiving{data, mad::rmpp::Receiver()}).first;
  }
  found->second.receiver.handle(now, mad);
  // As long as segments arrive, the answer to the request is in progress.
  if (const auto request = requests_.find(key); request != requests_.end())
    request->second.deadline = now + std::chrono::milliseconds(request->second.header.timeout_ms);
  pump(now);
  return true;
}

/// Sends the output of the RMPP machines, and removes those that are done.
void Agents::pump(Instant now) {
  wire::mad::Datagram mad;
  for (auto at = sending_.begin(); at != sending_.end();) {
    Sending& sending = at->second;
    while (sending.sender.poll_transmit(mad)) transmit(sending.header, mad);
    const bool done = sending.sender.outcome() != mad::rmpp::Outcome::under_way;
    if (done && sending.expects)
      if (const auto request = requests_.find(at->first); request != requests_.end())
        request->second.deadline = now + std::chrono::milliseconds(sending.header.timeout_ms);
    at = done ? sending_.erase(at) : std::next(at);
  }
  for (auto at = receiving_.begin(); at != receiving_.end();) {
    Receiving& receiving = at->second;
    while (receiving.receiver.poll_transmit(mad)) transmit_to(receiving.first, mad);
    if (receiving.receiver.outcome() == mad::rmpp::Outcome::done && !receiving.delivered) {
      receiving.delivered = true;
      deliver(receiving.first, receiving.receiver.message());
    }
    const bool over = receiving.receiver.finished() || receiving.receiver.outcome() == mad::rmpp::Outcome::failed;
    at = over ? receiving_.erase(at) : std::next(at);
  }
}

bool Agents::poll_transmit(ibsim::Data& out) {
  if (outgoing_.empty()) return false;
  out = outgoing_.front();
  outgoing_.pop_front();
  return true;
}

/// For an answer by the transaction ID, for a request by class, version and method.
std::optional<std::uint16_t> Agents::find_agent(ConstBytes mad) const {
  const std::uint8_t method = mad[3];
  if ((method & PARLEY_IB_MAD_RESPONSE) != 0) {
    const std::uint64_t index = tid_of(mad) >> 32 & 0xFFFF;
    if (index >= agents_.size() || agents_[index].file == nullptr) return std::nullopt;
    return static_cast<std::uint16_t>(index);
  }
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    const Agent& agent = agents_[i];
    if (agent.file == nullptr || agent.of.mgmt_class != mad[1] || agent.of.class_version != mad[2]) continue;
    if ((agent.of.methods[method / 32U] >> method % 32 & 1) == 0) continue;
    if (wire::mad::has_oui(mad[1]) && agent.of.oui != read_bits(mad, 37 * 8, 24)) continue;
    return static_cast<std::uint16_t>(i);
  }
  return std::nullopt;
}

void Agents::deliver(const ibsim::Data& data, ConstBytes mad) {
  const auto agent = find_agent(mad);
  if (!agent) return;
  if ((mad[3] & PARLEY_IB_MAD_RESPONSE) != 0) {
    const auto request = requests_.find({tid_of(mad), static_cast<std::uint8_t>(mad[1])});
    const bool by_program = agents_[*agent].of.rmpp_version == 0 && mad::rmpp::is_rmpp(mad);
    if (request == requests_.end() && !by_program) return;  // too late, or never requested
    if (request != requests_.end()) requests_.erase(request);
  }
  deliver_to(*agent, data, mad);
}

void Agents::deliver_to(std::uint16_t index, const ibsim::Data& data, ConstBytes mad) {
  const Agent& agent = agents_[index];
  Received received;
  received.mad.assign(mad.begin(), mad.end());
  Header& header = received.header;
  header.agent = agent.id;
  header.length = static_cast<std::uint32_t>(sizeof(Header) + mad.size());
  header.qpn = data.sqp;
  std::copy_n(data.slid.begin(), header.lid.size(), header.lid.begin());
  agent.file->put(std::move(received));
}

/// The program gets the header of its request, and ETIMEDOUT.
void Agents::give_up(const Request& request) {
  const Agent& agent = agents_[request.agent];
  Received received{.header = request.header};
  received.header.agent = agent.id;
  received.header.status = ETIMEDOUT;
  received.header.length = static_cast<std::uint32_t>(sizeof(Header) + header_octets);
  received.mad.assign(request.mad.begin(), request.mad.begin() + header_octets);
  agent.file->put(std::move(received));
}

Instant Agents::next_deadline() const {
  Instant next = never;
  for (const auto& [key, request] : requests_) next = std::min(next, request.deadline);
  for (const auto& [key, sending] : sending_) next = std::min(next, sending.sender.next_deadline());
  for (const auto& [key, receiving] : receiving_) next = std::min(next, receiving.receiver.next_deadline());
  return next;
}

void Agents::handle_deadline(Instant now) {
  for (auto at = requests_.begin(); at != requests_.end();) {
    Request& request = at->second;
    if (request.deadline > now) {
      ++at;
    } else if (request.left > 0 && !sending_.contains(at->first)) {
      --request.left;
      request.deadline = now + std::chrono::milliseconds(request.header.timeout_ms);
      Bytes octets = request.mad;
      octets.resize(mad_octets);
      transmit(request.header, octets);
      ++at;
    } else {
      give_up(request);
      at = requests_.erase(at);
    }
  }
  for (auto& [key, sending] : sending_)
    if (sending.sender.next_deadline() <= now) sending.sender.handle_deadline(now);
  for (auto& [key, receiving] : receiving_)
    if (receiving.receiver.next_deadline() <= now) receiving.receiver.handle_deadline(now);
  pump(now);
}

}  // namespace parley::umad
