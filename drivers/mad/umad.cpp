// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/mad/umad.hpp"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <infiniband/umad.h>
#include <unistd.h>

#include <array>
#include <bitset>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bits.hpp"
#include "drivers/asio/descriptor.hpp"
#include "drivers/libraries/forward.hpp"
#include "drivers/mad/umad_inbox.hpp"
#include "mad/rmpp.hpp"
#include "mad/serve.hpp"
#include "wire/mad/common.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::mad_driver {

namespace {

using wire::mad::has_oui;
using wire::mad::MgmtClass;

constexpr std::size_t mad_size = 256, long_mad_max = 16 << 20;  // for sending
constexpr std::size_t kept_octets_max = 1 << 20;                // largest buffer that is kept for the next message
constexpr std::size_t refused_max = 1024;
constexpr unsigned methods_end = 128;  // answers are to the methods below
constexpr int first_unreal_fd = 1024;  // ibsim's preloaded library: not a descriptor of the system

struct CaNames {
  std::array<char[UMAD_CA_NAME_LEN], 32> names{};
  int count = umad_get_cas_names(names.data(), static_cast<int>(names.size()));
};

/// A device as read by libibumad; released at the end.
struct Ca {
  umad_ca_t ca{};
  bool there;
  explicit Ca(const std::string& name) : there(umad_get_ca(name.c_str(), &ca) == 0) {}
  ~Ca() {
    if (there) umad_release_ca(&ca);
  }
  Ca(const Ca&) = delete;
  Ca& operator=(const Ca&) = delete;
};

bool is_infiniband(const umad_port_t& port) { return std::string_view(port.link_layer) != "Ethernet"; }

struct Choice {
  std::string device;
  std::uint8_t port = 0;
  bool active = false;
};

/// Every InfiniBand port.
std::vector<Choice> all_ports() {
  std::vector<Choice> out;
  const CaNames all;
  for (int i = 0; i < all.count; ++i) {
    const std::string name = all.names[static_cast<std::size_t>(i)];
    const Ca ca(name);
    for (std::uint8_t number = 0; ca.there && number < UMAD_CA_MAX_PORTS; ++number)
      if (const umad_port_t* port = ca.ca.ports[number]; port != nullptr && is_infiniband(*port))
        out.push_back({name, number, port->state == static_cast<unsigned>(wire::mad::PortState::active)});
  }
  return out;
}

/// The first active port of those that the options allow, or the first.
std::optional<Choice> choose(const UmadOptions& options) {
  std::optional<Choice> any;
  for (const Choice& port : all_ports()) {
    if (!options.device.empty() && port.device != options.device) continue;
    if (options.port != 0 && port.port != options.port) continue;
    if (port.active) return port;
    if (!any) any = port;
  }
  return any;
}

/// Uses open(2), which a preloaded library may replace.
std::optional<unsigned> sysfs_number(const std::string& path) {
  const asio_driver::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 32> text{};
  if (file.fd < 0 || ::read(file.fd, text.data(), text.size() - 1) <= 0) return std::nullopt;
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.data(), &end, 0);
  return end == text.data() ? std::nullopt : std::optional(static_cast<unsigned>(value));
}

/// `sentence` has {a} in place of the errno.
tl::unexpected<Error> gone(std::string_view sentence, int why) {
  return fail(why == ENODEV ? Errc::peer_closed : Errc::io, sentence, why);
}

std::string what_there_is() {
  const auto ports = umad_ports();
  return ports.empty() ? std::string("no InfiniBand device (none in /sys/class/infiniband_mad)")
                       : fmt::format("there are: {}", fmt::join(ports, ", "));
}

