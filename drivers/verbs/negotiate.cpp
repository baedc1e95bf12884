// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The driver "verbs" of staged negotiation: one queue pair of a real device, taken from INIT to RTS by hand.
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "base/bytes_io.hpp"
#include "base/gid.hpp"
#include "cm/neg/guarded.hpp"
#include "cm/neg/variants/manual_driver.hpp"
#include "drivers/asio/sockaddr.hpp"
#include "drivers/verbs/device.hpp"
#include "drivers/verbs/gid_choice.hpp"
#include "drivers/verbs/qp.hpp"
#include "drivers/verbs/resolve.hpp"
#include "parley/neg_verbs.hpp"

namespace parley::verbs {
namespace {

using namespace std::chrono_literals;
using neg::Config;
using neg::Outcome;
using neg::Problem;
using neg::QpAttributes;
using neg::QpPair;

constexpr std::size_t test_max = 64;         // octets of a test message
constexpr std::size_t length_max = 1 << 30;  // of the memory that is registered
constexpr std::size_t datagram_max = 4096;   // octets of the longest path MTU
constexpr std::uint32_t play_sends = 128, play_receives = 512, test_depth = 8;
constexpr std::uint64_t test_receives = 4;  // of UD: datagrams of others may come first
constexpr std::uint8_t hop_limit = 64;
constexpr auto look = 5ms;             // how long take_test() waits: other sessions wait as long
constexpr auto look_up = 200ms;        // for the peer's Ethernet address, likewise
constexpr int looks_before_again = 8;  // UC and UD: the test message may be lost

tl::unexpected<neg::Failure> broke(std::string_view what, const Error& why, std::string advice = {}) {
  return neg::failed(why == Errc::no_space ? Problem::resource_exhaustion : Problem::vendor_library_error,
                     fmt::format("{}: {}", what, why.message()), std::move(advice));
}

tl::unexpected<neg::Failure> not_registered(const Error& why) {
  return broke("memory", why, why == Errc::no_space ? "raise the limit of locked memory (ulimit -l), or use less" : "");
}

/// The devices that queue pairs were made on, while these are there.
class Devices {
 public:
  Outcome<std::shared_ptr<NicDevice>> open(const std::string& name) {
    std::erase_if(open_, [](const auto& entry) { return entry.second.expired(); });
    if (auto there = open_[name].lock(); there && !there->gone()) return there;
    int count = 0;
    const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(ibv_get_device_list(&count), ibv_free_device_list);
    for (int i = 0; list && i < count; ++i) {
      if (name != ibv_get_device_name(list.get()[i])) continue;
      ibv_context* context = ibv_open_device(list.get()[i]);
      if (context == nullptr)
        return neg::failed(Problem::vendor_library_error, fmt::format("{}: {}", name, std::strerror(errno)),
                           "see the rights on /dev/infiniband");
      auto device = NicDevice::open(context);
      if (!device) return broke(name, device.error());
      std::shared_ptr<NicDevice> shared = std::move(*device);
      open_[name] = shared;
      return shared;
    }
    return neg::failed(Problem::vendor_library_error, fmt::format("the device {} is gone", name));
  }

  const Resolver& resolver() const { return resolver_; }

 private:
  Resolver resolver_;
  std::map<std::string, std::weak_ptr<NicDevice>> open_;  // at most one per device of the machine
};

Outcome<GidWish> wish_of(const Config& config) {
  GidWish out{.device = neg::text_in(config, "device")};
  if (const auto port = neg::number_of(config, "port"); port != 0) out.port = static_cast<std::uint32_t>(port);
  if (config.contains("gid_index")) out.index = static_cast<std::uint32_t>(neg::number_of(config, "gid_index"));
  if (const std::string gid = neg::text_in(config, "gid"); !gid.empty()) {
    const auto parsed = neg::parse_gid(gid);
    if (!parsed) return tl::unexpected(parsed.error());
    out.gid = *parsed;
  }
  if (const std::string toward = neg::text_in(config, neg::toward_parameter); !toward.empty()) {
    const auto parsed = Address::parse(toward);
    if (!parsed)
      return neg::failed(Problem::configuration_error, fmt::format("'toward': '{}' cannot be", toward.substr(0, 60)),
                         "write the peer's IPv4 or IPv6 address");
    out.peer = *parsed;
    if (const auto source = asio_driver::source_toward(*parsed)) out.source = *source;
  }
  return out;
}

/// What the peer may do with the memory: what the test needs, or all that the transport has.
Access rights_of(const Config& config, neg::Transport transport) {
  const std::string needed = neg::text_in(config, neg::access_parameter);
  if (needed == "none" || neg::number_of(config, "length") == 0) return Access::none;
  if (needed == "write") return Access::remote_write;
  if (needed == "read") return Access::remote_read;
  if (transport == neg::Transport::rc) return Access::remote_write | Access::remote_read;
  return transport == neg::Transport::uc ? Access::remote_write : Access::none;
}

/// Memory of whole pages.
class Pages {
 public:
  explicit Pages(std::size_t octets) : octets_((octets + 4095) / 4096 * 4096) {
    if (octets_ == 0) return;
    at_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(4096, octets_)));
    if (at_) std::memset(at_.get(), 0, octets_);
  }
  bool ok() const { return octets_ == 0 || at_; }
  MutBytes all() const { return {at_.get(), octets_}; }

