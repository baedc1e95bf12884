// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// xrc::Attachment with the registry that processes share, in both forms: to register is to open a handle on the NIC, which here is
// the software one of this program, and so is each "process".
#include "drivers/xrcd/link_registrar.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "drivers/xrcshm/segment.hpp"
#include "nic/roce/device.hpp"
#include "tests/unit/drivers/broker_thread.hpp"
#include "tests/unit/hang_limit.hpp"
#include "xrc/attachment.hpp"

namespace parley::xrc::xrc_nic_test {
namespace {

using namespace std::chrono_literals;

class XrcNic : public testing::TestWithParam<RegistryKind> {
 protected:
  struct Process {
    Process(std::shared_ptr<Link> link, parley::Device& nic, XrcDomain& domain)
        : registrar(std::move(link)), device(nic, domain), attachment(registrar, device) {}
    LinkRegistrar registrar;
    Device device;
    Attachment attachment;
  };

  XrcNic() : place_(false) {
    const RegistryOptions numbers_of_devices{.assigns_numbers = false};
    options_ = {
        .form = GetParam(), .socket = place_.socket(), .segment = place_.file("segment"), .patience = hang_limit};
    if (GetParam() == RegistryKind::broker) {
      place_.start(numbers_of_devices);
    } else {
      EXPECT_TRUE(Segment::open({.path = options_.segment, .registry = numbers_of_devices}));
    }
  }
  std::unique_ptr<Process> process() {
    const asio_driver::Descriptor file(::open(place_.file("domain").c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
    auto link = Link::open(options_, true, file.fd);
    EXPECT_TRUE(link) << link.error().code().message();
    return std::make_unique<Process>(std::move(*link), *nic_, *domain_);
  }
  static std::unique_ptr<nic::roce::RoceDevice> make_nic() {
    nic::roce::DeviceOptions options;
    options.gids = {Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 1}};
    return nic::roce::make_device(options).value();
  }
  bool is_there(std::uint32_t qpn) { return nic_->open_qp(*domain_, qpn).has_value(); }

  BrokerThread place_;
  DomainOptions options_;
  std::unique_ptr<nic::roce::RoceDevice> nic_ = make_nic();
  std::unique_ptr<XrcDomain> domain_ = nic_->open_xrcd().value();
};
INSTANTIATE_TEST_SUITE_P(Forms, XrcNic, testing::Values(RegistryKind::broker, RegistryKind::shared),
                         [](const auto& form) { return std::string(to_string(form.param)); });

TEST_P(XrcNic, ItsQueuePairLivesForAsLongAsAProcessHasAHandle) {
  auto one = process(), two = process();
  const auto made = one->attachment.create(Peer{1, 5});
  ASSERT_TRUE(made) << made.error().code().message();
  EXPECT_FALSE(made->existing);
  const TgtId id = made->id;
  EXPECT_TRUE(is_there(id.qpn)) << "its number is the NIC's";
  const auto same = two->attachment.create(Peer{1, 5});
  ASSERT_TRUE(same) << same.error().code().message();
  EXPECT_TRUE(same->existing);
  EXPECT_EQ(same->id, id);
  const QpAttr init{.state = QpState::init, .access = Access::none, .pkey_index = 0, .port_num = 1};
  EXPECT_FALSE(*one->attachment.modify(id, init));
  EXPECT_TRUE(*two->attachment.modify(id, init)) << "another process had done it";
  EXPECT_EQ(two->attachment.query(id)->state, State::init);
  EXPECT_TRUE(one->attachment.release(id));
  EXPECT_TRUE(is_there(id.qpn));
  EXPECT_TRUE(two->attachment.attach(id)->already);
  two.reset();  // as the kernel does when it dies
  EXPECT_FALSE(is_there(id.qpn));
  auto three = process();
  EXPECT_EQ(three->attachment.attach(id).error(), make_error_code(Refusal::gone));
  EXPECT_EQ(three->device.handle_count(), 0U);
}

TEST_P(XrcNic, WhatItSaysIsHeardByTheOtherProcesses) {
  auto one = process(), two = process();
  const auto made = one->attachment.create();
  ASSERT_TRUE(made && two->attachment.attach(made->id));
  EXPECT_TRUE(one->attachment.handle(QueuePairEvent{QueuePairEvent::Kind::qp_fatal, one->device.tgt(made->id.qpn)}));
  for (const auto& each : {&one, &two}) {
    std::optional<Event> event;
    for (int i = 0; i < 1000 && !event; ++i) {
      event = (*each)->attachment.poll_event();
      if (!event) std::this_thread::yield();
    }
    ASSERT_TRUE(event);
    EXPECT_EQ(event->tgt, made->id);
    EXPECT_EQ(event->kind, EventKind::fatal);
  }
}

TEST_P(XrcNic, AQueuePairThatTheNicHasNotLeavesNothingBehind) {
  auto one = process(), two = process();
  const auto made = one->attachment.create();
  ASSERT_TRUE(made);
  one->device.close_tgt(made->id.qpn);  // the last handle, and the registry does not know
  EXPECT_FALSE(two->attachment.attach(made->id));
  const auto seen = overview(options_);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->domains.at(0).tgts.at(0).registrants.size(), 1U) << "its creator's";
}

}  // namespace
}  // namespace parley::xrc::xrc_nic_test
