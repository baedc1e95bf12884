// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/mad/ibsim.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include "base/bits.hpp"
#include "wire/mad/smp.hpp"

namespace parley::mad_driver {

namespace {

using wire::mad::MgmtClass;
using wire::mad::NodeInfo;
using wire::mad::PortInfo;

// The control datagram: four numbers of the host's order, then 64 octets; and the packet: addresses, then the MAD.
constexpr std::uint32_t magic = 0xDEADBEEF;
enum ControlType : std::uint32_t { error = 0, connect_ = 1, disconnect = 2, port_info = 8 };
constexpr std::size_t control_data = 16, node_name_at = 12, node_name_max = 31;
constexpr std::size_t mad_at = 32, mad_size = 256;
constexpr std::uint32_t status_refused = 110;  // dropped, or no way there: the packet comes back to its sender

void put_host(std::uint8_t* at, std::uint32_t value) { std::memcpy(at, &value, sizeof(value)); }
std::uint32_t get_host(const std::uint8_t* at) {
  std::uint32_t value = 0;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
struct SocketName {
  sockaddr_un address{};
  socklen_t length = 0;
  /// In the abstract namespace. The zero at its end counts.
  explicit SocketName(const std::string& name) {
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof(address.sun_path) - 2);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 2);
  }
  const sockaddr* pointer() const { return reinterpret_cast<const sockaddr*>(&address); }
};

std::string system_text(int number) { return std::generic_category().message(number); }

Errc errc_of(int number) {
  // The simulator is gone: its socket has no reader, or another process has bound the name since.
  if (number == ECONNREFUSED || number == ENOTCONN || number == ECONNRESET || number == EPIPE || number == ENOENT)
    return Errc::peer_closed;
  return number == EACCES || number == EPERM ? Errc::not_permitted : Errc::io;
}
constexpr std::string_view gone = "ibsim is gone: nobody reads its socket any more";

tl::unexpected<Error> failed(int number) {
  const Errc errc = errc_of(number);
  return errc == Errc::peer_closed ? fail(errc, gone) : fail(errc, "ibsim's socket: errno {a}", number);
}

bool is_directed(ConstBytes mad) { return mad[1] == static_cast<std::uint8_t>(MgmtClass::subn_directed); }
bool is_smp(ConstBytes mad) { return mad[1] == static_cast<std::uint8_t>(MgmtClass::subn) || is_directed(mad); }

}  // namespace

Ibsim::Ibsim(const IbsimOptions& options, int control, int data) : options_(options), control_(control), data_(data) {}

OrText<std::unique_ptr<Ibsim>> Ibsim::open(const IbsimOptions& options) {
  if (options.name.empty() || options.name.size() > 80)
    return tl::unexpected(fmt::format("the name of ibsim's sockets has 1 to 80 octets, not {}", options.name.size()));
  if (options.node.size() > node_name_max)
    return tl::unexpected(
        fmt::format("a node of ibsim has a name of at most {} octets: '{}'", node_name_max, options.node));
  constexpr int type = SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  std::unique_ptr<Ibsim> out(new Ibsim(options, ::socket(AF_UNIX, type, 0), ::socket(AF_UNIX, type, 0)));
  if (out->control_.fd < 0 || out->data_.fd < 0) return tl::unexpected("no socket: " + system_text(errno));
  if (const auto bound = out->bind_both(); !bound) return tl::unexpected(bound.error());
  if (const auto attached = out->attach(); !attached) return tl::unexpected(attached.error());
  if (const auto read = out->read_local(); !read) return tl::unexpected(read.error());
  return out;
}

/// The simulator knows a client by a number that it takes for a process ID. A process may have several attachments.
OrText<void> Ibsim::bind_both() {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  for (std::uint32_t i = 0; i < 64; ++i) {
    id_ = pid + (i << 24);
    const SocketName control(fmt::format("{}:ctl{}", options_.name, id_)),
        data(fmt::format("{}:in{}", options_.name, id_));
    if (::bind(control_.fd, control.pointer(), control.length) != 0) {
      if (errno == EADDRINUSE) continue;
      return tl::unexpected("a socket beside ibsim's cannot be bound: " + system_text(errno));
    }
    if (::bind(data_.fd, data.pointer(), data.length) != 0)
      return tl::unexpected("a socket beside ibsim's cannot be bound: " + system_text(errno));
    return {};
  }
  return tl::unexpected(std::string("this process has 64 attachments to ibsim already"));
}

