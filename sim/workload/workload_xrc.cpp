// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/workload/workload_xrc.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes_io.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t xrc_head = ScenarioConnect::xrc_octets_min;  // number of the attempt, then of its message

void count_in(const xrc::Counters& from, xrc::Counters& to) {
  to.created += from.created;
  to.destroyed += from.destroyed;
  to.reaped += from.reaped;
}

}  // namespace

XrcWork::XrcWork(const Scenario& scenario)
    : processes(scenario.listens.size()), counters(scenario.listens.size()), exits_done(scenario.exits.size()) {
  for (std::size_t i = 0; i < scenario.listens.size(); ++i)
    if (scenario.listens[i].qp == QpKind::xrc) processes[i].resize(scenario.listens[i].processes);
}

void write_xrc_message(const XrcMessage& message, MutBytes out) {
  Writer writer(out);
  writer.be32(message.attempt);
  writer.be32(message.message);
  check::fill_pattern({message.attempt, check::Direction::to_responder, message.message}, out.subspan(xrc_head));
}

std::optional<XrcMessage> read_xrc_message(ConstBytes octets) {
  Reader reader(octets);
  XrcMessage message;
  message.attempt = reader.be32();
  message.message = reader.be32();
  if (!reader.ok()) return std::nullopt;
  const auto wrong = check::find_mismatch({message.attempt, check::Direction::to_responder, message.message},
                                          octets.subspan(xrc_head));
  return wrong ? std::nullopt : std::optional(message);
}

XrcTarget::~XrcTarget() {
  if (node_) count_in(counters(), seat_.work->counters[seat_.listen]);
  if (service_) service_->abandon();
  service_.reset();
  node_.reset();  // with all of its members' objects on the NIC
  processes_.clear();
}

void XrcTarget::wrong(std::string text) {
  const ScenarioListen& spec = seat_.scenario->listens[seat_.listen];
  seat_.judge->add("workload", seat_.host->now(), {}, fmt::format("{}:{}: {}", spec.host, spec.port, text));
}

std::size_t XrcTarget::slot_octets() const {
  const ScenarioListen& listen = seat_.scenario->listens[seat_.listen];
  std::size_t most = xrc_head;
  for (const ScenarioConnect& connect : seat_.scenario->connects)
    if (connect.qp == QpKind::xrc && connect.to == listen.host && connect.port == listen.port)
      most = std::max<std::size_t>(most, connect.octets);
  return most;
}

Result<void> XrcTarget::start(const Address& local) {
  Device& device = seat_.host->device();
  auto node = xrc::Node::create(seat_.host->now(), device);
  if (!node) return tl::unexpected(node.error());
  node_ = std::move(*node);
  const auto pd = device.alloc_pd();
  if (!pd) return tl::unexpected(pd.error());
  pd_ = *pd;
  auto member = node_->open({.pid = 1, .command = "service"});
  if (!member) return tl::unexpected(member.error());
  auto& processes = seat_.work->processes[seat_.listen];
  for (std::size_t i = 0; i < processes.size(); ++i)
    if (!processes[i].exited)
      if (auto added = add(i); !added) return added;
  xrc::ServiceOptions options{.local = local};
  options.listen.pending_max = seat_.scenario->listens[seat_.listen].pending_max;
  options.srqn = [this](std::uint32_t which) -> std::optional<std::uint32_t> {
    for (const Process& process : processes_)
      if (process.number + 1 == which && process.member != nullptr) return process.srq->srq_num();
    return std::nullopt;
  };
  options.on_up = [this](xrc::TgtId tgt, const xrc::Peer&) {
    for (Process& process : processes_)
      if (process.member != nullptr)
        if (const auto joined = process.member->attachment.attach(tgt); !joined)
          wrong(fmt::format("process {} cannot register: {}", process.number + 1, joined.error().message()));
  };
  service_ = std::make_unique<xrc::Service>(seat_.host->cm(), (*member)->attachment, std::move(options));
  return service_->start();
}

Result<void> XrcTarget::add(std::size_t number) {
  Device& device = seat_.host->device();
  auto member = node_->open({.pid = static_cast<std::uint32_t>(100 + number), .command = "process"});
  if (!member) return tl::unexpected(member.error());
  auto cq = device.create_cq(2 * depth);
  if (!cq) return tl::unexpected(cq.error());
  Process& process = processes_.emplace_back();
  process.number = number;
  process.member = *member;
  process.cq = std::move(*cq);
  process.memory.assign(depth * slot_octets(), 0xEE);
  auto region = device.reg_mr(pd_, process.memory, Access::local_write);
  if (!region) return tl::unexpected(region.error());
  process.region = *region;
  auto srq = process.member->attachment.create_srq(pd_, depth, *process.cq);
  if (!srq) return tl::unexpected(srq.error());
  process.srq = *srq;
  for (std::uint64_t slot = 0; slot < depth; ++slot)
    if (auto posted = post(process, slot); !posted) return posted;
  return {};
}

Result<void> XrcTarget::post(Process& process, std::uint64_t slot) {
  const Sge sge{.addr = process.region.addr + slot * slot_octets(),
                .length = static_cast<std::uint32_t>(slot_octets()),
                .lkey = process.region.lkey};
  return process.srq->post_recv({.wr_id = slot, .sges = {&sge, 1}});
}