 private:
  std::size_t octets_;
  std::unique_ptr<std::uint8_t, void (*)(void*)> at_{nullptr, std::free};
};

class VerbsQp final : public neg::QpDriver, public neg::DataPath {
 public:
  VerbsQp(std::shared_ptr<NicDevice> device, Resolver resolver, neg::Transport transport, const GidChoice& choice,
          const Config& config);
  ~VerbsQp() override;
  VerbsQp(const VerbsQp&) = delete;
  VerbsQp& operator=(const VerbsQp&) = delete;

  Outcome<QpAttributes> open() override;
  std::string where() const override { return where_; }
  Outcome<void> to_rtr(const QpPair& pair) override;
  Outcome<void> to_rts(const QpPair& pair) override;
  bool can_test() const override { return true; }
  Outcome<void> expect_test() override;
  Outcome<void> send_test(ConstBytes message) override;
  Outcome<std::optional<Bytes>> take_test() override;

  neg::DataPath* path() override { return length_ == 0 ? nullptr : this; }
  MutBytes memory() override { return memory_.all().first(length_); }
  std::size_t send_depth() const override { return sends_; }
  std::size_t receive_depth() const override { return receives_; }
  Outcome<void> post_receive(std::size_t at, std::size_t length) override;
  Outcome<void> post(SendWr::Opcode opcode, std::size_t at, std::size_t length) override;
  std::size_t poll(std::span<WorkCompletion> out) override;

 private:
  bool ud() const { return transport_ == neg::Transport::ud; }
  bool rc() const { return transport_ == neg::Transport::rc; }
  Outcome<void> make_objects();
  Outcome<void> register_memory();
  std::size_t test_slot() const { return neg::grh_len + (ud() ? datagram_max : test_max); }
  Outcome<void> post_test();
  Outcome<void> post_test_receive(std::uint64_t slot);
  Outcome<void> send_from(const MemoryRegion& region, SendWr::Opcode opcode, std::size_t at, std::size_t length);
  AhAttr path_to(const QpAttributes& peer) const;

  std::shared_ptr<NicDevice> device_;
  Resolver resolver_;
  neg::Transport transport_;
  std::uint32_t port_;
  std::uint8_t gid_index_;
  std::string where_;
  std::size_t length_;
  Access rights_;
  Pages memory_, test_;
  QpAttributes own_, peer_;
  std::uint32_t sends_, receives_;
  PdHandle pd_ = 0;
  std::optional<MemoryRegion> region_, test_region_;
  std::unique_ptr<CompletionQueue> cq_;
  std::unique_ptr<QueuePair> qp_;
  std::unique_ptr<AddressHandle> ah_;
  Bytes test_message_;
  int looks_ = 0;
};

