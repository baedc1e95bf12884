// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Files, ids and their events.
#include "preload/ucma/core.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/assert.hpp"

namespace parley::preload::ucma {

namespace {

constexpr std::uint8_t mra_timeout = 20;  // 4.3 s
constexpr std::size_t option_max = 4096;

cm::ibcm::Agent make_agent(const CoreOptions& options) {
  cm::ibcm::AgentOptions out;
  std::memcpy(&out.ca_guid, options.node_guid.data(), sizeof out.ca_guid);
  out.ca_guid = __builtin_bswap64(out.ca_guid);
  out.seed = options.seed;
  out.id_prefix = options.id_prefix;
  out.mra_timeout = mra_timeout;
  out.timers = {.kind = cm::ibcm::Timers::Kind::back_off};
  auto made = cm::ibcm::Agent::create(out);
  PARLEY_ASSERT(made.has_value());
  return std::move(*made);
}

}  // namespace

Core::Core(const CoreOptions& options) : options_(options), rng_(options.seed), agent_(make_agent(options)) {}
Core::~Core() = default;

const Core::Command* Core::command_of(ConstBytes octets) {
  // Indexed by command number. Linux does not implement GET_OPTION either.
  static constexpr std::array<Command, RDMA_USER_CM_CMD_JOIN_MCAST + 1> commands = {
      {{"RDMA_USER_CM_CMD_CREATE_ID", &Core::create_id},
       {"RDMA_USER_CM_CMD_DESTROY_ID", &Core::destroy_id},
       {"RDMA_USER_CM_CMD_BIND_IP", &Core::bind_ip},
       {"RDMA_USER_CM_CMD_RESOLVE_IP", &Core::resolve_ip},
       {"RDMA_USER_CM_CMD_RESOLVE_ROUTE", &Core::resolve_route},
       {"RDMA_USER_CM_CMD_QUERY_ROUTE", &Core::query_route},
       {"RDMA_USER_CM_CMD_CONNECT", &Core::connect},
       {"RDMA_USER_CM_CMD_LISTEN", &Core::listen},
       {"RDMA_USER_CM_CMD_ACCEPT", &Core::accept},
       {"RDMA_USER_CM_CMD_REJECT", &Core::reject},
       {"RDMA_USER_CM_CMD_DISCONNECT", &Core::disconnect},
       {"RDMA_USER_CM_CMD_INIT_QP_ATTR", &Core::init_qp_attr},
       {"RDMA_USER_CM_CMD_GET_EVENT", &Core::get_event},
       {"RDMA_USER_CM_CMD_GET_OPTION", nullptr},
       {"RDMA_USER_CM_CMD_SET_OPTION", &Core::set_option},
       {"RDMA_USER_CM_CMD_NOTIFY", &Core::notify},
       {"RDMA_USER_CM_CMD_JOIN_IP_MCAST", &Core::join_ip_mcast},
       {"RDMA_USER_CM_CMD_LEAVE_MCAST", &Core::leave_mcast},
       {"RDMA_USER_CM_CMD_MIGRATE_ID", &Core::migrate_id},
       {"RDMA_USER_CM_CMD_QUERY", &Core::query},
       {"RDMA_USER_CM_CMD_BIND", &Core::bind},
       {"RDMA_USER_CM_CMD_RESOLVE_ADDR", &Core::resolve_addr},
       {"RDMA_USER_CM_CMD_JOIN_MCAST", &Core::join_mcast}}};
  rdma_ucm_cmd_hdr header{};
  if (!parse(octets, header) || header.cmd >= commands.size()) return nullptr;
  return &commands[header.cmd];
}

const char* Core::name_of(ConstBytes octets) {
  const Command* const command = command_of(octets);
  return command == nullptr ? "no command of rdma_user_cm.h" : command->name;
}

int Core::write(Instant now, Host& host, File file, ConstBytes command) {
  if (!files_.contains(file)) return EBADF;
  const Command* const known = command_of(command);
  if (known == nullptr) return EINVAL;
  rdma_ucm_cmd_hdr header{};
  (void)parse(command, header);
  command = command.subspan(sizeof header);
  if (header.in > command.size()) return EINVAL;
  if (known->handler == nullptr) return ENOSYS;
  const int result = (this->*known->handler)(
      {.now = now, .host = host, .file = file, .in = command.first(header.in), .room = header.out});
  handle_events(now);
  return result;
}

void Core::open(File file) { files_.try_emplace(file); }

void Core::close(Instant now, File file) {
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, id] : ids_)
    if (id->file == file) numbers.push_back(number);
  for (const std::uint32_t number : numbers)
    if (const auto at = ids_.find(number); at != ids_.end()) destroy(now, *at->second);
  files_.erase(file);
}

