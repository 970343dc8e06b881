// Which work of a communicator has failed, as the watchdog completes the results.
#include "started_work.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft::test {
namespace {

using c10d::ErrorType;
using c10d::OpType;
using c10d::WorkResult;
using Future = c10::ivalue::Future;
using std::chrono::milliseconds;

c10::intrusive_ptr<Future> future() {
  return c10::make_intrusive<Future>(c10::IntType::get());
}

void end(Future& result, WorkResult how) {
  result.markCompleted(static_cast<int64_t>(how));
}

TEST(StartedWork, TellsTheFirstThatFailed) {
  cuda::StartedWork started;
  EXPECT_EQ(started.failed(), "a collective");
  const auto reduced = future(), gathered = future(), sent = future();
  started.add(OpType::ALLREDUCE, {at::ones({4}), at::ones({2})}, reduced);
  started.add(OpType::_ALLGATHER_BASE, {at::ones({1024})}, gathered);
  started.add(OpType::SEND, {at::ones({3}, at::kHalf)}, sent);
  EXPECT_EQ(started.failed(), "a collective") << "all are under way";
  end(*reduced, WorkResult::SUCCESS);
  EXPECT_EQ(started.failed(), "a collective");
  end(*sent, WorkResult::TIMEOUT);
  EXPECT_EQ(started.failed(), "send of 6 bytes");
  end(*gathered, WorkResult::COMM_ERROR);
  EXPECT_EQ(started.failed(), "all_gather of 4096 bytes");
}

TEST(StartedWork, CountsAnErrorAsAFailure) {
  cuda::StartedWork started;
  const auto result = future();
  started.add(OpType::COALESCED, {}, result);
  result->setError(std::make_exception_ptr(std::runtime_error("NCCL")));
  EXPECT_EQ(started.failed(), "exchange of messages of 0 bytes");
}

TEST(StartedWork, ForgetsWhatSucceededAndWhatIsTooLongAgo) {
  cuda::StartedWork started;
  const auto first = future(), last = future();
  started.add(OpType::BROADCAST, {at::ones({1})}, first);
  for (int i = 0; i < 5000; ++i) started.add(OpType::ALLREDUCE, {at::ones({1})}, nullptr);
  started.add(OpType::_REDUCE_SCATTER_BASE, {at::ones({1})}, last);
  end(*first, WorkResult::TIMEOUT);
  EXPECT_EQ(started.failed(), "a collective") << "4096 others came after it";
  end(*last, WorkResult::TIMEOUT);
  EXPECT_EQ(started.failed(), "reduce_scatter of 4 bytes");
}

TEST(StartedWork, SaysWhy) {
  EXPECT_EQ(cuda::words_of(ErrorType::TIMEOUT, milliseconds(20'000)), "was not done within 20 s");
  EXPECT_EQ(cuda::words_of(ErrorType::TIMEOUT, milliseconds(250)), "was not done within 250 ms");
  EXPECT_EQ(cuda::words_of(ErrorType::REMOTE_ERROR, milliseconds(1)), "failed on another rank");
  EXPECT_EQ(cuda::words_of(ErrorType::COMM_ERROR, milliseconds(1)),
            "NCCL failed, as it does when a peer has ended");
}

}  // namespace
}  // namespace weft::test
