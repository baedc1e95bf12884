// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/xrc/rank_node.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"
#include "cm/core.hpp"
#include "cm/xrc/srqn.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t rank_octets = 4;

}  // namespace

std::uint32_t RankNode::elsewhere() const {
  return static_cast<std::uint32_t>(options_.addresses.size() - 1) * options_.processes;
}

Result<std::unique_ptr<RankNode>> RankNode::create(Instant now, cm::Manager& cm, RankOptions options) {
  options.octets = std::max<std::uint32_t>(options.octets, rank_octets);
  std::unique_ptr<RankNode> made(new RankNode(cm, std::move(options)));
  if (!made->options_.rc)
    if (auto service = made->make_service(now); !service) return tl::unexpected(service.error());
  for (std::uint32_t i = 0; i < made->options_.processes; ++i)
    if (auto process = made->make_process(i); !process) return tl::unexpected(process.error());
  if (!made->options_.rc) return made;
  auto listener = cm.listen(made->options_.addresses[made->options_.node], {.pending_max = 1U << 16});
  if (!listener) return tl::unexpected(listener.error());
  made->listener_ = *listener;
  return made;
}

RankNode::~RankNode() {
  for (auto& [number, line] : lines_) line.id.destroy();
  for (auto& [number, question] : questions_) question.id.destroy();
  listener_.destroy();
  service_.reset();
  node_.reset();
  for (Process& p : processes_) {
    p.cq.reset();
    (void)device_.dereg_mr(p.region.lkey);
    (void)device_.dealloc_pd(p.pd);
  }
}

Result<void> RankNode::make_service(Instant now) {
  auto node = xrc::Node::create(now, device_);
  if (!node) return tl::unexpected(node.error());
  node_ = std::move(*node);
  auto member = node_->open({.pid = 1, .command = "service"});
  if (!member) return tl::unexpected(member.error());
  xrc::ServiceOptions options{.local = options_.addresses[options_.node], .listen = {.pending_max = 1U << 16}};
  options.srqn = [this](std::uint32_t which) -> std::optional<std::uint32_t> {
    if (which >= processes_.size()) return std::nullopt;
    return processes_[which].srq->srq_num();
  };
  options.on_up = [this](xrc::TgtId tgt, const xrc::Peer&) {
    for (Process& p : processes_)
      if (auto joined = p.member->attachment.attach(tgt); !joined) fail("register: " + joined.error().message());
  };
  service_ = std::make_unique<xrc::Service>(cm_, (*member)->attachment, std::move(options));
  return service_->start();
}

Result<void> RankNode::make_process(std::uint32_t number) {
  Process& p = processes_.emplace_back();
  auto pd = device_.alloc_pd();
  if (!pd) return tl::unexpected(pd.error());
  p.pd = *pd;
  auto cq = device_.create_cq(4 * std::size_t{elsewhere()} + 16);
  if (!cq) return tl::unexpected(cq.error());
  p.cq = std::move(*cq);
  p.memory.resize(std::size_t{options_.octets} * (elsewhere() + 1));
  Writer(p.memory).be32(options_.node * options_.processes + number);
  auto region = device_.reg_mr(p.pd, p.memory, Access::local_write);
  if (!region) return tl::unexpected(region.error());
  p.region = *region;
  if (options_.rc) return {};
  auto member = node_->open({.pid = 100 + number, .command = fmt::format("rank{}", number)});
  if (!member) return tl::unexpected(member.error());
  p.member = *member;
  auto srq = p.member->attachment.create_srq(p.pd, elsewhere(), *p.cq);
  if (!srq) return tl::unexpected(srq.error());
  p.srq = *srq;
  for (std::uint32_t place = 0; place < elsewhere(); ++place)
    if (auto posted = post_receive(p, place, nullptr); !posted) return posted;
  return {};
}

