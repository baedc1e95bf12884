// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What ibstat and others read below /sys/class/infiniband behind `parley fabric run`: files of the server's answers, in a folder that
// goes with the process.
#include "drivers/umad_preload/sysfs.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "tests/unit/drivers/ibsim_server.hpp"
#include "tests/unit/hang_limit.hpp"
#include "wire/mad/smp.hpp"

namespace parley::umad::umad_sysfs_test {
namespace {

using ibsim::ControlType;
using wire::mad::NodeInfo;
using wire::mad::PortInfo;

class UmadSysfs : public testing::Test {
 protected:
  UmadSysfs() {
    std::string name = "/tmp/parley-sysfs-test-XXXXXX";
    above_ = ::mkdtemp(name.data());
    ::setenv("TMPDIR", above_.c_str(), 1);
    server_ = std::make_unique<ibsim::TestServer>(above_);
    NodeInfo node;
    node.set(NodeInfo::node_type, wire::mad::NodeType{1})
        .set(NodeInfo::system_image_guid, 0x0002C903000014FF)
        .set(NodeInfo::node_guid, 0x0002C90300001490)
        .set(NodeInfo::revision, 0xA0)
        .set(NodeInfo::local_port_num, 2);
    server_->put(ControlType::node_info, ibsim::data_with(node));
    ibsim::ControlData keys{0xFF, 0xFF, 0x80, 0x01};
    server_->put(ControlType::p_keys, keys);
    put_port(port());
    ibsim::ControlData gid{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0x00, 0x02, 0xC9, 0x03, 0, 0, 0x14, 0x91};
    server_->put(ControlType::gid, gid);
    client_ = std::move(*ibsim::Client::open({.name = above_, .patience = hang_limit}));
  }
  ~UmadSysfs() override {
    client_.reset();
    ::unsetenv("TMPDIR");
    std::error_code error;
    std::filesystem::remove_all(above_, error);
  }
  static PortInfo port() {
    PortInfo out;
    out.set(PortInfo::lid, 0x1A).set(PortInfo::lmc, 2).set(PortInfo::master_sm_lid, 1).set(PortInfo::master_sm_sl, 3);
    out.set(PortInfo::port_state, wire::mad::PortState{4})
        .set(PortInfo::port_physical_state, wire::mad::PortPhysicalState{5});
    out.set(PortInfo::link_width_active, 2).set(PortInfo::link_speed_active, 4);
    out.set(PortInfo::capability_mask, 0x02510868);
    return out;
  }
  void put_port(const PortInfo& info) { server_->put(ControlType::port_info, ibsim::data_with(info)); }
  static std::string text(const Sysfs& files, const std::string& path) {
    const auto place = files.place_of(path);
    std::ifstream in(place.value_or(path));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::string of_port(const Sysfs& files, const std::string& name) {
    return text(files, "/sys/class/infiniband/parley0/ports/2/" + name);
  }
  std::set<std::string> folders() const {
    std::set<std::string> out;
    for (const auto& at : std::filesystem::directory_iterator(above_)) out.insert(at.path().filename().string());
    return out;
  }
  std::string above_;
  std::unique_ptr<ibsim::TestServer> server_;
  std::unique_ptr<ibsim::Client> client_;
};

TEST_F(UmadSysfs, FilesHaveWhatTheServerSays) {
  const auto files = Sysfs::create(*client_);
  ASSERT_TRUE(files);
  const std::string device = "/sys/class/infiniband/parley0/";
  EXPECT_EQ(text(*files, device + "node_type"), "1: CA\n");
  EXPECT_EQ(text(*files, device + "node_guid"), "0002:c903:0000:1490\n");
  EXPECT_EQ(text(*files, device + "sys_image_guid"), "0002:c903:0000:14ff\n");
  EXPECT_EQ(text(*files, device + "hw_rev"), "a0\n");
  EXPECT_EQ(text(*files, device + "fw_ver"), "1\n");
  EXPECT_EQ(text(*files, device + "hca_type"), "simulator\n");
  EXPECT_EQ(of_port(*files, "lid"), "0x1a\n");
  EXPECT_EQ(of_port(*files, "lid_mask_count"), "2\n");
  EXPECT_EQ(of_port(*files, "sm_lid"), "0x1\n");
  EXPECT_EQ(of_port(*files, "sm_sl"), "3\n");
  EXPECT_EQ(of_port(*files, "state"), "4: ACTIVE\n");
  EXPECT_EQ(of_port(*files, "phys_state"), "5: LinkUp\n");
  EXPECT_EQ(of_port(*files, "rate"), "40 Gb/sec (4X QDR)\n");
  EXPECT_EQ(of_port(*files, "cap_mask"), "0x02510868\n");
  EXPECT_EQ(of_port(*files, "link_layer"), "InfiniBand\n");
  EXPECT_EQ(of_port(*files, "gids/0"), "fe80:0000:0000:0000:0002:c903:0000:1491\n");
  EXPECT_EQ(of_port(*files, "pkeys/0"), "0xffff\n");
  EXPECT_EQ(of_port(*files, "pkeys/1"), "0x8001\n");
  EXPECT_EQ(of_port(*files, "pkeys/31"), "0x0000\n");
  EXPECT_EQ(of_port(*files, "pkeys/32"), "");
  EXPECT_EQ(text(*files, "/sys/class/infiniband_mad/abi_version"), "5\n");
  for (const std::string kind : {"umad0", "issm0"}) {
    EXPECT_EQ(text(*files, "/sys/class/infiniband_mad/" + kind + "/ibdev"), "parley0\n");
    EXPECT_EQ(text(*files, "/sys/class/infiniband_mad/" + kind + "/port"), "2\n");
  }
}

TEST_F(UmadSysfs, ASwitchAndTypesThatNobodyKnows) {
  for (const auto& [type, words] : std::map<int, std::string>{
           {0, "0: <unknown>\n"}, {2, "2: SWITCH\n"}, {3, "3: ROUTER\n"}, {4, "4: <unknown>\n"}}) {
    server_->put(ControlType::node_info,
                 ibsim::data_with(NodeInfo{}.set(NodeInfo::node_type, static_cast<wire::mad::NodeType>(type))));
    const auto files = Sysfs::create(*client_);
    ASSERT_TRUE(files);
    EXPECT_EQ(text(*files, "/sys/class/infiniband/parley0/node_type"), words);
  }
}

TEST_F(UmadSysfs, RatesAreOfWidthAndSpeed) {
  const auto files = Sysfs::create(*client_);
  ASSERT_TRUE(files);
  const auto rate = [&](std::uint8_t width, std::uint8_t speed, std::uint8_t extended) {
    PortInfo info;
    info.set(PortInfo::link_width_active, width).set(PortInfo::link_speed_active, speed);
    put_port(info.set(PortInfo::link_speed_ext_active, extended));
    files->refresh(*client_);
    return of_port(*files, "rate");
  };
  EXPECT_EQ(rate(1, 1, 0), "2.5 Gb/sec (1X)\n");
  EXPECT_EQ(rate(2, 1, 0), "10 Gb/sec (4X)\n");
  EXPECT_EQ(rate(4, 2, 0), "40 Gb/sec (8X DDR)\n");
  EXPECT_EQ(rate(8, 4, 0), "120 Gb/sec (12X QDR)\n");
  EXPECT_EQ(rate(16, 4, 0), "20 Gb/sec (2X QDR)\n");
  EXPECT_EQ(rate(2, 4, 1), "56 Gb/sec (4X FDR)\n");
  EXPECT_EQ(rate(2, 4, 2), "100 Gb/sec (4X EDR)\n");
  EXPECT_EQ(rate(2, 4, 4), "200 Gb/sec (4X HDR)\n");
  EXPECT_EQ(rate(2, 4, 8), "400 Gb/sec (4X NDR)\n");
}

TEST_F(UmadSysfs, WhatASubnetManagerChangesIsReadAgain) {
  const auto files = Sysfs::create(*client_);
  ASSERT_TRUE(files);
  const auto states = [&](std::uint8_t state, std::uint8_t physical) {
    put_port(port()
                 .set(PortInfo::port_state, wire::mad::PortState{state})
                 .set(PortInfo::port_physical_state, wire::mad::PortPhysicalState{physical}));
    files->refresh(*client_);
    return of_port(*files, "state") + of_port(*files, "phys_state");
  };
  EXPECT_EQ(states(0, 1), "0: NOP\n1: Sleep\n");
  EXPECT_EQ(states(1, 2), "1: DOWN\n2: Polling\n");
  EXPECT_EQ(states(2, 7), "2: INIT\n7: Phy Test\n");
  EXPECT_EQ(states(5, 0), "5: ACTIVE_DEFER\n0: <unknown>\n");
  EXPECT_EQ(states(6, 8), "6: <unknown>\n8: <unknown>\n");
  for (const auto gone : {ControlType::port_info, ControlType::gid}) {
    server_->remove(gone);
    put_port(port().set(PortInfo::lid, 99));
    if (gone == ControlType::port_info) server_->remove(gone);
    files->refresh(*client_);
    EXPECT_EQ(of_port(*files, "lid"), "0x1a\n") << "without an answer it stays as it was";
  }
}

TEST_F(UmadSysfs, PathsThatAreItsOwn) {
  const auto files = Sysfs::create(*client_);
  ASSERT_TRUE(files);
  for (const char* path : {"/sys/class/infiniband", "/sys/class/infiniband/", "/sys/class/infiniband/mlx5_0/fw_ver",
                           "/sys/class/infiniband_mad", "/sys/class/infiniband_mad/umad0/port"}) {
    EXPECT_TRUE(Sysfs::is_ours(path)) << path;
    EXPECT_TRUE(files->place_of(path)->starts_with(above_ + "/parley-umad-")) << path;
    EXPECT_TRUE(files->place_of(path)->ends_with(path)) << path;
  }
  for (const char* path : {"/sys/class/infiniband_verbs", "/sys/class/net", "/sys/class", ""}) {
    EXPECT_FALSE(Sysfs::is_ours(path)) << path;
    EXPECT_FALSE(files->place_of(path)) << path;
  }
}

TEST_F(UmadSysfs, TheFolderGoesWithIt) {
  auto files = Sysfs::create(*client_);
  ASSERT_TRUE(files);
  EXPECT_EQ(folders().size(), 1U);
  files.reset();
  EXPECT_TRUE(folders().empty());
  for (const auto needed : {ControlType::node_info, ControlType::p_keys}) {
    server_->remove(needed);
    EXPECT_FALSE(Sysfs::create(*client_)) << "the server does not say what the port is";
    EXPECT_TRUE(folders().empty());
  }
}

TEST_F(UmadSysfs, FoldersOfKilledProcessesAreRemovedAndOthersStay) {
  const auto make = [&](const std::string& name, bool with_lock) {
    std::filesystem::create_directory(above_ + "/" + name);
    return with_lock ? ::open((above_ + "/" + name + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  };
  ::close(make("parley-umad-killed", true));
  make("parley-umad-no-lock", false);
  ::close(make("another", true));
  const asio_driver::Descriptor lives(make("parley-umad-lives", true));
  ASSERT_EQ(::flock(lives.fd, LOCK_EX | LOCK_NB), 0);
  std::ofstream(above_ + "/parley-umad-file") << "no folder";
  const auto files = Sysfs::create(*client_);
  ASSERT_TRUE(files);
  auto left = folders();
  EXPECT_EQ(left.erase("parley-umad-killed"), 0U);
  for (const char* kept : {"parley-umad-no-lock", "another", "parley-umad-lives", "parley-umad-file"})
    EXPECT_EQ(left.erase(kept), 1U) << kept;
  ASSERT_EQ(left.size(), 1U) << "its own";
  const auto second = Sysfs::create(*client_);
  ASSERT_TRUE(second);
  EXPECT_EQ(text(*files, "/sys/class/infiniband/parley0/fw_ver"), "1\n") << "the first one is in use";
}

}  // namespace
}  // namespace parley::umad::umad_sysfs_test
