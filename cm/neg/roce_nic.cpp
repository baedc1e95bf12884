// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/neg/roce_nic.hpp"

#include <fmt/format.h>

#include "base/gid.hpp"
#include "base/rng.hpp"
#include "cm/neg/guarded.hpp"
#include "cm/neg/variants/device_qp.hpp"
#include "cm/neg/variants/manual_driver.hpp"

namespace parley::neg {
namespace {

constexpr std::uint32_t port_mtu = 4096;
constexpr std::uint64_t psn_stream = 0x9E3779B97F4A7C15;  // makes PSNs independent of the device's own random numbers

/// One queue pair's address on the engine, and the engine's time.
class RoceQpEnvironment final : public QpEnvironment {
 public:
  RoceQpEnvironment(std::shared_ptr<RoceNic> nic, RoceDriving driving, BindId bind, const Gid& own)
      : nic_(std::move(nic)), driving_(std::move(driving)), bind_(bind), own_(own) {}
  // What the queue pair still owed its peer was sent with the last turn of the driver.
  ~RoceQpEnvironment() override { nic_->release(bind_); }
  RoceQpEnvironment(const RoceQpEnvironment&) = delete;
  RoceQpEnvironment& operator=(const RoceQpEnvironment&) = delete;

  Device& device() override { return nic_->device(); }
  Outcome<void> reach(const AhAttr& peer) override;
  void work(Duration wait) override { driving_.turn(wait); }
  Instant now() const override { return driving_.now(); }