std::deque<Event>& Core::change(File file) {
  OpenFile& of = files_.at(file);
  if (!std::exchange(of.changed, true)) changed_.push_back(file);
  return of.events;
}

std::optional<File> Core::poll_changed() {
  while (!changed_.empty()) {
    const File file = changed_.back();
    changed_.pop_back();
    const auto at = files_.find(file);
    if (at != files_.end() && std::exchange(at->second.changed, false)) return file;
  }
  return std::nullopt;
}

bool Core::readable(File file) const { return events(file) > 0; }

std::size_t Core::events(File file) const {
  const auto at = files_.find(file);
  return at == files_.end() ? 0 : at->second.events.size();
}

void Core::handle_mad(Instant now, const cm::ibcm::MadFrom& from, ConstBytes mad) {
  agent_.handle_mad(now, from, mad);
  handle_events(now);
}

void Core::handle_deadline(Instant now) {
  agent_.handle_deadline(now);
  while (!again_.empty() && again_.begin()->first <= now) {
    Id& id = *ids_.at(again_.begin()->second);
    again_.erase(again_.begin());
    const int wrong = id.datagrams() ? request_service(now, id) : request(now, id);
    if (wrong != 0) push(id, static_cast<std::uint32_t>(What::unreachable), -wrong);
  }
  handle_events(now);
}

Id& Core::make_id(File file, std::uint16_t space, std::uint8_t qp_type) {
  do ++last_id_;
  while (last_id_ == 0 || ids_.contains(last_id_));
  auto made = std::make_unique<Id>();
  made->number = last_id_;
  made->file = file;
  made->space = space;
  made->qp_type = qp_type;
  made->psn = static_cast<std::uint32_t>(rng_.below(1U << 24));
  made->mtu = options_.mtu;
  return *ids_.emplace(last_id_, std::move(made)).first->second;
}

