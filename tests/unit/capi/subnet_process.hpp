// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A simulated subnet of 16 hosts and 8 switches with a subnet administration, behind ibsim's sockets, in a process of its own: for
// tests of programs that attach to it.
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "drivers/asio/descriptor.hpp"
#include "drivers/clock.hpp"
#include "drivers/ibsim/socket.hpp"
#include "mad/port.hpp"
#include "tests/unit/sim/subnet_kit.hpp"
#include "wire/mad/sa.hpp"

namespace parley::sim::subnet {

/// Turns in its process until that is killed. Nodes have LIDs as bring_up() gives them: H00000 9, H00001 10, ...
class SubnetServer {
 public:
  static constexpr std::size_t node_records = 300;  ///< of the table of NodeRecords: 179 segments

  SubnetServer(std::string name, const std::vector<std::string>& faults)
      : name_(std::move(name)), subnet_(fat_tree_16(), {}, clock_now()), control_(bound(ibsim::control_name(name_))) {
    bring_up(subnet_);
    manager_ = *subnet_.attach(clock_now(), {.node = "H00000", .is_sm = true});
    subnet_.set_receives(manager_, static_cast<std::uint8_t>(wire::mad::MgmtClass::subn_adm));
    mad::LocalPort local;
    local.lid = local.sm_lid = port_info(manager_).get(PortInfo::lid);
    port_.emplace(mad::TransportFacts{}, local);
    port_->serve();
    serving_.emplace(port_->executor(), serve(*port_));
    for (const std::string& fault : faults) EXPECT_TRUE(subnet_.add_fault(clock_now(), fault)) << fault;
  }

  void turn() {
    std::vector<pollfd> waits{{.fd = control_.fd, .events = POLLIN}};
    for (const auto& [id, socket] : clients_) waits.push_back({.fd = socket->fd, .events = POLLIN});
    const Instant now = clock_now(), next = std::min(subnet_.next_deadline(), port_->next_deadline());
    const auto patience = std::min<Duration>(std::max(next, now) - now, std::chrono::milliseconds(100));
    ::poll(waits.data(), waits.size(), static_cast<int>(patience / std::chrono::milliseconds(1)));
    while (answer_control()) {
    }
    for (auto& [id, socket] : clients_)
      for (ibsim::Data data; ::recv(socket->fd, &data, sizeof data, MSG_DONTWAIT) == sizeof data;)
        subnet_.handle_send(clock_now(), id, packet_of(data));
    subnet_.handle_deadline(clock_now());
    deliver();
    port_->run(clock_now());
    while (const mad::Packet* packet = port_->poll_packet()) {
      Packet out{.dlid = packet->to.lid, .dqp = packet->to.qpn, .sqp = 1};
      std::copy(packet->mad.begin(), packet->mad.end(), out.mad.begin());
      // Tables of paths are as ibsim has all of them: one datagram, and no RMPP.
      if (read_bits(out.mad, 16 * 8, 16) == wire::mad::PathRecord::attribute) out.mad[24] = out.mad[25] = 0;
      port_->packet_sent(clock_now());
      subnet_.handle_send(clock_now(), manager_, out);
    }
    deliver();
  }

 private:
  using Socket = asio_driver::Descriptor;

  static int bound(const std::string& name) {
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT_TRUE(ibsim::bind_to(fd, name)) << name;
    return fd;
  }
  static Packet packet_of(const ibsim::Data& data) {
    return {.dlid = static_cast<std::uint16_t>(read_bits(data.dlid, 0, 16)),
            .slid = static_cast<std::uint16_t>(read_bits(data.slid, 0, 16)),
            .dqp = static_cast<std::uint32_t>(read_bits(data.dqp, 0, 32)),
            .sqp = static_cast<std::uint32_t>(read_bits(data.sqp, 0, 32)),
            .mad = data.mad};
  }
  PortInfo port_info(ClientId client) { return subnet_.state().port(subnet_.port_of(client)).info; }

  void deliver() {
    for (Delivery delivery; subnet_.poll_transmit(delivery);) {
      const Packet& p = delivery.packet;
      if (delivery.to == manager_) {
        port_->handle_packet(clock_now(), {.lid = p.slid, .qpn = p.sqp}, p.mad);
        continue;
      }
      ibsim::Data data{};
      write_bits(data.dlid, 0, 16, p.dlid);
      write_bits(data.slid, 0, 16, p.slid);
      write_bits(data.dqp, 0, 32, p.dqp);
      write_bits(data.sqp, 0, 32, p.sqp);
      write_bits(data.status, 0, 32, p.status);
      data.mad = p.mad;
      ::send(clients_.at(delivery.to)->fd, &data, sizeof data, MSG_NOSIGNAL);  // a client's queue holds it, or it waits
    }
  }

