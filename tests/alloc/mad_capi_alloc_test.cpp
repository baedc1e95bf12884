// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Each allocation of a C program that sends management datagrams fails once: the call that needed it says so, or the reply does, the
// port goes on, and nothing is left behind.
#include <gtest/gtest.h>
#include <poll.h>

#include "parley/mad.h"
#include "tests/alloc/failing_new.hpp"
#include "tests/unit/capi/subnet_process.hpp"

namespace parley {
namespace {

/// A port, a call, a table by RMPP, and what is posted.
struct MadProgram {
  int worst = 0;  // the last code below 0
  bool whole = false;

  int note(int rc) { return rc < 0 ? worst = rc : rc; }
  bool call(parley_mad* port, const char* method, const char* attribute, const char* path) {
    parley_mad_request request = PARLEY_MAD_REQUEST_INIT;
    parley_mad_reply reply = PARLEY_MAD_REPLY_INIT;
    request.method = method;
    request.attribute = attribute;
    request.path = path;
    return note(parley_mad_call(port, &request, &reply)) == 0;
  }
  bool post_and_take(parley_mad* port) {
    parley_mad_request request = PARLEY_MAD_REQUEST_INIT;
    request.method = "SubnGet";
    request.attribute = "NodeInfo";
    request.path = "fe80::2";
    for (int i = 0; i < 3; ++i)
      if (note(parley_mad_post(port, &request, nullptr)) != 0) return false;
    int taken = 0;
    for (int turn = 0; taken < 3 && turn < 1000; ++turn) {
      pollfd wait{parley_mad_fd(port), POLLIN, 0};
      if (note(wait.fd) < 0) return false;
      ::poll(&wait, 1, 1000);
      if (note(parley_mad_progress(port)) < 0) return false;
      parley_mad_reply reply = PARLEY_MAD_REPLY_INIT;
      while (note(parley_mad_poll(port, &reply)) == 1) {
        ++taken;
        if (note(reply.status) < 0) return false;
      }
    }
    return taken == 3;
  }
  void run(const std::string& where) {
    parley_mad* port = nullptr;
    parley_mad_opts opts = PARLEY_MAD_OPTS_INIT;
    opts.timeout_ms = 5000;
    if (note(parley_mad_open(&port, where.c_str(), &opts)) < 0) return;
    whole = call(port, "SubnGet", "NodeInfo", "0,1") && call(port, "SubnAdmGetTable", "NodeRecord", nullptr) &&
            post_and_take(port);
    const failing_new::Spared spared;
    const int failed = worst;
    EXPECT_TRUE(call(port, "SubnGet", "NodeInfo", "0,1")) << parley_last_error();  // whatever was before
    worst = failed;
    EXPECT_EQ(parley_mad_close(port), 0);
  }
};

TEST(MadFailingAllocator, ThroughACProgram) {
  const sim::subnet::SubnetProcess subnet;
  const std::string where = subnet.where();
  MadProgram first;
  first.run(where);  // what is made once and kept
  ASSERT_TRUE(first.whole) << parley_last_error();
  // What a thread keeps to say about its last error.
  parley_mad* none = nullptr;
  ASSERT_EQ(parley_mad_open(&none, "nothing of which anybody has heard", nullptr), -PARLEY_E_INVALID_ARGUMENT);
  (void)parley_last_error();
  std::uint64_t told = 0;
  const auto lived = failing_new::each(
      [&] {
        MadProgram program;
        program.run(where);
        if (program.worst == 0) return;
        ++told;
        EXPECT_EQ(program.worst, -PARLEY_E_NO_MEMORY) << parley_last_error();
      },
      [](std::uint64_t nth, bool thrown, std::int64_t left) {
        EXPECT_FALSE(thrown) << "out of a C function, at allocation " << nth;
        EXPECT_LE(left, 0) << "allocation " << nth << " failed, and as many others were never freed";
      });
  EXPECT_GT(lived, 50U) << "there were allocations to fail";
  EXPECT_GT(told, lived / 2) << "a failure is told, not swallowed";
}

}  // namespace
}  // namespace parley