 private:
  std::shared_ptr<RoceNic> nic_;
  RoceDriving driving_;
  BindId bind_;
  Gid own_;
};

Outcome<void> RoceQpEnvironment::reach(const AhAttr& peer) {
  const std::string advice = "see which GID the peer has chosen, and whether this side's reaches it";
  if (!peer.grh) return failed(Problem::invalid_peer_data, "the peer has no GID, and RoCE has no other address");
  if (is_v4_gid(peer.grh->dgid) != is_v4_gid(own_))
    return failed(Problem::invalid_peer_data,
                  fmt::format("the path to {}: this side has {}, and one of the two is an IPv4 address",
                              gid_text(peer.grh->dgid), gid_text(own_)),
                  advice);
  return {};
}

struct AddressPair {
  Address local, peer;  // any(): no preference
};

Outcome<AddressPair> addresses_of(const Config& config) {
  const auto toward = toward_of(config);
  if (!toward) return tl::unexpected(toward.error());
  const std::string gid = text_in(config, "gid");
  const auto any_of = [](const Address& a) { return Address::any(a.family, 0); };
  // A listener tries its variants before it has a peer. The trial uses loopback, to see whether it can make queue
  // pairs.
  const Address peer = toward->value_or(Address::v4(127, 0, 0, 1, 0));
  if (gid.empty()) return AddressPair{any_of(peer), peer};
  const auto parsed = parse_gid(gid);
  if (!parsed) return tl::unexpected(parsed.error());
  Address local = address_of_gid(*parsed);
  if (local.is_link_local() && *toward) local.scope_id = (*toward)->scope_id;
  return AddressPair{local, any_of(local)};
}

/// The address that the driver has bound, and the bind to release.
struct Bound {
  BindId bind = 0;
  Address local{};
};

Outcome<Bound> bind_wanted(RoceNic& nic, const RoceDriving& driving, const AddressPair& wanted) {
  const BindId id = nic.bind(wanted.local, wanted.peer);
  driving.turn({});
  const auto answer = nic.answer(id);
  if (answer && *answer && nic.addresses().add(**answer)) return Bound{id, **answer};
  nic.release(id);
  if (!answer) return failed(Problem::vendor_library_error, "the engine's sockets do not answer");
  if (*answer)
    return failed(Problem::resource_exhaustion,
                  fmt::format("{} addresses of this host are in use, which is the most", nic::roce::Addresses::most));
  const Error& why = answer->error();
  return failed(Problem::vendor_library_error,
                fmt::format("{}: {}", wanted.local.is_any() ? "this side's address" : gid_text(gid_of(wanted.local)),
                            why.sentence().empty() ? why.message() : why.sentence()));
}

Outcome<std::unique_ptr<QpDriver>> make_roce_qp(const std::shared_ptr<RoceNic>& nic, const RoceDriving& driving,
                                                Rng& rng, Transport transport, const Config& config) {
  if (auto sane = check_device_qp(config); !sane) return tl::unexpected(sane.error());
  const auto wanted = addresses_of(config);
  if (!wanted) return tl::unexpected(wanted.error());
  const auto bound = bind_wanted(*nic, driving, *wanted);
  if (!bound) return tl::unexpected(bound.error());
  const Gid gid = gid_of(bound->local);
  auto environment = std::make_unique<RoceQpEnvironment>(nic, driving, bound->bind, gid);
  const DeviceQpOptions options{.transport = transport,
                                .gid_index = *nic->addresses().add(bound->local),
                                .where = fmt::format("UDP port 4791 of {}", gid_text(gid)),
                                .own = {.gid = gid, .mtu = port_mtu},
                                .random = static_cast<std::uint32_t>(rng.below(1U << 24))};
  return make_device_qp(std::move(environment), options, config);
}

}  // namespace

BindId RoceNic::bind(const Address& local, const Address& peer) {
  commands_.push_back({.kind = PacketCommand::Kind::bind, .id = ++last_, .local = local, .peer = peer});
  binds_[last_] = std::nullopt;
  return last_;
}

std::optional<Result<Address>> RoceNic::answer(BindId id) const {
  const auto at = binds_.find(id);
  return at == binds_.end() ? std::nullopt : at->second;
}

void RoceNic::release(BindId id) {
  if (binds_.erase(id) > 0) commands_.push_back({.kind = PacketCommand::Kind::release, .id = id});
}

void RoceNic::handle_bound(Instant, BindId id, const Address& local) {
  if (const auto at = binds_.find(id); at != binds_.end()) at->second = Result<Address>(local);
}

void RoceNic::handle_bind_failed(Instant, BindId id, const Error& why, const Address&) {
  if (const auto at = binds_.find(id); at != binds_.end()) at->second = Result<Address>(tl::unexpected(why));
}

void RoceNic::handle_packet(Instant now, const PacketPath& from, ConstBytes packet) {
  addresses_.handle_packet(now, from, packet);
  forget_events();
}

void RoceNic::handle_placed(Instant now, const PacketPath& from, std::size_t size, ConstBytes packets) {
  addresses_.handle_placed(now, from, size, packets);
  forget_events();
}

void RoceNic::handle_deadline(Instant now) {
  device_->handle_deadline(now);
  forget_events();
}

// Discards the output that the caller does not poll. There is no connection manager, and completions report failures.
void RoceNic::forget_events() {
  nic::roce::MadIn in;
  while (polled_ == PolledOutput::nothing && device_->poll_mad(in)) {
  }
  while (device_->poll_notice()) {
  }
  while (polled_ != PolledOutput::mads_and_events && device_->poll_async_event()) {
  }
}

bool RoceNic::poll_command(PacketCommand& out) {
  if (commands_.empty()) return false;
  out = commands_.front();
  commands_.pop_front();
  return true;
}

std::size_t RoceNic::poll_packet(Instant now, PacketPath& to, MutBytes out) {
  return addresses_.poll_packet(now, to, out);
}

PacketRun RoceNic::poll_packets(Instant now, std::size_t most, PacketPath& to, MutBytes out) {
  return addresses_.poll_packets(now, most, to, out);
}

nic::roce::DeviceOptions negotiated_device(std::uint64_t seed, std::uint64_t address_base) {
  return {.port_mtu = Mtu::octets_4096, .first_qpn = 0, .seed = seed, .address_base = address_base};
}

QpDrivers roce_qp_drivers(std::shared_ptr<RoceNic> nic, RoceDriving driving, std::uint64_t seed) {
  return {.name = "roce",
          .parameters = device_parameters("roce"),
          .make = [nic = std::move(nic), driving = std::move(driving), rng = std::make_shared<Rng>(seed ^ psn_stream)](
                      Transport transport, const Config& config) {
            return make_roce_qp(nic, driving, *rng, transport, config);
          }};
}

}  // namespace parley::neg