class Umad final : public mad::Transport {
 public:
  Umad(int port_id, const Choice& choice, const UmadOptions& options)
      : port_id_(port_id),
        fd_(umad_get_fd(port_id)),
        choice_(choice),
        options_(options),
        recheck_(options.recheck_every) {
    if (const Ca ca(choice.device); ca.there) local_.node_guid = be64toh(ca.ca.node_guid);
    facts_.whole_tid = false;
    facts_.rmpp = !unreal();
    facts_.window_max = unreal() ? 64 : 512;  // a preloaded program that sends more blocks for ever
    if (unreal()) inbox_.emplace([this] { return read_in_thread(); });
  }
  ~Umad() override {
    inbox_.reset();
    umad_close_port(port_id_);
  }

  const mad::TransportFacts& facts() const override { return facts_; }
  const mad::LocalPort& local() const override { return local_; }
  /// Reads sysfs: umad does not report changes.
  bool poll_changed() override;
  int fd() const override { return inbox_ ? inbox_->fd() : fd_; }
  bool wants_to_send() const override { return wants_to_send_; }

  Result<bool> send(const mad::Address& to, ConstBytes mad) override;
  Result<std::optional<Received>> receive() override;
  Result<void> serve(const mad::ServedClass& what) override;
  bool read_local();

 private:
  using Agent = std::array<std::uint8_t, 5>;           // class, version, OUI
  using Key = std::pair<std::uint8_t, std::uint32_t>;  // class, lower half of the transaction ID
  static Key key_of(ConstBytes mad) { return {mad[1], static_cast<std::uint32_t>(read_bits(mad, 96, 32))}; }

  bool kernel_rmpp(std::uint8_t mgmt_class) const {
    return facts_.rmpp && mgmt_class == static_cast<std::uint8_t>(MgmtClass::subn_adm);
  }
  bool unreal() const { return fd_ >= first_unreal_fd; }
  /// The datagram is returned to the caller; true: accepted.
  bool refuse(const mad::Address& to, ConstBytes mad) {
    refused_.emplace_back(to, Bytes(mad.begin(), mad.end()));
    return true;
  }
  bool attributes_changed() const;
  std::optional<int> pkey_index(const mad::Address& to) const;
  Result<int> agent_for(const Agent& of, std::span<const wire::mad::Method> methods);
  Result<int> agent_for(ConstBytes mad);
  Result<bool> read_one(Bytes& buffer);
  std::optional<Bytes> read_in_thread();
  std::optional<Received> received();

  int port_id_, fd_;
  Choice choice_;
  UmadOptions options_;
  mad::LocalPort local_;
  mad::TransportFacts facts_;
  bool wants_to_send_ = false;
  Recheck recheck_;
  unsigned looks_ = 0;
  std::map<Agent, int> agents_;                         // that send
  std::map<Agent, std::bitset<methods_end>> served_;    // methods that an agent has
  std::set<Key> outstanding_;                           // which the kernel retransmits, and does not accept twice
  std::deque<std::pair<mad::Address, Bytes>> refused_;  // refused by the device, at most refused_max: returned next
  Bytes buffer_, out_;
  std::optional<UmadInbox> inbox_;
};

bool Umad::read_local() {
  umad_port_t port{};
  if (umad_get_port(choice_.device.c_str(), choice_.port, &port) != 0) return false;
  local_.port_guid = be64toh(port.port_guid);
  write_bits(local_.gid, 0, 64, be64toh(port.gid_prefix));
  write_bits(local_.gid, 64, 64, local_.port_guid);
  local_.lid = static_cast<std::uint16_t>(port.base_lid);
  local_.sm_lid = static_cast<std::uint16_t>(port.sm_lid);
  local_.sm_sl = static_cast<std::uint8_t>(port.sm_sl);
  local_.lmc = static_cast<std::uint8_t>(port.lmc);
  local_.port = choice_.port;
  if (port.pkeys_size > 0) local_.pkeys.assign(port.pkeys, port.pkeys + port.pkeys_size);
  umad_release_port(&port);
  return true;
}

/// Attributes that a subnet manager assigns.
bool Umad::attributes_changed() const {
  const auto differs = [this](const char* name, unsigned known) {
    const auto value =
        sysfs_number(fmt::format("{}/{}/ports/{}/{}", options_.sysfs, choice_.device, choice_.port, name));
    return value && *value != known;
  };
  return differs("lid", local_.lid) || differs("sm_lid", local_.sm_lid) || differs("sm_sl", local_.sm_sl) ||
         differs("lid_mask_count", local_.lmc);
}

