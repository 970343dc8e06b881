// Agreement on a minor, and replies and tables as no plugin should make them.
#include <weft/checkpoint_io.h>
#include <weft/plugin.h>
#include <weft/shard_policy.h>

#include <cstring>

#include "base/text.hpp"
#include "host/abi_range.hpp"
#include "host/error.hpp"
#include "host/expect_error.hpp"
#include "host/host_table.hpp"
#include "host/load_error.hpp"
#include "host/tables.hpp"

namespace weft::host {
namespace {

TEST(AbiAgreement, RefusesAnotherMajorWithBothSides) {
  EXPECT_ERROR(agree({1, 0, 3}, {2, 0, 0}), WEFT_FAILED_PRECONDITION, "ABI_MAJOR", "built for Weft's ABI 2.0",
               "speaks 1.0 to 1.3", "update Weft");
  EXPECT_ERROR(agree({2, 0, 0}, {1, 0, 3}), WEFT_FAILED_PRECONDITION, "ABI_MAJOR", "rebuild it");
}

TEST(AbiAgreement, RefusesRangesThatDoNotMeet) {
  EXPECT_ERROR(agree({1, 2, 5}, {1, 6, 8}), WEFT_FAILED_PRECONDITION, "ABI_MINOR", "1.6 to 1.8", "1.2 to 1.5",
               "update Weft");
  EXPECT_ERROR(agree({1, 2, 5}, {1, 0, 1}), WEFT_FAILED_PRECONDITION, "ABI_MINOR", "rebuild");
  EXPECT_ERROR(agree({1, 2, 5}, {1, 4, 3}), WEFT_FAILED_PRECONDITION, "ABI_MINOR");
}

TEST(AbiAgreement, TakesEveryMinorFromTheOldestOnBeforeOneToo) {
  EXPECT_EQ(agree({0, 2, 4}, {0, 2, 2}), 2u);
  EXPECT_EQ(agree({0, 2, 4}, {0, 3, 9}), 4u);
  EXPECT_ERROR(agree(kHostAbi, {0, 1, 1}), WEFT_FAILED_PRECONDITION, "ABI_MINOR", "0.1", "rebuild");
}

TEST(AbiAgreement, TakesTheNewestMinorThatBothSpeak) {
  EXPECT_EQ(agree({1, 0, 5}, {1, 2, 3}), 3u);
  EXPECT_EQ(agree({1, 2, 3}, {1, 0, 5}), 3u);
  EXPECT_EQ(agree({1, 0, 5}, {1, 5, 9}), 5u);
  EXPECT_EQ(agree({1, 4, 4}, {1, 4, 4}), 4u);
}

TEST(AbiAgreement, IsRefusedByThePluginsHelperAsByTheHost) {
  weft_error error;
  uint32_t agreed = 77;
  const HostFacts facts = {kHostAbi, "0.1.0", "", "", "", ""};
  weft_query_request request = make_request(facts, "");
  EXPECT_EQ(weft_negotiate(nullptr, 0, &agreed, &error), WEFT_INVALID_ARGUMENT);
  request.struct_size = 0;
  EXPECT_EQ(weft_negotiate(&request, 0, &agreed, &error), WEFT_INVALID_ARGUMENT);
  request = make_request(facts, "");
  request.abi_major = WEFT_ABI_MAJOR + 1;
  EXPECT_EQ(weft_negotiate(&request, 0, &agreed, &error), WEFT_FAILED_PRECONDITION);
  EXPECT_NE(error.text.find("another major"), std::string::npos);
  request = make_request(facts, "");
  request.abi_minor_min = request.abi_minor_max = WEFT_ABI_MINOR + 1;
  EXPECT_EQ(weft_negotiate(&request, 0, &agreed, &error), WEFT_FAILED_PRECONDITION);
  EXPECT_EQ(agreed, 77u);
  request = make_request(facts, "");
  request.struct_size = sizeof(request) + 64;  // of a newer host
  EXPECT_EQ(weft_negotiate(&request, 0, &agreed, &error), WEFT_OK);
  EXPECT_EQ(agreed, uint32_t{WEFT_ABI_MINOR});
}

// What the plugin under test answers; its query is a plain function.
weft_query_reply answer;
weft_status answer_status;
const char* answer_text;

weft_status query(const weft_query_request* request, weft_query_reply* reply, weft_error* error) {
  if (answer_text != nullptr) request->host->error_set(error, answer_status, borrow(answer_text));
  if (answer_status == WEFT_OK) *reply = answer;
  return answer_status;
}

weft_status build(const weft_shard_policy*, weft_str, const weft_model_view*, const weft_parallel*,
                  const weft_plan_builder*, weft_error*) {
  return WEFT_UNIMPLEMENTED;
}

weft_shard_policy policy;
weft_shard_policy_factory factory;
weft_plugin plugin;

class Negotiation : public ::testing::Test {
 protected:
  void SetUp() override {
    manifest_.id = "x";
    manifest_.version = "1.0.0";
    manifest_.abi = {1, 2, 6};
    library_ = {"x.so", "shard_policy", WEFT_TIER_C, {"x"}, "", "", "", ""};
    facts_.abi = {1, 3, 5};
    policy = {sizeof(policy), nullptr, build};
    factory = {sizeof(factory),
               [](const weft_shard_policy_factory*, weft_str name) -> const weft_shard_policy* {
                 return view(name) == "x" ? &policy : nullptr;
               }};
    plugin = {sizeof(plugin),
              nullptr,
              nullptr,
              nullptr,
              [](const weft_plugin*, weft_str id) -> const void* {
                return view(id) == WEFT_FACTORY_SHARD_POLICY ? &factory : nullptr;
              },
              nullptr};
    answer = {sizeof(answer), 5, WEFT_TIER_C, WEFT_STR("x"), WEFT_STR("1.0.0"), WEFT_STR(""), &plugin};
    answer_status = WEFT_OK;
    answer_text = nullptr;
  }
  weft_query_reply ask() { return negotiate(query, make_request(facts_, ""), manifest_, library_); }