void XrcTarget::turn() {
  if (!node_) return;
  node_->turn(seat_.host->now());
  for (Process& process : processes_) look(process);
  node_->turn(seat_.host->now());
}

/// Takes received messages, and releases TGT queue pairs that the peer has left.
void XrcTarget::look(Process& process) {
  if (process.member == nullptr) return;
  WorkCompletion one;
  while (process.cq->poll({&one, 1}) == 1) {
    const std::size_t length = std::min<std::size_t>(one.byte_len, slot_octets());
    if (one.status == WcStatus::success)
      deliver_(process.number, ConstBytes(process.memory).subspan(one.wr_id * slot_octets(), length));
    else if (one.status != WcStatus::wr_flush_err || !excused_())  // consumed by a TGT queue pair that ended
      wrong(fmt::format("a receive of process {} failed: {}", process.number + 1, to_string(one.status)));
    if (const auto posted = post(process, one.wr_id); !posted)
      wrong("a receive could not be posted: " + posted.error().message());
  }
  while (const auto event = process.member->attachment.poll_event())
    if (xrc::leads_to(event->kind)) (void)process.member->attachment.release(event->tgt);
}

void XrcTarget::exit(std::size_t number, bool killed) {
  for (Process& process : processes_) {
    if (process.number != number || process.member == nullptr) continue;
    look(process);  // messages received by now belong to it
    if (killed)
      node_->dead(*process.member);
    else if (const auto left = node_->leave(*process.member, true); !left)
      wrong("a process cannot leave: " + left.error().message());
    process.member = nullptr;
    process.srq = nullptr;
  }
  seat_.work->processes[seat_.listen][number].exited = true;
}

check::XrcState XrcTarget::state() const {
  const ScenarioListen& spec = seat_.scenario->listens[seat_.listen];
  check::XrcState out{.label = fmt::format("{}:{}", spec.host, spec.port), .held = held()};
  out.members_expected = 1 + static_cast<std::size_t>(std::count_if(processes_.begin(), processes_.end(),
                                                                    [](const Process& p) { return p.member; }));
  for (const xrc::DomainView& domain : node_->registry().domains(seat_.host->now())) {
    out.members += domain.members.size();
    for (const xrc::TgtView& tgt : domain.tgts) out.registrants.push_back(tgt.registrants.size());
  }
  out.created = counters().created;
  out.destroyed = counters().destroyed;
  return out;
}

XrcSend::XrcSend(const TransferPlan& plan, check::End& end, const std::string& label, const bool& corrupted,
                 check::Judge& judge)
    : plan_(plan), end_(end), label_(label), corrupted_(corrupted), judge_(judge) {}

Result<void> XrcSend::open(Device& device, PdHandle pd) {
  memory_.assign(std::size_t{window_max} * plan_.octets, 0);
  auto region = device.reg_mr(pd, memory_, Access::local_write);
  if (!region) return tl::unexpected(region.error());
  region_ = *region;
  return {};
}

QpInit XrcSend::qp_init(PdHandle pd, CompletionQueue* cq) const {
  return {.type = QpType::xrc_ini, .pd = pd, .send_cq = cq, .max_send_wr = window_max};
}

void XrcSend::use(QueuePair& qp, Instant) { qp_ = &qp; }

void XrcSend::established(const mpa::Parameters&, Instant now) {
  up_ = true;
  go_on(now);
  end_.transfers_done = finished();
}

void XrcSend::go_on(Instant now) {
  while (posted_ < plan_.messages && posted_ < done_ + window_max) {
    const MutBytes octets = MutBytes(memory_).subspan(std::size_t{posted_ % window_max} * plan_.octets, plan_.octets);
    write_xrc_message({plan_.number, posted_}, octets);
    const Sge sge{.addr = region_.addr + static_cast<std::uint64_t>(octets.data() - memory_.data()),
                  .length = plan_.octets,
                  .lkey = region_.lkey};
    const auto posted =
        qp_->post_send({.wr_id = posted_, .sges = {&sge, 1}, .remote_srq_num = queues_[posted_ % queues_.size()]});
    if (!posted) {  // wrong_state: it has ended; its event will follow
      if (posted.error() != make_error_code(Errc::wrong_state))
        wrong(now, "a message could not be posted: " + posted.error().message());
      return;
    }
    sent_.posted(posted_++, WcOpcode::send);
    ++end_.messages_sent;
  }
}

void XrcSend::completed(const WorkCompletion& completion, Instant now) {
  ++progress_;
  const bool excused = corrupted_ || (plan_.touched != nullptr && *plan_.touched);
  sent_.completed(completion, excused, label_, now, judge_);
  if (completion.status != WcStatus::success) return;
  ++done_;
  go_on(now);
  end_.transfers_done = finished();
}

void XrcSend::ended(Instant now) const { sent_.ended(label_, now, judge_); }

Result<void> XrcSend::close(Device& device) {
  Result<void> result;
  if (region_.lkey != 0) result = device.dereg_mr(std::exchange(region_.lkey, 0));
  memory_ = Bytes();
  return result;
}

std::string XrcSend::pending() const {
  return fmt::format("{} of {} messages sent, {} acknowledged", posted_, plan_.messages, done_);
}

}  // namespace parley::sim