bool Umad::poll_changed() {
  constexpr unsigned whole_look = 64;  // each P_Key costs a device query
  if (!recheck_.due() || (!attributes_changed() && ++looks_ % whole_look != 0)) return false;
  const mad::LocalPort before = local_;
  return read_local() && local_ != before;
}

/// The index of the P_Key, or of the same partition with the other membership (IBA §10.9.3).
std::optional<int> Umad::pkey_index(const mad::Address& to) const {
  if (to.qpn == 0) return 0;
  constexpr std::uint16_t partition = 0x7FFF;
  const auto begin = local_.pkeys.begin(), end = local_.pkeys.end();
  auto at = std::find(begin, end, to.pkey);
  if (at == end) at = std::find_if(begin, end, [&](std::uint16_t own) { return ((own ^ to.pkey) & partition) == 0; });
  return at == end ? std::nullopt : std::optional(static_cast<int>(at - begin));
}

/// `methods`: it also receives requests with these methods.
Result<int> Umad::agent_for(const Agent& of, std::span<const wire::mad::Method> methods) {
  if (const auto found = agents_.find(of); found != agents_.end() && methods.empty()) return found->second;
  std::array<long, 16 / sizeof(long)> mask{};
  constexpr unsigned bits = 8 * sizeof(long);
  for (const wire::mad::Method method : methods) {
    const unsigned number = static_cast<unsigned>(method) % methods_end;
    mask[number / bits] |= 1L << number % bits;
  }
  std::array<std::uint8_t, 3> oui{of[2], of[3], of[4]};
  const int agent = has_oui(of[0]) ? umad_register_oui(port_id_, of[0], 0, oui.data(), mask.data())
                                   : umad_register(port_id_, of[0], of[1], kernel_rmpp(of[0]) ? 1 : 0, mask.data());
  // It always returns -EPERM; errno has the cause.
  if (agent < 0 && errno == EINVAL && !methods.empty())
    return fail(Errc::not_permitted, "another program already answers requests of class {a} here", of[0]);
  if (agent < 0 && errno == ENOMEM)
    return fail(Errc::no_space, "umad has no room for an agent for class {a}: a port that is open has at most 32",
                of[0]);
  if (agent < 0) return fail(Errc::not_permitted, "umad refused an agent for class {a}: errno {b}", of[0], errno);
  agents_[of] = agent;
  return agent;
}

Result<int> Umad::agent_for(ConstBytes mad) {
  Agent of{mad[1], mad[2]};
  if (has_oui(mad[1]) && mad.size() >= 40) std::copy_n(mad.begin() + 37, 3, of.begin() + 2);
  return agent_for(of, {});
}

Result<void> Umad::serve(const mad::ServedClass& what) {
  if (unreal()) return fail(Errc::not_permitted, ibsim_serves_nobody);
  Agent of{what.mgmt_class, what.class_version};
  if (has_oui(what.mgmt_class)) {
    if (what.class_version != 1)
      return fail(Errc::unsupported, "umad registers class version 1 for a class with an OUI, not {a}",
                  what.class_version);
    write_bits(of, 16, 24, what.oui);
  }
  // The kernel gives a method to one agent, and refuses a second of the same program, too.
  std::bitset<methods_end>& served = served_[of];
  std::bitset<methods_end> all = served;
  std::vector<wire::mad::Method> fresh;
  for (const wire::mad::Method method : what.methods) {
    const std::size_t number = static_cast<std::size_t>(method) % methods_end;
    if (!all.test(number)) fresh.push_back(method);
    all.set(number);
  }
  if (fresh.empty() && !what.methods.empty()) return {};
  return agent_for(of, fresh).map([&](int) { served = all; });
}