  Manifest manifest_;
  LibraryEntry library_;
  HostFacts facts_;
};

TEST_F(Negotiation, KeepsThePluginsReason) {
  answer_status = WEFT_FAILED_PRECONDITION;
  answer_text = "there is no quince";
  EXPECT_ERROR(ask(), WEFT_FAILED_PRECONDITION, "NEGOTIATE", "ABI 1.5", "there is no quince");
  answer_text = nullptr;
  EXPECT_ERROR(ask(), WEFT_FAILED_PRECONDITION, "WEFT_FAILED_PRECONDITION", "a reason");
}

TEST_F(Negotiation, RefusesAReplyOfNonsenseSize) {
  for (const uint64_t size : {uint64_t{0}, uint64_t{8}, sizeof(answer) - 1, uint64_t{1} << 40, UINT64_MAX}) {
    answer.struct_size = size;
    EXPECT_ERROR(ask(), WEFT_FAILED_PRECONDITION, "NEGOTIATE", "struct_size");
  }
}

TEST_F(Negotiation, RefusesAMinorThatNobodyOffered) {
  for (const uint32_t minor : {0u, 2u, 6u, 99u}) {
    answer.abi_minor = minor;
    EXPECT_ERROR(ask(), WEFT_FAILED_PRECONDITION, "NEGOTIATE", "offered 3 to 5", "2 to 6");
  }
}

TEST_F(Negotiation, RefusesAnotherThanTheManifestNames) {
  answer.id = WEFT_STR("y");
  EXPECT_ERROR(ask(), WEFT_FAILED_PRECONDITION, "id \"y\", its manifest \"x\"");
  answer.id = {nullptr, 5};
  EXPECT_ERROR(ask(), WEFT_FAILED_PRECONDITION, "id \"\"");
  answer.id = {"x", UINT64_MAX};
  EXPECT_ERROR(ask(), WEFT_FAILED_PRECONDITION, "id \"\"");
  answer.id = WEFT_STR("x");
  answer.tier = 9;
  EXPECT_ERROR(ask(), WEFT_FAILED_PRECONDITION, "tier \"unknown\"");
  answer.tier = WEFT_TIER_C;
  answer.torch_tag = WEFT_STR("torch=1");
  EXPECT_ERROR(ask(), WEFT_FAILED_PRECONDITION, "libtorch tag \"torch=1\"");
}

TEST_F(Negotiation, AcceptsALargerReplyAndAnyCommonMinor) {
  answer.struct_size = sizeof(answer) + 64;
  for (const uint32_t minor : {3u, 4u, 5u}) {
    answer.abi_minor = minor;
    EXPECT_EQ(ask().abi_minor, minor);
  }
}

TEST_F(Negotiation, RefusesTablesOfNonsenseSize) {
  for (const uint64_t size : {uint64_t{0}, uint64_t{8}, uint64_t{1} << 40, UINT64_MAX}) {
    SetUp();
    plugin.struct_size = size;
    EXPECT_ERROR(check_tables(&plugin, library_), WEFT_FAILED_PRECONDITION, "TABLE_VALIDATE",
                 "weft_plugin says struct_size");
    SetUp();
    factory.struct_size = size;
    EXPECT_ERROR(check_tables(&plugin, library_), WEFT_FAILED_PRECONDITION, "factory says struct_size");
    SetUp();
    policy.struct_size = size;
    EXPECT_ERROR(check_tables(&plugin, library_), WEFT_FAILED_PRECONDITION, "says struct_size");
  }
  policy.struct_size = sizeof(policy) - 1;
  EXPECT_ERROR(check_tables(&plugin, library_), WEFT_FAILED_PRECONDITION, "struct_size 23", "least 24");
  policy.struct_size = sizeof(policy) + 64;  // of a newer plugin
  EXPECT_NO_THROW(check_tables(&plugin, library_));
}

TEST_F(Negotiation, RefusesNullSlots) {
  EXPECT_ERROR(check_tables(nullptr, library_), WEFT_FAILED_PRECONDITION, "plugin", "is null");
  plugin.get_factory = nullptr;
  EXPECT_ERROR(check_tables(&plugin, library_), WEFT_FAILED_PRECONDITION, "no get_factory");
  SetUp();
  factory.find = nullptr;
  EXPECT_ERROR(check_tables(&plugin, library_), WEFT_FAILED_PRECONDITION, "weft.factory.shard_policy/1",
               "null");
  SetUp();
  policy.build = nullptr;
  EXPECT_ERROR(check_tables(&plugin, library_), WEFT_FAILED_PRECONDITION, "TABLE_VALIDATE", "no build");
}

TEST_F(Negotiation, RefusesFormatsWithoutAFunction) {
  static weft_checkpoint_io format;
  static const weft_checkpoint_io_factory formats = {
      sizeof(formats),
      [](const weft_checkpoint_io_factory*, weft_str) -> const weft_checkpoint_io* { return &format; }};
  library_.kind = "checkpoint_io";
  plugin.get_factory = [](const weft_plugin*, weft_str id) -> const void* {
    return view(id) == WEFT_FACTORY_CHECKPOINT_IO ? &formats : nullptr;
  };
  const auto anything = [](auto...) -> weft_status { return WEFT_UNIMPLEMENTED; };
  const weft_checkpoint_io whole = {sizeof(whole),
                                    nullptr,
                                    [](const weft_checkpoint_io*, weft_str) -> uint32_t { return 0; },
                                    anything,
                                    [](weft_checkpoint_reader*) {},
                                    [](weft_checkpoint_reader*) -> uint64_t { return 0; },
                                    anything,
                                    anything,
                                    [](weft_checkpoint_reader*, weft_str) -> weft_str { return {}; },
                                    anything,
                                    anything,
                                    anything,
                                    [](weft_checkpoint_writer*) {},
                                    [](auto...) -> uint32_t { return 0; }};
  format = whole;
  EXPECT_NO_THROW(check_tables(&plugin, library_));
  format.open = nullptr;
  EXPECT_ERROR(check_tables(&plugin, library_), WEFT_FAILED_PRECONDITION, "TABLE_VALIDATE", "no open");
  format = whole;
  format.abandon = nullptr;
  EXPECT_ERROR(check_tables(&plugin, library_), WEFT_FAILED_PRECONDITION, "no abandon");
  format = whole;
  format.owns = nullptr;
  EXPECT_ERROR(check_tables(&plugin, library_), WEFT_FAILED_PRECONDITION, "no owns");
  format = whole;
  format.struct_size = WEFT_END_OF(weft_checkpoint_io, abandon);
  EXPECT_ERROR(check_tables(&plugin, library_), WEFT_FAILED_PRECONDITION, "at least 112");
}

TEST_F(Negotiation, RefusesAPluginWithoutWhatItsManifestPromises) {
  library_.kind = "strategy";
  EXPECT_ERROR(check_tables(&plugin, library_), WEFT_FAILED_PRECONDITION, "kind strategy",
               "weft.factory.strategy/1");
  library_.kind = "shard_policy";
  library_.provides.push_back("z");
  EXPECT_ERROR(check_tables(&plugin, library_), WEFT_FAILED_PRECONDITION, "provides \"z\"");
}

TEST_F(Negotiation, AcceptsTablesWithoutTheirOptionalEnd) {
  plugin.struct_size = WEFT_END_OF(weft_plugin, get_factory);
  EXPECT_NO_THROW(check_tables(&plugin, library_));
  plugin.struct_size = sizeof(weft_plugin) + 64;  // of a newer plugin
  EXPECT_NO_THROW(check_tables(&plugin, library_));
}

TEST(HostTable, TakesErrorsAndHasNoServicesWithoutAnEngine) {
  weft_error error;
  host_table().error_set(&error, WEFT_NOT_FOUND, WEFT_STR("text"));
  EXPECT_EQ(error.text, "text");
  host_table().error_set(nullptr, WEFT_NOT_FOUND, WEFT_STR("text"));
  EXPECT_EQ(host_table().get_extension(WEFT_STR("weft.model/1")), nullptr);
  EXPECT_EQ(host_table().get_extension(weft_str{nullptr, 0}), nullptr);
  EXPECT_EQ(host_table().struct_size, sizeof(weft_host));
}

}  // namespace
}  // namespace weft::host