VerbsQp::VerbsQp(std::shared_ptr<NicDevice> device, Resolver resolver, neg::Transport transport,
                 const GidChoice& choice, const Config& config)
    : device_(std::move(device)),
      resolver_(std::move(resolver)),
      transport_(transport),
      port_(choice.port->number),
      gid_index_(static_cast<std::uint8_t>(choice.gid->index)),
      where_(fmt::format("{} port {}, GID {} {} ({})", choice.device->name, choice.port->number, choice.gid->index,
                         gid_text(choice.gid->gid), choice.reason)),
      length_(neg::number_of(config, "length")),
      rights_(rights_of(config, transport)),
      memory_(length_),
      test_(test_max + test_receives * test_slot()) {
  own_.gid = choice.gid->gid;
  own_.mtu = std::min(static_cast<std::uint32_t>(neg::number_of(config, "mtu")), choice.port->mtu);
  own_.psn = static_cast<std::uint32_t>(neg::number_of(config, "psn"));
  if (own_.psn == 0) own_.psn = std::random_device{}() & 0xFFFFFF;
  const DeviceAttr& attr = device_->attr();
  const auto at_most = [&](std::string_view name, std::uint32_t limit) {
    return static_cast<std::uint8_t>(std::min<std::uint64_t>({neg::number_of(config, name), limit, 255}));
  };
  own_.ird = at_most("ird", attr.max_qp_rd_atom);
  own_.ord = at_most("ord", attr.max_qp_init_rd_atom);
  own_.qkey = static_cast<std::uint32_t>(neg::number_of(config, "qkey"));
  if (own_.qkey == 0) own_.qkey = neg::qkey_of_programs;
  sends_ = std::min(length_ != 0 ? play_sends : test_depth, attr.max_qp_wr);
  receives_ = std::min(length_ != 0 ? play_receives : test_depth, attr.max_qp_wr);
}

VerbsQp::~VerbsQp() {
  ah_.reset();
  qp_.reset();
  cq_.reset();
  for (const auto& region : {region_, test_region_})
    if (region) (void)device_->dereg_mr(region->lkey);
  if (pd_ != 0) (void)device_->dealloc_pd(pd_);
}

Outcome<void> VerbsQp::register_memory() {
  if (!memory_.ok() || !test_.ok())
    return neg::failed(Problem::resource_exhaustion, fmt::format("no memory of {} octets", length_));
  auto test = device_->reg_mr(pd_, test_.all(), Access::local_write);
  if (!test) return not_registered(test.error());
  test_region_ = *test;
  if (length_ == 0) return {};
  auto region = device_->reg_mr(pd_, memory(), Access::local_write | rights_);
  if (!region) return not_registered(region.error());
  region_ = *region;
  own_.rkey = region_->rkey;
  own_.vaddr = region_->addr;
  own_.length = length_;
  return {};
}

Outcome<void> VerbsQp::make_objects() {
  auto pd = device_->alloc_pd();
  if (!pd) return broke("protection domain", pd.error());
  pd_ = *pd;
  if (auto registered = register_memory(); !registered) return registered;
  auto cq = device_->create_cq(sends_ + receives_);
  if (!cq) return broke("completion queue", cq.error());
  cq_ = std::move(*cq);
  const QpType type = ud() ? QpType::ud : rc() ? QpType::rc : QpType::uc;
  auto qp = device_->create_qp({.type = type,
                                .pd = pd_,
                                .send_cq = cq_.get(),
                                .recv_cq = cq_.get(),
                                .max_send_wr = sends_,
                                .max_recv_wr = receives_});
  if (!qp) return broke(fmt::format("a queue pair of {}", to_string(transport_)), qp.error());
  qp_ = std::move(*qp);
  own_.qpn = qp_->qp_num();
  return {};
}

Outcome<QpAttributes> VerbsQp::open() {
  ibv_port_attr port{};
  if (ibv_query_port(device_->context(), static_cast<std::uint8_t>(port_), &port) == 0) own_.lid = port.lid;
  if (auto made = make_objects(); !made) return tl::unexpected(made.error());
  QpAttr attr{.state = QpState::init, .pkey_index = std::uint16_t{0}, .port_num = static_cast<std::uint8_t>(port_)};
  if (ud())
    attr.qkey = own_.qkey;
  else
    attr.access = rights_;
  if (auto moved = qp_->modify(attr); !moved) return broke("to INIT", moved.error());
  return own_;
}

AhAttr VerbsQp::path_to(const QpAttributes& peer) const {
  AhAttr out{.dlid = peer.lid, .port_num = static_cast<std::uint8_t>(port_)};
  if (peer.has_gid()) out.grh = GlobalRoute{.dgid = peer.gid, .sgid_index = gid_index_, .hop_limit = hop_limit};
  return out;
}