/// To the shared queue, or to that of a queue pair.
Result<void> RankNode::post_receive(Process& p, std::uint32_t place, QueuePair* qp) {
  const Sge sge{.addr = p.region.addr + std::size_t{options_.octets} * (place + 1),
                .length = options_.octets,
                .lkey = p.region.lkey};
  const RecvWr wr{.wr_id = place, .sges = {&sge, 1}};
  return qp != nullptr ? qp->post_recv(wr) : p.srq->post_recv(wr);
}

Result<void> RankNode::send(Process& p, QueuePair& qp, std::uint32_t srqn) {
  const Sge sge{.addr = p.region.addr, .length = options_.octets, .lkey = p.region.lkey};
  return qp.post_send({.sges = {&sge, 1}, .remote_srq_num = srqn});
}

QpInit RankNode::init_of(const Process& p) const {
  return {.type = options_.rc ? QpType::rc : QpType::xrc_ini,
          .pd = p.pd,
          .send_cq = p.cq.get(),
          .recv_cq = p.cq.get(),
          .max_send_wr = options_.rc ? 1 : options_.processes,
          .max_recv_wr = 1};
}

std::uint32_t RankNode::place_of(std::uint32_t node, std::uint32_t process) const {
  return (node > options_.node ? node - 1 : node) * options_.processes + process;
}

/// A host may have several addresses, of which only this one is the node's.
Address RankNode::own_address() const {
  Address own = options_.addresses[options_.node];
  own.port = 0;
  return own;
}

Result<void> RankNode::connect() {
  for (std::uint32_t node = 0; node < options_.addresses.size(); ++node) {
    if (node == options_.node) continue;
    if (!options_.rc)
      if (auto asked = ask_queues(node); !asked) return asked;
    if (options_.rc && node < options_.node) continue;  // one connection per pair of processes
    for (std::uint32_t process = 0; process < options_.processes; ++process)
      for (std::uint32_t peer = 0; peer < (options_.rc ? options_.processes : 1); ++peer)
        if (auto added = add_line(process, node, peer); !added) return added;
  }
  return {};
}

Result<void> RankNode::add_line(std::uint32_t process, std::uint32_t node, std::uint32_t peer) {
  Bytes which(2 * rank_octets);
  Writer w(which);
  w.be32(options_.node * options_.processes + process);
  w.be32(peer);
  cm::ConnectOptions options;
  options.transport = ib::Options{.qp_type = options_.rc ? QpType::rc : QpType::xrc_ini};
  options.ird = options.ord = 1;
  options.private_data = which;
  options.local = own_address();
  options.qp = init_of(processes_[process]);
  auto id = cm_.connect(options_.addresses[node], options);
  if (!id) return tl::unexpected(id.error());
  if (options_.rc) {
    if (auto posted = post_receive(processes_[process], place_of(node, peer), id->qp()); !posted) return posted;
  }
  lines_[id->number()] = {*id, process, node};
  return {};
}

/// Asks for the numbers of the queues of all processes there.
Result<void> RankNode::ask_queues(std::uint32_t node) {
  for (std::uint32_t process = 0; process < options_.processes; ++process) {
    const Bytes question = xrc::srqn_question(process);
    cm::ConnectOptions options;
    options.transport = ib::Options{.qp_type = QpType::ud};
    options.private_data = question;
    options.local = own_address();
    auto id = cm_.connect(options_.addresses[node], options);
    if (!id) return tl::unexpected(id.error());
    questions_[id->number()] = {*id, node, process};
  }
  return {};
}

void RankNode::fail(std::string what) {
  if (trouble_.empty()) trouble_ = fmt::format("node {}: {}", options_.node, what);
}

