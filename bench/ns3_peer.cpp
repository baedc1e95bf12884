// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "bench/ns3_peer.hpp"

#ifndef PARLEY_HAVE_NS3

namespace parley::bench {

std::string ns3_missing() { return "this build has no ns-3 (Debian: libns3-dev)"; }
SimSample ns3_bulk(const BulkWork&) { return {}; }
SimSample ns3_datagrams(const BulkWork&) { return {}; }
SimSample ns3_connections(const ConnectionWork&) { return {}; }

}  // namespace parley::bench

#else

#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>

#include <array>

namespace parley::bench {
namespace {

using ns3::Address;
using ns3::Create;
using ns3::Packet;
using ns3::Ptr;
using ns3::Simulator;
using ns3::Socket;

constexpr std::uint16_t port = 9;

/// Two nodes and a link, and counters. One per process: ns-3's simulator is global.
struct Pair {
  Pair() {
    ns3::Config::SetDefault("ns3::TcpSocket::SegmentSize", ns3::UintegerValue(sim_segment));
    ns3::Config::SetDefault("ns3::TcpSocket::SndBufSize", ns3::UintegerValue(sim_buffer));
    ns3::Config::SetDefault("ns3::TcpSocket::RcvBufSize", ns3::UintegerValue(sim_buffer));
    // Sockets in TIME_WAIT make ns-3 slower with each connection. A short lifetime is its best case.
    ns3::Config::SetDefault("ns3::TcpSocketBase::MaxSegLifetime", ns3::DoubleValue(0.0001));
    ns3::PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", ns3::DataRateValue(ns3::DataRate(sim_rate_bps)));
    link.SetChannelAttribute("Delay", ns3::TimeValue(ns3::NanoSeconds(sim_delay_ns)));
    nodes.Create(2);
    const ns3::NetDeviceContainer devices = link.Install(nodes);
    ns3::InternetStackHelper().Install(nodes);
    ns3::Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    server = ns3::InetSocketAddress(addresses.Assign(devices).GetAddress(1), port);
    for (std::uint32_t i = 0; i < devices.GetN(); ++i) {
      devices.Get(i)->TraceConnectWithoutContext("PhyTxBegin", ns3::MakeCallback(&Pair::on_sent, this));
    }
  }
  ~Pair() { Simulator::Destroy(); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void on_sent(Ptr<const Packet>) { sample.packets += 1; }
  Ptr<Socket> socket(std::uint32_t node) {
    return Socket::CreateSocket(nodes.Get(node), ns3::TcpSocketFactory::GetTypeId());
  }
  Ptr<Socket> listen() {
    Ptr<Socket> listener = socket(1);
    listener->Bind(ns3::InetSocketAddress(ns3::Ipv4Address::GetAny(), port));
    listener->Listen();
    return listener;
  }
  void run() {
    const double before = cpu_now();
    Simulator::Run();
    sample.cpu_s = cpu_now() - before;
    sample.virtual_s = Simulator::Now().GetSeconds();
    sample.events = static_cast<double>(Simulator::GetEventCount());
  }

  ns3::NodeContainer nodes;
  Address server;
  SimSample sample;
};

// ---- bulk --------------------------------------------------------------------------------------------------------

struct Bulk : Pair {
  explicit Bulk(const BulkWork& work) {
    listener = listen();
    listener->SetAcceptCallback(ns3::MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                ns3::MakeCallback(&Bulk::on_accept, this));
    Simulator::ScheduleNow(&Bulk::start, this);
    Simulator::Stop(ns3::MicroSeconds(work.virtual_us));
    run();
  }
  void start() {
    sender = socket(0);
    sender->SetConnectCallback(ns3::MakeCallback(&Bulk::on_connect, this), ns3::MakeNullCallback<void, Ptr<Socket> >());
    sender->SetSendCallback(ns3::MakeCallback(&Bulk::on_room, this));
    sender->Bind();
    sender->Connect(server);
  }
  void on_accept(Ptr<Socket> accepted, const Address&) {
    accepted->SetRecvCallback(ns3::MakeCallback(&Bulk::on_octets, this));
  }
  void on_octets(Ptr<Socket> from) {
    while (Ptr<Packet> packet = from->Recv()) {
      if (packet->GetSize() == 0) break;
      sample.octets += packet->GetSize();
    }
  }
  void on_connect(Ptr<Socket> to) { fill(to); }
  void on_room(Ptr<Socket> to, std::uint32_t) { fill(to); }
  void fill(Ptr<Socket> to) {
    while (to->GetTxAvailable() > 0) {
      if (to->Send(Create<Packet>(std::min<std::uint32_t>(to->GetTxAvailable(), 65536))) <= 0) break;
    }
  }
  Ptr<Socket> listener, sender;
};

// ---- datagrams ---------------------------------------------------------------------------------------------------

/// Sends in bursts that fit the device's queue, so that the sender causes few events: the best case for ns-3.
struct Datagrams : Pair {
  static constexpr std::uint32_t burst = 50;
  static constexpr std::uint32_t headers = 8 + 20 + 2;  // UDP, IPv4, PPP
  explicit Datagrams(const BulkWork& work) {
    receiver = Socket::CreateSocket(nodes.Get(1), ns3::UdpSocketFactory::GetTypeId());
    receiver->Bind(ns3::InetSocketAddress(ns3::Ipv4Address::GetAny(), port));
    receiver->SetRecvCallback(ns3::MakeCallback(&Datagrams::on_octets, this));
    sender = Socket::CreateSocket(nodes.Get(0), ns3::UdpSocketFactory::GetTypeId());
    sender->Connect(server);
    Simulator::ScheduleNow(&Datagrams::send, this);
    Simulator::Stop(ns3::MicroSeconds(work.virtual_us));
    run();
  }
  void send() {
    for (std::uint32_t i = 0; i < burst; ++i) sender->Send(Create<Packet>(sim_datagram));
    const double ns = 1e9 * burst * (sim_datagram + headers) * 8 / static_cast<double>(sim_rate_bps);
    Simulator::Schedule(ns3::NanoSeconds(static_cast<std::int64_t>(ns) + 1), &Datagrams::send, this);
  }
  void on_octets(Ptr<Socket> from) {
    while (Ptr<Packet> packet = from->Recv()) sample.octets += packet->GetSize();
  }
  Ptr<Socket> receiver, sender;
};

// ---- short connections -------------------------------------------------------------------------------------------

struct Connections : Pair {
  explicit Connections(const ConnectionWork& its_work) : work(its_work) {
    listener = listen();
    listener->SetAcceptCallback(ns3::MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                ns3::MakeCallback(&Connections::on_accept, this));
    for (std::uint32_t i = 0; i < work.at_once; ++i) {
      Simulator::Schedule(ns3::NanoSeconds(100 * i), &Connections::start, this);
    }
    run();
  }
  void start() {
    if (started == work.count) return;
    ++started;
    Ptr<Socket> client = socket(0);
    client->SetConnectCallback(ns3::MakeCallback(&Connections::on_connect, this),
                               ns3::MakeNullCallback<void, Ptr<Socket> >());
    client->SetRecvCallback(ns3::MakeCallback(&Connections::on_reply, this));
    client->Bind();
    client->Connect(server);
  }
  void on_connect(Ptr<Socket> client) { client->Send(Create<Packet>(sim_message)); }
  void on_accept(Ptr<Socket> accepted, const Address&) {
    accepted->SetRecvCallback(ns3::MakeCallback(&Connections::on_request, this));
    accepted->SetCloseCallbacks(ns3::MakeCallback(&Connections::on_close, this),
                                ns3::MakeNullCallback<void, Ptr<Socket> >());
  }
  void on_request(Ptr<Socket> from) {
    if (drain(from) != 0) from->Send(Create<Packet>(sim_message));
  }
  void on_close(Ptr<Socket> socket_closed) { socket_closed->Close(); }
  void on_reply(Ptr<Socket> client) {
    if (drain(client) == 0) return;
    client->Close();
    sample.connections += 1;
    Simulator::ScheduleNow(&Connections::start, this);
  }
  std::uint32_t drain(Ptr<Socket> from) {
    std::uint32_t octets = 0;
    while (Ptr<Packet> packet = from->Recv()) {
      if (packet->GetSize() == 0) break;
      octets += packet->GetSize();
    }
    sample.octets += octets;
    return octets;
  }
  const ConnectionWork work;
  std::uint32_t started = 0;
  Ptr<Socket> listener;
};

}  // namespace

std::string ns3_missing() { return {}; }
SimSample ns3_bulk(const BulkWork& work) {
  return in_child([&] { return Bulk(work).sample; });
}
SimSample ns3_datagrams(const BulkWork& work) {
  return in_child([&] { return Datagrams(work).sample; });
}
SimSample ns3_connections(const ConnectionWork& work) {
  return in_child([&] { return Connections(work).sample; });
}

}  // namespace parley::bench

#endif