OrText<void> Ibsim::attach() {
  const SocketName server(options_.name + ":ctl");
  if (::connect(control_.fd, server.pointer(), server.length) != 0) {
    const std::string why = errno == ECONNREFUSED ? "no ibsim runs with that socket name" : system_text(errno);
    return tl::unexpected(fmt::format("ibsim '{}': {}", options_.name, why));
  }
  std::array<std::uint8_t, 64> who{};
  put_host(&who[0], id_);
  put_host(&who[4], 0);
  put_host(&who[8], options_.is_sm ? 1 : 0);
  options_.node.copy(reinterpret_cast<char*>(&who[node_name_at]), node_name_max);
  auto answer = ask(connect_, who);
  if (!answer) return tl::unexpected(answer.error());
  if (get_host(&(*answer)[8]) == ControlType::error)
    return tl::unexpected(fmt::format("ibsim '{}' does not attach us to {}: it has no such node, ten clients already{}",
                                      options_.name,
                                      options_.node.empty() ? "its first node" : "node '" + options_.node + "'",
                                      options_.is_sm ? ", or a subnet manager there" : ""));
  id_ = get_host(&(*answer)[control_data]);
  attached_ = true;
  const auto* name = reinterpret_cast<const char*>(&(*answer)[control_data + node_name_at]);
  node_.assign(name, ::strnlen(name, node_name_max));
  const SocketName out(fmt::format("{}:out{}", options_.name, id_));
  if (::connect(data_.fd, out.pointer(), out.length) != 0)
    return tl::unexpected(fmt::format("ibsim '{}': {}", options_.name, system_text(errno)));
  return {};
}

Ibsim::~Ibsim() {
  if (attached_) static_cast<void>(ask(disconnect, {}));
}