Result<bool> Umad::send(const mad::Address& to, ConstBytes mad) {
  if (mad.size() < 24 || mad.size() > long_mad_max || (mad.size() > mad_size && !facts_.rmpp))
    return fail(Errc::invalid_argument, "umad cannot carry a management datagram of {a} octets here",
                static_cast<std::int64_t>(mad.size()));
  wants_to_send_ = refused_.size() >= refused_max;
  if (wants_to_send_) return false;
  const auto pkey = pkey_index(to);
  if (!pkey) return refuse(to, mad);  // the port is not a member of that partition
  const auto agent = agent_for(mad);
  if (!agent) return tl::unexpected(agent.error());
  // RMPP packets of a running transfer have the request's method and ID; a program's own RMPP has its own timers.
  const bool own_rmpp = mad::rmpp::is_rmpp(mad) && !kernel_rmpp(mad[1]);
  const bool request = !own_rmpp && mad::response_to(static_cast<wire::mad::Method>(mad[3])).has_value();
  if (request && outstanding_.contains(key_of(mad))) return true;
  out_.assign(umad_size() + std::max(mad.size(), mad_size), 0);
  std::copy(mad.begin(), mad.end(), static_cast<std::uint8_t*>(umad_get_mad(out_.data())));
  umad_set_addr(out_.data(), to.lid, static_cast<int>(to.qpn), to.sl, static_cast<int>(to.qpn == 0 ? 0 : to.qkey));
  ib_mad_addr_t* address = umad_get_mad_addr(out_.data());
  address->path_bits =
      to.source_lid == PARLEY_MAD_PERMISSIVE_LID ? 0 : static_cast<std::uint8_t>(to.source_lid & 0x7FU);
  if (to.grh) {
    address->grh_present = 1;
    address->gid_index = to.grh->gid_index;
    address->hop_limit = to.grh->hop_limit;
    address->traffic_class = to.grh->traffic_class;
    address->flow_label = htonl(to.grh->flow_label);
    std::copy(to.grh->gid.begin(), to.grh->gid.end(), address->gid);
  }
  umad_set_pkey(out_.data(), *pkey);
  const auto time =
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(options_.kernel_time).count());
  const auto length = static_cast<int>(out_.size() - umad_size());
  const int retries = request ? static_cast<int>(options_.kernel_retries) : 0;
  // It always returns -EIO; errno has the cause.
  const int why = umad_send(port_id_, *agent, out_.data(), length, request ? time : 0, retries) == 0 ? 0 : errno;
  wants_to_send_ = why == EAGAIN || why == ENOBUFS;
  if (wants_to_send_) return false;
  if (why == EINVAL) return refuse(to, mad);  // the driver does not support it
  if (why != 0) return gone("sending through umad failed: errno {a}", why);
  if (request) outstanding_.insert(key_of(mad));
  return true;
}

/// Into `buffer`, which grows as needed: the kernel keeps the message until it is read, so the port decides whether it
/// is too long. False: no message.
Result<bool> Umad::read_one(Bytes& buffer) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    int length = static_cast<int>(buffer.size() - umad_size());
    const int agent = umad_recv(port_id_, buffer.data(), &length, 0);
    if (agent >= 0) {
      buffer.resize(umad_size() + static_cast<std::size_t>(std::max(length, 0)));
      return true;
    }
    if (agent == -EAGAIN || agent == -EINTR || agent == -ETIMEDOUT) return false;
    if (agent != -ENOSPC) return gone("receiving through umad failed: errno {a}", -agent);
    if (length <= 0) return fail(Errc::no_space, "umad has a message of {a} octets", length);
    buffer.resize(umad_size() + static_cast<std::size_t>(length));
  }
  return false;
}

std::optional<Bytes> Umad::read_in_thread() {
  if (umad_poll(port_id_, 100) != 0) return std::nullopt;
  Bytes one(umad_size() + mad_size);
  if (!read_one(one).value_or(false)) return std::nullopt;
  return one;
}