void RankNode::handle(const cm::Event& event) {
  if (std::holds_alternative<cm::Listening>(event)) ++listening_;
  if (service_ && service_->handle(event)) return;
  if (const auto* request = std::get_if<cm::ConnectRequest>(&event)) return on_request(*request);
  const std::uint64_t number = cm::endpoint_of(event);
  if (questions_.contains(number)) return on_answer(number, event);
  const auto at = lines_.find(number);
  if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) return fail("connect: " + failed->why.received);
  if (const auto* over = std::get_if<cm::Disconnected>(&event)) return fail("disconnected: " + over->why.received);
  if (at == lines_.end() || !std::holds_alternative<cm::Established>(event)) return;
  at->second.up = true;
  post_when_ready();
}

/// RC: the addressed process has a queue pair for it.
void RankNode::on_request(const cm::ConnectRequest& request) {
  Reader r(request.private_data);
  const std::uint32_t rank = r.be32(), process = r.be32();
  cm::Id id = request.id;
  if (!r.ok() || process >= processes_.size()) return id.destroy();
  const std::uint32_t node = rank / options_.processes;
  Process& p = processes_[process];
  const auto qp = id.create_qp(init_of(p));
  if (!qp) return fail("create_qp: " + qp.error().message());
  const auto posted = post_receive(p, place_of(node, rank % options_.processes), *qp);
  if (const auto accepted = posted ? id.accept() : posted; !accepted)
    return fail("accept: " + accepted.error().message());
  lines_[id.number()] = {id, process, node};
}

void RankNode::on_answer(std::uint64_t question, const cm::Event& event) {
  const auto at = questions_.find(question);
  const auto* up = std::get_if<cm::Established>(&event);
  const auto srqn = up != nullptr ? xrc::parse_srqn_answer(up->private_data) : std::nullopt;
  if (!srqn) return fail("the question for the number of a queue was not answered");
  queues_[at->second.node][at->second.process] = *srqn;
  at->second.id.destroy();
  questions_.erase(at);
  post_when_ready();
}

void RankNode::post_when_ready() {
  for (auto& [number, line] : lines_)
    if (line.up && !line.posted && (options_.rc || queues_[line.peer_node].size() == options_.processes)) post(line);
}

void RankNode::post(Line& line) {
  line.posted = true;
  Process& p = processes_[line.process];
  const auto one = [&](std::uint32_t srqn) {
    if (auto sent = send(p, *line.id.qp(), srqn); !sent) fail("post_send: " + sent.error().message());
  };
  if (options_.rc) return one(0);
  for (const auto& [process, srqn] : queues_[line.peer_node]) one(srqn);
}

void RankNode::turn(Instant now) {
  if (node_) {
    while (const auto event = device_.poll_async_event()) (void)node_->handle(*event);
    node_->turn(now);
  }
  std::array<WorkCompletion, 32> some;
  for (Process& p : processes_)
    while (const std::size_t n = p.cq->poll(some))
      for (std::size_t i = 0; i < n; ++i) complete(p, some[i]);
}

void RankNode::complete(Process& p, const WorkCompletion& done) {
  if (done.status != WcStatus::success) return fail("completion: " + std::string(to_string(done.status)));
  if (done.opcode != WcOpcode::recv) {
    ++sent_;
    return;
  }
  const ConstBytes place = ConstBytes(p.memory).subspan(std::size_t{options_.octets} * (done.wr_id + 1), rank_octets);
  if (!p.heard.insert(Reader(place).be32()).second) fail("a message came twice");
}

bool RankNode::done() const {
  return sent_ == std::size_t{elsewhere()} * options_.processes &&
         std::all_of(processes_.begin(), processes_.end(),
                     [this](const Process& p) { return p.heard.size() == elsewhere(); });
}

RankCount RankNode::count() const {
  RankCount out;
  (options_.rc ? out.rc : out.ini) = lines_.size();
  out.sent = sent_;
  for (const Process& p : processes_) out.received += p.heard.size();
  if (!node_) return out;
  out.tgt = node_->registry().tgt_count();
  out.queues = node_->registry().srq_count();
  for (const Process& p : processes_) out.handles += p.member->device.handle_count();
  return out;
}

}  // namespace parley::sim