Outcome<void> VerbsQp::to_rtr(const QpPair& pair) {
  peer_ = pair.peer;
  if (auto known = resolver_.resolve(device_, path_to(peer_), look_up); !known) {
    const Problem problem = problem_of_path(known.error());
    return neg::failed(problem, fmt::format("the path to {}: {}", gid_text(peer_.gid), known.error().message()),
                       problem == Problem::invalid_peer_data
                           ? "see which GID the peer has chosen, and whether this side's reaches it"
                           : "");
  }
  QpAttr attr{.state = QpState::rtr};
  if (ud()) {
    auto ah = device_->create_ah(pd_, path_to(peer_));
    if (!ah) return broke("an address handle of the peer's GID", ah.error());
    ah_ = std::move(*ah);
  } else {
    attr.ah = path_to(peer_);
    attr.path_mtu = static_cast<Mtu>(std::countr_zero(pair.mtu) - 7);
    attr.dest_qp_num = peer_.qpn;
    attr.rq_psn = peer_.psn;
  }
  if (rc()) {
    attr.max_dest_rd_atomic = pair.ird;
    attr.min_rnr_timer = std::uint8_t{12};
  }
  if (auto moved = qp_->modify(attr); !moved) return broke("to RTR", moved.error());
  return {};
}

Outcome<void> VerbsQp::to_rts(const QpPair& pair) {
  QpAttr attr{.state = QpState::rts, .sq_psn = own_.psn};
  if (rc()) {
    attr.timeout = std::uint8_t{14};
    attr.retry_cnt = std::uint8_t{7};
    attr.rnr_retry = std::uint8_t{7};
    attr.max_rd_atomic = pair.ord;
  }
  if (auto moved = qp_->modify(attr); !moved) return broke("to RTS", moved.error());
  return {};
}

Outcome<void> VerbsQp::expect_test() {
  for (std::uint64_t slot = 0; slot < (ud() ? test_receives : 1); ++slot)
    if (auto posted = post_test_receive(slot); !posted) return posted;
  return {};
}

Outcome<void> VerbsQp::post_test_receive(std::uint64_t slot) {
  const Sge sge{.addr = test_region_->addr + test_max + slot * test_slot(),
                .length = static_cast<std::uint32_t>(test_slot()),
                .lkey = test_region_->lkey};
  if (auto posted = qp_->post_recv({.wr_id = slot, .sges = {&sge, 1}}); !posted)
    return broke("the receive of the test message", posted.error());
  return {};
}

Outcome<void> VerbsQp::send_test(ConstBytes message) {
  test_message_.assign(message.begin(), message.end());
  return post_test();
}

Outcome<void> VerbsQp::post_test() {
  if (test_message_.size() > test_max)
    return neg::failed(Problem::serialization_failure, "the test message is longer than its memory");
  std::copy(test_message_.begin(), test_message_.end(), test_.all().begin());
  return send_from(*test_region_, SendWr::Opcode::send, 0, test_message_.size());
}

Outcome<std::optional<Bytes>> VerbsQp::take_test() {
  const auto end = std::chrono::steady_clock::now() + look;
  do {
    WorkCompletion done;
    if (poll({&done, 1}) == 0) {
      std::this_thread::sleep_for(200us);
      continue;
    }
    const bool receive = done.opcode == WcOpcode::recv;
    if (done.status != WcStatus::success)
      return neg::failed(Problem::vendor_library_error,
                         fmt::format("the test message {}: {}", receive ? "did not come in" : "did not arrive",
                                     to_string(done.status)),
                         "check GIDs, path MTU and that nothing on the path drops RoCE's UDP port 4791");
    if (!receive) continue;
    const std::size_t before = ud() ? neg::grh_len : 0;
    const ConstBytes came = test_.all().subspan(test_max + done.wr_id * test_slot(), done.byte_len);
    if (came.size() < before)
      return neg::failed(Problem::vendor_library_error, "a datagram came without its global route header");
    Bytes out(came.begin() + static_cast<std::ptrdiff_t>(before), came.end());
    // It may be somebody else's: then the peer's is still to come.
    if (ud())
      if (auto again = post_test_receive(done.wr_id); !again) return tl::unexpected(again.error());
    return out;
  } while (std::chrono::steady_clock::now() < end);
  if (!rc() && !test_message_.empty() && ++looks_ % looks_before_again == 0)
    if (auto again = post_test(); !again) return tl::unexpected(again.error());
  return std::nullopt;
}

