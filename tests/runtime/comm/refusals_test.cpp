// Arguments that are refused before anything is sent, and the messages.
#include <ATen/ATen.h>
#include <weft/error.hpp>

#include "support/launch_ranks.hpp"

namespace weft {
namespace {

void expect_refused(const std::function<void()>& call, const std::vector<std::string>& words,
                    weft_status status = WEFT_INVALID_ARGUMENT) {
  try {
    call();
    ADD_FAILURE() << "not refused; expected: " << words[0];
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

WEFT_RANKS_TEST(Communicator, RefusesTensorsItCannotSend, 1, 2) {
  const Communicator& group = world.communicator();
  const auto who =
      "communicator \"all\": rank " + std::to_string(world.rank()) + " of " + std::to_string(world.size());
  expect_refused([&] { group.all_reduce({}); }, {who, "all_reduce", "undefined"});
  expect_refused(
      [&] {
        group.all_reduce(at::ones({4, 4}).t()[0].unsqueeze(0).expand({2, 4}));
      },
      {who, "[2, 4]", "not contiguous"});
  expect_refused([&] { group.broadcast(at::ones({2}).requires_grad_(), 0); },
                 {"broadcast", "requires grad", "detach()"});
  expect_refused([&] { group.all_reduce(at::ones({2}, at::kMeta)); }, {"on meta", "the CPU"});
  expect_refused([&] { group.all_reduce(at::ones({2}, at::kShort)); }, {"cannot reduce Short", "bfloat16"});
  expect_refused([&] { group.all_reduce(at::ones({2}), static_cast<ReduceOp>(9)); }, {"reduce operation 9"});
  const at::Tensor tensor = at::ones({2});
  group.all_reduce(tensor).wait();
  EXPECT_EQ(tensor[0].item<float>(), world.size()) << "works after refusals";
}

WEFT_RANKS_TEST(Communicator, RefusesSizesThatDoNotMatch, 2) {
  const Communicator& group = world.communicator();
  expect_refused([&] { group.all_gather(at::empty({7}), at::ones({3})); },
                 {"all_gather", "output has 7 elements, must have 2 times the 3 of input"});
  expect_refused([&] { group.reduce_scatter(at::empty({3}), at::ones({7})); },
                 {"reduce_scatter", "input has 7 elements, must have 2 times the 3 of output"});
  expect_refused([&] { group.all_gather(at::empty({6}), at::ones({3}, at::kDouble)); },
                 {"output is Float, input is Double"});
  const at::Tensor whole = at::empty({6});
  expect_refused([&] { group.all_gather(whole, whole.narrow(0, 1, 3)); }, {"other tensor"});
  expect_refused([&] { group.reduce_scatter(whole.narrow(0, 1, 3), whole); }, {"other tensor"});
}

WEFT_RANKS_TEST(Communicator, RefusesSplitsThatDoNotMatch, 2) {
  const Communicator& group = world.communicator();
  const at::Tensor input = at::ones({4, 2}), output = at::empty({4, 2});
  const auto exchange = [&](std::vector<int64_t> out, std::vector<int64_t> in) {
    return [&group, &output, &input, out, in] { group.all_to_all(output, input, out, in); };
  };
  expect_refused(exchange({2, 1}, {2, 2}), {"splits of", "sum to 3", "dimension 4"});
  expect_refused(exchange({2, 2}, {4}), {"input has 1 splits", "of 2 ranks"});
  expect_refused(exchange({2, 2}, {5, -1}), {"input is -1"});
  expect_refused(exchange({1, 3}, {3, 1}), {"sends itself"});
  expect_refused([&] { group.all_to_all(at::empty({3, 2}), input); }, {"output is 3"});
  expect_refused([&] { group.all_to_all(at::empty({4, 3}), input); }, {"output has 3"});
  expect_refused([&] { group.all_to_all(at::empty({}), input); }, {"no dimension"});
  expect_refused([&] { group.all_to_all(input, input); }, {"overlap in"});
}

WEFT_RANKS_TEST(Communicator, RefusesRanksAndTagsOutOfRange, 2) {
  const Communicator& group = world.communicator();
  const at::Tensor tensor = at::ones({2});
  expect_refused([&] { group.broadcast(tensor, 2); }, {"root is 2, must be 0 to 1"});
  expect_refused([&] { group.broadcast(tensor, -1); }, {"root is -1"});
  expect_refused([&] { group.send(tensor, 5, 0); }, {"send to 5", "must be 0 to 1"});
  expect_refused([&] { group.recv(tensor, world.rank(), 0); }, {"this one"});
  expect_refused([&] { group.send(tensor, 1 - world.rank(), 1u << 30); }, {"tag is 1073741824"});
}

WEFT_RANKS_TEST(Subset, RefusesMembersThatAreNone, 2) {
  const Communicator& group = world.communicator();
  expect_refused([&] { group.subset({}); }, {"no members"});
  expect_refused([&] { group.subset({0, 2}); }, {"member is 2", "0 to 1"});
  expect_refused([&] { group.subset({1, 1}); }, {"rank 1", "given twice"});
}

TEST(Communicator, RefusesToWorkBeforeItIsMade) {
  expect_refused([] { Communicator().rank(); }, {"is none"}, WEFT_FAILED_PRECONDITION);
  expect_refused([] { Communicator().barrier(); }, {"is none"}, WEFT_FAILED_PRECONDITION);
  expect_refused([] { World().size(); }, {"before launch()"}, WEFT_FAILED_PRECONDITION);
  Work().wait();
}

WEFT_RANKS_TEST(World, RefusesMeshesThatDoNotFit, 2) {
  expect_refused([&] { world.coordinate({2, 2}); }, {"[2, 2] has 4 places", "of 2 ranks"});
  expect_refused([&] { world.coordinate({-1, -2}); }, {"less than 1"});
  expect_refused([&] { world.along({2}, {1}); }, {"no axis 1 among 1"});
  expect_refused([&] { world.priority_execution([] {}, 2); }, {"executor is 2, must be 0 to 1"});
}

TEST(Launch, RefusesATimeoutThatIsNone) {
  expect_refused([] { launch(std::chrono::milliseconds(0)); }, {"timeout is 0 ms"});
}

}  // namespace
}  // namespace weft