int Core::create_id(const Call& call) {
  rdma_ucm_create_id asked{};
  if (call.room < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  if (!parse(call.in, asked)) return EINVAL;
  std::uint8_t qp_type = asked.qp_type;
  switch (asked.ps) {
    case RDMA_PS_TCP: qp_type = IBV_QPT_RC; break;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB: qp_type = IBV_QPT_UD; break;
    case RDMA_PS_IB: break;
    default: return EINVAL;
  }
  if (ids_.size() >= options_.ids_max) return ENOMEM;
  Id& id = make_id(call.file, asked.ps, qp_type);
  id.uid = asked.uid;
  const int given = give(call, asked.response, rdma_ucm_create_id_resp{.id = id.number});
  if (given != 0) destroy(call.now, id);
  return given;
}

int Core::find(File file, std::uint32_t number, Id*& out) {
  const auto at = ids_.find(number);
  if (at == ids_.end()) return ENOENT;
  if (at->second->file != file) return EINVAL;
  out = at->second.get();
  return 0;
}

int Core::destroy_id(const Call& call) {
  rdma_ucm_destroy_id asked{};
  Id* id = nullptr;
  if (call.room < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  if (!parse(call.in, asked)) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  const rdma_ucm_destroy_id_resp out{.events_reported = id->reported};
  destroy(call.now, *id);
  return give(call, asked.response, out);
}

void Core::drop_events(Instant now, const Id& id) {
  auto& events = change(id.file);
  std::vector<std::uint32_t> children;
  std::erase_if(events, [&](const Event& event) {
    if (event.id != id.number) return false;
    if (event.child != 0) children.push_back(event.child);
    return true;
  });
  for (const std::uint32_t child : children)
    if (const auto at = ids_.find(child); at != ids_.end()) destroy(now, *at->second);
}

void Core::destroy(Instant now, Id& id) {
  drop_events(now, id);
  // A CONNECT_REQUEST for this id that the program has not read yet.
  auto& events = change(id.file);
  std::erase_if(events, [&](const Event& event) { return event.child == id.number; });
  std::erase_if(groups_, [&](const auto& entry) { return entry.second.id == id.number; });
  std::erase_if(again_, [&](const auto& entry) { return entry.second == id.number; });
  if (id.cm != 0) {
    by_cm_.erase(id.cm);
    agent_.destroy(now, id.cm);
  }
  if (id.state == IdState::listening) {
    if (options_.services != nullptr) options_.services->release(service_of(id, id.local->port), gids_of(id));
    for (auto at = services_.begin(); at != services_.end(); ++at) {
      if (std::erase(at->second, id.number) == 0) continue;
      if (at->second.empty()) {
        agent_.unlisten(at->first);
        services_.erase(at);
      }
      break;
    }
  }
  ids_.erase(id.number);
}

/// Queues an event for the id's file. The reference is valid until the next event of that file.
Event& Core::push(const Id& id, std::uint32_t what, int status) {
  Event event;
  event.id = id.number;
  event.told.uid = id.uid;
  event.told.id = id.number;
  event.told.event = what;
  event.told.status = static_cast<std::uint32_t>(status);
  return change(id.file).emplace_back(event);
}

int Core::get_event(const Call& call) {
  rdma_ucm_get_event asked{};
  constexpr std::size_t least = offsetof(rdma_ucm_event_resp, reserved);
  if (call.room < least) return ENOSPC;
  if (!parse(call.in, asked)) return EINVAL;
  auto& events = change(call.file);
  if (events.empty()) return EAGAIN;
  const Event& event = events.front();
  if (const int wrong = give(call, asked.response, event.told, least)) return wrong;
  if (const auto at = ids_.find(event.id); at != ids_.end()) {
    ++at->second->reported;
    if (event.child != 0) ++at->second->backlog;
  }
  if (const auto at = groups_.find(event.group); event.group != 0 && at != groups_.end()) ++at->second.reported;
  events.pop_front();
  return 0;
}

int Core::migrate_id(const Call& call) {
  rdma_ucm_migrate_id asked{};
  Id* id = nullptr;
  if (call.room < sizeof(rdma_ucm_migrate_resp)) return ENOSPC;
  if (!parse(call.in, asked)) return EINVAL;
  const File from = static_cast<File>(asked.fd);
  if (!files_.contains(from)) return EINVAL;
  if (const int wrong = find(from, asked.id, id)) return wrong;
  if (from != call.file) {
    auto &old = change(from), &now = change(call.file);
    std::copy_if(old.begin(), old.end(), std::back_inserter(now), [&](const Event& e) { return e.id == id->number; });
    std::erase_if(old, [&](const Event& e) { return e.id == id->number; });
    for (const Event& event : now)  // unread requests move with their listener
      if (const auto at = ids_.find(event.child); event.child != 0 && at != ids_.end()) at->second->file = call.file;
    id->file = call.file;
  }
  return give(call, asked.response, rdma_ucm_migrate_resp{.events_reported = id->reported});
}

int Core::set_option(const Call& call) {
  rdma_ucm_set_option asked{};
  Id* id = nullptr;
  if (!parse(call.in, asked)) return EINVAL;
  if (asked.optlen > option_max) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  if (asked.level == RDMA_OPTION_IB) return asked.optname == RDMA_OPTION_IB_PATH ? EINVAL : ENOSYS;
  if (asked.level != RDMA_OPTION_ID) return ENOSYS;
  const bool small = asked.optname == RDMA_OPTION_ID_TOS || asked.optname == RDMA_OPTION_ID_ACK_TIMEOUT;
  if (asked.optname > RDMA_OPTION_ID_ACK_TIMEOUT) return ENOSYS;
  std::uint8_t octet = 0;
  int word = 0;
  if (asked.optlen != (small ? sizeof octet : sizeof word)) return EINVAL;
  std::array<std::uint8_t, sizeof word> octets{};
  if (!call.host.read(asked.optval, MutBytes(octets).first(asked.optlen))) return EFAULT;
  octet = octets[0];
  std::memcpy(&word, octets.data(), sizeof word);
  switch (asked.optname) {
    case RDMA_OPTION_ID_TOS: id->tos = octet; return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if ((id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_SEND) || octet > 31) return EINVAL;
      id->ack_timeout = octet;
      return 0;
    case RDMA_OPTION_ID_REUSEADDR:
      if (id->state != IdState::idle && word == 0) return EINVAL;
      id->reuse = word != 0;
      return 0;
    default:
      if (id->state != IdState::idle && id->state != IdState::bound) return EINVAL;
      id->af_only = word != 0;
      return 0;
  }
}

}  // namespace parley::preload::ucma