std::optional<mad::Transport::Received> Umad::received() {
  const bool answered = umad_status(buffer_.data()) == 0;
  // ibsim passes only the octets that the sender filled; on a link all datagrams have the same size.
  if (answered) buffer_.resize(std::max(buffer_.size(), umad_size() + mad_size));
  const ConstBytes mad = ConstBytes(buffer_).subspan(umad_size());
  if (mad.size() < 24) return std::nullopt;
  if (!answered || wire::mad::is_answer(mad[3])) outstanding_.erase(key_of(mad));
  if (!answered) return std::nullopt;  // the kernel gave up; the requester has its own time limit
  const ib_mad_addr_t* from = umad_get_mad_addr(buffer_.data());
  Received out;
  out.mad = mad;
  out.from.lid = ntohs(from->lid);
  out.from.sl = from->sl;
  out.from.qpn = ntohl(from->qpn);
  if (from->grh_present != 0) {
    mad::Grh grh{.gid_index = from->gid_index,
                 .traffic_class = from->traffic_class,
                 .hop_limit = from->hop_limit,
                 .flow_label = ntohl(from->flow_label)};
    std::copy_n(from->gid, grh.gid.size(), grh.gid.begin());
    out.from.grh = grh;
  }
  if (local_.lmc != 0) out.from.source_lid = static_cast<std::uint16_t>(local_.lid | from->path_bits);
  const auto pkey = static_cast<std::size_t>(umad_get_pkey(buffer_.data()));
  if (pkey < local_.pkeys.size()) out.from.pkey = local_.pkeys[pkey];
  return out;
}

Result<std::optional<mad::Transport::Received>> Umad::receive() {
  if (!refused_.empty()) {
    const mad::Address to = refused_.front().first;
    buffer_ = std::move(refused_.front().second);
    refused_.pop_front();
    return Received{to, buffer_, true};
  }
  // Time-outs of the kernel are irrelevant to the caller: continue with the next message.
  for (int i = 0; i < 64; ++i) {
    if (inbox_) {
      auto one = inbox_->take();
      if (!one) return std::nullopt;
      buffer_ = std::move(*one);
    } else {
      if (buffer_.capacity() > kept_octets_max) buffer_ = Bytes();
      buffer_.resize(umad_size() + mad_size);
      const auto there = read_one(buffer_);
      if (!there) return tl::unexpected(there.error());
      if (!*there) return std::nullopt;
    }
    if (auto out = received()) return out;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> umad_ports() {
  std::vector<std::string> out;
  if (umad_init() != 0) return out;
  for (const Choice& port : all_ports()) out.push_back(fmt::format("{}/{}", port.device, port.port));
  return out;
}

OrText<std::unique_ptr<mad::Transport>> open_umad(const UmadOptions& options) {
  errno = 0;
  if (umad_init() != 0)
    return tl::unexpected(
        std::string(errno == ELIBACC ? libraries::no_libibumad : "libibumad does not work with this kernel's umad"));
  const auto choice = choose(options);
  if (!choice) {
    const std::string wanted = options.device.empty()
                                   ? std::string()
                                   : "no port '" + options.device +
                                         (options.port != 0 ? fmt::format("/{}", options.port) : std::string()) + "': ";
    return tl::unexpected(wanted + what_there_is());
  }
  errno = 0;
  const int port = umad_open_port(choice->device.c_str(), choice->port);
  if (port < 0) {
    const int why = errno != 0 ? errno : -port;
    const std::string advice =
        why == EACCES || why == EPERM ? "; only root may open /dev/infiniband/umad*, unless a udev rule allows it" : "";
    return tl::unexpected(fmt::format("{}/{} cannot be opened: {}{}", choice->device, choice->port,
                                      std::generic_category().message(why), advice));
  }
  auto out = std::make_unique<Umad>(port, *choice, options);
  if (!out->read_local())
    return tl::unexpected(fmt::format("{}/{}: cannot read its attributes", choice->device, choice->port));
  return std::unique_ptr<mad::Transport>(std::move(out));
}

}  // namespace parley::mad_driver
