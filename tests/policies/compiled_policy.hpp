// Returns the policy that is compiled into the test, through its exported symbol.
#pragma once

#include <gtest/gtest.h>
#include <weft/abi_version.h>
#include <weft/plugin.h>
#include <weft/runtime.h>
#include <weft/shard_policy.h>

#include <string>
#include <weft/error.hpp>

#include "base/text.hpp"
#include "plan/plan.hpp"

namespace weft::plan::test {

inline Policy compiled_policy(const std::string& family) {
  static const weft_host host = {sizeof(weft_host), weft_error_set, nullptr, nullptr};
  weft_query_request request = {};
  request.struct_size = sizeof(request);
  request.abi_major = WEFT_ABI_MAJOR;
  request.abi_minor_min = request.abi_minor_max = WEFT_ABI_MINOR;
  request.host = &host;
  weft_query_reply reply = {};
  reply.struct_size = sizeof(reply);
  if (weft_plugin_query_v1(&request, &reply, nullptr) != WEFT_OK) {
    throw Error(WEFT_INTERNAL, "the policy's entry failed");
  }
  EXPECT_EQ(reply.plugin->get_factory(reply.plugin, WEFT_STR("weft.factory.shard_policy/2")), nullptr);
  const auto* factory = static_cast<const weft_shard_policy_factory*>(
      reply.plugin->get_factory(reply.plugin, WEFT_STR(WEFT_FACTORY_SHARD_POLICY)));
  EXPECT_EQ(factory->find(factory, WEFT_STR("gpt")), nullptr);
  return policy_of(*factory->find(factory, borrow(family)), family);
}

}  // namespace weft::plan::test