Outcome<void> VerbsQp::send_from(const MemoryRegion& region, SendWr::Opcode opcode, std::size_t at,
                                 std::size_t length) {
  const Sge sge{.addr = region.addr + at, .length = static_cast<std::uint32_t>(length), .lkey = region.lkey};
  SendWr wr{.opcode = opcode, .sges = {&sge, 1}};
  if (ud()) {
    wr.ah = ah_.get();
    wr.remote_qp_num = peer_.qpn;
    wr.remote_qkey = peer_.qkey;
  } else if (opcode != SendWr::Opcode::send) {
    wr.remote_addr = peer_.vaddr;
    wr.rkey = peer_.rkey;
  }
  if (auto posted = qp_->post_send(wr); !posted) return broke(to_string(opcode), posted.error());
  return {};
}

Outcome<void> VerbsQp::post_receive(std::size_t at, std::size_t length) {
  const Sge sge{.addr = region_->addr + at, .length = static_cast<std::uint32_t>(length), .lkey = region_->lkey};
  if (auto posted = qp_->post_recv({.wr_id = 0, .sges = {&sge, 1}}); !posted) return broke("a receive", posted.error());
  return {};
}

Outcome<void> VerbsQp::post(SendWr::Opcode opcode, std::size_t at, std::size_t length) {
  return send_from(*region_, opcode, at, length);
}

std::size_t VerbsQp::poll(std::span<WorkCompletion> out) {
  device_->collect();
  (void)device_->take_broken();  // completions say as much
  (void)device_->take_reached();
  return cq_->poll(out);
}

Outcome<std::unique_ptr<neg::QpDriver>> make_qp_driver(Devices& devices, neg::Transport transport,
                                                       const Config& config) {
  if (transport == neg::Transport::xrc)
    return neg::failed(Problem::configuration_error, "XRC is not used on real devices in this version",
                       "use verbs-rc, or driver=manual with a queue pair of yours");
  if (neg::number_of(config, "length") > length_max)
    return neg::failed(Problem::configuration_error, fmt::format("'length': more than {} octets", length_max));
  const auto wish = wish_of(config);
  if (!wish) return tl::unexpected(wish.error());
  const auto there = list_rdma_devices();
  if (!there)
    return neg::failed(Problem::configuration_error,
                       there.error().sentence().empty() ? there.error().message() : there.error().sentence(),
                       "load a device's driver, or give the values of a queue pair of yours (driver=manual)");
  const auto choice = choose_gid(*there, *wish);
  if (!choice)
    return neg::failed(Problem::configuration_error, choice.error(),
                       "'parley doctor rdmacm' lists devices, ports and GIDs; driver=manual takes values of yours");
  auto device = devices.open(choice->device->name);
  if (!device) return tl::unexpected(device.error());
  return std::make_unique<VerbsQp>(std::move(*device), devices.resolver(), transport, *choice, config);
}

std::vector<neg::Parameter> parameters_of_verbs() {
  using Kind = neg::Parameter::Kind;
  return {
      {.name = "device", .help = "verbs: RDMA device; otherwise the one with the best GID"},
      {.name = "port", .kind = Kind::number, .help = "verbs: its port; 0: any", .otherwise = "0", .most = 255},
      {.name = "gid_index", .kind = Kind::number, .help = "verbs: index of the GID; otherwise the best", .most = 255},
      {.name = std::string(neg::toward_parameter),
       .help = "verbs: the IP address to choose the GID for; otherwise the peer's"},
      {.name = "psn",
       .kind = Kind::number,
       .help = "first packet sequence number; of verbs 0: a random one",
       .otherwise = "0",
       .most = 0xFFFFFF},
      {.name = "qkey",
       .kind = Kind::number,
       .help = "Q_Key, of UD; of verbs 0: 0x11111111",
       .otherwise = "0",
       .most = 0xFFFFFFFF},
      {.name = "length",
       .kind = Kind::number,
       .help = "length of memory; verbs: so much is registered, and the peer told of it",
       .otherwise = "0"},
  };
}

}  // namespace
}  // namespace parley::verbs

namespace parley::neg {

QpDrivers verbs_drivers() {
  return {.name = "verbs",
          .parameters = verbs::parameters_of_verbs(),
          .make = [devices = std::make_shared<verbs::Devices>()](Transport transport, const Config& config) {
            return verbs::make_qp_driver(*devices, transport, config);
          }};
}

}  // namespace parley::neg