  bool answer_control() {
    ibsim::Control control{};
    sockaddr_un sender{};
    socklen_t length = sizeof sender;
    auto* const address = reinterpret_cast<sockaddr*>(&sender);
    if (::recvfrom(control_.fd, &control, sizeof control, MSG_DONTWAIT, address, &length) != sizeof control)
      return false;
    const auto id = static_cast<ClientId>(control.client);
    if (control.type == ibsim::ControlType::connect) {
      connect(control);
    } else if (clients_.count(id) == 0) {
      control.type = ibsim::ControlType::error;
    } else if (control.type == ibsim::ControlType::disconnect) {
      clients_.erase(id);
      subnet_.detach(clock_now(), id);
    } else if (control.type == ibsim::ControlType::port_info) {
      control.data = ibsim::data_with(port_info(id));
    } else if (control.type == ibsim::ControlType::receive) {
      auto asked = ibsim::message_in<ibsim::Receive>(control.data);
      for (unsigned n = 0; n < 256; ++n)
        if ((asked.classes[n / 8] >> n % 8 & 1) != 0) subnet_.set_receives(id, static_cast<std::uint8_t>(n));
      asked.known = 1;
      control.data = ibsim::data_with(asked);
    }
    ::sendto(control_.fd, &control, sizeof control, MSG_NOSIGNAL, address, length);
    return true;
  }
  void connect(ibsim::Control& control) {
    auto asked = ibsim::message_in<ibsim::Connect>(control.data);
    const auto id = subnet_.attach(clock_now(), {.node = std::string(ibsim::text_in(asked.node)), .qp = asked.qp});
    if (!id) {
      control.type = ibsim::ControlType::error;
      return;
    }
    subnet_.set_own_timers(*id, true);  // what is lost does not come back
    auto socket = std::make_unique<Socket>(bound(ibsim::server_data_name(name_, *id)));
    EXPECT_TRUE(ibsim::connect_to(socket->fd, ibsim::client_data_name(name_, asked.id)));
    clients_[*id] = std::move(socket);
    asked.id = *id;
    control.data = ibsim::data_with(asked);
  }

  static void append(Bytes& to, ConstBytes octets) { to.insert(to.end(), octets.begin(), octets.end()); }
  static mad::Task<void> serve(mad::Port& port) {
    while (const auto request = co_await port.next_request())
      if (const Bytes reply = answer(request->mad); !reply.empty()) (void)port.post(request->from, reply);
  }
  /// Empty if the request gets no answer. Subnet administration: paths to LIDs up to 24, a table of nodes, one port of each node, and a table of paths that is cut.
  static Bytes answer(ConstBytes mad) {
    using namespace wire::mad;
    const auto parsed = mad::parse_request(mad);
    const auto octets = [](const auto& reply) { return reply ? Bytes(reply->begin(), reply->end()) : Bytes(); };
    if (!parsed) return octets(mad::error_reply(mad, parsed.error().status));
    if (parsed->attribute == PathRecord::attribute && parsed->method == Method::get) {
      auto path = *PathRecord::parse(parsed->body_view);
      if (const Gid gid = path.get(PathRecord::dgid); gid != Gid{})
        path.set(PathRecord::dlid, gid[15]);  // the tests' own way to say which
      if (path.get(PathRecord::dlid) == 0 || path.get(PathRecord::dlid) > 24)
        return octets(mad::error_reply(mad, 0x0300));  // no records
      path.set(PathRecord::sl, 3).set(PathRecord::mtu, Mtu::m2048).set(PathRecord::p_key, 0xFFFF);
      return octets(mad::reply_to(mad, path.octets()));
    }
    if (parsed->attribute == NodeRecord::attribute && parsed->method == Method::get_table) {
      const std::uint16_t wanted = NodeRecord::parse(parsed->body_view)->get(NodeRecord::lid);
      Bytes records;
      for (std::uint16_t lid = 1; lid <= node_records; ++lid) {
        const NodeRecord record = NodeRecord{}.set(NodeRecord::lid, lid);
        if (wanted == 0 || wanted == lid) append(records, record.octets());
      }
      return mad::table_reply(mad, records, NodeRecord::size);
    }
    if (parsed->attribute == PathRecord::attribute && parsed->method == Method::get_table) {
      Bytes records;
      for (std::uint16_t lid = 1; lid <= 3; ++lid) {
        const PathRecord record = PathRecord{}.set(PathRecord::dlid, lid);
        append(records, record.octets());
      }
      return mad::table_reply(mad, records, PathRecord::size);
    }
    if (parsed->attribute == PortInfoRecord::attribute && parsed->method == Method::get_table) {
      const std::uint16_t lid = PortInfoRecord::parse(parsed->body_view)->get(PortInfoRecord::endport_lid);
      PortInfoRecord record;
      record.set(PortInfoRecord::endport_lid, lid).set(PortInfoRecord::port_num, 1);
      record.set(PortInfoRecord::port_info, PortInfo{}.set(PortInfo::lid, lid));
      return mad::table_reply(mad, record.octets(), PortInfoRecord::size);
    }
    return octets(mad::error_reply(mad, 0x000C));
  }

  std::string name_;
  Subnet subnet_;
  Socket control_;
  std::map<ClientId, std::unique_ptr<Socket>> clients_;
  ClientId manager_ = 0;
  std::optional<mad::Port> port_;
  std::optional<mad::Running<mad::Task<void>>> serving_;
};

class SubnetProcess {
 public:
  explicit SubnetProcess(const std::vector<std::string>& faults = {})
      : name_("parley-test-" + std::to_string(::getpid())) {
    int ready[2];
    if (::pipe2(ready, O_CLOEXEC) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      SubnetServer server(name_, faults);
      if (::write(ready[1], "", 1) != 1) ::_exit(1);
      for (;;) server.turn();
    }
    ::close(ready[1]);
    char octet = 0;
    EXPECT_EQ(::read(ready[0], &octet, 1), 1);
    ::close(ready[0]);
  }
  ~SubnetProcess() { kill(); }
  SubnetProcess(const SubnetProcess&) = delete;
  SubnetProcess& operator=(const SubnetProcess&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  /// "ibsim:NAME/NODE"
  std::string where(const std::string& node = "H00001") const { return "ibsim:" + name_ + "/" + node; }

 private:
  std::string name_;
  pid_t pid_ = 0;
};

}  // namespace parley::sim::subnet