OrText<Ibsim::Control> Ibsim::ask(std::uint32_t type, ConstBytes data) {
  Control message{};
  put_host(&message[0], magic);
  put_host(&message[4], type == connect_ ? 0 : id_);
  put_host(&message[8], type);
  put_host(&message[12], static_cast<std::uint32_t>(data.size()));
  std::copy(data.begin(), data.end(), message.begin() + control_data);
  if (::send(control_.fd, message.data(), message.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(message.size()))
    return tl::unexpected(fmt::format("ibsim '{}': {}", options_.name, system_text(errno)));
  pollfd wait{control_.fd, POLLIN, 0};
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(options_.patience).count();
  if (::poll(&wait, 1, static_cast<int>(patience)) <= 0)
    return tl::unexpected(fmt::format("ibsim '{}' does not answer within {} ms", options_.name, patience));
  const ssize_t n = ::recv(control_.fd, message.data(), message.size(), 0);
  if (n != static_cast<ssize_t>(message.size()) || get_host(&message[0]) != magic)
    return tl::unexpected(fmt::format("ibsim '{}' gives an answer that is none", options_.name));
  return message;
}

/// What control messages say of the node is not what its port says: they have one port GUID for all.
OrText<wire::mad::Datagram> Ibsim::ask_self(const wire::mad::Datagram& smp) {
  const auto without = [&](const char* what) {
    return tl::unexpected(fmt::format("ibsim '{}': {}", options_.name, what));
  };
  if (const auto sent = send({.qpn = 0}, smp); !sent || !*sent) return without("nothing can be sent");
  pollfd wait{data_.fd, POLLIN, 0};
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(options_.patience).count();
  if (::poll(&wait, 1, static_cast<int>(patience)) <= 0) return without("the node does not answer");
  const auto came = receive();
  in_whole_ = false;
  if (!came || !*came || (*came)->refused) return without("the node does not answer");
  wire::mad::Datagram out;
  std::copy((*came)->mad.begin(), (*came)->mad.end(), out.begin());
  return out;
}

OrText<void> Ibsim::read_local() {
  using wire::mad::Method;
  constexpr std::size_t body = 64;
  const std::array<std::uint8_t, 1> here{0};
  auto smp = wire::mad::request<MgmtClass::subn_directed, Method::get>(NodeInfo{}, {.transaction_id = 1});
  if (!wire::mad::set_route(smp, {.path = here})) return tl::unexpected(std::string("no route to the node itself"));
  const auto node = ask_self(smp);
  const auto port = ask(port_info, here);
  if (!node || !port) return tl::unexpected(node ? port.error() : node.error());
  const auto n = *NodeInfo::parse(ConstBytes(*node).subspan(body));
  const auto p = *PortInfo::parse(ConstBytes(*port).subspan(control_data));
  mad::LocalPort now;
  now.node_guid = n.get(NodeInfo::node_guid);
  now.port_guid = n.get(NodeInfo::port_guid);
  now.lid = p.get(PortInfo::lid);
  now.sm_lid = p.get(PortInfo::master_sm_lid);
  now.sm_sl = p.get(PortInfo::master_sm_sl);
  now.lmc = p.get(PortInfo::lmc);
  now.port = n.get(NodeInfo::local_port_num);
  if (const std::uint8_t timeout = p.get(PortInfo::subnet_time_out); timeout != 0) now.subnet_timeout = timeout;
  write_bits(now.gid, 0, 64, p.get(PortInfo::gid_prefix));
  write_bits(now.gid, 64, 64, now.port_guid);
  local_ = now;
  return {};
}

Result<bool> Ibsim::send(const mad::Address& to, ConstBytes mad) {
  if (mad.size() > mad_size || mad.size() < 2)
    return fail(Errc::invalid_argument, "ibsim carries management datagrams of at most 256 octets, not of {a}",
                static_cast<std::int64_t>(mad.size()));
  std::array<std::uint8_t, packet_size> packet{};
  const bool smp = is_smp(mad), directed = is_directed(mad);
  write_bits(packet, 0, 16, to.lid);
  write_bits(packet, 32, 16, to.source_lid == 0 && directed ? PARLEY_MAD_PERMISSIVE_LID : to.source_lid);
  write_bits(packet, 64, 32, smp ? 0 : to.qpn);
  write_bits(packet, 96, 32, smp ? 0 : 1);
  write_bits(packet, 192, 64, mad_size);
  std::copy(mad.begin(), mad.end(), packet.begin() + mad_at);
  const ssize_t n = ::send(data_.fd, packet.data(), packet.size(), MSG_NOSIGNAL);
  wants_to_send_ = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS);
  if (n < 0 && !wants_to_send_) return failed(errno);
  return n >= 0;
}

mad::Transport::Received Ibsim::received(std::size_t index) const {
  const auto& packet = in_[index];
  Received out;
  out.mad = ConstBytes(packet).subspan(mad_at, mad_size);
  out.refused = read_bits(packet, 128, 32) == status_refused;
  // What comes back is as it was sent: the other side is where it was to go.
  out.from.lid = static_cast<std::uint16_t>(read_bits(packet, out.refused ? 0 : 32, 16));
  out.from.qpn = static_cast<std::uint32_t>(read_bits(packet, out.refused ? 64 : 96, 32));
  return out;
}

Result<std::optional<mad::Transport::Received>> Ibsim::receive() {
  if (in_next_ == in_count_) {
    if (std::exchange(in_whole_, false)) return std::nullopt;
    std::array<mmsghdr, batch> headers{};
    std::array<iovec, batch> parts{};
    for (std::size_t i = 0; i < batch; ++i) {
      parts[i] = {in_[i].data(), packet_size};
      headers[i].msg_hdr.msg_iov = &parts[i];
      headers[i].msg_hdr.msg_iovlen = 1;
    }
    const int n = ::recvmmsg(data_.fd, headers.data(), batch, 0, nullptr);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
    if (n < 0) return failed(errno);
    in_next_ = in_count_ = 0;
    in_whole_ = static_cast<std::size_t>(n) < batch;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      if (headers[i].msg_len != packet_size) continue;  // of somebody else who knows the name: not a packet
      if (i != in_count_) in_[in_count_] = in_[i];
      ++in_count_;
    }
    if (in_count_ == 0) return std::nullopt;
  }
  return received(in_next_++);
}

}  // namespace parley::mad_driver
